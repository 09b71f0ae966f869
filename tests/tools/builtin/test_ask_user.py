"""`ask_user` asks one question after the other and reports every answer."""

from pathlib import Path

import pytest

from goclaw.common.auth.users import User
from goclaw.common.core.events import QuestionAsked
from goclaw.common.core.messages import ToolCall
from goclaw.common.core.redact import MASK, remember
from goclaw.errors import GoclawError
from goclaw.llm.scripted import Answer
from goclaw.testing import open_bench
from goclaw.tools.builtin.ask_user import MAX_OPTIONS, ask_user
from tests.conversation.questions.test_questions import results, seen
from tests.harness import World
from tests.tools.builtin.memory_support import surroundings


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
        assert (first.kind, first.title, first.text) == ("question", "Which branch?", "Two are alive")
        assert (second.title, second.options, second.free_text) == ("Why?", (), True)


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
        {"questions": [{"question": "?", "options": ["x"] * (MAX_OPTIONS + 1)}]},
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


async def test_what_was_answered_before_a_restart_is_not_asked_again(tmp_path: Path) -> None:
    call = ToolCall("c1", "ask_user", {"questions": [{"question": "First?"}, {"question": "Second?"}]})
    answers = [Answer(calls=(call,)), Answer("Thanks.")]
    world = World(tmp_path, answers, tools=[ask_user], users=[User("memory:anna")])
    async with world.running() as core:
        await core.say("go")
        await seen(core, QuestionAsked, lambda event: event.question.title == "First?")
        await core.say("one")
        await seen(core, QuestionAsked, lambda event: event.question.title == "Second?")
    async with world.running() as core:
        await seen(core, QuestionAsked, lambda event: event.question.title == "Second?")
        await core.say("two")
        await core.settled()
        assert await results(core) == ["First?\none\n\nSecond?\ntwo"]
        asked = [event.question.title for event in core.seen if isinstance(event, QuestionAsked)]
        assert asked == ["Second?"]


@pytest.mark.promise("P-secrets-masked")
async def test_no_question_shows_a_secret_of_the_daemon(tmp_path: Path) -> None:
    remember("sk-LK8957-a413c09d77be2f01")
    told = "sk-**LK8957**-a413c09d77be2f01"
    questions = [{"title": told, "question": f"Is it {told}?", "options": [told, "no"]}]
    go = Answer(calls=(ToolCall("c1", "ask_user", {"questions": questions}),))
    async with World(tmp_path, [go], tools=[ask_user], users=[User("memory:anna")]).running() as core:
        await core.say("go")
        question = (await seen(core, QuestionAsked)).question
        assert (question.title, question.text, question.options) == (f"Is it {MASK}?", "", (MASK, "no"))


async def test_it_is_switched_off_like_every_tool(tmp_path: Path) -> None:
    async with open_bench(tmp_path, ask_user, tools={"disabled": ["ask_user"]}) as bench:
        result = await bench.call("ask_user", {"questions": [{"question": "?"}]})
        assert result.content == '{"error": "unknown tool: ask_user"}'
        assert bench.asked == []
