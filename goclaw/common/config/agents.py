"""The keys of `agents`: who answers people, the other kinds of agents that can be started, and how each may work.

`agents.main` answers people; `agents.kinds.<name>` are the others; `agents.routes` lets some of them answer, too.
Values that an agent's policy leaves open are as in `limits`.
"""

import re
from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from goclaw.common.config.exports import Exports
from goclaw.common.config.section import DeclarableSection, Section
from goclaw.common.config.values import Duration, ModelName, Names, OneOrMore, Selection, ToolProfile, require_names
from goclaw.common.core import catalog

MAIN = "main"
"""The agent that answers where no other one is chosen."""

MissingFields = Literal["", "finalize", "await_clarification", "resume"]
"""Handling of a tool call that lacks required arguments."""


class TimingSettings(Section):
    """How long a turn and its parts may take, where one `time_budget` is not enough."""

    budget: Duration | None = Field(
        None, description="Time limit of the whole turn, without waiting for people: `10m`."
    )
    plan: Duration | None = Field(
        None, description="Time limit of one answer, including repetitions and the other models of the chain: `45s`."
    )
    tools: Duration | None = Field(
        None,
        description="Time limit of one call of a tool, without waiting for people: `2m`; a shorter one of its own "
        "holds. Not set: its own, else `tools.timeout`.",
    )


class CompressSettings(Section):
    """Older turns become a summary."""

    trigger_at: int | None = Field(
        None,
        ge=1,
        description="Summarise when the context has this many turns, including the running one; not set: never.",
    )
    keep_recent: int = Field(
        10,
        ge=0,
        validate_default=True,
        description="Number of latest turns kept word for word, fewer than `trigger_at`; the running one always stays.",
    )
    model: ModelName | None = Field(None, description="The model that writes the summary; not set: `models.summary`.")

    @field_validator("keep_recent")
    @classmethod
    def _fewer_than_the_trigger(cls, keep: int, info: ValidationInfo) -> int:
        trigger = info.data.get("trigger_at")
        if trigger is not None and keep >= trigger:
            raise ValueError(f"should be less than `trigger_at` ({trigger})")
        return keep


class HistorySettings(Section):
    """Which turns the model is shown: by one of the two, else all until `compaction` makes room. No turn is split."""

    keep_recent_turns: int | None = Field(
        None, ge=1, description="Show only this many latest turns, including the running one."
    )
    compress: CompressSettings = Field(
        default_factory=CompressSettings, description="Replace older turns with a summary."
    )

    @field_validator("compress")
    @classmethod
    def _not_both(cls, compress: CompressSettings, info: ValidationInfo) -> CompressSettings:
        if compress.trigger_at is not None and info.data.get("keep_recent_turns") is not None:
            raise ValueError("excludes `keep_recent_turns`; set only one of them")
        return compress


class CacheSettings(Section):
    """Where to tell the provider that a prefix of the prompt stays the same, if it has such a cache."""

    after_system: bool | None = Field(
        None, description="Cache after the system prompt; not set: if the provider supports it. Both `false`: no cache."
    )
    after_tools: bool | None = Field(None, description="Cache after the tools; not set: if the provider supports it.")


class RunPolicySettings(DeclarableSection):
    """How an agent may work. What is not set is as in `limits`."""

    max_tool_calls: int | None = Field(None, ge=1, description="Maximum tool calls in one turn.")
    max_consecutive_failed_tool_calls: int | None = Field(None, ge=1, description="Maximum failed tool calls in a row.")
    max_tokens: int | None = Field(
        None,
        ge=1,
        description="Maximum tokens of one turn: prompts and answers of all its requests, as the provider counts.",
    )
    max_cost: float | None = Field(
        None, gt=0, description="Maximum cost of one turn in US dollars, if prices are known."
    )
    time_budget: Duration | None = Field(
        None, description="Time limit of a turn: `2m`, `45s`, `1h30m`, or seconds. Excludes `timing`."
    )
    timing: TimingSettings = Field(
        default_factory=TimingSettings, description="Detailed time limits; excludes `time_budget`."
    )
    history: HistorySettings = Field(default_factory=HistorySettings, description="Which turns the model sees.")
    cache: CacheSettings = Field(default_factory=CacheSettings, description="The provider's prompt cache.")
    interrupts_allowed: bool = Field(True, description="Whether `/pause` may pause a turn.")
    on_missing_fields: MissingFields = Field(
        "",
        description="If a call lacks required arguments: empty: the model reads the error; `finalize`: the turn ends; "
        "`await_clarification`: GoClaw asks the person; `resume`: the model continues, and no failure "
        "counts.",
    )

    @field_validator("timing")
    @classmethod
    def _not_both(cls, timing: TimingSettings, info: ValidationInfo) -> TimingSettings:
        if timing != TimingSettings() and info.data.get("time_budget") is not None:
            raise ValueError("excludes `time_budget`; set `timing.budget` in its place")
        return timing


class AgentSettings(DeclarableSection):
    """One agent."""

    description: str = Field("", description="Its purpose, in one sentence.")
    prompt: str = Field("", description="Instructions in addition to the workspace's files.")
    model: ModelName | None = Field(
        None, description="The first model, `provider:name`, followed by `models.agent`; not set: `models.agent`."
    )
    fallbacks: Annotated[tuple[ModelName, ...], OneOrMore] = Field(
        (), description="Models to use instead if it fails, in this order, before those of `models.agent`."
    )
    tools: Selection | None = Field(
        None,
        description="The tools it may use, of those the person may: names, `tag:x`, `set:y`; a leading `-` excludes. "
        "Not set: every tool. Named tools are always in its requests, whatever `tools.profile` says.",
    )
    tools_profile: ToolProfile | None = Field(
        None, description="Which of them are in its requests; not set: as for the model, then `tools.profile`."
    )
    policy: RunPolicySettings = Field(default_factory=RunPolicySettings, description="Limits of its work.")
    exports: Exports = Field(
        default_factory=dict, description="Toolsets that it offers to other agents, by name (docs/agents.md)."
    )

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
    user: Names = Field((), description="Keys of people in users.json, with `*` as wildcard: `telegram:*`.")
    chat: Names = Field((), description="Sessions or chats, with `*` as wildcard: `telegram:-1001234567890`.")
    command: str | None = Field(
        None, description="Your own slash command, without the `/`: this agent answers messages that begin with it."
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


KIND_NAME = r"(?!main\Z)[a-z][a-z0-9_-]{0,39}"
_KIND_NAMES = require_names(
    KIND_NAME,
    "should have names of small letters, digits, `-` and `_`; `agents.main` stands beside it",
)


class AgentsSettings(Section):
    """Agents."""

    quickstart: bool = Field(
        True,
        description="Whether GoClaw writes the list of tools to `AGENTS_QUICKSTART.md` in a workspace; it never "
        "replaces your own file.",
    )
    main: AgentSettings = Field(default_factory=AgentSettings, description="The agent that answers people.")
    kinds: Annotated[dict[str, AgentSettings], _KIND_NAMES] = Field(
        default_factory=dict,
        description="More agents, by name: started for parts of the work, or chosen by a route or `/agent`.",
    )
    routes: tuple[RouteSettings, ...] = Field(
        (),
        description="Which agent answers: first a `command`, then the choice of `/agent`, then `user` and `chat`, "
        "else `main`.",
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
        found: dict[str, tuple[str, ...]] = {}
        for agent, sets in self.exports.items():
            for name, export in sets.items():
                found[f"{agent}/{name}"] = export.members()
                found[name] = (*found.get(name, ()), *export.members())
        return found
