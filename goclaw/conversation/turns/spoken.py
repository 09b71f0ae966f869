"""The texts of a turn so far: those before tool calls, and the latest answer with the parts that it consists of."""

from collections.abc import Sequence

from goclaw.common.core.events import Delivery
from goclaw.common.core.messages import AssistantMessage
from goclaw.conversation.turns.answers import InterimTexts
from goclaw.durable.engine.base import Turn
from goclaw.durable.store.database import BoundStatement


class SpokenTexts:
    """The texts of one turn. `interim` delivers those before tool calls; None: no chat waits for them."""

    def __init__(self, turn: Turn, interim: InterimTexts | None) -> None:
        self.said: list[str] = []
        """Texts before tool calls, which are no part of the last answer."""
        self.begun = ""
        """The beginning of an answer whose rest was requested."""
        self._turn = turn
        self._interim = interim
        self._latest = ""
        self._notices: Sequence[str] = ()

    def promise(self, number: int, message: AssistantMessage) -> list[BoundStatement]:
        """Return the INSERT that promises the delivery of an interim text, for the transaction of its step."""
        delivery = self._delivery(number, message)
        return [self._interim.row(delivery)] if delivery and self._interim else []

    def take(self, number: int, message: AssistantMessage, notices: Sequence[str], *, replayed: bool) -> None:
        """Note an answer that is recorded, and have it delivered where that was promised with the record.

        Args:
            number: of the answer in its turn.
            message: the answer.
            notices: the notices below it for people.
            replayed: it was read back after a crash.
        """
        self._latest, self._notices = message.text, notices
        if not message.is_interim:
            if message.calls and self.begun:
                self.begun = f"{self.begun.rstrip()}\n\n"  # what comes behind the calls does not go on with it
            return
        text = self.begun + message.text
        if self._interim:
            promised = None if replayed else self._delivery(number, message)
            if promised:
                self._interim.promised(promised)
            else:
                self._interim.recalled(self._turn.id, number, text, waits=message.deferred)
        self.said.append(text.strip())
        self.begun = ""

    def begin_rest(self) -> None:
        """Note that the rest of the latest answer is requested."""
        self.begun = self.answered

    @property
    def answered(self) -> str:
        """The text of the latest answer, with the earlier parts of one that was continued, and the notices below."""
        written = self.begun + self._latest if self._latest else self.begun.rstrip()
        return "\n\n".join(filter(None, (written, *self._notices)))

    def _delivery(self, number: int, message: AssistantMessage) -> Delivery | None:
        """Return the delivery of an interim text; None where it is held for later, or empty."""
        if self._interim is None or message.deferred or not message.is_interim:
            return None
        return self._interim.delivery(self._turn, number, self.begun + message.text)
