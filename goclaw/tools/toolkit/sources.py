"""The sources of tools: the catalogue, its sources, installed packages. One list, the first of each name.

A package is foreign code. If it fails while it is loaded, opened, asked or closed, it is left out and reported by name;
everything else goes on.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from operator import attrgetter
from typing import Any

from goclaw.common.config.schema import Config
from goclaw.common.core import catalog
from goclaw.common.core.clock import Clock
from goclaw.common.core.plugins import Plugin, load, plugins
from goclaw.common.core.records import record
from goclaw.common.core.redact import mask, printable
from goclaw.errors import GoclawError
from goclaw.tools.toolkit.base import (
    ConnectingSource,
    LateSource,
    LivePrompt,
    PromptSource,
    Tool,
    ToolSource,
    check_name,
)
from goclaw.tools.toolkit.parts import PackageParts
from goclaw.tools.toolkit.plugin_files import PluginFiles
from goclaw.tools.toolkit.registry import BuiltIn, same

log = logging.getLogger(__name__)

OPEN_SECONDS = 15.0
"""The time for a package's source to open, in seconds: enough to start a server. Doctor waits longer."""
SETTLED_SECONDS = 15.0
"""The time a one-off command waits for sources that connect in the background, in seconds."""
BUILT_IN = "built in"
_MAX_FAULT = 300


@record
class SourcePorts:
    """The services available to a source of tools."""

    config: Config
    clock: Clock
    report: Callable[[str, str], None]
    """Report a fault to the operator: the part and the fault; an empty text: the fault is gone."""


@record
class SourcePart:
    """A line of `TOOL_SOURCES`, or of a package: opens a live list of tools."""

    name: str
    open: Callable[[SourcePorts], AbstractAsyncContextManager[ToolSource]]
    origin: str = ""
    """Where its tools come from, for people; empty: the package that it is in."""


@record
class Named:
    """One source, and its origin."""

    origin: str
    source: ToolSource
    foreign: bool = False
    name: str = ""
    """The plugin's name, for people who use its tools."""


@record
class Fixed:
    """A source with a fixed set of tools."""

    listed: Sequence[Tool]

    def tools(self) -> Sequence[Tool]:
        return self.listed


class Sources:
    """All tools of all sources; where two have one id, the first source has it. Implements `ToolSource`."""

    def __init__(self, named: Sequence[Named] = ()) -> None:
        self._named = list(named)
        self._faults: dict[str, str] = {}
        self._taken: dict[str, str] = {}
        self._listed: list[tuple[Tool, ...]] = []
        """The tools each source listed at the last look; the two attributes below are derived from it."""
        self._tools: tuple[Tool, ...] = ()
        self._origins: dict[str, str] = {}
        self._ready = False
        self.files: PluginFiles | None = None
        """The one-file plugins. A process that stays calls `glance` now and then, and has `run` load what changed."""

    @property
    def faults(self) -> Mapping[str, str]:
        """The faults now: name to reason."""
        return {**self._faults, **self._taken}

    def add(self, named: Named) -> None:
        """Add a source after the others."""
        self._named.append(named)

    def put(self, origin: str, tools: Sequence[Tool], name: str = "") -> None:
        """Have an origin list exactly these tools, in the place of those that it was put with before."""
        named = Named(origin, Fixed(tuple(tools)), name=name)
        for index, each in enumerate(self._named):
            if each.origin == origin:
                self._named[index] = named
                return
        self._named.append(named)

    def drop(self, origin: str) -> None:
        """Remove the sources that were put for an origin."""
        self._named = [each for each in self._named if each.origin != origin]

    async def ready(self) -> None:
        """Load the late sources, so that faults are reported now rather than at the first use."""
        if not self._ready:
            for named in self._named:
                if isinstance(named.source, LateSource) and not named.foreign:
                    await named.source.ready()
            self._ready = True
            self._refresh()

    def tools(self) -> Sequence[Tool]:
        """Return all tools; the same tuple while every source lists the same."""
        self._refresh()
        return self._tools

    async def settled(self, seconds: float) -> None:
        """Wait until background connections were tried once, at most `seconds`: for commands that look once."""
        for named in self._named:
            if isinstance(named.source, ConnectingSource) and not named.foreign:
                await named.source.settled(seconds)

    def prompts(self) -> Sequence[LivePrompt]:
        """Return the prompts of all sources, as of now."""
        ours = (named.source for named in self._named if not named.foreign)
        return [prompt for source in ours if isinstance(source, PromptSource) for prompt in source.prompts()]

    def origin(self, name: str) -> str:
        """Return the source of the tool with this id."""
        self._refresh()
        return self._origins.get(name, "")

    def plugin(self, name: str) -> str:
        """Return the name of the plugin that the tool with this id comes from; empty: from none."""
        origin = self.origin(name)
        return next((each.name for each in self._named if each.origin == origin), "")

    def report(self, what: str, fault: str) -> None:
        """Remember that something does not work, and say so once; an empty `fault`: it works again."""
        what, fault = printable(what), mask(printable(" ".join(fault.split())))[:_MAX_FAULT]
        if not fault:
            self._faults.pop(what, None)
        elif self._faults.get(what) != fault:
            self._faults[what] = fault
            log.warning("%s: %s", what, fault)

    def _refresh(self) -> None:
        """Ask every source for its current list."""
        listed = [tuple(self._ask(named) if named.foreign else named.source.tools()) for named in self._named]
        if same(listed, self._listed):
            return
        found: dict[str, tuple[Tool, str]] = {}
        taken: dict[str, str] = {}
        for named, tools in zip(self._named, listed, strict=True):
            for tool in tools:
                name = tool.spec.id
                if name not in found:
                    found[name] = (tool, named.origin)
                elif found[name][0] is not tool:
                    taken[f"tool {name} of {named.origin}"] = f"is left out, the name is taken: {found[name][1]}"
        for what in taken.keys() - self._taken.keys():
            log.warning("%s: %s", what, taken[what])
        self._listed, self._taken = listed, taken
        self._tools = tuple(tool for tool, _ in found.values())
        self._origins = {name: origin for name, (_, origin) in found.items()}

    def _ask(self, named: Named) -> Sequence[Tool]:
        """Return the tools that a package's source lists now; none if it fails or lists something else."""
        try:
            listed: tuple[Any, ...] = tuple(named.source.tools())
            if strange := [tool for tool in listed if not isinstance(tool, Tool)]:
                raise TypeError(f"it lists a {type(strange[0]).__name__}, not a Tool")
            # However it was made: a name that no provider takes would fail every request of every conversation.
            for tool in listed:
                check_name(tool.spec.name)
        except Exception as error:
            self.report(named.origin, _words(error))
            return ()
        self.report(named.origin, "")
        return listed


@asynccontextmanager
async def open_sources(config: Config, clock: Clock, parts: PackageParts | None = None) -> AsyncIterator[Sources]:
    """Open every source of tools while the block runs; `Sources.ready` loads those of the catalogue.

    `parts`: what packages declare, which `config` holds already.
    """
    gates = [gate for gate in catalog.GATED_TOOLS if getattr(config.tools, gate)]
    sources = Sources([Named(BUILT_IN, BuiltIn(gates))])
    ports = SourcePorts(config, clock, sources.report)
    async with AsyncExitStack() as stack:
        for name, path in catalog.TOOL_SOURCES.items():
            if not attrgetter(catalog.MADE_OF[name])(config):
                continue
            part = load(path, SourcePart)
            sources.add(Named(part.origin, await stack.enter_async_context(part.open(ports))))
        for plugin in plugins("tools"):
            await _add_tool(sources, plugin)
        for what, fault in (parts.faults if parts else {}).items():
            sources.report(what, fault)
        for title, tools in parts.tools if parts else ():
            sources.add(Named(title, Fixed(tools), foreign=True))
        for plugin in plugins("tool_sources"):
            await _open_foreign(stack, sources, plugin, ports)
        sources.files = PluginFiles(config, clock, put=sources.put, drop=sources.drop, report=sources.report)
        await sources.files.scan(at_once=True)
        yield sources


async def _add_tool(sources: Sources, plugin: Plugin) -> None:
    try:
        tool = await asyncio.to_thread(load, plugin.path, Tool)
        if tool.spec.name != plugin.name:
            raise ValueError(f"its tool calls itself {tool.spec.name}, not {plugin.name}")
    except (Exception, SystemExit) as error:
        sources.report(plugin.title, _words(error))
    else:
        sources.add(Named(plugin.title, Fixed([tool]), foreign=True, name=plugin.name))


async def _open_foreign(stack: AsyncExitStack, sources: Sources, plugin: Plugin, ports: SourcePorts) -> None:
    try:
        async with asyncio.timeout(OPEN_SECONDS):
            part = await asyncio.to_thread(load, plugin.path, SourcePart)
            opened = part.open(ports)
            source = await opened.__aenter__()
    except TimeoutError:
        sources.report(plugin.title, f"it is not open after {OPEN_SECONDS:g} s")
    except (Exception, SystemExit) as error:
        sources.report(plugin.title, _words(error))
    else:
        stack.push_async_callback(partial(_close, plugin, opened))
        sources.add(Named(plugin.title, source, foreign=True, name=plugin.name))


async def _close(plugin: Plugin, opened: AbstractAsyncContextManager[ToolSource]) -> None:
    try:
        await opened.__aexit__(None, None, None)
    except Exception as error:
        log.warning("%s did not close: %s", plugin.title, mask(printable(_words(error))))


def _words(error: BaseException) -> str:
    return str(error) if isinstance(error, GoclawError | ValueError) else f"{type(error).__name__}: {error}"
