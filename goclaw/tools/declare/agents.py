"""Agents in code: they compile to `agents.kinds.<name>` of the configuration, and to toolsets.

An agent that uses nothing has no tools. Who may use it, and whom it answers, is the operator's to say and not here.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from goclaw.common.config.agents import KIND_NAME, AgentSettings, RunPolicySettings
from goclaw.common.config.exports import ExportSettings, is_built_in
from goclaw.common.config.mcp import PinnedSetSettings, pin_tag
from goclaw.common.config.values import ToolProfile
from goclaw.common.core.records import record
from goclaw.common.core.selection import NOT
from goclaw.common.core.tool_ids import local_id, wire_name
from goclaw.tools.declare.options import ExportOption, Option, collect, refuse_leftovers
from goclaw.tools.declare.registries import registry_parts
from goclaw.tools.declare.tools import ToolDeclaration, tool
from goclaw.tools.declare.toolsets import toolset as made_toolset
from goclaw.tools.mcp.validation import full_name
from goclaw.tools.toolkit.base import Tool
from goclaw.tools.toolkit.parts import AgentPart, RegistryPart, ToolsetPart, is_same_tool


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
    share: bool = False
    """Whether others may use its tools."""


@record
class Export:
    """Tools that an agent offers."""

    word: ClassVar[str] = "export"
    forms: ClassVar[tuple[str, ...]] = ("agent",)
    name: str
    settings: ExportSettings
    toolset: ToolsetPart | None = None
    registries: tuple[RegistryPart, ...] = ()
    """The functions that are told of it."""
    inline: bool = False
    """Whether the toolset holds the tools that methods do, and so is the agent's own."""
    forwards: tuple[str, ...] = ()
    """The tools that calls are passed on to."""


class AgentOption(Option, forms=("agent",)):
    """Stands in `agent`."""


AgentWord = Use | Export | RunPolicySettings | AgentOption


Usable = ToolsetPart | AgentToolset | Use | ToolDeclaration | Tool | str | Callable[..., Any]
"""What an agent uses: toolsets, tools and functions of its own, and (a text) a selection as in the configuration."""
Exported = Export | ToolsetPart | ToolDeclaration


def agent(
    name: str,
    description: str,
    *words: AgentWord,
    uses: Sequence[Usable] = (),
    exports: Sequence[Exported] = (),
    policy: RunPolicySettings | None = None,
    model: str | Sequence[str] = (),
    system_prompt: str = "",
    tools_profile: ToolProfile | None = None,
) -> AgentPart:
    """Declare an agent. A package names it `agents.<name>` in the entry-point group `goclaw.plugins`.

    Args:
        name: as commands and the configuration call it: small letters, digits, `-` and `_`.
        description: its purpose, in one sentence.
        words: the same and more, one by one: `use`, `export`, `run_policy` …
        uses: toolsets, tools and functions; the tools and functions become `<name>/tools`, a toolset of its own.
        exports: what it does for other agents; tools become the toolset `<name>.tools`.
        policy: limits of its work; see `RunPolicy`.
        model: its model, or several, each a fallback of the one before.
        system_prompt: instructions in addition to the workspace's own files.
        tools_profile: which tools stand in its requests.

    Raises:
        ValueError: something is said twice, stands elsewhere, or does not hold together.
    """
    if not re.fullmatch(KIND_NAME, name):
        raise ValueError(f"{name!r}: no command can name such an agent: use small letters, digits, `-` and `_`")
    refuse_leftovers(words, (Use, Export, RunPolicySettings, AgentOption), name, "agent")
    chosen = {"model": model and _models(model), "prompt": system_prompt, "tools_profile": tools_profile}
    by_keyword = [AgentOption(word, value) for word, value in chosen.items() if value]
    said = collect([*(word for word in words if isinstance(word, AgentOption)), *by_keyword], name)
    quickstart = not said.pop("disable_agent_docs", False)
    policies = [*(word for word in words if isinstance(word, RunPolicySettings)), *([policy] if policy else [])]
    if len(policies) > 1:
        raise ValueError(f"{name}: run_policy is said twice")
    used = [*(word for word in words if isinstance(word, Use)), *_uses(uses, name)]
    exported = [*(word for word in words if isinstance(word, Export)), *_exports(exports, name)]
    said_all: list[Use | Export] = [*used, *exported]
    _refuse_twice(name, said_all)
    selection = [part for word in used for part in _selection_of(word, name)]
    if not selection or any(not part.startswith(NOT) for part in selection):
        selection += [each for word in exported for each in word.forwards if each not in selection]
    keys: dict[str, Any] = {
        "description": description,
        "tools": tuple(selection),
        "exports": {word.name: word.settings for word in exported},
        **said.pop("model", {}),
        **said,
    }
    if policies:
        keys["policy"] = policies[0]
    told = tuple(registry for word in exported for registry in word.registries)
    return AgentPart(name, AgentSettings(**keys), tuple(_toolsets(said_all, name)), quickstart, told)


def _models(names: str | Sequence[str]) -> dict[str, Any]:
    first, *others = [names] if isinstance(names, str) else names
    return {"model": first, "fallbacks": tuple(others)}


def _uses(parts: Sequence[Any], name: str) -> Iterator[Use]:
    """Yield what `uses` says, in the words of the language."""
    own = []
    for part in parts:
        if isinstance(part, str):
            yield use_selected(part)
        elif isinstance(part, ToolsetPart | AgentToolset):
            yield use(part)
        elif isinstance(part, Use):
            yield part
        elif callable(part):
            own.append(tool(part))
        elif hasattr(part, "forms") or isinstance(part, Tool):
            own.append(part)
        else:
            raise ValueError(f"{name}: uses takes tools, functions, toolsets and names of tools, not {part!r}")
    refuse_leftovers(own, (ToolDeclaration, Tool), name, "agent")
    if own:
        yield use("tools", *own)


def _exports(parts: Sequence[Exported], name: str) -> Iterator[Export]:
    """Yield what `exports` says, in the words of the language."""
    refuse_leftovers(parts, (Export, ToolsetPart, ToolDeclaration), name, "agent")
    for part in parts:
        if not isinstance(part, ToolDeclaration):
            yield part if isinstance(part, Export) else export(part)
    if own := [part for part in parts if isinstance(part, ToolDeclaration)]:
        yield export(f"{name}.tools", *own)


def _refuse_twice(name: str, words: Sequence[Use | Export]) -> None:
    """Raise ValueError where two toolsets of an agent have one name."""
    offered = [word.name for word in words if isinstance(word, Export)]
    own = [word.toolset.name for word in words if word.inline and word.toolset]
    if twice := [each for at, each in enumerate(offered) if each in offered[:at]]:
        raise ValueError(f"{name}: {twice[0]} is exported twice")
    if twice := [each for at, each in enumerate(own) if each in own[:at] or each in offered]:
        raise ValueError(f"{name}: {twice[0]} is the name of two toolsets of its own; choose another one")


def _selection_of(word: Use, agent: str) -> tuple[str, ...]:
    """Return the selection of a `use`; a toolset of the agent's own has both names, as an exported one does."""
    return (f"set:{agent}/{word.toolset.name}",) if word.inline and word.toolset else word.selection


def _toolsets(words: Sequence[Use | Export], agent: str) -> Iterator[ToolsetPart]:
    """Yield the toolsets that come with an agent. It alone has the tools declared in it, but those that it exports."""
    offered = [each for word in words if isinstance(word, Export) for each in _tools_of(word)]
    known = Counter(name for word in words for name in _names_of(word))
    taken = {name for name, count in known.items() if count > 1 or is_built_in(name)}
    for word in words:
        if word.toolset and word.inline:
            part = replace(word.toolset, name=f"{agent}/{word.toolset.name}")
            if isinstance(word, Use) and not word.share:
                part = replace(part, tools=tuple(_own(each, part.name, taken, offered) for each in part.tools))
            yield part
        elif word.toolset:
            yield word.toolset


def _tools_of(word: Use | Export) -> tuple[Tool, ...]:
    return word.toolset.tools if word.toolset else ()


def _names_of(word: Use | Export) -> Iterator[str]:
    """Yield the names of the tools that an agent has by a word, as far as its declaration says them."""
    chosen = word.selection if isinstance(word, Use) else ()
    named = [part for part in chosen if ":" not in part and not part.startswith(NOT)]
    yield from named or (each.spec.name for each in _tools_of(word))


def _own(tool: Tool, toolset: str, taken: Collection[str], offered: Sequence[Tool]) -> Tool:
    """Return the tool as the agent's own; one that it offers to others stays as it is."""
    if any(is_same_tool(tool, each) for each in offered):
        return tool
    key = local_id(toolset, tool.spec.name)
    return replace(tool, spec=replace(tool.spec, name=wire_name(key, taken), local_id=key))


def use(what: "ToolsetPart | AgentToolset | str", *parts: "str | ToolDeclaration | Tool", share: bool = False) -> Use:
    """Let the agent use a toolset or, with names, some of its tools; an agent's exports; or tools of its own.

    `use("helpers", tool(...))` makes `<agent>/helpers`, a toolset of its own (with `share` others may use it, too);
    `use(DOCS, "search")` takes one tool.

    Raises:
        ValueError: the toolset has no tool of that name, or something is no tool.
    """
    if share and not isinstance(what, str):
        raise ValueError(f"{what.name if isinstance(what, ToolsetPart) else what.toolset}: is shared already")
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
            return Use(_select(what, names), what)
        case str():
            if names or not own:
                raise ValueError(f"{what}: a toolset that is declared here has tools of its own: tool(...)")
            return Use((), made_toolset(what, *own), inline=True, share=share)


def _select(toolset: ToolsetPart, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the selection of these tools of a toolset; without names, of all. Raises ValueError."""
    if toolset.origin:
        names = tuple(full_name(toolset.name, name) for name in names)
    if toolset.pinned:
        return _select_pins(toolset.name, toolset.pinned, names)
    known = {tool.spec.name for tool in toolset.tools} | {part for part in toolset.also if ":" not in part}
    if toolset.tools and (unknown := sorted(set(names) - known)):
        raise ValueError(f"{toolset.name} has no tool {unknown[0]}; there are {', '.join(sorted(known))}")
    return names or (f"set:{toolset.name}",)


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
    done = [part.built(said.get("tags", ())) for part in declared if part.tool]
    brought = [part.said["passthrough"] for part in declared if isinstance(part.said.get("passthrough"), Tool)]
    brought += [each.built() for part in declared if isinstance(each := part.said.get("passthrough"), ToolDeclaration)]
    existing = what.members if isinstance(what, ToolsetPart) else ()
    included = (*existing, *(tool.spec.name for tool in done))
    settings = ExportSettings(
        **said, tools={part.name: part.exported() for part in declared if not part.tool}, include=included or None
    )
    forwards = tuple(part.target for part in declared if part.target)
    if isinstance(what, ToolsetPart):
        if done or brought:
            lost = (*done, *brought)[0].spec.name
            raise ValueError(f"{name}: code does {lost}, so add it where the toolset is declared")
        return Export(name, settings, what, told, forwards=forwards)
    methods = ToolsetPart(f"{name}.methods", tools=(*done, *brought)) if done or brought else None
    return Export(name, settings, methods, told, inline=True, forwards=forwards)


def own_tools() -> ExportOption:
    """Let the agent work with all its own tools, regardless of its caller's; the person's rights always hold."""
    return ExportOption("own_tools", True)


def model(first: str, *fallbacks: str) -> AgentOption:
    """Set the models of the agent, each a fallback of the one before."""
    return AgentOption("model", _models((first, *fallbacks)))


def system_prompt(text: str) -> AgentOption:
    """Set the instructions in addition to the workspace's own files."""
    return AgentOption("prompt", text)


def tools_profile(profile: ToolProfile) -> AgentOption:
    """Set which tools stand in its requests: `core`, `index`, `all`, or `auto` by the model's window."""
    return AgentOption("tools_profile", profile)


def disable_agent_docs() -> AgentOption:
    """Write no `AGENTS_QUICKSTART.md` to workspaces."""
    return AgentOption("disable_agent_docs", True)
