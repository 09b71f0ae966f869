"""The books of kills: what must not happen is found in them, and what a kill may leave is not taken for it."""

from dataclasses import replace

import pytest

from goclaw.channels.telegram.outgoing import WHOLE_BELOW, WHOLE_NAME
from tests.acceptance.books import MARKS, Seen, read_chat
from tests.acceptance.ledger import Outcome, close_chat
from tests.acceptance.people import Chat, Habits
from tests.fake_telegram.world import Sent

GROUP = -100
M1, M2 = "answer m1 (end)", "answer m2 (end)"


def seen_in(*texts: str) -> list[Seen]:
    """Return messages of the bot, oldest first."""
    return read_chat([Sent(GROUP, number, text) for number, text in enumerate(texts)])


def books_of(*texts: str) -> Outcome:
    """Close the books of a group in which m1 and m2 were said."""
    found = Outcome()
    close_chat(found, Chat(GROUP, Habits((5,), ("plain",)), said=[("m1", "plain"), ("m2", "plain")]), seen_in(*texts))
    return found


@pytest.mark.parametrize(
    "texts",
    [
        (M1, M2),
        ("answer m1 m2 (end)",),
        (M1, f"{MARKS[0]}\n\n{M1}", M2),
        (f"{MARKS[0]}\n\nanswer m1 m2 (end)", "answer m1 m2 (end)"),  # the first try was long on its way
        ("answer m2", M1, M2),  # a kill left the beginning of the second
        ("answer m2\n\n[stopped here]", M1, M2),
    ],
)
def test_answers_in_order_leave_nothing_in_the_books(texts: tuple[str, ...]) -> None:
    assert books_of(*texts).faults == []


@pytest.mark.parametrize(
    "texts",
    [
        (M2, M1),
        ("answer m2 m1 (end)",),
        ("answer m1", M2, M1),  # the beginning that a kill left does not stand for the answer
        (M1, M2, f"{MARKS[0]}\n\n{M1}"),
        (f"{MARKS[0]}\n\n{M2}", M1),
    ],
)
def test_answers_that_changed_places_are_found(texts: tuple[str, ...]) -> None:
    assert books_of(*texts).out_of_order == [f"{GROUP}: m1 below m2"]


@pytest.mark.parametrize("texts", [(M1,), (M1, "answer m2"), (M1, f"{M2}\n\n[stopped here]")])
def test_a_message_without_its_whole_answer_is_lost(texts: tuple[str, ...]) -> None:
    assert books_of(*texts).lost == ["m2"]


def test_an_answer_that_comes_again_without_a_mark_is_found() -> None:
    assert books_of(M1, M1, M2).unmarked_duplicates == [f"{GROUP}: answer m1", f"{GROUP}: m1 (end)"]


@pytest.mark.parametrize(("stops", "lost"), [(1, []), (0, ["m1: 1 pieces of 2"])])
def test_a_message_that_a_stop_left_without_an_answer_may_be_named_by_the_next_one(stops: int, lost: list[str]) -> None:
    found, chat = Outcome(), Chat(GROUP, Habits((5,), ("plain",)), said=[("m1", "plain"), ("m2", "plain")])
    chat.commands["/stop"] = stops
    close_chat(found, chat, seen_in("answer m1 m2\n\nm2 line 0 of two.", "m2 line 1 of two. (end)"))
    assert found.lost == lost and found.stopped == stops


@pytest.mark.parametrize(("said", "lost"), [("[error stopped by the user] ", []), ("", ["m1: 1 pieces of 3"])])
def test_a_file_that_a_stop_prevented_is_missed_only_where_no_answer_says_so(said: str, lost: list[str]) -> None:
    found, chat = Outcome(), Chat(GROUP, Habits((5,), ("plain",)), said=[("m1", "file"), ("m2", "plain")])
    chat.commands["/stop"] = 1
    close_chat(found, chat, seen_in(f"answer m1 {said}m2 (end)"))
    assert found.lost == lost and found.stopped == (not lost)


def test_an_answer_that_is_sent_as_a_file_is_read_there() -> None:
    beginning = Sent(GROUP, 1, f"answer m1{WHOLE_BELOW}")
    whole = Sent(GROUP, 2, "", file_name=WHOLE_NAME, file=M1.encode())
    for messages, lost, doubled in (
        ([beginning, whole], [], []),
        ([beginning], ["m1"], []),
        ([beginning, replace(whole, message_id=3), replace(whole, message_id=4)], [], [f"{GROUP}: answer m1"]),
    ):
        found = Outcome()
        close_chat(found, Chat(GROUP, Habits((5,), ("plain",)), said=[("m1", "plain")]), read_chat(messages))
        assert (found.lost, found.unmarked_duplicates[:1]) == (lost, doubled)
