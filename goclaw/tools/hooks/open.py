"""Hooks of the configuration and of installed packages, in the order of their calls.

One that a package brings and that cannot be loaded does not stop the daemon; but it may have been a guard, and what it
guarded is forbidden until it is mended or removed.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from goclaw.common.core.catalog import SANDBOXES
from goclaw.common.core.events import Alerts, NoAlerts
from goclaw.common.core.plugin_folder import left_out
from goclaw.common.core.plugins import Plugin, load, plugins
from goclaw.common.core.redact import mask
from goclaw.common.core.selection import NOT, SET
from goclaw.errors import HookFailed
from goclaw.tools.execution.sandbox.base import Sandbox, Tier
from goclaw.tools.execution.sandbox.select import OFF
from goclaw.tools.hooks.base import POINTS, HookAnswer, HookEvent, HookPart, Hooks, Registered
from goclaw.tools.hooks.commands import CommandHook, HookEnvironment

log = logging.getLogger(__name__)


@asynccontextmanager
async def open_hooks(environment: HookEnvironment, alerts: Alerts | None = None) -> AsyncIterator[Hooks]:
    """Open all hooks, while the block runs. `alerts` gets those that cannot be loaded or fail."""
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
        for name, registration, trouble in of_packages():
            registered.append(registration)
            key = f"hook that is missing:{name}"  # not its key as a hook, which is one that works
            if trouble:
                log.error("%s", trouble)
                alerts.tell(key, trouble)
            else:
                alerts.clear(key)
        yield Hooks(registered, alerts)


def of_packages() -> Sequence[tuple[str, Registered, str]]:
    """Return the hooks of installed packages, and of plugins that are left out: name, hook, and fault (else empty)."""
    missing = [
        (name, *_forbid(Plugin("hooks", name, "", f"{plugin.name} {plugin.version}"), plugin.fault, frozenset()))
        for name, plugin in left_out("hooks")
    ]
    return [*((plugin.name, *_register(plugin)) for plugin in plugins("hooks")), *missing]


def _register(plugin: Plugin) -> tuple[Registered, str]:
    try:
        part = load(plugin.path, HookPart)
        # One that could match no tool would guard nothing.
        if isinstance(part.match, str):
            raise ValueError(f"its match is the text {part.match!r}, not a list of them")
        wrong = [each for each in part.match if not each or each.startswith((SET, NOT))]
        if wrong:
            raise ValueError(f"its match has {wrong[0]!r}; there are names of tools, and `tag:x`")
        match = frozenset(part.match)
    except (Exception, SystemExit) as error:
        return _forbid(plugin, f"{type(error).__name__}: {error}", frozenset())
    if not part.points or (unknown := {*part.points} - POINTS):
        what = ", ".join(map(str, unknown)) if part.points else "no point"
        return _forbid(plugin, f"it wants to be called at {what}; there are {', '.join(sorted(POINTS))}", match)

    async def bounded(event: HookEvent) -> HookAnswer:
        try:
            async with asyncio.timeout(part.seconds):
                answer = await part.hook(event)
        except TimeoutError:
            raise HookFailed(f"it took longer than {part.seconds:g} s") from None
        if not isinstance(answer, HookAnswer):
            raise HookFailed(f"it returned a {type(answer).__name__}, not a HookAnswer")
        return answer

    return Registered(plugin.name, frozenset(part.points), bounded, match), ""


def _forbid(plugin: Plugin, error: str, match: frozenset[str]) -> tuple[Registered, str]:
    """Return a hook that forbids every call that the broken one may have judged."""
    what = f"calls of {', '.join(sorted(match))} are" if match else "every call of a tool is"
    trouble = mask(f"{plugin.title} cannot be loaded: {error}; {what} forbidden until you fix or uninstall it")

    async def forbid(event: HookEvent) -> HookAnswer:
        return HookAnswer(deny=trouble)

    return Registered(plugin.name, frozenset({"pre_tool"}), forbid, match), trouble
