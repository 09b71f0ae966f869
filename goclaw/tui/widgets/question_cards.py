"""The questions on the screen: each once, and which of them a key may answer."""

from collections.abc import Iterable, Mapping

from goclaw.clock import Clock
from goclaw.events import Question, QuestionAnswered
from goclaw.records import record
from goclaw.tui.widgets.question_card import QuestionCard

SEEN_SECONDS = 0.5
"""Seconds an approval must have been in view: an earlier key answers nothing."""


@record
class InView:
    """Which ends of a card are in view."""

    begin: bool
    end: bool


class QuestionCards:
    """The cards that were not closed yet, oldest first."""

    def __init__(self, me: str, clock: Clock) -> None:
        self._me = me
        self._clock = clock
        self._open: dict[str, QuestionCard] = {}
        self._withdrawn: dict[str, QuestionCard] = {}
        """Closed without an answer that is known here. A restart of the daemon asks some of them again."""
        self._replaced: list[QuestionCard] = []
        """Cards that a new card for the same question replaces."""
        self._begun: set[str] = set()
        """Questions whose first line has been in view: one that is longer than the screen is not decided by its end."""
        self._seen: dict[str, float] = {}
        """Since when a question has been in view, to its last line."""

    def enter(self, me: str) -> None:
        """Another session, in which the person is `me`."""
        self._me = me
        self.clear()

    @property
    def open(self) -> list[QuestionCard]:
        """The cards whose questions wait for an answer."""
        return list(self._open.values())

    def asked(self, question: Question) -> list[QuestionCard]:
        """A new card; none when there is one already. Whatever was about to be answered must be looked at again."""
        if question.id in self._open:
            return []
        self._seen.clear()
        if withdrawn := self._withdrawn.pop(question.id, None):
            self._replaced.append(withdrawn)
        self._open[question.id] = QuestionCard(question, self._me, self._clock)
        return [self._open[question.id]]

    def say(self, card: QuestionCard, sentence: str) -> None:
        """Show the progress of an answer on `card`; a second press of the key must not reach the next one."""
        self._seen.clear()
        card.say(sentence)

    def answered(self, event: QuestionAnswered) -> None:
        """Close the card of a question that was answered."""
        if card := self._open.pop(event.question_id, None):
            self._seen.clear()
            card.close(event)
            if not event.by:
                self._withdrawn[event.question_id] = card

    def sync(self, questions: Iterable[Question]) -> list[QuestionCard]:
        """After a break: exactly `questions` are open. Returns the new cards; an answer that was on its way is not."""
        asked = list(questions)
        for gone in self._open.keys() - {question.id for question in asked}:
            self._withdrawn[gone] = self._open.pop(gone)
            self._withdrawn[gone].close()
        self.ask_again()
        return [card for question in asked for card in self.asked(question)]

    def ask_again(self) -> None:
        """An answer that was on its way when the connection broke may not have arrived; if it did, the card closes."""
        for card in self._open.values():
            card.say("")

    def replaced(self) -> list[QuestionCard]:
        """The cards that have to go since the last call: new ones ask the same."""
        replaced, self._replaced = self._replaced, []
        return replaced

    def look(self, in_view: Mapping[str, InView]) -> None:
        """Notice what is in view, by question: of a long card the beginning at some time, and the end, its options."""
        now = self._clock.monotonic()
        for name, card in self._open.items():
            if in_view[name].begin:
                self._begun.add(name)
            if card.is_undecided and in_view[name].end:
                self._seen.setdefault(name, now)
            else:
                self._seen.pop(name, None)

    def is_seen(self, card: QuestionCard) -> bool:
        """Return whether all of `card` was in view long enough to be answered by one key or one click."""
        since = self._seen.get(card.question.id)
        if since is None or not card.is_undecided or card.question.id not in self._begun:
            return False
        return self._clock.monotonic() - since >= SEEN_SECONDS

    @property
    def answerable(self) -> QuestionCard | None:
        """Return the approval that a key may answer: the newest one, if it was seen."""
        newest = next((card for card in reversed(self.open) if card.is_approval and card.is_undecided), None)
        return newest if newest is not None and self.is_seen(newest) else None

    def tick(self) -> None:
        """Advance the timers by a second."""
        for card in self._open.values():
            card.tick()

    def clear(self) -> None:
        """Forget everything, because the screen is cleared."""
        self._open.clear()
        self._withdrawn.clear()
        self._begun.clear()
        self._seen.clear()
