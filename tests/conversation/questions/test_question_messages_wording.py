"""Which answer was meant: the one beside that number on the screen, and a question again where it could be two."""

import pytest

from goclaw.channels.telegram.render import render
from goclaw.common.core.events import LOCAL, Acceptance, AnswerRefusal, Question
from goclaw.common.core.messages import ToolCall
from goclaw.conversation.questions.question_messages import answered, buttons, in_words, parse_choice, shown_call
from tests.tables import table

CHAT = "telegram"
STEPS = "1. Read the log\n2. Mend the query"
MANY = tuple("abcdefgh")


def test_a_script_is_shown_line_by_line_and_no_text_passes_for_another_argument() -> None:
    forged = 'cat <<E\nfirst\nE\nprintf "a\\nb"\n```\n",\n  "timeout": 1\n'
    assert shown_call(ToolCall("c", "exec", {"command": forged})) == (
        '````json\n{\n  "command": "cat <<E\\n\nfirst\\n\nE\\n\nprintf \\"a\\\\nb\\"\\n\n```\\n\n'
        '\\",\\n\n  \\"timeout\\": 1\\n"\n}\n````'
    )


def question(*options: str, text: str = "Which?", free_text: bool = True) -> Question:
    return Question("i", "question", "telegram:5", "A question", text, options, free_text)


COLOURS = question("red", "blue")
STRICT = question("red", "blue", free_text=False)
PLAN = question("Approve", "Keep planning", text=STEPS)
COUNTS = question("2", "1")
LONG = question(*MANY)
LONG_PLAN = question(*MANY, text=STEPS)
AGAIN = None
"""The question is put once more."""
ANSWERS = [
    (COLOURS, LOCAL, "1", "red"),
    (COLOURS, LOCAL, "(2)", "blue"),
    (COLOURS, LOCAL, " RED ", "red"),
    (COLOURS, LOCAL, "3", "3"),
    (COLOURS, LOCAL, "1" * 5_000, "1" * 5_000),
    (COLOURS, LOCAL, "green", "green"),
    (COLOURS, LOCAL, "  ", AGAIN),
    (STRICT, LOCAL, "green", AGAIN),
    (COLOURS, CHAT, "1", AGAIN),
    (COLOURS, CHAT, "2.", AGAIN),
    (COLOURS, CHAT, "Blue", "blue"),
    (COLOURS, CHAT, "3", "3"),
    (PLAN, CHAT, "1", AGAIN),
    (PLAN, LOCAL, "1", AGAIN),
    (PLAN, LOCAL, "approve", "Approve"),
    (PLAN, CHAT, "leave 2 out", "leave 2 out"),
    (question("2 replicas", "1 replica"), LOCAL, "1", AGAIN),
    (question("2 replicas", "1 replica"), LOCAL, "1 replica", "1 replica"),
    (question("merge", "rebase", text="Shall I 1) rebase or 2) merge?"), LOCAL, "1", AGAIN),
    (COLOURS, LOCAL, "1.", "red"),
    (question("red", "blue", text="Delete 3 files of 2.5 GB at 10:30 on 2026-11-23?"), LOCAL, "1", "red"),
    (COUNTS, LOCAL, "2", "2"),
    (COUNTS, CHAT, "1", "1"),
    (question("3", "5"), CHAT, "1", "1"),
    (question("yes", "Yes"), CHAT, "Yes", "Yes"),
    (question("yes", "Yes"), CHAT, "YES", AGAIN),
    (LONG, CHAT, "8", "h"),
    (LONG_PLAN, CHAT, "8", AGAIN),
    (LONG_PLAN, CHAT, "h", "h"),
    (question(), CHAT, "1", "1"),
]


@table("asked, channel, said, meant", ANSWERS)
def test_what_is_typed_means_what_stands_there(asked: Question, channel: str, said: str, meant: str | None) -> None:
    found = parse_choice(asked, said, channel)
    assert isinstance(found, Acceptance) if meant is None else found == meant


@pytest.mark.parametrize(
    "line",
    [
        "1. a",
        "**1.** a",
        "**1**. a",
        "__1.__ a",
        "### 1. a",
        "Step 1: a",
        "## Schritt 1 – a",
        "1️⃣ a",
        "| 1 | a |",
        "1\\. a",
        "`1.` a",
        "1 - a",
        "> (1) a",
        "- [ ] 1. a",
        "First, 1. a 2. b",
        "either [1] a or [2] b",
    ],
)
def test_no_number_is_put_beside_an_option_where_the_plan_has_one(line: str) -> None:
    for_plan = question("Approve", "Keep planning", text=f"What I do:\n\n{line}")
    assert isinstance(parse_choice(for_plan, "1"), Acceptance)


def test_a_number_that_could_mean_two_things_is_asked_about_with_a_way_out() -> None:
    again = '"1" is ambiguous here. Please {}answer in words, for example "Approve".'
    assert parse_choice(PLAN, "1", CHAT) == answered(again.format("press a button, or "), AnswerRefusal.INVALID)
    assert parse_choice(PLAN, "1", LOCAL) == answered(again.format(""), AnswerRefusal.INVALID)
    assert parse_choice(STRICT, "green", CHAT) == answered(
        "Please answer with one of: red, blue.", AnswerRefusal.INVALID
    )


BEFORE = {
    "a list": STEPS,
    "a nested list": "- first\n  1. one\n  2. two",
    "an open fence": "```sh\n1. ls",
    "a quote": "> 1. so they say",
    "a table": "| n | what |\n|---|---|\n| 1 | ls |",
    "raw HTML": "<ol><li>one <!-- ",
    "nothing odd": "Which?",
}


@pytest.mark.parametrize("text", BEFORE.values(), ids=BEFORE)
def test_in_a_chat_each_number_stands_beside_one_option_whatever_markdown_comes_before(text: str) -> None:
    asked = question(*MANY, text=text)
    (shown,) = render(in_words(asked, asked.text))
    lines = [line for line in shown.text.splitlines() if line[-1:] in MANY and len(line) <= 5]
    signs = [f"({number})" if asked.is_numbered else "•" for number in range(1, 9)]
    assert lines == [f"{sign} {option}" for sign, option in zip(signs, MANY, strict=True)]
    for number, option in enumerate(MANY, 1):
        assert parse_choice(asked, str(number), CHAT) == option or not asked.is_numbered


def test_where_there_are_buttons_there_are_no_numbers() -> None:
    asked = question("Approve", "Keep\nplanning", text=STEPS)
    assert [choice.label for choice in buttons(asked)] == ["Approve", "Keep\nplanning"]
    assert in_words(asked, asked.text) == f"**A question**\n\n{STEPS}\n\nPress a button or answer in your own words."
    long = question("a", "b" * 61)
    assert in_words(long, "").endswith(f"• a\n• {'b' * 61}\n\nPress a button or answer in your own words.")
    strict = question("red", "blue", free_text=False)
    assert in_words(strict, "").endswith("Press a button.")
    assert in_words(LONG, "").endswith("Answer with a number or in your own words.")
