"""The events of a turn as a program reads them."""

import pytest

from goclaw.common.core.events import MessageStored, Outcome, StreamRestarted, TextStreamed, TurnEvent, TurnFinished
from goclaw.common.core.messages import AssistantMessage, UserMessage
from goclaw.gateway.servers.openai.reading import TurnReader

TURN, HERE = "openai:1", "memory:here"


def stored(text: str, turn: str = TURN) -> MessageStored:
    return MessageStored(turn, HERE, 1, AssistantMessage(text), 0.0)


def end(text: str = "", outcome: Outcome = Outcome.ANSWERED) -> TurnFinished:
    return TurnFinished(TURN, HERE, outcome, text)


def text(*pieces: str) -> list[TurnEvent]:
    return [TextStreamed(TURN, HERE, piece) for piece in pieces]


def read(*events: TurnEvent, live: bool = True) -> str:
    reader = TurnReader(TURN, unattended=True, progress=False, live=live)
    found = "".join(delta.text for event in events for delta in reader.translate(event))
    assert reader.is_over is isinstance(events[-1], TurnFinished)
    return found


@pytest.mark.parametrize("live", [True, False])
@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([*text("Hel", "lo."), stored("Hello."), end()], "Hello."),
        ([*text(" Hello. "), stored("Hello."), end()], "Hello."),
        ([*text("Hel"), stored("Hello."), end()], "Hello."),
        ([stored("One."), *text("Two."), stored("Two."), end()], "One.\n\nTwo."),
        ([stored("Mine."), stored("Another's.", "openai:2"), end()], "Mine."),
        ([stored(""), end("(The model gave an empty answer.)")], "(The model gave an empty answer.)"),
        ([stored("Once upon a ti"), MessageStored(TURN, HERE, 2, UserMessage("[Go on]"), 0.0), stored("me."), end()],
         "Once upon a time."),
    ],
)  # fmt: skip
def test_streamed_and_whole_are_the_same_text(events: list[TurnEvent], expected: str, live: bool) -> None:
    assert read(*events, live=live).strip() == expected


def test_a_stream_that_begins_anew_says_so() -> None:
    anew = StreamRestarted(TURN, HERE, "cut")
    events = [*text("Half an"), anew, *text("A whole"), stored("A whole."), end()]
    assert read(*events) == "Half an\n\n(The answer was cut off and starts again.)\n\nA whole."
    assert read(*events, live=False) == "A whole."


def test_an_answer_that_a_hook_changed_is_said_as_it_is_stored() -> None:
    assert read(*text("My secret"), stored("[withheld]"), end()) == "My secret\n\n[withheld]"


def test_a_message_that_joined_another_turn_is_answered_by_that_one() -> None:
    joined = MessageStored("socket:9", HERE, 3, UserMessage("And this?"), 0.0, "memory:here", TURN)
    finished = TurnFinished("socket:9", HERE, Outcome.ANSWERED, "")
    assert read(stored("Before.", "socket:9"), joined, stored("Both.", "socket:9"), finished) == "Both."
