"""Hooks of the configuration and of installed packages, in the order of their calls.

One that a package brings and that cannot be loaded does not stop the daemon; but it may have been a guard, and what it
guarded is forbidden until it is mended or removed.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from types import MappingProxyType

from goclaw.common.core.catalog import SANDBOXES
from goclaw.common.core.events import Alerts, NoAlerts
from goclaw.common.core.plugin_folder import left_out
from goclaw.common.core.plugins import load, plugins
from goclaw.common.core.redact import mask
from goclaw.common.core.selection import NOT, SET
from goclaw.errors import ConfigError, HookFailed
from goclaw.tools.execution.sandbox.base import Sandbox, Tier
from goclaw.tools.execution.sandbox.select import OFF
from goclaw.tools.hooks.base import POINTS, HookAnswer, HookEvent, HookPart, Hooks, Registered
from goclaw.tools.hooks.commands import CommandHook, HookEnvironment

log = logging.getLogger(__name__)

OfFiles = Mapping[str, HookPart | str]
"""Hooks of one-file plugins by title; a text: why the file cannot be used."""
NO_FILES: OfFiles = MappingProxyType({})


@asynccontextmanager
async def open_hooks(
    environment: HookEnvironment, alerts: Alerts | None = None, files: OfFiles = NO_FILES
) -> AsyncIterator[Hooks]:
    """Open all hooks, while the block runs. `alerts` gets those that cannot be loaded or fail; `files` come last."""
    alerts = alerts or NoAlerts()
    settings = environment.config.hooks
    async with AsyncExitStack() as stack:
        uncontained: Sandbox | None = None
        if not all(each.sandbox for each in settings):
            uncontained = await stack.enter_async_context(load(SANDBOXES[OFF], Tier).open())
        registered = [
            Registered(
                mask(each.label),
                frozenset(each.on),
                CommandHook(each, environment, None if each.sandbox else uncontained),
                frozenset(each.match),
            )
            for each in settings
        ]
        for name, registration, trouble in of_packages(files):
            registered.append(registration)
            key = f"hook that is missing:{name}"  # not its key as a hook, which is one that works
            if trouble:
                log.error("%s", trouble)
                alerts.tell(key, trouble)
            else:
                alerts.clear(key)
        yield Hooks(registered, alerts)


def of_packages(files: OfFiles = NO_FILES) -> Sequence[tuple[str, Registered, str]]:
    """Return the hooks of packages and files, and of plugins that are left out: name, hook, and fault (else empty)."""
    missing = [
        (name, *_forbid(name, f"plugin hooks.{name} ({plugin.name} {plugin.version})", plugin.fault, frozenset()))
        for name, plugin in left_out("hooks")
    ]
    of_files = [(title, *_register(title, title, partial(_given, part))) for title, part in files.items()]
    loaded = [
        (each.name, *_register(each.name, each.title, partial(load, each.path, HookPart))) for each in plugins("hooks")
    ]
    return [*loaded, *missing, *of_files]


def _given(part: HookPart | str) -> HookPart:
    """Return a hook of a file. Raises ConfigError: the file cannot be used."""
    if isinstance(part, str):
        raise ConfigError(part)
    return part


def _register(name: str, title: str, load_part: Callable[[], HookPart]) -> tuple[Registered, str]:
    try:
        part = load_part()
        # One that could match no tool would guard nothing.
        if isinstance(part.match, str):
            raise ValueError(f"its match is the text {part.match!r}, not a list of them")
        wrong = [each for each in part.match if not each or each.startswith((SET, NOT))]
        if wrong:
            raise ValueError(f"its match has {wrong[0]!r}; there are names of tools, and `tag:x`")
        match = frozenset(part.match)
    except (Exception, SystemExit) as error:
        return _forbid(name, title, f"{type(error).__name__}: {error}", frozenset())
    if not part.points or (unknown := {*part.points} - POINTS):
        what = ", ".join(map(str, unknown)) if part.points else "no point"
        return _forbid(name, title, f"it wants to be called at {what}; there are {', '.join(sorted(POINTS))}", match)

    async def bounded(event: HookEvent) -> HookAnswer:
        try:
            async with asyncio.timeout(part.seconds):
                answer = await part.hook(event)
        except TimeoutError:
            raise HookFailed(f"it took longer than {part.seconds:g} s") from None
        if not isinstance(answer, HookAnswer):
            raise HookFailed(f"it returned a {type(answer).__name__}, not a HookAnswer")
        return answer

    return Registered(name, frozenset(part.points), bounded, match), ""


def _forbid(name: str, title: str, error: str, match: frozenset[str]) -> tuple[Registered, str]:
    """Return a hook that forbids every call that the broken one may have judged."""
    what = f"calls of {', '.join(sorted(match))} are" if match else "every call of a tool is"
    trouble = mask(f"{title} cannot be loaded: {error}; {what} forbidden until you fix or uninstall it")

    async def forbid(event: HookEvent) -> HookAnswer:
        return HookAnswer(deny=trouble)

    return Registered(name, frozenset({"pre_tool"}), forbid, match), trouble
