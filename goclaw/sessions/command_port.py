"""A port for commands given by the agent. It is bound to the gateway, which is built after the sessions."""

from collections.abc import Awaitable, Callable

from goclaw.events import Inbound
from goclaw.toolkit.services import TurnServices


async def _unbound(inbound: Inbound, text: str) -> str:
    return await TurnServices().command(text)


class CommandPort:
    """Passes commands to the gateway once the gateway is bound."""

    def __init__(self) -> None:
        self.answer: Callable[[Inbound, str], Awaitable[str]] = _unbound
        """Runs a command for the person whose message the turn answers; raises ToolError where it is not allowed."""
