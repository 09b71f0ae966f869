"""Queue modes: what becomes of a message that comes while a turn of its session runs. Each is durable in every mode.

Only a message of the person for whom the turn runs, from the same place, can join or interrupt it; all others wait for
a turn of their own. What a mode means is decided when it matters: at a message's arrival for `interrupt`, before a
request to the model for `steer` and `collect`. Nothing ever waits in order to be merged.
"""

from collections.abc import Mapping, Sequence

from goclaw.config.values import QueueMode
from goclaw.engine.base import Turn
from goclaw.events import Inbound
from goclaw.sessions.state import QUEUE_MODE, Contexts, Session
from goclaw.store.settings import Settings

MEANINGS: Mapping[QueueMode, str] = {
    "queue": "it waits and gets an answer of its own",
    "collect": "it waits; what one person wrote in a row meanwhile is answered together",
    "steer": "it joins the turn before the model is asked the next time",
    "interrupt": "it stops the turn and takes its place",
}
"""What becomes of the message, in words."""


class QueueModes:
    """The modes of all sessions."""

    def __init__(self, contexts: Contexts, stored: Settings, default: QueueMode) -> None:
        self.default = default
        self._contexts = contexts
        self._stored = stored

    async def of(self, key: str) -> QueueMode:
        """The mode that is in force in a session."""
        return self._in(await self._contexts.session(key))

    async def set(self, key: str, mode: QueueMode | None) -> None:
        """Choose the mode of a session; None: the configured one."""
        await self._stored.set(key, QUEUE_MODE, mode)
        (await self._contexts.session(key)).queue_mode = mode

    def joining(self, session: Session, turn: Turn, request: int) -> Sequence[Inbound]:
        """What is to be in the turn's request of this number beside what it has heard already, oldest first."""
        match self._in(session):
            case "steer":
                return turn.followers(past_others=True)
            case "collect" if request == 1:
                return turn.followers(past_others=False)
            case _:
                return ()

    def _in(self, session: Session) -> QueueMode:
        return session.queue_mode or self.default
