"""The choice of tools in a request: a core in full, and an index of the others, which `tool_search` finds.

A schema costs tokens with every request, used or not. So a model is shown a few tools in short form and two that give
it all others: `tool_search` and `tool_call` (`registry.unwrap` makes the call it names of the latter). Tools stand
before everything else in a provider's cache, so they stay the same from a context's beginning to its end: tools that
come and go (plan mode, servers of MCP) are in the index.
"""

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from goclaw.common.config.agents import AgentSettings
from goclaw.common.config.schema import Config
from goclaw.common.core.catalog import ALIASES
from goclaw.common.core.records import record
from goclaw.common.core.selection import SET, TAG, parse
from goclaw.common.specs import TOOL_CALL, TOOL_SEARCH, ToolSpec
from goclaw.llm.base import is_small

Profile = Literal["core", "index", "all"]

SMALL_CORE = frozenset({"read", "write", "edit", "exec", "web_fetch", "memory_search", "memory_write"})
CORE = SMALL_CORE | {"search", "ask_user", "message"}
_ITSELF = (TOOL_SEARCH, TOOL_CALL)
WORDS: Mapping[str, str] = {
    "read": "Read a file. Paths are relative to your workspace.",
    "write": "Write a whole file.",
    "edit": "Replace a text in a file. Read the file first: the text must stand there exactly so, and once.",
    "exec": "Run a shell command: list, search, count, append to, rename, move or delete files, and all else.",
    "web_fetch": "Read a web page.",
    "memory_search": "Search what you remember from earlier talks.",
    "memory_write": "Keep a value under a name, to remember it.",
    TOOL_SEARCH: "Find more tools.",
    TOOL_CALL: "Run a tool that tool_search found.",
}
"""Descriptions of the core's tools in a small window: as few words as a small model needs."""
_FEW_WORDS = 56
"""Characters of what a line of the index says of a tool."""
_CLAUSE = re.compile(r"(?<=.{16})[.:;,] ")
"""Ends the part of a sentence that stands in the index, if it says something by then."""
MAX_OFFERINGS = 256
"""Maximum offerings that are kept."""
_INDEX = "More tools; search for one to learn its arguments:"


@record
class Offering:
    """The part that a model is shown of the tools that it may use."""

    tools: Sequence[ToolSpec]
    """Those in the request."""
    usable: Sequence[ToolSpec]
    """All of them."""
    index: str = ""
    """Of the others, what stands in the prompt: a line each."""
    deferred: Sequence[ToolSpec] = ()
    """The usable others, where the index stands in the prompt: for providers that find them by themselves."""
    profile: Profile = "all"
    """How much is shown, as it came out."""


def profile_of(config: Config, agent: AgentSettings, model: str, window: int) -> Profile:
    """Return the profile of a model: from the agent's settings, else those of the model, else `tools.profile`.

    Args:
        config: the configuration.
        agent: the agent that asks.
        model: `provider:name` of the model.
        window: tokens of its context window; 0: not known.
    """
    options = config.models.options.get(model)
    chosen = agent.tools_profile or (options and options.tools_profile) or config.tools.profile
    if chosen != "auto":
        return chosen
    return "core" if is_small(window) else "index"


class Offerings:
    """Makes offerings. The same tools make the same offering, so that wires encode each tool once."""

    def __init__(self) -> None:
        self._short: dict[tuple[Profile, str], tuple[ToolSpec, ToolSpec]] = {}
        """By profile and name: the tool, and its short form."""
        self._made: dict[Hashable, tuple[Sequence[ToolSpec], Sequence[ToolSpec], Offering]] = {}
        """By the identities of the tools and by the choice: these tools, so that no other gets their identity, and
        the offering."""

    def of(
        self, usable: Sequence[ToolSpec], lasting: Sequence[ToolSpec], profile: Profile, own: Sequence[str] | None
    ) -> Offering:
        """Choose the tools of a request.

        Args:
            usable: the tools that can be used, in their order.
            lasting: those of them that are of use in every permission mode.
            profile: how much is shown.
            own: the agent's selection: the named tools are its core.
        """
        key = (tuple(map(id, usable)), tuple(map(id, lasting)), profile, own if own is None else tuple(own))
        if key not in self._made:
            if len(self._made) >= MAX_OFFERINGS:
                self._made.clear()
            self._made[key] = (usable, lasting, self._make(usable, lasting, profile, own))
        return self._made[key][-1]

    def _make(
        self, usable: Sequence[ToolSpec], lasting: Sequence[ToolSpec], profile: Profile, own: Sequence[str] | None
    ) -> Offering:
        core = picked_names(own) or (SMALL_CORE if profile == "core" else CORE)
        itself = [spec for name in _ITSELF for spec in usable if spec.name == name]
        others = [spec for spec in usable if spec.name not in _ITSELF]
        indexed = [spec for spec in lasting if spec.name not in core.union(_ITSELF)]
        if profile == "all" or len(itself) < len(_ITSELF) or not indexed:
            return Offering(others, others)
        shown = [self._shorten(profile, spec) for spec in others if spec.name in core]
        itself = [self._shorten(profile, spec) for spec in itself] if profile == "core" else itself
        index = "\n".join([_INDEX, *map(line, indexed)]) if profile == "index" else ""
        deferred = [spec for spec in others if spec.name not in core] if index else ()
        return Offering([*shown, *itself], others, index, deferred, profile)

    def _shorten(self, profile: Profile, spec: ToolSpec) -> ToolSpec:
        known = self._short.get((profile, spec.name))
        if known is None or known[0] is not spec:
            short = shortest(spec) if profile == "core" else replace(spec, description=spec.short)
            known = self._short[profile, spec.name] = (spec, short)
        return known[1]


def shortest(spec: ToolSpec) -> ToolSpec:
    """Return a tool as a small window shows it; a tool without a line in `WORDS` keeps its arguments.

    Only the required arguments are listed, by their types: small models fill each that they are shown, with
    values that they invent. A call may have the others all the same: `tool_search` returns them, and a result names the
    one that continues it.
    """
    if spec.name not in WORDS:
        return replace(spec, description=spec.short)
    given, required = spec.schema["properties"], spec.schema["required"]
    shown = {}
    for name in given if spec.name == TOOL_CALL else required:
        kinds = given[name].get("anyOf", [given[name]])
        shown[name] = {"type": next(kind["type"] for kind in kinds if kind["type"] != "null")}
    schema = {"type": "object", "properties": shown, "required": required}
    return replace(spec, description=WORDS[spec.name], schema=schema)


def picked_names(selection: Sequence[str] | None) -> frozenset[str]:
    """Return the tools that a selection picks by name, under their own names."""
    wanted, _ = parse(tuple(selection or ()))
    return frozenset(ALIASES.get(part, part) for part in wanted if not part.startswith((TAG, SET)))


def line(spec: ToolSpec) -> str:
    """Return a tool in the index: its name and a few words."""
    words = _CLAUSE.split(spec.short, maxsplit=1)[0].rstrip(".")
    if len(words) > _FEW_WORDS:
        words = words[: _FEW_WORDS + 1].rpartition(" ")[0] or words[:_FEW_WORDS]
    return f"{spec.name}: {words}"
