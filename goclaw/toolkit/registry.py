"""The registry of tools, and the tools that an actor may see."""

import asyncio
import operator
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from goclaw import catalog
from goclaw.access import Access
from goclaw.config.values import Mode
from goclaw.events import Actor
from goclaw.messages import ToolCall
from goclaw.plugins import load
from goclaw.specs import ToolSpec
from goclaw.toolkit.aliases import meant, unwrapped
from goclaw.toolkit.base import LateSource, Tool, ToolSource


class BuiltIn:
    """The tools of the catalogue, loaded when they are first asked for.

    `gates`: those whose tools are there, too.
    """

    def __init__(self, gates: Iterable[str] = ()) -> None:
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
    """All tools of all sources. Live: a source may change what it lists at any time."""

    def __init__(self, sources: Sequence[ToolSource], access: Access) -> None:
        self._sources = sources
        self._access = access
        self._listed: list[Sequence[Tool]] = []
        self._by_name: dict[str, Tool] = {}
        """Of `_listed`: read anew as soon as a source lists something else."""
        access.learn(self.spec)

    async def ready(self) -> None:
        """Wait for the tools that are loaded late; asked for earlier, they would hold up the event loop."""
        for source in self._sources:
            if isinstance(source, LateSource):
                await source.ready()

    def spec(self, name: str) -> ToolSpec | None:
        """Return the spec of a tool, regardless of rights."""
        tool = self.named(name)
        return tool.spec if tool else None

    def specs(self) -> list[ToolSpec]:
        """Return the specs of every tool, regardless of rights."""
        return [tool.spec for source in self._sources for tool in source.tools()]

    def meant(self, call: ToolCall, actor: Actor | None = None) -> ToolCall:
        """Return the call under its tool's own name: models know aliases, and make calls by `tool_call`.

        With an actor only tools that the actor may use are resolved.
        """
        inner = unwrapped(call)
        tool = self.find(inner.name, actor) if actor else self._called(inner.name)
        return meant(inner, tool.spec.name) if tool else call

    def _called(self, name: str) -> Tool | None:
        """Return the tool of that name, else the one with it as an alias."""
        tool = self.named(name)
        if tool is None and name in self._access.aliases:
            tool = self.named(self._access.aliases[name])
        return tool

    def named(self, name: str) -> Tool | None:
        """Return the tool of that name, regardless of rights; the first source that has one counts."""
        listed = [source.tools() for source in self._sources]
        if not same(listed, self._listed) or not all(isinstance(tools, tuple) for tools in listed):
            self._by_name = {tool.spec.name: tool for tools in reversed(listed) for tool in reversed(tools)}
            self._listed = listed
        return self._by_name.get(name)

    def names(self) -> list[str]:
        """Return every tool's name, regardless of rights."""
        return [tool.spec.name for source in self._sources for tool in source.tools()]

    def find(self, name: str, actor: Actor) -> Tool | None:
        """Return the tool, if it exists and `actor` may use it; None does not reveal which of the two failed."""
        tool = self._called(name)
        return tool if tool and self._access.authorize(actor, "tool.use", tool.spec.name).allowed else None

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
        return [tool.spec for tool in shown if not (tool.needs and tool.needs(self._access.config))]

    def _visible(self, actor: Actor, within: Sequence[Sequence[str] | None]) -> Iterator[Tool]:
        for tool in (tool for source in self._sources for tool in source.tools()):
            name = tool.spec.name
            if self._access.select(within, tool.spec) and self._access.authorize(actor, "tool.use", name).allowed:
                yield tool

    def availability(self, tool: Tool) -> str:
        """When models are offered a tool, in words for people; empty: always."""
        return tool.availability(self._access.config)


def same(some: Sequence[object], others: Sequence[object]) -> bool:
    """Whether two lists hold the very same objects."""
    return len(some) == len(others) and all(map(operator.is_, some, others))
