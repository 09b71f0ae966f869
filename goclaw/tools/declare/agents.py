"""Agents in code: they compile to `agents.kinds.<name>` of the configuration, and to toolsets.

An agent that uses nothing has no tools. Who may use it, and whom it answers, is the operator's to say and not here.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

from goclaw.common.config.agents import AgentSettings, RunPolicySettings
from goclaw.common.config.exports import ExportSettings
from goclaw.common.config.mcp import PinnedSetSettings, pin_tag
from goclaw.common.config.values import ToolProfile
from goclaw.common.core.records import record
from goclaw.tools.declare.options import ExportOption, Option, collect, refuse_leftovers
from goclaw.tools.declare.registries import registry_parts
from goclaw.tools.declare.tools import ToolDeclaration
from goclaw.tools.declare.tools import toolset as made_toolset
from goclaw.tools.mcp.validation import full_name
from goclaw.tools.toolkit.base import Tool
from goclaw.tools.toolkit.parts import AgentPart, RegistryPart, ToolsetPart


@record
class AgentToolset:
    """A toolset that an agent exports."""

    word: ClassVar[str] = "agent_toolset"
    forms: ClassVar[tuple[str, ...]] = ("use",)
    agent: str
    toolset: str


@record
class Use:
    """Tools that an agent uses."""

    word: ClassVar[str] = "use"
    forms: ClassVar[tuple[str, ...]] = ("agent",)
    selection: tuple[str, ...]
    toolset: ToolsetPart | None = None
    inline: bool = False
    """Whether the toolset is declared here, and so the agent's own."""


@record
class Export:
    """Tools that an agent offers."""

    word: ClassVar[str] = "export"
    forms: ClassVar[tuple[str, ...]] = ("agent",)
    name: str
    settings: ExportSettings
    toolset: ToolsetPart | None = None
    registries: tuple[RegistryPart, ...] = ()
    """Those that are told of it."""
    inline: bool = False
    """Whether the toolset holds the tools that methods do, and so is the agent's own."""


class AgentOption(Option, forms=("agent",)):
    """Stands in `agent`."""


AgentWord = Use | Export | RunPolicySettings | AgentOption


def agent(name: str, description: str, *words: AgentWord) -> AgentPart:
    """Declare an agent. A package names it `agents.<name>` in the entry-point group `goclaw.plugins`.

    Raises:
        ValueError: something is said twice, stands elsewhere, or does not hold together.
    """
    refuse_leftovers(words, (Use, Export, RunPolicySettings, AgentOption), name, "agent")
    said = collect([word for word in words if isinstance(word, AgentOption)], name)
    quickstart = not said.pop("disable_agent_docs", False)
    policies = [word for word in words if isinstance(word, RunPolicySettings)]
    if len(policies) > 1:
        raise ValueError(f"{name}: run_policy is said twice")
    exports = [word for word in words if isinstance(word, Export)]
    if twice := [word.name for at, word in enumerate(exports) if word.name in [each.name for each in exports[:at]]]:
        raise ValueError(f"{name}: {twice[0]} is exported twice")
    own = [word for word in words if isinstance(word, Use | Export) and word.inline and word.toolset]
    names = [word.toolset.name for word in own if word.toolset]
    if twice := [
        each for at, each in enumerate(names) if each in names[:at] or each in [word.name for word in exports]
    ]:
        raise ValueError(f"{name}: {twice[0]} is the name of two toolsets of its own; choose another one")
    keys: dict[str, Any] = {
        "description": description,
        "tools": tuple(part for word in words if isinstance(word, Use) for part in _selection_of(word, name)),
        "exports": {word.name: word.settings for word in exports},
        **said.pop("model", {}),
        **said,
    }
    if policies:
        keys["policy"] = policies[0]
    with_tools = (_toolset(word, name) for word in words if isinstance(word, Use | Export))
    told = tuple(registry for word in exports for registry in word.registries)
    return AgentPart(name, AgentSettings(**keys), tuple(part for part in with_tools if part), quickstart, told)


def _selection_of(word: Use, agent: str) -> tuple[str, ...]:
    """Return the selection of a `use`; a toolset of the agent's own has both names, as an exported one does."""
    return (f"set:{agent}/{word.toolset.name}",) if word.inline and word.toolset else word.selection


def _toolset(word: Use | Export, agent: str) -> ToolsetPart | None:
    if word.inline and word.toolset:
        return replace(word.toolset, name=f"{agent}/{word.toolset.name}")
    return word.toolset


def use(what: "ToolsetPart | AgentToolset | str", *parts: "str | ToolDeclaration | Tool") -> Use:
    """Let the agent use a toolset or, with names, some of its tools; an agent's exports; or tools of its own.

    `use("helpers", tool(...))` makes `<agent>/helpers`, a toolset of its own; `use(DOCS, "search")` takes one tool.

    Raises:
        ValueError: the toolset has no tool of that name, or something is no tool.
    """
    refuse_leftovers([what], (ToolsetPart, AgentToolset, str), "use", "use")
    refuse_leftovers(parts, (str, ToolDeclaration, Tool), what if isinstance(what, str) else "use", "use")
    names = tuple(part for part in parts if isinstance(part, str))
    own = [part for part in parts if not isinstance(part, str)]
    match what:
        case AgentToolset(offering, toolset):
            if own:
                raise ValueError(f"{offering}/{toolset}: tools are added where it is exported, not where it is used")
            return Use(names or (f"set:{offering}/{toolset}",))
        case ToolsetPart():
            if own:
                raise ValueError(f"{what.name}: tools are added where a toolset is declared, not where it is used")
            if what.origin:
                names = tuple(full_name(what.name, name) for name in names)
            if what.pinned:
                return Use(_select_pins(what.name, what.pinned, names), what)
            known = {tool.spec.name for tool in what.tools} | {part for part in what.also if ":" not in part}
            if what.tools and (unknown := sorted(set(names) - known)):
                raise ValueError(f"{what.name} has no tool {unknown[0]}; there are {', '.join(sorted(known))}")
            return Use(names or (f"set:{what.name}",), what)
        case str():
            if names or not own:
                raise ValueError(f"{what}: a toolset that is declared here has tools of its own: tool(...)")
            return Use((), made_toolset(what, *own), inline=True)


def _select_pins(toolset: str, pinned: PinnedSetSettings, names: tuple[str, ...]) -> tuple[str, ...]:
    if unknown := sorted(set(names) - set(pinned.tools)):
        raise ValueError(f"{toolset} has no tool {unknown[0]}; there are {', '.join(sorted(pinned.tools))}")
    return tuple(f"tag:{pin_tag(toolset, name)}" for name in names) or (f"set:{toolset}",)


def use_selected(*selection: str) -> Use:
    """Let the agent use existing tools, in the words of the configuration: names, `tag:x`, `set:y`, with `-` not."""
    return Use(selection)


def agent_toolset(agent: str, toolset: str) -> AgentToolset:
    """Return a toolset that another agent exports, for `use`."""
    return AgentToolset(agent, toolset)


def use_agent_toolset(agent: str, toolset: str) -> Use:
    """Use a toolset that another agent exports."""
    return use(agent_toolset(agent, toolset))


def export(what: "ToolsetPart | str", *parts: "ToolDeclaration | ExportOption") -> Export:
    """Declare a toolset for other agents: the agent does its tools, except those bound to a method.

    Raises:
        ValueError: a tool of it does not hold together, or something stands elsewhere.
    """
    refuse_leftovers([what], (ToolsetPart, str), "export", "export")
    name = what if isinstance(what, str) else what.name
    refuse_leftovers(parts, (ToolDeclaration, ExportOption), name, "export")
    said = collect([part for part in parts if isinstance(part, ExportOption)], name)
    told = registry_parts(said, name)
    declared = [part for part in parts if isinstance(part, ToolDeclaration)]
    done: Sequence[Tool] = [part.built(said.get("tags", ())) for part in declared if part.does]
    existing = what.members if isinstance(what, ToolsetPart) else ()
    included = (*existing, *(tool.spec.name for tool in done))
    settings = ExportSettings(
        **said, tools={part.name: part.exported() for part in declared if not part.does}, include=included or None
    )
    if isinstance(what, ToolsetPart):
        return Export(name, settings, what, told)
    methods = ToolsetPart(f"{name}.methods", tools=tuple(done)) if done else None
    return Export(name, settings, methods, told, inline=True)


def own_tools() -> ExportOption:
    """Let the agent work with all its own tools, regardless of its caller's; the person's rights always hold."""
    return ExportOption("own_tools", True)


def model(first: str, *fallbacks: str) -> AgentOption:
    """Set the models of the agent, each a fallback of the one before."""
    return AgentOption("model", {"model": first, "fallbacks": fallbacks})


def system_prompt(text: str) -> AgentOption:
    """Set the instructions in addition to the workspace's own files."""
    return AgentOption("prompt", text)


def tools_profile(profile: ToolProfile) -> AgentOption:
    """Set which tools stand in its requests: `core`, `index`, `all`, or `auto` by the model's window."""
    return AgentOption("tools_profile", profile)


def disable_agent_docs() -> AgentOption:
    """Write no `AGENTS_QUICKSTART.md` to workspaces."""
    return AgentOption("disable_agent_docs", True)
