"""What readers are told of a session's open questions when its owner tells its state."""

from collections.abc import Sequence
from typing import Any, cast

from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.events import (
    LOCAL,
    Address,
    MessageStored,
    Question,
    QuestionAnswered,
    QuestionAsked,
    SessionNow,
    TurnEvent,
    TurnFinished,
    TurnStarted,
)
from goclaw.durable.engine.views.mirrors import Mirror
from goclaw.durable.engine.views.stored_views import StoredViews
from goclaw.gateway.servers.openai.reading import TurnReader

MAY_WRITE = Question("a1", "approval", "ann", "Bo wants to send you messages through me. Allow?", "")
MAY_RUN = Question("q1", "approval", "ann", "May exec run?", "", about="exec")


class NothingStored:
    """A store without rows, in which no turn is open."""

    async def rows(self, session: str, after: int) -> Sequence[MessageStored]:
        return []

    async def is_open(self, turn: str) -> bool:
        return False

    async def end_of(self, session: str, turn: str) -> TurnFinished | None:
        return None


def mirror_of(turn: str) -> tuple[Mirror, list[TurnEvent]]:
    """A mirror whose readers know that `turn` runs, and what it shows them."""
    shown = list[TurnEvent]()

    def show(event: TurnEvent, since: float) -> None:
        shown.append(event)

    stored: Any = NothingStored()
    return Mirror("s", cast(StoredViews, stored), SteppedClock(), show, lambda: SessionNow(turn)), shown


async def test_a_question_without_a_turn_is_none_of_the_running_turn() -> None:
    mirror, shown = mirror_of("")
    await mirror.bring_up(SessionNow("t", questions=(MAY_WRITE, MAY_RUN)), None, None)
    assert shown == [
        TurnStarted("t", "s", Address(LOCAL, "")),
        QuestionAsked("", "s", MAY_WRITE),
        QuestionAsked("t", "s", MAY_RUN),
    ]
    reader = TurnReader("t", unattended=False, progress=False, live=True)
    assert [delta for event in shown[:2] for delta in reader.translate(event)] == [] and not reader.is_over
    mirror.learn(SessionNow("t", questions=(MAY_WRITE,)))
    await mirror.bring_up(SessionNow(), None, None)
    assert shown[3:] == [QuestionAnswered("", "s", "a1", "")]


async def test_the_end_of_a_turn_closes_no_question_without_one() -> None:
    mirror, shown = mirror_of("t")
    mirror.learn(SessionNow("t", questions=(MAY_WRITE, MAY_RUN)))
    await mirror.check()
    assert shown == [QuestionAnswered("t", "s", "q1", "")] and mirror.now().questions == (MAY_WRITE,)
