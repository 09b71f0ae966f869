"""The keys of an agent's `exports`: toolsets that other agents may use as tools, answered by the agent itself.

A tool of such a set is a task for the agent in the words of a template, or (`passthrough`) another tool that is called
with the given arguments. Templates and schemas are checked where tools are made (`builtin.exported`), which know more.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, Field, model_validator

from goclaw.common.config.registries import EntryName, EntryVersion
from goclaw.common.config.section import DeclarableSection, Section
from goclaw.common.config.values import Names, Selection, require, require_that
from goclaw.common.core import catalog
from goclaw.common.core.records import record
from goclaw.common.core.selection import BUILT_IN

ARGUMENT = re.compile(r"[a-z][A-Za-z0-9_]{0,63}")
"""Names of arguments declared in the configuration or by `goclaw.tools.declare`."""
TYPES = ("string", "integer", "number", "boolean", "array", "object")


def is_built_in(name: str) -> bool:
    """Whether a built-in tool has the name."""
    return name in catalog.TOOLS or any(name in gated for gated in catalog.GATED_TOOLS.values())


def refuse_built_in(name: str) -> str:
    """Return the name of a tool; raises ValueError for that of a built-in one."""
    if is_built_in(name):
        raise ValueError("is the name of a built-in tool; choose another name")
    return name


def _schema(value: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of an object, written out or in the short form: each field's type, or its schema."""
    if value.get("type") == "object" and isinstance(value.get("properties"), dict):
        schema = dict(value)
    else:
        fields = {name: _field(name, given) for name, given in value.items()}
        required = [name for name, (_, optional) in fields.items() if not optional]
        schema = {"type": "object", "properties": {name: node for name, (node, _) in fields.items()}}
        schema |= {"required": required} if required else {}
    for name in schema["properties"]:
        if not ARGUMENT.fullmatch(name):
            raise ValueError(f"`{name}` should begin with a small letter, then letters, digits and `_`")
    if unknown := set(schema.get("required", ())) - set(schema["properties"]):
        raise ValueError(f"`required` names {', '.join(sorted(unknown))}, which is not a field")
    return schema


def _field(name: str, given: object) -> tuple[dict[str, Any], bool]:
    """Return the schema of one field, and whether it may be left out: `string`, `string?`, or a mapping."""
    if isinstance(given, str):
        kind, optional = given.removesuffix("?"), given.endswith("?")
        if kind not in TYPES:
            raise ValueError(f"`{name}` should be one of {', '.join(TYPES)}, each also with `?`, or a JSON Schema")
        return {"type": kind}, optional
    if not isinstance(given, Mapping):
        raise ValueError(f"`{name}` should be a type such as `string`, or a JSON Schema")
    node = dict(given)
    optional = node.pop("optional", False)
    if not isinstance(optional, bool):
        raise ValueError(f"`{name}.optional` should be true or false")
    return node, optional or "default" in node


Fields = Annotated[dict[str, Any], AfterValidator(_schema)]
"""Fields of an object; always read as its JSON Schema."""


class PassthroughSettings(Section):
    """Another tool that is called as it is; no model takes part."""

    tool: str = Field(description="The tool's name.", examples=["memory_write"], min_length=1, max_length=64)
    input: dict[str, Any] | None = Field(
        None,
        description="Its arguments: texts are templates over the given arguments (`{{ message }}`); other values stay "
        "unchanged. Not set: the given arguments.",
    )


class ConfirmSettings(Section):
    """A person agrees to every call first."""

    title: str = Field("", description="A short title of the question.")
    prompt: str = Field(
        description="The question: a template over the arguments.", examples=["Make a plan now?"], min_length=1
    )
    denied: str | None = Field(None, description="What the model reads after a denied call: a template.")


class ExportedToolSettings(DeclarableSection):
    """A tool that an agent offers."""

    description: str = Field(
        description="Its purpose, for the model that calls it. The name must be unique among all tools.",
        examples=["Make a plan."],
        min_length=1,
        max_length=4_000,
    )
    title: str = Field("", description="Its name for people.")
    arguments: Fields = Field(
        default_factory=lambda: _schema({}),
        description="By name: a type (`string`, with `?` what may be left out) or a JSON Schema (`optional: true`, or "
        "a `default`, lets it be left out); or the JSON Schema of the whole object.",
    )
    prompt: str | None = Field(
        None,
        max_length=50_000,
        description="The task: a template over the arguments, `Make a plan for {{ goal }}.` Not set: description and "
        "arguments. Excludes `passthrough`.",
    )
    result: Fields | None = Field(
        None, description="What its result is, in the same form as `arguments`; not set: the agent's last words."
    )
    passthrough: PassthroughSettings | None = Field(None, description="A tool that is called in place of the agent.")
    tags: Names = Field((), description="Tags by which policies and toolsets choose it, besides `agents`.")
    call_hint: str = Field("", description="The line that people see while it runs: a template over the arguments.")
    result_hint: str = Field(
        "",
        description="The line that people see afterwards: a template over the result's fields (`value` if it is "
        "plain text) and `args`.",
    )
    reminder: str = Field("", description="A reminder for the calling model after each result.")
    confirm: ConfirmSettings | None = Field(None, description="Ask a person before each call.")
    bounded: bool = Field(
        False,
        description="The result is part of something larger: its fields say how much (`returned`, `total`, "
        "`truncated`, `refinement_hint`).",
    )

    @model_validator(mode="after")
    def _one_way(self) -> "ExportedToolSettings":
        if self.prompt is not None and self.passthrough is not None:
            raise ValueError("`prompt` and `passthrough` exclude each other: an agent answers, or a tool")
        if self.bounded and self.result is None:
            raise ValueError("`bounded` needs `result`: its fields say how much of the whole it is")
        return self


class PublishSettings(DeclarableSection):
    """The publication of a set of tools in registries (docs/registries.md)."""

    description: str = Field("", description="The purpose of the set.")
    tags: Names = Field((), description="Tags by which it is found.")
    publish_to: Names = Field((), description="Registries, as named in `registries`, that the set is published to.")
    publish_as: EntryName | None = Field(
        None, description="Its name there, unique among all publishers: `team/data-tools`; not set: as here."
    )
    version: EntryVersion | None = Field(
        None, description="Its version there; change it with every change. Not set: derived from the content."
    )


ToolName = Annotated[
    str,
    require(r"[a-z][A-Za-z0-9_]{0,63}", "should be a tool's name of letters, digits and `_`, at most 64 characters"),
    AfterValidator(refuse_built_in),
]


class ExportSettings(PublishSettings):
    """A toolset that an agent offers: used as `set:NAME` or `set:AGENT/NAME` wherever tools are chosen."""

    tags: Names = Field((), description="Tags of all its tools, also for searches in registries.")
    tools: dict[ToolName, ExportedToolSettings] = Field(default_factory=dict, description="Its tools, by unique name.")
    include: Selection | None = Field(
        None, description="Existing tools that belong to the set unchanged: names, `tag:x`, `set:y`."
    )
    own_tools: bool = Field(
        False,
        description="Whether the agent uses all of its own `tools`; otherwise only those that its caller also has. "
        "The person's rights apply in either case.",
    )

    def members(self) -> tuple[str, ...]:
        """Return the selection that the set stands for."""
        return (*self.tools, *(self.include or ()))


SetName = Annotated[
    str,
    require(
        r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}",
        "should be a name of letters, digits, `.`, `_` and `-`, at most 64 characters",
    ),
    require_that(
        lambda name: name not in {each.name for each in BUILT_IN}, "is the name of a built-in set; choose another name"
    ),
]
Exports = dict[SetName, ExportSettings]


@record
class Publication:
    """A set of tools published in registries."""

    agent: str
    """The agent that exports it; empty: it is a set of `tools`."""
    toolset: str
    settings: PublishSettings

    @property
    def name(self) -> str:
        """Its name in registries."""
        return self.settings.publish_as or self.toolset

    @property
    def word(self) -> str:
        """Its word in a selection."""
        return f"set:{self.agent}/{self.toolset}" if self.agent else f"set:{self.toolset}"

    @property
    def place(self) -> str:
        """Its place in the configuration."""
        agent = "agents.main" if self.agent == "main" else f"agents.kinds.{self.agent}"
        return f"{agent}.exports.{self.toolset}" if self.agent else f"tools.publish.{self.toolset}"
