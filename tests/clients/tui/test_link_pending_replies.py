"""Which messages are still to be answered: each ends once, however it is learnt."""

import pytest

from goclaw.clients.tui.link import TAKEN, Ended, PendingReplies, turn_of
from goclaw.common.core.events import (
    Acceptance,
    AcceptKind,
    AnswerRefusal,
    MessageStored,
    Outcome,
    SessionNow,
    TurnFinished,
)
from goclaw.common.core.messages import AssistantMessage, Message, ToolCall, UserMessage
from goclaw.common.core.wire import Accepted

TURN = turn_of("1")


def sent(*ids: str) -> PendingReplies:
    outstanding = PendingReplies()
    for message_id in ids or ("1",):
        outstanding.on_send(turn_of(message_id))
    return outstanding


def accepted(
    kind: AcceptKind, text: str = "", turn: str = "", message_id: str = "1", refusal: AnswerRefusal | None = None
) -> Accepted:
    return Accepted(message_id, Acceptance(kind, turn, text, refusal=refusal))


def row(message: Message, turn: str = TURN, joined: str = "") -> MessageStored:
    return MessageStored(turn, "s", 1, message, 0.0, "", joined)


@pytest.mark.parametrize(
    ("answer", "went_well"),
    [
        (accepted(AcceptKind.REPLY, "Stopped."), True),
        (accepted(AcceptKind.REPLY, "Already decided: a command says so."), True),
        (accepted(AcceptKind.ANSWER, "Thank you."), True),
        (accepted(AcceptKind.ANSWER, "Too late.", refusal=AnswerRefusal.DECIDED), False),
        (accepted(AcceptKind.IGNORED, "ignored"), False),
    ],
)
def test_what_is_answered_at_once_ends_at_once(answer: Accepted, went_well: bool) -> None:
    outstanding = sent()
    assert outstanding.on_acceptance(answer, "hi") == Ended(TURN, answer.acceptance.text, went_well)
    assert not outstanding and outstanding.on_acceptance(answer, "hi") is None


@pytest.mark.parametrize("kind", [AcceptKind.TURN, AcceptKind.DUPLICATE])
def test_a_turn_ends_with_its_end(kind: AcceptKind) -> None:
    outstanding = sent()
    assert outstanding.on_acceptance(accepted(kind, turn=TURN), "hi") is None
    assert outstanding.on_event(TurnFinished("another", "s", Outcome.ANSWERED, "no")) is None
    finished = TurnFinished(TURN, "s", Outcome.LIMITED, "I stopped.")
    assert outstanding.on_event(finished) == Ended(TURN, "I stopped.", True)
    assert outstanding.on_event(finished) is None and not outstanding


def test_a_command_that_was_carried_out_before_a_restart_says_that_its_answer_is_lost() -> None:
    assert sent().on_acceptance(accepted(AcceptKind.DUPLICATE, turn=TURN), "/status") == Ended(TURN, TAKEN, False)


def test_messages_that_join_a_turn_are_answered_by_it_together() -> None:
    outstanding = sent("1", "2")
    outstanding.on_event(row(UserMessage("two"), joined=turn_of("2")))
    assert outstanding.on_event(TurnFinished(TURN, "s", Outcome.ANSWERED, "both")) == Ended(TURN, "both", True)
    assert not outstanding


def test_after_a_restart_the_transcript_says_what_became_of_them() -> None:
    outstanding = sent("1", "2", "3")
    rows = [
        row(UserMessage("one")),
        row(AssistantMessage("I look.", (ToolCall("c", "read", {}),))),
        row(AssistantMessage("Done.")),
        row(AssistantMessage("[Stopped.]", notice=True), turn_of("2")),
        row(AssistantMessage("I look.", (ToolCall("c", "read", {}),)), turn_of("3")),
    ]
    assert outstanding.caught_up(rows, SessionNow()) == [
        Ended(TURN, "Done.", True),
        Ended(turn_of("2"), "Stopped.", False),
    ]
    assert turn_of("3") in outstanding and TURN not in outstanding


def test_a_turn_that_is_still_being_ended_is_waited_for() -> None:
    outstanding = sent()
    assert outstanding.caught_up([row(AssistantMessage("Done."))], SessionNow(turn=TURN)) == []
    assert outstanding.on_event(TurnFinished(TURN, "s", Outcome.ANSWERED, "Done.")) == Ended(TURN, "Done.", True)
