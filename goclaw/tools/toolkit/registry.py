"""The registry of tools: those that an actor may see, and the calls by names that models know from other systems.

The model is shown each tool under its own name only. A call by another name (`catalog.ALIASES`), with the arguments
used there, is translated here, so rights, hooks, approvals and the audit log see the tool's own name. An argument
that is ambiguous stays as it is; an unknown one is left for the validation to report.
"""

import asyncio
import logging
import math
import operator
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import orjson

from goclaw.common.auth.access import Access
from goclaw.common.config.exports import is_built_in
from goclaw.common.config.values import Mode
from goclaw.common.core import catalog
from goclaw.common.core.events import Actor
from goclaw.common.core.messages import ToolCall
from goclaw.common.core.plugins import load
from goclaw.common.core.tool_ids import short_name
from goclaw.common.specs import TOOL_CALL, ToolSpec
from goclaw.tools.toolkit.argument_repair import fits, near_names, repair
from goclaw.tools.toolkit.base import LateSource, Tool, ToolSource

log = logging.getLogger(__name__)

MAX_SHOWN = 2_048
"""Maximum lists of tools that are kept, one for each actor and selection; of a kilobyte at most, all of them 2 MB."""
Input = dict[str, Any]
"""The arguments of a call."""
_MILLISECONDS = 1_000
"""In a second; a time limit from here on is taken for milliseconds, because seconds end at 600."""


class BuiltIn:
    """The tools of the catalogue, loaded when they are first asked for."""

    def __init__(self, gates: Iterable[str] = ()) -> None:
        """`gates`: the open ones of `catalog.GATED_TOOLS`."""
        self._gates = tuple(gates)

    @cached_property
    def _tools(self) -> tuple[Tool, ...]:
        gated = [path for gate in self._gates for path in catalog.GATED_TOOLS[gate].values()]
        return tuple(load(path, Tool) for path in (*catalog.TOOLS.values(), *gated))

    def tools(self) -> Sequence[Tool]:
        return self._tools

    async def ready(self) -> None:
        """Load them in a thread: the modules and templates of all tools take longer than the event loop may be held."""
        if "_tools" not in vars(self):
            await asyncio.to_thread(self.tools)


class Registry:
    """All tools of all sources, as one agent has them. Live: a source may change its list at any time."""

    def __init__(self, sources: Sequence[ToolSource], access: Access, agent: str = "") -> None:
        """`agent`: its own tools are among them; empty: only tools for everyone are."""
        self._sources = sources
        self._late = [source for source in sources if isinstance(source, LateSource)]
        self._agent = agent
        self._agents: set[str] = set()
        """Those with tools of their own; this and the three mappings are of `_listed`."""
        self._views: dict[str, Registry] = {}
        self.access = access
        self._listed: list[Sequence[Tool]] = []
        self._known: dict[str, Tool] = {}
        """The tools of all agents, by id."""
        self._ids: dict[str, str] = {}
        """See `_find_ids`."""
        self._by_name: dict[str, Tool] = {}
        """By the names in calls."""
        self._shown: dict[Hashable, tuple[Tool, ...]] = {}
        """By actor and selections: the tools that the actor may use, as judged under `_shown_under`."""
        self._shown_under: list[object] = []
        if not agent:
            access.learn(self.spec, self.find_id)

    def of(self, agent: str) -> "Registry":
        """Return the tools of an agent: those for everyone, and its own."""
        self._refresh()
        if agent not in self._agents:
            return self
        if agent not in self._views:
            self._views[agent] = Registry(self._sources, self.access, agent)
        return self._views[agent]

    def with_agents(self, actor: Actor) -> "list[Registry]":
        """Return these tools, and those of each agent with tools of its own that the actor may use."""
        self._refresh()
        may = partial(self.access.authorize, actor, "agent.use")
        return [self, *(self.of(agent) for agent in sorted(self._agents) if may(agent).allowed)]

    async def ready(self) -> None:
        """Wait for the tools that are loaded late; asked for earlier, they would hold up the event loop."""
        for source in self._late:
            await source.ready()

    def spec(self, tool_id: str) -> ToolSpec | None:
        """Return the spec of the tool of any agent with this id, regardless of rights."""
        self._refresh()
        tool = self._known.get(tool_id)
        return tool.spec if tool else None

    def find_id(self, name: str) -> str:
        """Return the id of the one tool of all agents that a name or id stands for; empty: no tool has it.

        A name that stands for none, because several agents have it or a built-in tool does, is its own id.
        """
        self._refresh()
        return self._ids.get(name, "")

    def specs(self) -> list[ToolSpec]:
        """Return the specs of every tool for everyone, regardless of rights."""
        return [tool.spec for source in self._sources for tool in source.tools() if not tool.spec.agent]

    def meant(self, call: ToolCall, actor: Actor | None = None) -> ToolCall:
        """Return the call under its tool's own name: models know aliases, and make calls by `tool_call`.

        Mere errors of form in its name or arguments are corrected (`argument_repair`). With an actor only
        tools that the actor may use are resolved; without one, no name that is only near to a tool's.
        """
        inner = unwrap(call)
        tool = self.find(inner.name, actor) if actor else self._find(inner.name)
        if tool is None and actor:
            tool = self._near(inner, actor)
        if tool is None:
            return call
        named = meant(inner, tool.spec.name)
        read = repair(tool.arguments, named.input)
        if read is not named.input or (tool.spec.name != inner.name and inner.name not in self.access.aliases):
            log.info("a call of %s was wrong in form, and is read", tool.spec.name)
        return named if read is named.input else replace(named, input=read)

    def _near(self, call: ToolCall, actor: Actor) -> Tool | None:
        """Return the one tool that has a name near to the call's and a schema that fits its arguments."""
        if self._find(call.name) is not None:
            return None  # it is known, and not for this actor
        names = near_names(call.name, [spec.name for spec in self.visible_to(actor)])
        tools = [tool for name in names if (tool := self.find(name, actor))]
        found = [tool for tool in tools if self.takes(tool, meant(call, tool.spec.name))]
        return found[0] if len(found) == 1 else None

    @staticmethod
    def takes(tool: Tool, call: ToolCall) -> bool:
        """Return whether the arguments of a call fit its tool's schema."""
        return fits(tool.arguments, call.input, tool.spec.injected)

    def _find(self, name: str) -> Tool | None:
        """Return the tool of that name, else the one with it as an alias."""
        tool = self.lookup(name)
        if tool is None and name in self.access.aliases:
            tool = self.lookup(self.access.aliases[name])
        return tool

    def lookup(self, name: str) -> Tool | None:
        """Return the tool of that name, regardless of rights; the first source that has one counts."""
        self._refresh()
        return self._by_name.get(name)

    def _refresh(self) -> list[Sequence[Tool]]:
        """Read the lists of the sources again as soon as one of them is another one, and return them."""
        listed = [source.tools() for source in self._sources]
        if not same(listed, self._listed) or not _is_fixed(listed):
            last_first = [tool for tools in reversed(listed) for tool in reversed(tools)]
            mine = [tool for tool in last_first if tool.spec.agent in ("", self._agent)]
            self._known = {tool.spec.id: tool for tool in last_first}
            self._ids = _find_ids(self._known)
            self._by_name = _by_id(mine) | {tool.spec.name: tool for tool in mine if tool.spec.agent}
            self._agents = {tool.spec.agent for tool in last_first if tool.spec.agent}
            self._listed = listed
        return listed

    def find(self, name: str, actor: Actor) -> Tool | None:
        """Return the tool, if it exists and `actor` may use it; None does not reveal which of the two failed."""
        tool = self._find(name)
        return tool if tool and self.access.authorize(actor, "tool.use", tool.spec.id).allowed else None

    def knows(self, actor: Actor, name: str) -> bool:
        """Whether a tool that `actor` may use has the name, or one that is near to it."""
        return bool(self.find(name, actor) or near_names(name, [each.name for each in self.visible_to(actor)]))

    def visible_to(self, actor: Actor, *within: Sequence[str] | None) -> list[ToolSpec]:
        """Return the tools that `actor` may use; `within`: the selections of its agent."""
        return [tool.spec for tool in self._visible(actor, within)]

    def offered_to(self, actor: Actor, *within: Sequence[str] | None, planning: bool) -> list[ToolSpec]:
        """Return the specs to offer to a model, without tools that cannot work.

        Args:
            actor: for whom it acts.
            within: the selections of its agent.
            planning: offer the tools for plan mode, too.
        """
        modes: set[Mode | None] = {None, "plan"} if planning else {None}
        shown = (tool for tool in self._visible(actor, within) if tool.only_in in modes)
        return [tool.spec for tool in shown if not (tool.needs and tool.needs(self.access.config))]

    def _visible(self, actor: Actor, within: Sequence[Sequence[str] | None]) -> Sequence[Tool]:
        """Return the tools to show, judged again when anything relevant has changed. A call is judged by itself."""
        listed = self._refresh()
        under = [*self.access.basis, *listed]
        if not same(under, self._shown_under) or not _is_fixed(listed) or len(self._shown) >= MAX_SHOWN:
            self._shown, self._shown_under = {}, under
        key = (actor, *(None if selection is None else tuple(selection) for selection in within))
        if key not in self._shown:
            allowed = partial(self.access.authorize, actor, "tool.use")
            mine = (tool for tools in listed for tool in tools if self._by_name.get(tool.spec.name) is tool)
            tools = (tool for tool in mine if self.access.select(within, tool.spec))
            self._shown[key] = tuple(tool for tool in tools if allowed(tool.spec.id).allowed)
        return self._shown[key]


def _by_id(tools: Iterable[Tool]) -> dict[str, Tool]:
    """Return tools by id and, where no id is the same, by declared name; the last one counts."""
    return {short_name(tool.spec.id): tool for tool in tools} | {tool.spec.id: tool for tool in tools}


def _find_ids(known: Collection[str]) -> dict[str, str]:
    """Return the ids of tools by id and by declared name; that name is its own id unless it is one tool's alone."""
    ids: dict[str, str] = {}
    for each in known:
        name = short_name(each)
        ids[name] = name if name in ids or is_built_in(name) else each
    return ids | {each: each for each in known}


def same(some: Sequence[object], others: Sequence[object]) -> bool:
    """Whether two lists hold the very same objects."""
    return len(some) == len(others) and all(map(operator.is_, some, others))


def _is_fixed(listed: Sequence[Sequence[Tool]]) -> bool:
    """Whether none of the lists can change while it is the same object."""
    return all(isinstance(tools, tuple) for tools in listed)


def meant(call: ToolCall, tool: str) -> ToolCall:
    """Return the call under the name of its tool, resolved from an alias."""
    if call.name == tool:
        return call
    translate = _TRANSLATIONS.get(call.name, dict)
    return replace(call, name=tool, input=translate(dict(call.input)))


def unwrap(call: ToolCall) -> ToolCall:
    """Return the call inside a call of `tool_call`; any other call, or one that names no tool, as it is."""
    while call.name == TOOL_CALL:
        name, arguments = call.input.get("name"), call.input.get("arguments")
        if isinstance(arguments, str):  # as JSON, once more
            with suppress(orjson.JSONDecodeError):
                arguments = orjson.loads(arguments)
        known = call.input.keys() <= {"name", "arguments"}
        if not isinstance(name, str) or not known or not isinstance(arguments, dict | None):
            break
        call = replace(call, name=name, input=arguments or {})
    return call


def _without(*names: str) -> Callable[[Input], Input]:
    return lambda given: {name: value for name, value in given.items() if name not in names}


def _rename(given: Input, names: Mapping[str, str]) -> Input:
    """Rename arguments. A name already given stays: two values for one argument are for the model to resolve."""
    return {
        new if (new := names.get(name, name)) == name or new not in given else name: value
        for name, value in given.items()
    }


def _in_seconds(given: Input, most: int) -> Input:
    timeout = given.get("timeout")
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout >= _MILLISECONDS:
        return given
    return {**given, "timeout": most if timeout >= most * _MILLISECONDS else math.ceil(timeout / _MILLISECONDS)}


def _bash(given: Input) -> Input:
    return _in_seconds(_without("description")(given), 300)


def _task(given: Input) -> Input:
    return _in_seconds(_rename(given, {"bash_id": "task_id", "shell_id": "task_id"}), 600)


def _grep(given: Input) -> Input:
    """Translate the options of `rg` that have an equivalent here. Its search is case-sensitive."""
    plain = _without("-i", "-n", "output_mode")(given)
    plain = _rename(plain, {"-C": "context_lines", "head_limit": "max_results"})
    insensitive = given.get("-i", False)
    if not isinstance(insensitive, bool):
        return {**plain, "-i": insensitive}
    return {"case_sensitive": not insensitive, **plain}


def _question(asked: Input) -> Input:
    plain = _rename(_without("multiSelect")(asked), {"header": "title"})
    options = plain.get("options")
    if not isinstance(options, list):
        return plain
    labels = [each.get("label", each) if isinstance(each, dict) else each for each in options]
    return {**plain, "options": labels}


def _each(given: Input, name: str, translate: Callable[[Input], Input]) -> Input:
    """Translate the items of a list; a value that is not a list of objects stays as it is."""
    items = given.get(name)
    if not isinstance(items, list):
        return given
    return {**given, name: [translate(item) if isinstance(item, dict) else item for item in items]}


_agent = partial(_rename, names={"prompt": "task", "subagent_type": "kind"})
_TRANSLATIONS: Mapping[str, Callable[[Input], Input]] = {
    "Agent": _agent,
    "AskUserQuestion": partial(_each, name="questions", translate=_question),
    "Bash": _bash,
    "BashOutput": _task,
    "Grep": _grep,
    "KillShell": _task,
    "LS": _without("ignore"),
    "Task": _agent,
    "TaskOutput": _task,
    "TaskStop": _task,
    "TodoWrite": partial(_each, name="todos", translate=_without("activeForm", "id", "priority")),
    "WebFetch": _without("prompt"),
    "bash": _bash,
    "grep": _grep,
}
"""By the other name."""
