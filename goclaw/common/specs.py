"""Static description of a tool: all that is known without running it."""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Any

from goclaw.common.core.records import record
from goclaw.common.core.tool_ids import agent_of

TOOL_SEARCH, TOOL_CALL = "tool_search", "tool_call"
"""The tools with which a model finds and runs those that are not in its request (`toolkit.offering`)."""

MCP = "mcp__"
"""Begins the names of tools that come from MCP servers."""


class SideEffect(StrEnum):
    """Side effects of a tool (the classes of the Goat tool system)."""

    NONE = "none"
    READ_ONLY = "read-only"
    MUTATING = "mutating"
    NETWORK = "network"
    BLOCKING = "blocking"
    SPAWNS = "spawns"


class Risk(StrEnum):
    """Harm that a call can do; decides whether it runs, asks or is refused."""

    NONE = "none"
    LOW = "low"
    MEDIUM = "medium"
    CONTAINED = "contained"
    """High by its nature, but inside the sandbox without network: `exec` as it is by default."""
    HIGH = "high"
    CRITICAL = "critical"


RISK_OF = {
    SideEffect.NONE: Risk.NONE,
    SideEffect.READ_ONLY: Risk.LOW,
    SideEffect.MUTATING: Risk.MEDIUM,
    SideEffect.NETWORK: Risk.HIGH,
    SideEffect.BLOCKING: Risk.LOW,
    SideEffect.SPAWNS: Risk.CRITICAL,
}
"""The risk that a side effect has unless the tool's own declaration lowers or raises it."""


TELLS_FOREIGN = frozenset({SideEffect.READ_ONLY, SideEffect.NETWORK, SideEffect.BLOCKING, SideEffect.SPAWNS})
"""Side effects whose tools read what others may have written, unless the declaration says otherwise."""


@record
class Annotations:
    """Hints for clients, in the terms of the Model Context Protocol; None: not said."""

    title: str = ""
    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None

    @property
    def risk(self) -> Risk:
        """The risk of a tool with nothing else known (Goat, "Dynamic MCP Tool Registration")."""
        if self.read_only:
            return Risk.LOW
        return Risk.CRITICAL if self.destructive else Risk.HIGH

    @property
    def may_destroy(self) -> bool | None:
        """The hint for clients: in MCP a tool that does not say so may destroy, unless it only reads."""
        return True if self.destructive is None and not self.read_only else self.destructive


@record
class Example:
    """One example call, for people and models; a test runs each in an empty workspace."""

    about: str
    input: Mapping[str, Any]
    output: str = ""
    """Stands in what the model reads of the result."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Initial files of the workspace: path and content."""


@record
class Confirmation:
    """A person has to agree to every call of the tool, whatever its risk: it counts as critical."""

    title: str
    prompt: str
    """Template over the arguments: the question that the person reads."""


@record
class ToolSpec:
    """One tool as the model, the documentation and the permission rules see it."""

    name: str
    description: str
    """Description for the model: the whole docstring."""
    schema: dict[str, Any]
    """JSON Schema of the arguments: always an object."""
    side_effect: SideEffect = SideEffect.NONE
    risk: Risk = Risk.NONE
    idempotent: bool = True
    """False: the journal writes an intent first, and a call cut by a crash is never run a second time."""
    tags: frozenset[str] = field(default_factory=frozenset)
    foreign: bool = False
    """Whether its results are text from outside, which the model is shown as such; see `TELLS_FOREIGN`."""
    annotations: Annotations = field(default_factory=Annotations)
    examples: tuple[Example, ...] = ()
    call_hint: str = ""
    """Template over the arguments: what people see while it runs."""
    asks: str = ""
    """Template over the arguments: what a call wants, to stand after "wants to" (`approval.sentences`)."""
    does: str = ""
    """What a person can have done with it, to stand after "I can": `write files`. A verb, then what it is done to.

    Empty: it is named by the server or plugin that it comes from (`toolkit.effective_rights`).
    """
    result_hint: str = ""
    """Template over the result's fields (`value` of a plain one) and the arguments, as `args`: what they see after."""
    reminder: str = ""
    """Text for the model after each result, from the runtime."""
    confirm: Confirmation | None = None
    timeout: float | None = None
    """Seconds that a call may take; None: `tools.timeout`."""
    result_schema: Mapping[str, Any] = field(default_factory=dict)
    """JSON Schema of the result."""
    bounded: bool = False
    """The result is a part of something larger, and says so (`toolkit.results.BoundedResult`)."""
    injected: frozenset[str] = field(default_factory=frozenset)
    """Arguments that the model neither sees nor may give: hooks fill them in."""
    artifacts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Kinds of data that it keeps for people in addition to its result, each with its JSON Schema."""
    local_id: str = ""
    """Its id, `agent.set.tool`, where one agent alone has it (`core.tool_ids`); empty: it is for everyone."""

    def __post_init__(self) -> None:
        # For tools that list the tools of others, only what those declare of their risk counts; silence is no promise.
        object.__setattr__(self, "risk", self.at_least(self.risk))

    def at_least(self, risk: Risk) -> Risk:
        """Return the risk of a call judged as `risk`: at least that of an MCP server's annotations."""
        if not self.name.startswith(MCP):
            return risk
        return max(risk, self.annotations.risk, key=tuple(Risk).index)

    @property
    def id(self) -> str:
        """Its name for rights, rules and the audit log; `name` is for models."""
        return self.local_id or self.name

    @property
    def agent(self) -> str:
        """The agent that alone has it; empty: it is for everyone."""
        return agent_of(self.local_id)

    @property
    def title(self) -> str:
        """Its name for people."""
        return self.annotations.title or self.name.replace("_", " ").capitalize()

    @property
    def short(self) -> str:
        """The first paragraph of its description, on one line."""
        return " ".join(self.description.partition("\n\n")[0].split())
