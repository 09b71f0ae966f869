"""Questions in words."""

import pytest

from goclaw.clients.tui.text import Decided, describe_decision, option_lines, text_of, time_left, ways_to_answer
from goclaw.common.core.events import ALLOW, DENY, Question, QuestionAnswered

ME = "tui:me"
APPROVAL = Question("q1", "approval", ME, "May exec run?", "text", (ALLOW, DENY), asked_at=0.0, expires_at=1_800.0)
COLOUR = Question("q2", "question", ME, "Colour", "Which?", ("red", "blue"))
STRICT = Question("q3", "question", ME, "Colour", "Which?", ("red", "blue"), free_text=False)
PLAN = Question("q6", "question", ME, "Plan", "1. Read\n2. Mend", ("Approve", "Keep planning"))
OPEN = Question("q4", "question", ME, "Name", "Which?")
THEIRS = Question("q5", "question", "telegram:5", "Name", "Which?")


@pytest.mark.parametrize(
    ("question", "answer", "by", "expected"),
    [
        (APPROVAL, ALLOW, ME, Decided("✓", "allowed by you")),
        (APPROVAL, DENY, "telegram:5", Decided("✗", "denied by telegram:5")),
        (APPROVAL, "", "", Decided("✗", "nobody answered in time")),
        (COLOUR, "red", ME, Decided("✓", "red (you)")),
        (COLOUR, "", ME, Decided("✗", "skipped by you")),
        (COLOUR, "", "", Decided("✗", "no longer needed")),
        (OPEN, "one\ntwo", "telegram:5", Decided("✓", "answered by telegram:5", "one\ntwo")),
        (OPEN, "\x1b[2Jhi", ME, Decided("✓", "hi (you)")),
    ],
)
def test_what_was_decided_and_by_whom(question: Question, answer: str, by: str, expected: Decided) -> None:
    assert describe_decision(question, QuestionAnswered("t", "s", question.id, answer, by), ME, now=1_800.0) == expected


@pytest.mark.parametrize(
    ("question", "words"),
    [
        (APPROVAL, "/approve q1 or /deny q1"),
        (COLOUR, "answer with a number or in your own words; /deny q2 skips it"),
        (STRICT, "answer with a number; /deny q3 skips it"),
        (PLAN, "answer with one of these or in your own words; /deny q6 skips it"),
        (OPEN, "answer in your own words; /deny q4 skips it"),
        (THEIRS, "for telegram:5"),
    ],
)
def test_how_a_question_is_answered(question: Question, words: str) -> None:
    assert ways_to_answer(question, ME) == words


def test_options_have_numbers_only_where_those_stand_nowhere_else() -> None:
    assert option_lines(COLOUR) == ["  1. red", "  2. blue"]
    assert option_lines(PLAN) == ["  • Approve", "  • Keep planning"]


def test_the_time_that_is_left_is_said_in_minutes_and_at_the_end_in_seconds() -> None:
    assert [time_left(APPROVAL, now) for now in (0.0, 1_690.0, 1_720.0, 1_900.0)] == [
        "30 min left",
        "2 min left",
        "80 s left",
        "0 s left",
    ]
    assert time_left(COLOUR, 0.0) == ""


def test_in_a_call_that_is_to_be_approved_nothing_stays_hidden() -> None:
    hidden = "rm\u200b \u202eabc\ufeff\U000e0041 café 日本"
    approval = Question("q", "approval", ME, "May?", hidden)
    assert text_of(approval) == "rm\\u200b \\u202eabc\\ufeff\\ue0041 café 日本"
    assert text_of(Question("q", "question", ME, "Name", "a\x1b[31mb\u202ec")) == "abc"
