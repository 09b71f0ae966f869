"""Answers by one key or one click, and their protection against accidents.

`Host` is the application as its non-visual parts use it: background work, notifications, the session list, quitting.
"""

from collections.abc import Awaitable, Callable
from typing import Literal, Protocol

from goclaw.clients.tui.link import Link
from goclaw.clients.tui.widgets.picker import SessionPicker
from goclaw.clients.tui.widgets.prompt import Prompt
from goclaw.clients.tui.widgets.question_cards import KEYS, QuestionCard, QuestionCards
from goclaw.common.core.clock import Clock
from goclaw.common.core.events import ALLOW, ALWAYS, DENY, DETAILS
from goclaw.common.core.wire import Accepted, Refused


class BackgroundWork(Protocol):
    """Work that goes on in the background, and ends with the program."""

    def cancel(self) -> object:
        """End it now."""
        ...


class Host(Protocol):
    """The program around: a `textual.app.App`."""

    def run_worker(self, work: Callable[[], Awaitable[None]], *, name: str) -> BackgroundWork:
        """Begin `work`; an error in it ends the program.

        It is no coroutine yet: Textual leaves that of a worker that is cancelled before it began, and Python warns.
        """
        ...

    def notify(self, message: str, *, severity: Literal["information", "warning", "error"] = "information") -> None:
        """Show a temporary notification to the person."""
        ...

    def push_screen(self, screen: SessionPicker, callback: Callable[[str | None], None]) -> object:
        """Show the list of sessions until one is chosen, or none."""
        ...

    def exit(self) -> None:
        """End the program."""
        ...


HOLD_SECONDS = 0.5
"""Seconds without another key that confirm an answer: even a slow typist's pause between two letters is shorter."""
NOT_CONNECTED = "Not connected: answer again when the daemon is back."


class Approving:
    """Answers questions by their ids."""

    def __init__(self, link: Link, questions: QuestionCards, prompt: Prompt, host: Host, clock: Clock) -> None:
        self._link = link
        self._questions = questions
        self._prompt = prompt
        self._host = host
        self._clock = clock
        self._held: tuple[str, str, QuestionCard] | None = None
        """A letter that was just typed, the answer that it stands for, and to what."""
        self._sent: dict[str, QuestionCard] = {}
        """Decisions that the daemon has not confirmed, by their ids."""

    def press(self, letter: str) -> bool:
        """`letter` was typed into the empty input; whether it may decide something, see `decide_soon`."""
        target = self._questions.answerable
        answer = next((answer for answer, key in KEYS.items() if key == letter), None)
        offered = target is not None and answer is not None and target.offers(answer)
        self._held = (letter, answer, target) if answer is not None and target is not None and offered else None
        return self._held is not None

    async def decide_soon(self) -> None:
        """Decide by the pressed letter, when nothing follows."""
        held = self._held
        await self._clock.sleep(HOLD_SECONDS)
        if held is not None and held is self._held and self._prompt.text == held[0]:
            self._prompt.put("")
            self._decide_pending()

    def confirms(self, text: str) -> bool:
        """Return whether `text`, sent with Enter, is the letter that was just pressed; then it decides immediately."""
        if self._held is None or text != self._held[0]:
            return False
        self._decide_pending()
        return True

    def choose(self, card: QuestionCard, answer: str) -> None:
        """Answer with an option that was clicked."""
        if self._questions.is_seen(card):
            self._decide(card, answer)

    def on_acceptance(self, accepted: Accepted) -> bool:
        """Return whether this was about a decision: its card shows the outcome until it closes."""
        return self._show_outcome(accepted.id, accepted.acceptance.text)

    def on_refusal(self, refused: Refused) -> bool:
        """Return the same for a decision that was refused."""
        return self._show_outcome(refused.id, refused.reason)

    def on_disconnect(self) -> None:
        """Forget answers under way, because the connection broke: questions still open are asked again."""
        self._held = None
        self._sent.clear()

    def _decide_pending(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            _, answer, card = held
            self._decide(card, answer)

    def _decide(self, card: QuestionCard, answer: str) -> None:
        if answer == DETAILS:
            card.show_details()
            return
        if not card.is_undecided:
            return
        decision = self._link.decide(card.question.id, answer)
        if decision:
            self._sent[decision] = card
            doing = {ALLOW: "allowing …", ALWAYS: "always allowing …", DENY: "denying …"} if card.is_approval else {}
            self._questions.show_progress(card, doing.get(answer, "answering …"))
        else:
            self._host.notify(NOT_CONNECTED, severity="warning")

    def _show_outcome(self, decision: str, sentence: str) -> bool:
        card = self._sent.pop(decision, None)
        if card is not None and card.is_open:
            self._questions.show_progress(card, sentence)
        return card is not None
