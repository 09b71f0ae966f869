"""`ask_user` asks one question after the other and reports every answer."""

from pathlib import Path

import pytest

from goclaw.errors import GoclawError
from goclaw.tools.ask_user import MOST_OPTIONS, ask_user
from tests.tools.memory_support import surroundings


async def test_questions_are_asked_one_by_one_and_answered_in_order(tmp_path: Path) -> None:
    async with surroundings(tmp_path) as around:
        around.answers = ["main", None]
        text = await around.call(
            ask_user,
            {
                "questions": [
                    {"question": "Which branch?", "title": "Branch", "summary": "Two are alive", "options": ["main"]},
                    {"question": "Why?", "required": False},
                ]
            },
        )
        assert text == "Which branch?\nmain\n\nWhy?\nno answer"
        first, second = around.questions
        assert (first.kind, first.title, first.text) == ("question", "Branch", "Two are alive\n\nWhich branch?")
        assert (second.title, second.options, second.free_text) == ("A question", (), True)


async def test_free_text_can_be_refused_only_where_there_are_options(tmp_path: Path) -> None:
    async with surroundings(tmp_path) as around:
        around.answers = ["a", "b"]
        given = [
            {"question": "?", "options": ["a"], "allow_free_text": False},
            {"question": "?", "allow_free_text": False},
        ]
        await around.call(ask_user, {"questions": given})
        assert [question.free_text for question in around.questions] == [False, True]


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"questions": []},
        {"questions": "Which?"},
        {"questions": [{"title": "no question"}]},
        {"questions": [{"question": ""}]},
        {"questions": [{"question": "?", "options": ["x"] * (MOST_OPTIONS + 1)}]},
        {"questions": [{"question": "?", "options": [""]}]},
        {"questions": [{"question": "?", "colour": "red"}]},
        {"questions": [{"question": "x" * 2_001}]},
    ],
)
async def test_bad_questions_are_refused_before_anybody_is_asked(tmp_path: Path, given: dict[str, object]) -> None:
    async with surroundings(tmp_path) as around:
        with pytest.raises(GoclawError):
            await around.call(ask_user, given)
        assert around.questions == []
