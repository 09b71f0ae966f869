"""Buttons: only the person who was asked can press one, and nothing that a client makes up gets anywhere."""

import asyncio
import random
from pathlib import Path
from time import thread_time
from typing import Any

import pytest

from goclaw.channels.telegram.updates import UNREADABLE, CallbackQuery, Me, Terms, press_of, query_of
from goclaw.common.auth.users import User
from goclaw.common.core.events import Acceptance, Actor, Address, QuestionAsked
from goclaw.common.core.messages import ToolCall
from goclaw.conversation.questions.question_messages import NO_QUESTION, answered
from goclaw.tools.builtin.ask_user import ask_user
from tests.channels.telegram.support import Stage, eventually, open_stage
from tests.fake_telegram.world import Json, chat_of, person
from tests.harness import Answer, World

TERMS = Terms(Me(42, "claw_bot"), 7.0, {-100: 0})
SEED = 20_261_121
HOSTILE = 6_000


async def question_in(stage: Stage, chat: int = 5) -> int:
    """A message with buttons stands in a chat; returns its id."""
    stage.telegram.world.meet(chat)
    return int(await stage.deliver("May exec run?", chat=chat, number=f"q{chat}"))


async def answers(stage: Stage, count: int) -> list[str]:
    """What the people who pressed were told."""
    calls = await stage.telegram.wait_called("answerCallbackQuery", count)
    return [call.get("text", "") for call in calls]


async def test_a_press_answers_the_question_as_the_person_who_pressed() -> None:
    async with open_stage() as stage:
        await stage.telegram.world.press(5, await question_in(stage), "q:ab12cd34ef:1", user=5)
        assert await answers(stage, 1) == ["You chose 1."]
        assert stage.gateway.chosen == [("telegram:5", "ab12cd34ef", 1)]


async def test_in_a_group_whoever_presses_is_the_actor_and_only_listed_groups_count() -> None:
    async with open_stage(groups=[-100]) as stage:
        for chat in (-100, -200):
            await stage.telegram.world.press(chat, await question_in(stage, chat), "q:ab12cd34ef:0", user=6)
        assert sorted(await answers(stage, 2)) == ["", "You chose 0."]
        assert stage.gateway.chosen == [("telegram:6", "ab12cd34ef", 0)]


@pytest.mark.parametrize(
    "data",
    [
        "",
        "q",
        "q:ab12",
        "q:ab12:",
        "q:ab12:-1",
        "q:ab12:100",
        "q:ab12:1:1",
        "Q:ab12:1",
        " q:ab12:1",
        "q:ab12:1\n",
        "q:a b:1",
        "q:ab12:١",
        "q:../x:1",
        "a:ab12:y",
        "/stop",
        "q:" + "a" * 33 + ":1",
        "q::1",
    ],
)
async def test_other_data_is_answered_with_nothing(data: str) -> None:
    async with open_stage() as stage:
        await stage.telegram.world.press(5, await question_in(stage), data)
        assert await answers(stage, 1) == [""]
        assert stage.gateway.chosen == []


async def test_a_press_is_not_acknowledged_before_its_answer_is_durable() -> None:
    async with open_stage(running=False) as stage:

        async def full(actor: Actor, question: str, index: int, chat: Address | None = None) -> Acceptance:
            raise OSError("disk full")

        stage.gateway.choose = full  # type: ignore[method-assign]  # this one gateway fails
        await stage.telegram.world.press(5, await question_in(stage), "q:ab12cd34ef:0")
        with pytest.raises(ExceptionGroup):
            await stage.channel.run(stage.gateway)
        assert stage.telegram.world.confirmed == []


async def test_a_press_that_telegram_does_not_let_us_answer_is_no_trouble() -> None:
    async with open_stage() as stage:
        stage.telegram.fail("answerCallbackQuery", status=400, description="Bad Request: query is too old")
        await stage.telegram.world.press(5, await question_in(stage), "q:ab12cd34ef:0")
        await stage.telegram.world.say("hello")
        await stage.gateway.wait_accepted(1)
        assert len(stage.gateway.chosen) == 1


async def test_a_long_answer_is_cut_to_what_telegram_shows() -> None:
    async with open_stage() as stage:

        async def wordy(actor: Actor, question: str, index: int, chat: Address | None = None) -> Acceptance:
            return answered("x" * 500)

        stage.gateway.choose = wordy  # type: ignore[method-assign]  # this one talks a lot
        await stage.telegram.world.press(5, await question_in(stage), "q:ab12cd34ef:0")
        assert await answers(stage, 1) == ["x" * 200]


def hostile(chance: random.Random, question: str) -> Json:
    """A callback that nobody who was asked can have caused: by another person, with odd data, or of an odd shape."""
    odd: list[Any] = [None, True, -1, 0, 5, 2**70, 1.5, "", "5", "telegram:5", "\x00", [], [5], {}, {"id": 5}]
    query: Json = {
        "id": str(chance.randrange(10**18)),
        "from": person(chance.choice([6, 7, 666]), "Mallory"),
        "chat_instance": "1",
        "data": f"q:{question}:{chance.choice([0, 1])}",
        "message": {
            "message_id": 1,
            "date": 1,
            "chat": chat_of(chance.choice([5, 6, -100])),
            "from": person(42, "Claw"),
        },
    }
    match chance.randrange(6):
        case 0:  # somebody else, in their chat or in a group
            pass
        case 1:  # the right person with data of their own making
            query["from"] = person(5, "Ann")
            tail = chance.choice(["2", "99", "-1", "allow", "0 ", "00", "１", "", "0:0", "1e0", "0x1", "100"])
            query["data"] = chance.choice(["q", "Q", "a", "q "]) + f":{chance.choice([question, '*', '', '..'])}:{tail}"
            if query["data"] == f"q:{question}:00":  # zero, however it is written
                query["data"] = "q"
        case 2:  # a field of another kind
            query[chance.choice(["from", "message", "data"])] = chance.choice(odd)
        case 3:
            query["from"] = person(5, "Ann") | {
                chance.choice(["id", "is_bot"]): chance.choice([v for v in odd if v != 5])
            }
            if query["from"] == person(5, "Ann") or (query["from"]["is_bot"] is False and query["from"]["id"] == 5):
                query["data"] = "x"
        case 4:  # a chat that is not theirs, or no chat
            query["from"] = person(5, "Ann")
            query["message"] = chance.choice([None, {}, {"chat": chat_of(6)}, {"chat": {"id": 5, "type": "channel"}}])
        case 5:  # the right person and a question that there is not
            query["from"] = person(5, "Ann")
            query["data"] = f"q:{chance.randrange(16**10):010x}:{chance.randrange(99)}"
    return {"update_id": chance.randrange(2**31), "callback_query": query}


@pytest.mark.promise("P-approval")
async def test_of_thousands_of_hostile_presses_none_answers_and_the_right_one_does(tmp_path: Path) -> None:
    """Through the real gateway, with a question that really waits."""
    chance = random.Random(SEED)
    call = ToolCall("c1", "ask_user", {"questions": [{"question": "Shall I?", "options": ["yes", "no"]}]})
    script = [Answer(calls=(call,), when="hello"), Answer("Done.")]
    world = World(tmp_path, script, tools=[ask_user], users=[User("telegram:5"), User("telegram:6")])
    async with world.running() as core, asyncio.timeout(60):
        await core.say("hello", actor=Actor("telegram:5", "telegram"), session="telegram:5", chat="5")
        await eventually(lambda: any(isinstance(event, QuestionAsked) for event in core.seen))
        found = [event for event in core.seen if isinstance(event, QuestionAsked)]
        question = found[0].question.id
        began = thread_time()
        told = []
        for _ in range(HOSTILE):
            update = hostile(chance, question)
            query_of(update)
            press = attempt(update)
            if press is not None:
                told.append((await core.gateway.choose(press.actor, press.question, press.index)).text)
        assert set(told) == {NO_QUESTION.text} and len(told) > HOSTILE / 10
        assert thread_time() - began < 20
        assert core.engine.running("telegram:5"), "it still waits"
        right = {"id": "1", "from": person(5, "Ann"), "data": f"q:{question}:1", "message": {"chat": chat_of(5)}}
        press = attempt({"update_id": 1, "callback_query": right})
        assert press is not None
        assert (await core.gateway.choose(press.actor, press.question, press.index)).text == "Thank you."
        await core.settled()
    assert world.texts()[-1] == "Done."


def attempt(update: Json) -> CallbackQuery | None:
    """What the intake would hand to the gateway."""
    try:
        return press_of(update, TERMS)
    except UNREADABLE:
        return None


async def test_hostile_presses_do_not_disturb_the_channel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.fake_telegram.oracle.check_answer", lambda method, answer: None)
    chance = random.Random(SEED)
    async with open_stage() as stage, asyncio.timeout(30):
        for _ in range(500):
            await stage.telegram.world.update("callback_query", hostile(chance, "ab12cd34ef")["callback_query"])
        await stage.telegram.world.say("still there?")
        await stage.gateway.wait_accepted(1)
        assert all(
            actor != "telegram:5" or index > 1 or question != "ab12cd34ef"
            for actor, question, index in stage.gateway.chosen
        )
