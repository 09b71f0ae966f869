"""The gateway and the operator's alerts, as channels, servers and clients see them."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from goclaw.common.core.events.traffic import Acceptance, Actor, Address, Inbound
from goclaw.common.core.events.turns import MessageStored, SessionInfo, SessionNow, SessionPlace, TurnEvent
from goclaw.common.core.records import record


@record
class CommandInfo:
    """A slash command in menus and completions."""

    name: str
    summary: str


class GatewayPort(Protocol):
    """The gateway as channels, servers and clients see it."""

    async def accept(self, inbound: Inbound) -> Acceptance:
        """Authorize, answer or journal. When this returns, the message is durable: the channel may acknowledge it."""
        ...

    def commands(self, actor: Actor | None) -> Sequence[CommandInfo]:
        """Return the commands that `actor` may use, and that do something for them; for None, those of everybody."""
        ...

    def subscribe(self, session: str | None) -> AbstractAsyncContextManager[AsyncIterator[TurnEvent]]:
        """Yield events from now on, of one session or (for channels, which filter by address) of all.

        The stream of a subscriber that lags too far simply ends; it reads `history` and subscribes again.
        """
        ...

    async def history(
        self, session: str, after: int = 0, limit: int = 200, before: int | None = None
    ) -> Sequence[MessageStored]:
        """Return the last `limit` rows of the transcript with `row > after` (and `row < before`), oldest first."""
        ...

    async def now(self, session: str) -> SessionNow:
        """Return the state of a session apart from its transcript, as of the moment when this returns."""
        ...

    async def sessions(
        self, actor: Actor, *, agents: bool = False, after: SessionPlace | None = None, limit: int | None = None
    ) -> Sequence[SessionInfo]:
        """Return the sessions that `actor` may read, the latest first; with `agents` those of agents, too.

        Args:
            actor: the reader.
            agents: whether those of agents are listed.
            after: the place of the last one before; None: from the first on.
            limit: how many at most; None: all.
        """
        ...

    async def files(self, actor: Actor, begun: str) -> Sequence[str]:
        """Return paths in the actor's workspace that match the text typed after `@`; empty without that right."""
        ...

    async def status(self, session: str, actor: Actor) -> Mapping[str, Any]:
        """Return the numbers of `/status`, for machines. They reveal nothing about others to non-admins."""
        ...

    async def decide(self, actor: Actor, question: str, answer: str, chat: Address | None = None) -> Acceptance:
        """Answer an open question by its id: `allow` and `deny` for an approval, an option's text or number, a text.

        `chat`: where the answer comes from, if that is a chat: a yes counts where the whole call was shown.

        Returns the sentence for the person who answered, and why the answer does not count, if so.
        """
        ...

    async def choose(self, actor: Actor, question: str, index: int, chat: Address | None = None) -> Acceptance:
        """Answer it by the index of an option, from 0, as buttons do.

        An option that the question does not have gets the reply of an expired question.
        """
        ...


class Alerts(Protocol):
    """Reports of faults; an administrator is notified of each once (`intake.alerts`). Neither call waits."""

    def tell(self, key: str, text: str) -> None:
        """Report a fault, as often as you like while it lasts.

        `key` names the fault and stays the same over restarts (`telegram:token`, `telegram:blocked:5`); `text` has the
        cause and the remedy, in one sentence or two. Secrets in it are masked.
        """
        ...

    def clear(self, key: str) -> None:
        """Report that there is no such fault (any more); cheap enough to call on every success."""
        ...


class NoAlerts:
    """Alerts that are dropped: for parts that run without a daemon around them."""

    def tell(self, key: str, text: str) -> None:
        pass

    def clear(self, key: str) -> None:
        pass
