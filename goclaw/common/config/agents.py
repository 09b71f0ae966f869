"""The keys of `agents`: who answers people, the other kinds of agents that can be started, and how each may work.

`agents.main` answers people; `agents.kinds.<name>` are the others; `agents.routes` lets some of them answer, too.
Values that an agent's policy leaves open are as in `limits`.
"""

import re
from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from goclaw.common.config.exports import Exports, exported_sets
from goclaw.common.config.section import Section, replaceable
from goclaw.common.config.values import Duration, ModelName, Names, OneOrMore, Selection, ToolProfile, require_names
from goclaw.common.core import catalog

MAIN = "main"
"""The agent that answers where no other one is chosen."""

MissingFields = Literal["", "finalize", "await_clarification", "resume"]
"""Handling of a tool call that lacks required arguments."""


class TimingSettings(Section):
    """How long a turn and its parts may take, where one `time_budget` is not enough."""

    budget: Duration | None = Field(None, description="The whole turn, waiting for people not counted: `10m`.")
    plan: Duration | None = Field(
        None, description="One answer of the model, with every repetition and every other model of the chain: `45s`."
    )
    tools: Duration | None = Field(
        None, description="One call of a tool that declares no time of its own: `2m`; not set: `tools.timeout`."
    )


class CompressSettings(Section):
    """Older turns become a summary."""

    trigger_at: int | None = Field(
        None, ge=1, description="When the context holds so many turns, the running one included; not set: never."
    )
    keep_recent: int = Field(
        10,
        ge=0,
        validate_default=True,
        description="Turns that stay as they are, fewer than `trigger_at`; the running one always stays.",
    )
    model: ModelName | None = Field(None, description="Who writes the summary; not set: `models.summary`.")

    @field_validator("keep_recent")
    @classmethod
    def _fewer_than_the_trigger(cls, keep: int, info: ValidationInfo) -> int:
        trigger = info.data.get("trigger_at")
        if trigger is not None and keep >= trigger:
            raise ValueError(f"should be less than `trigger_at` ({trigger})")
        return keep


class HistorySettings(Section):
    """Which turns the model is shown: by one of the two, else all until `compaction` makes room. No turn is split."""

    keep_recent_turns: int | None = Field(None, ge=1, description="The last so many turns, the running one included.")
    compress: CompressSettings = Field(
        default_factory=CompressSettings, description="A summary in place of the older ones."
    )

    @field_validator("compress")
    @classmethod
    def _not_both(cls, compress: CompressSettings, info: ValidationInfo) -> CompressSettings:
        if compress.trigger_at is not None and info.data.get("keep_recent_turns") is not None:
            raise ValueError("excludes `keep_recent_turns`; set one of them")
        return compress


class CacheSettings(Section):
    """Where the provider is told that a prefix of the prompt stays the same, if it has such a cache."""

    after_system: bool | None = Field(
        None, description="After the system prompt; not set: where the provider can. Both `false`: nothing is cached."
    )
    after_tools: bool | None = Field(None, description="After the tools; not set: where the provider can.")


class RunPolicySettings(Section):
    """How an agent may work. What is not set is as in `limits`."""

    max_tool_calls: int | None = Field(None, ge=1, description="Tool calls in one turn.")
    max_consecutive_failed_tool_calls: int | None = Field(
        None, ge=1, description="Tool calls that fail one after the other."
    )
    max_tokens: int | None = Field(
        None, ge=1, description="Tokens of one turn, prompts and answers of all its requests, as the provider counts."
    )
    max_cost: float | None = Field(None, gt=0, description="US dollars that one turn may cost, where prices are known.")
    time_budget: Duration | None = Field(
        None, description="How long a turn may take: `2m`, `45s`, `1h30m`, or seconds. Excludes `timing`."
    )
    timing: TimingSettings = Field(
        default_factory=TimingSettings,
        description="The same, and more, in detail; excludes `time_budget`.",
    )
    history: HistorySettings = Field(default_factory=HistorySettings, description="Which turns the model is shown.")
    cache: CacheSettings = Field(default_factory=CacheSettings, description="The provider's prompt cache.")
    interrupts_allowed: bool = Field(True, description="Whether `/pause` may hold a turn.")
    on_missing_fields: MissingFields = Field(
        "",
        description="When a call lacks required arguments: empty: the model reads the error; `finalize`: the turn "
        "ends; `await_clarification`: the person is asked for them; `resume`: the model goes on, no failure counts.",
    )
    replace: bool = replaceable()

    @field_validator("timing")
    @classmethod
    def _not_both(cls, timing: TimingSettings, info: ValidationInfo) -> TimingSettings:
        if timing != TimingSettings() and info.data.get("time_budget") is not None:
            raise ValueError("excludes `time_budget`; set `timing.budget` in its place")
        return timing


class AgentSettings(Section):
    """One agent."""

    description: str = Field("", description="What it is for, in a sentence.")
    prompt: str = Field("", description="What it is told beyond the workspace's own files.")
    model: ModelName | None = Field(
        None, description="`provider:name` that answers first, `models.agent` behind it; not set: `models.agent`."
    )
    fallbacks: Annotated[tuple[ModelName, ...], OneOrMore] = Field(
        (), description="Models that answer in its place, in this order, before those of `models.agent`."
    )
    tools: Selection | None = Field(
        None,
        description="What it may use of what the person may: names, `tag:x`, `set:y`; with `-` before it, what is left "
        "out. Not set: every tool. What is named stands in its requests, whatever `tools.profile` says.",
    )
    tools_profile: ToolProfile | None = Field(
        None, description="Which of them stand in its requests; not set: as the model's, then `tools.profile`."
    )
    policy: RunPolicySettings = Field(default_factory=RunPolicySettings, description="How it may work.")
    exports: Exports = Field(
        default_factory=dict, description="Toolsets that it offers to other agents, by name (docs/agents.md)."
    )
    replace: bool = replaceable()

    @model_validator(mode="after")
    def _fallbacks_of_a_model(self) -> "AgentSettings":
        if self.fallbacks and not self.model:
            raise ValueError("`fallbacks` needs `model`, in whose place they answer")
        return self

    @property
    def chain(self) -> tuple[str, ...]:
        """The models of its own; empty: none."""
        return (self.model, *self.fallbacks) if self.model else ()


class RouteSettings(Section):
    """Which agent answers. What is set has to fit; the first route that fits counts."""

    agent: str = Field(description="`main`, or a name of `agents.kinds`.", examples=["main"], min_length=1)
    user: Names = Field((), description="Keys of people in users.json; `*` stands for anything: `telegram:*`.")
    chat: Names = Field((), description="Sessions or chats, `telegram:-1001234567890`; `*` stands for anything.")
    command: str | None = Field(
        None, description="A slash command of yours, without the `/`: what begins with it is answered by this agent."
    )

    @field_validator("command")
    @classmethod
    def _is_free(cls, command: str | None) -> str | None:
        if command is not None and not re.fullmatch(r"[a-z][a-z0-9_]{0,31}", command):
            raise ValueError("should be a name of small letters, digits and `_`, at most 32, without `/`")
        if command in catalog.COMMANDS:
            raise ValueError(f"`/{command}` is a command already; choose another name")
        return command


GENERAL = "general"
"""The built-in kind, and the default where several are configured and the call names none."""
# Not called: that would build what checks an agent at every start (`goclaw.common.config.section`).
GENERAL_KIND = AgentSettings.model_construct(description="Does any task that can be described in a message.")


_KIND_NAMES = require_names(
    r"(?!main\Z)[a-z][a-z0-9_-]{0,39}",
    "should have names of small letters, digits, `-` and `_`; `agents.main` stands beside it",
)


class AgentsSettings(Section):
    """Agents."""

    quickstart: bool = Field(
        True,
        description="Whether `AGENTS_QUICKSTART.md` in a workspace tells who comes there which tools there are; a file "
        "of your own is never replaced.",
    )
    main: AgentSettings = Field(default_factory=AgentSettings, description="The agent that answers people.")
    kinds: Annotated[dict[str, AgentSettings], _KIND_NAMES] = Field(
        default_factory=dict,
        description="Further agents, by name: started for a part of the work, or answering where a route, or `/agent`, "
        "says so.",
    )
    routes: tuple[RouteSettings, ...] = Field(
        (),
        description="Which agent answers: a `command` goes before what `/agent` chose, `user` and `chat` behind that; "
        "where nothing fits, `main`.",
    )

    @property
    def everyone(self) -> dict[str, AgentSettings]:
        """Every agent by its name."""
        return {MAIN: self.main, **self.kinds}

    @property
    def exports(self) -> dict[str, Exports]:
        """Exports of each agent, by its name."""
        return {name: agent.exports for name, agent in self.everyone.items()}

    @property
    def exported_sets(self) -> dict[str, tuple[str, ...]]:
        """The sets that agents export, by each of their names."""
        return exported_sets(self.exports)
