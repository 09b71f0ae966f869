"""Routing of messages to agents by the configuration (`agents.routes`). Pure: nothing here knows rights."""

import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from goclaw.config.agents import RouteSettings
from goclaw.events import Inbound

_COMMAND = re.compile(r"/([A-Za-z][A-Za-z0-9_]*)(?:@\w+)?(?:\s|$)")


def command_in(inbound: Inbound) -> str:
    """Return the slash command that a message begins with; empty: none. What was forwarded gives no command."""
    found = None if inbound.forwarded else _COMMAND.match(inbound.text.strip())
    return found.group(1).lower() if found else ""


def by_command(routes: Sequence[RouteSettings], command: str, user: str, places: Sequence[str]) -> RouteSettings | None:
    """Return the first route for a command of a user in a session or chat (`places`: its names)."""
    return next(
        (route for route in routes if command and route.command == command and _fits(route, user, places)), None
    )


def commands_of(routes: Sequence[RouteSettings], user: str) -> Iterator[tuple[str, str]]:
    """Yield the commands that lead a user to an agent, with its name, regardless of the place."""
    return ((route.command, route.agent) for route in routes if route.command and _any(route.user, [user]))


def by_place(routes: Sequence[RouteSettings], user: str, places: Sequence[str]) -> RouteSettings | None:
    """Return the first route that needs no command."""
    return next((route for route in routes if route.command is None and _fits(route, user, places)), None)


def _fits(route: RouteSettings, user: str, places: Sequence[str]) -> bool:
    return _any(route.user, [user]) and _any(route.chat, places)


def _any(patterns: Sequence[str], names: Sequence[str]) -> bool:
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns for name in names)
