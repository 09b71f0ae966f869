"""A turn waits for a person: approvals and `ask_user`, over restarts, for the right person only."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from goclaw.common.auth.users import User
from goclaw.common.core.events import (
    AcceptKind,
    Actor,
    Question,
    QuestionAnswered,
    QuestionAsked,
    TodosChanged,
    TurnEvent,
)
from goclaw.common.core.messages import ToolCall, ToolResult
from goclaw.common.core.redact import remember
from goclaw.common.specs import Risk, SideEffect
from goclaw.conversation.questions.question_messages import NO_QUESTION, SHOWN_INPUT, shown_call
from goclaw.tools.builtin.ask_user import ask_user
from goclaw.tools.builtin.planning import todo_write
from goclaw.tools.toolkit.base import Tool, ToolContext, tool
from tests.harness import PATIENCE, Answer, Core, World, before_the_next_look
from tests.parts import Trail

APPROVAL_SECONDS = 30 * 60.0
EventT = TypeVar("EventT", bound=TurnEvent)
GO = [Answer("I will.", calls=(ToolCall("c1", "dig", {"where": "here"}),), when="go"), Answer("Done.", when="dug")]


def dig(trail: Trail, *, idempotent: bool = True) -> Tool:
    """A tool that asks before it runs."""

    @tool(side_effect=SideEffect.NETWORK, risk=Risk.HIGH, idempotent=idempotent, name="dig")
    async def run(ctx: ToolContext, where: str) -> str:
        """Dig a hole."""
        await trail.leave()
        return f"dug {where}"

    return run


async def seen(core: Core, kind: type[EventT], matches: Callable[[EventT], bool] = lambda event: True) -> EventT:
    """The first event of a kind, when it has happened."""
    async with asyncio.timeout(PATIENCE):
        while True:
            for event in core.seen:
                if isinstance(event, kind) and matches(event):
                    return event
            await before_the_next_look()


async def asked(core: Core) -> Question:
    return (await seen(core, QuestionAsked)).question


async def results(core: Core) -> list[str]:
    return [message.content for message in await core.messages() if isinstance(message, ToolResult)]


@pytest.mark.promise("P-approval")
async def test_an_approval_shows_the_call_and_lets_it_run_once(tmp_path: Path) -> None:
    trail = Trail()
    world = World(tmp_path, GO, tools=[dig(trail)], users=[User("memory:anna")])
    async with world.running() as core:
        await core.say("go")
        question = await asked(core)
        assert (question.kind, question.about, question.options) == ("approval", "dig", ("allow", "always", "deny"))
        assert question.title == "The agent wants to use `dig`" and trail.times == 0
        assert question.text == "It cannot be taken back.\n\n```\nhere\n```" and '"where": "here"' in question.details
        assert question.always == "Always for exactly this"
        assert (await core.gateway.now("memory:here")).questions == (question,)
        assert await core.command(f"/approve {question.id}") == "Allowed."
        await core.settled()
        assert await core.command(f"/approve {question.id}") == "Already decided: allowed by tui:here."
        assert trail.times == 1 and await results(core) == ["dug here"]
        assert (await core.gateway.now("memory:here")).questions == ()
        answered = await seen(core, QuestionAnswered)
        assert (answered.answer, answered.by) == ("allow", "tui:here")
    said, asked_for, *rest = world.texts()
    assert said == "I will." and "Done." in rest and asked_for.startswith("**The agent wants to use `dig`**")


async def test_a_denied_call_does_not_run_and_the_model_is_told(tmp_path: Path) -> None:
    trail = Trail()
    answers = [GO[0], Answer("As you wish.", when="denied")]
    world = World(tmp_path, answers, tools=[dig(trail)], users=[User("memory:anna")])
    async with world.running() as core:
        await core.say("go")
        assert await core.command(f"/deny {(await asked(core)).id}") == "Denied."
        await core.settled()
        assert trail.times == 0 and "denied: the user did not approve dig" in (await results(core))[0]


@pytest.mark.promise("P-parked")
@pytest.mark.parametrize("idempotent", [True, False])
async def test_an_approval_survives_a_restart_under_its_id_and_asks_the_chat_once(
    tmp_path: Path, idempotent: bool
) -> None:
    trail = Trail()
    world = World(tmp_path, GO, tools=[dig(trail, idempotent=idempotent)], users=[User("memory:anna")])
    async with world.running() as core:
        await core.say("go")
        question = await asked(core)
        await core.outbox.flush(PATIENCE)
    async with world.running() as core:
        assert await asked(core) == question
        assert await core.command(f"/approve {question.id}") == "Allowed."
        await core.settled()
        assert trail.times == 1 and await results(core) == ["dug here"]
    assert [text for text in world.texts() if text.startswith("**The agent wants to use `dig`**")] == world.texts()[1:2]


@pytest.mark.promise("P-approval")
async def test_nobody_s_answer_is_no(tmp_path: Path) -> None:
    trail = Trail()
    world = World(tmp_path, [GO[0], Answer("Well.", when="denied")], tools=[dig(trail)], users=[User("memory:anna")])
    async with world.running() as core:
        await core.say("go")
        question = await asked(core)
        world.clock.advance(APPROVAL_SECONDS - 1)
    async with world.running() as core:
        assert await asked(core) == question
        async with asyncio.timeout(PATIENCE):
            while not world.clock.sleepers:
                await core.messages()
        world.clock.advance(2)
        await core.settled()
        assert trail.times == 0 and "denied" in (await results(core))[0]
        assert (await seen(core, QuestionAnswered)).answer == ""


@pytest.mark.promise("P-approval")
async def test_only_the_asked_person_or_an_admin_may_answer(tmp_path: Path) -> None:
    admins = [User(key, roles=frozenset({"admin"})) for key in ("memory:chef", "memory:vice")]
    world = World(tmp_path, GO, tools=[dig(Trail())], users=[User("memory:anna"), User("memory:bob"), *admins])
    async with world.running() as core:
        await core.say("go")
        question = await asked(core)
        for_vice = Actor("memory:chef", "memory", behalf=(Actor("memory:vice", "memory"),))
        bob = await core.gateway.decide(Actor("memory:bob", "memory"), question.id, "allow")
        assert bob.text == "Only an admin can answer this."
        for stranger in (
            Actor("memory:nobody", "memory"),
            Actor("", "memory"),
            for_vice,
        ):
            assert (await core.gateway.decide(stranger, question.id, "allow")).text == NO_QUESTION.text
        assert (await core.gateway.now("memory:here")).questions == (question,)
        assert (await core.gateway.decide(Actor("memory:chef", "memory"), question.id, "allow")).text == "Allowed."
        await core.settled()


@pytest.mark.promise("P-approval")
async def test_plain_words_never_approve_anything(tmp_path: Path) -> None:
    trail = Trail()
    world = World(tmp_path, [*GO, Answer("What?")], tools=[dig(trail)], users=[User("memory:anna")])
    async with world.running() as core:
        await core.say("go")
        await asked(core)
        for said in ("allow", "Yes!", "ok", "go ahead.", "ja", "y"):
            assert await core.command(said) == "I wait for the buttons above."
        assert core.engine.waiting("memory:here") == 0 and trail.times == 0
        assert (await core.say("and then the garden")).kind is AcceptKind.TURN
        assert core.engine.waiting("memory:here") == 1 and trail.times == 0


@pytest.mark.promise("P-approval")
@pytest.mark.parametrize("said", ["no", "Don’t!", "No.", "nein", "/deny"])
async def test_a_plain_no_refuses_the_only_call_that_asks(tmp_path: Path, said: str) -> None:
    trail = Trail()
    world = World(tmp_path, [GO[0], Answer("Well.", when="denied")], tools=[dig(trail)], users=[User("memory:anna")])
    async with world.running() as core:
        await core.say("go")
        await asked(core)
        assert await core.command(said) == "Denied."
        await core.settled()
        assert trail.times == 0 and (await seen(core, QuestionAnswered)).answer == "deny"


@pytest.mark.promise("P-approval")
async def test_a_no_that_could_mean_two_calls_refuses_neither(tmp_path: Path) -> None:
    calls = (ToolCall("c1", "dig", {"where": "here"}), ToolCall("c2", "dig", {"where": "there"}))
    answers = [Answer("I will.", calls=calls, when="go"), Answer("Done.", when="dug")]
    world = World(tmp_path, answers, tools=[dig(Trail())], users=[User("memory:anna"), User("memory:bob")])
    async with world.running() as core:
        await core.say("go")
        for where in ("here", "there"):
            await seen(core, QuestionAsked, lambda event, where=where: where in event.question.text)  # type: ignore[misc]  # bound
        assert await core.command("no") == "I wait for the buttons above."
        assert (await core.command("/deny")).startswith("Several questions are open.")
        assert len((await core.gateway.now("memory:here")).questions) == 2


async def test_where_nothing_asks_a_no_is_a_message_and_deny_says_so(tmp_path: Path) -> None:
    world = World(tmp_path, [Answer("What?")], users=[User("memory:anna")])
    async with world.running() as core:
        assert await core.command("/deny") == "Nothing waits for an answer here."
        assert (await core.say("no")).kind is AcceptKind.TURN


async def test_a_stopped_turn_takes_its_question_with_it(tmp_path: Path) -> None:
    trail = Trail()
    world = World(tmp_path, GO, tools=[dig(trail)], users=[User("memory:anna")])
    async with world.running() as core:
        await core.say("go")
        question = await asked(core)
        assert await core.command("/stop") == "Stopped."
        assert (
            await core.gateway.decide(Actor("memory:anna", "memory"), question.id, "allow")
        ).text == NO_QUESTION.text
        assert trail.times == 0 and (await core.gateway.now("memory:here")).questions == ()


def asking(**question: Any) -> list[Answer]:
    call = ToolCall("c1", "ask_user", {"questions": [question]})
    return [Answer("One thing.", calls=(call,), when="go"), Answer("Thanks.", when="?")]


@pytest.mark.promise("P-parked")
async def test_the_next_message_answers_a_question_and_not_the_queue(tmp_path: Path) -> None:
    answers = asking(question="Which branch?", title="Branch", options=["main", "release"])
    world = World(tmp_path, answers, tools=[ask_user], users=[User("memory:anna")])
    async with world.running() as core:
        await core.say("go")
        await asked(core)
    async with world.running() as core:
        await asked(core)
        acceptance = await core.say("Release", message_id="42")
        assert acceptance.kind is AcceptKind.ANSWER
        await core.settled()
        assert (await core.say("Release", message_id="42")).kind is AcceptKind.DUPLICATE
        assert await results(core) == ["Which branch?\nrelease"]
    assert world.texts()[1] == ("**Which branch?**\n\nPress a button or answer in your own words.")


async def test_an_answer_that_comes_before_its_turn_has_got_to_the_question_again_is_no_new_message(
    tmp_path: Path,
) -> None:
    """Right after a restart: what Telegram redelivers may be quicker than the turn."""
    answers = asking(question="Which branch?", options=["main", "release"])
    world = World(tmp_path, answers, tools=[ask_user], users=[User("memory:anna")])
    async with world.running() as core:
        await core.say("go")
        await asked(core)
    async with world.running() as core:
        assert not [event for event in core.seen if isinstance(event, QuestionAsked)]
        assert (await core.say("release")).kind is AcceptKind.ANSWER
        await core.settled()
        assert await results(core) == ["Which branch?\nrelease"]
        assert core.sessions.ports.questions.of("memory:anna") == ()


async def test_what_is_no_option_is_asked_for_again(tmp_path: Path) -> None:
    answers = asking(question="Which?", options=["main", "release"], allow_free_text=False)
    world = World(tmp_path, answers, tools=[ask_user], users=[User("memory:anna")])
    async with world.running() as core:
        await core.say("go")
        await asked(core)
        assert await core.command("neither") == "Please answer with one of: main, release."
        assert (await core.say("MAIN")).kind is AcceptKind.ANSWER
        await core.settled()
        assert await results(core) == ["Which?\nmain"]


@pytest.mark.parametrize(
    ("required", "result"), [(False, "Which?\nno answer"), (True, '{"error": "the user cancelled the question"}')]
)
async def test_a_question_may_be_left_open(tmp_path: Path, required: bool, result: str) -> None:
    answers = [*asking(question="Which?", required=required), Answer("Then not.", when="cancelled")]
    world = World(tmp_path, answers, tools=[ask_user], users=[User("memory:anna")])
    async with world.running() as core:
        await core.say("go")
        assert await core.command(f"/deny {(await asked(core)).id}") == "No answer given."
        await core.settled()
        assert await results(core) == [result]


async def test_waiting_for_a_person_costs_the_turn_no_time(tmp_path: Path) -> None:
    world = World(
        tmp_path, asking(question="Which?"), tools=[ask_user], users=[User("memory:anna")], limits={"turn_seconds": 3.0}
    )
    async with world.running() as core:
        await core.say("go")
        await asked(core)
        async with asyncio.timeout(PATIENCE):
            until = asyncio.get_running_loop().time() + 3.1
            while asyncio.get_running_loop().time() < until:
                await core.messages()
        assert core.engine.running("memory:here")
        await core.say("this one")
        await core.settled()
        assert await results(core) == ["Which?\nthis one"]


async def test_todos_are_shown_and_kept_over_a_restart(tmp_path: Path) -> None:
    todos = [{"content": "Look", "status": "completed"}, {"content": "Write", "status": "in_progress"}]
    call = ToolCall("c1", "todo_write", {"todos": todos})
    world = World(tmp_path, [Answer("", calls=(call,)), Answer("Ok.")], tools=[todo_write], users=[User("memory:anna")])
    async with world.running() as core:
        await core.say("go")
        await core.settled()
        assert [todo.content for todo in (await seen(core, TodosChanged)).todos] == ["Look", "Write"]
        assert await results(core) == ["1 of 2 done"]
    async with world.running() as core:
        kept = (await core.gateway.now("memory:here")).todos
        assert [(todo.content, todo.status) for todo in kept] == [("Look", "completed"), ("Write", "in_progress")]


@pytest.mark.promise("P-approval")
async def test_two_calls_with_one_id_are_approved_one_by_one(tmp_path: Path) -> None:
    trail = Trail()
    calls = (ToolCall("c1", "dig", {"where": "here"}), ToolCall("c1", "dig", {"where": "there"}))
    answers = [Answer("I will.", calls=calls, when="go"), Answer("Done.", when="dug")]
    world = World(tmp_path, answers, tools=[dig(trail)], users=[User("memory:anna")])
    async with world.running() as core:
        await core.say("go")
        here = (await seen(core, QuestionAsked, lambda event: "here" in event.question.text)).question
        there = (await seen(core, QuestionAsked, lambda event: "there" in event.question.text)).question
        assert await core.command(f"/deny {there.id}") == "Denied."
        assert await core.command(f"/approve {here.id}") == "Allowed."
        await core.settled()
        assert trail.times == 1
        assert "dug here" in await results(core)
        assert sum("denied" in result for result in await results(core)) == 1


@pytest.mark.promise("P-approval")
async def test_a_machine_that_slept_allows_nothing_late(tmp_path: Path) -> None:
    trail = Trail()
    world = World(tmp_path, GO, tools=[dig(trail)], users=[User("memory:anna")])
    async with world.running() as core:
        await core.say("go")
        question = await asked(core)
        world.clock.suspend(APPROVAL_SECONDS)
        assert await core.command(f"/approve {question.id}") == NO_QUESTION.text
        assert trail.times == 0


@pytest.mark.promise("P-approval")
@pytest.mark.parametrize("by", [10 * 24 * 3600.0, -10 * 24 * 3600.0], ids=["forward", "back"])
async def test_a_clock_that_is_set_neither_ends_nor_lengthens_an_approval(tmp_path: Path, by: float) -> None:
    trail = Trail()
    world = World(tmp_path, GO, tools=[dig(trail)], users=[User("memory:anna")])
    async with world.running() as core:
        await core.say("go")
        question = await asked(core)
        world.clock.jump(by)
        world.clock.advance(APPROVAL_SECONDS - 1)
        assert core.sessions.ports.questions.of("memory:here")
        if by > 0:
            assert await core.command(f"/approve {question.id}") == "Allowed."
            await core.settled()
            assert trail.times == 1
        else:
            world.clock.advance(1)
            await core.settled()
            assert trail.times == 0 and await core.command(f"/approve {question.id}") == NO_QUESTION.text


@pytest.mark.promise("P-approval")
async def test_a_clock_that_was_set_back_over_a_restart_lengthens_no_approval(tmp_path: Path) -> None:
    trail = Trail()
    world = World(tmp_path, GO, tools=[dig(trail)], users=[User("memory:anna")])
    async with world.running() as core:
        await core.say("go")
        await asked(core)
    world.clock.jump(-10 * 24 * 3600.0)
    async with world.running() as core:
        question = await asked(core)
        world.clock.advance(APPROVAL_SECONDS)
        await core.settled()
        assert await core.command(f"/approve {question.id}") == NO_QUESTION.text
    assert trail.times == 0


def test_a_call_shows_its_end_however_much_stands_before_it() -> None:
    text = shown_call(ToolCall("c", "exec", {"command": f"echo {' ' * 50_000}; rm -rf ~"}))
    assert "rm -rf ~" in text and len(text) < SHOWN_INPUT + 300
    assert "characters between these two parts are not shown" in text


def test_what_a_call_holds_is_shown_also_where_it_would_not_be_seen() -> None:
    text = shown_call(ToolCall("c", "exec", {"command": "echo \u202e\u200b\x7f"}))
    assert "\\u202e\\u200b\\u007f" in text


def test_what_would_act_is_shown_though_it_looks_like_a_password() -> None:
    remember("a-real-password")
    text = shown_call(ToolCall("c", "exec", {"command": "curl http://a:;rm${IFS}-rf${IFS}~;a-real-password;echo@b"}))
    assert "rm${IFS}-rf${IFS}~" in text and "a-real-password" not in text
    assert "pass" not in shown_call(ToolCall("c", "exec", {"command": "curl http://user:pass@host"}))
