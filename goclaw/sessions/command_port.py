"""Where an agent's turn has what people do by commands done: the gateway, which is made after the sessions."""

from collections.abc import Awaitable, Callable

from goclaw.events import Inbound
from goclaw.toolkit.base import no_commands


async def _nobody(inbound: Inbound, text: str) -> str:
    return await no_commands(text)


class CommandPort:
    """Takes what is asked, and has it done as soon as somebody is there who can."""

    def __init__(self) -> None:
        self.answer: Callable[[Inbound, str], Awaitable[str]] = _nobody
        """Answers a command for the person whose message a turn answers; raises ToolError where it may not be."""
