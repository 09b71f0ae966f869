"""All that channels, servers and clients may ask of the gateway."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from goclaw.events.people import Actor
from goclaw.events.traffic import Acceptance, Inbound
from goclaw.events.transcripts import SessionInfo
from goclaw.events.turns import MessageStored, SessionNow, TurnEvent
from goclaw.records import record


@record
class CommandInfo:
    """A slash command as menus and completions show it."""

    name: str
    summary: str


class GatewayPort(Protocol):
    """All that channels, servers and clients may ask of the gateway."""

    async def accept(self, inbound: Inbound) -> Acceptance:
        """Authorize, answer or journal. When this returns, the message is durable: the channel may acknowledge it."""
        ...

    def commands(self, actor: Actor | None) -> Sequence[CommandInfo]:
        """The commands that `actor` may use; those of a plain listed user for None."""
        ...

    def subscribe(self, session: str | None) -> AbstractAsyncContextManager[AsyncIterator[TurnEvent]]:
        """Events from now on, of one session or (for channels, which filter by address) of all.

        The stream of a subscriber that lags too far behind simply ends; it reads `history` and subscribes anew.
        """
        ...

    async def history(
        self, session: str, after: int = 0, limit: int = 200, before: int | None = None
    ) -> Sequence[MessageStored]:
        """The last `limit` rows of the transcript with `row > after` (and `row < before`), oldest first."""
        ...

    async def now(self, session: str) -> SessionNow:
        """What goes on in a session, beside its transcript, at the moment when this returns."""
        ...

    async def sessions(self, actor: Actor, *, agents: bool = False) -> Sequence[SessionInfo]:
        """The sessions that `actor` may read, the latest first; with `agents` those of agents, too."""
        ...

    async def files(self, actor: Actor, begun: str) -> Sequence[str]:
        """Paths in the actor's workspace that match what somebody began to type after `@`; none without that right."""
        ...

    async def status(self, session: str, actor: Actor) -> Mapping[str, Any]:
        """The numbers behind `/status`, for machines. Who is no admin learns nothing of others from them."""
        ...

    async def decide(self, actor: Actor, question: str, answer: str) -> str:
        """Answer an open question by its id: `allow` and `deny` for an approval, an option's text or number, a text.

        Returns a sentence for the person who answered.
        """
        ...

    async def choose(self, actor: Actor, question: str, index: int) -> str:
        """The same by the place of an option among those of the question, from 0: what a button says.

        An option that the question does not have is answered as a question that is gone.
        """
        ...
