"""Answers while they are made: who goes, who has to go, and what becomes of the turn."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from goclaw.common.core.events import Outcome, TurnFinished
from goclaw.common.core.messages import AssistantMessage, ToolCall
from goclaw.llm.base import Finished, ModelEvent, Request, Stop, TextDelta, Usage
from goclaw.llm.scripted import ScriptedModel
from goclaw.tools.hooks.base import HookAnswer, HookEvent, Hooks, Registered
from tests.gateway.servers.calling import ANN
from tests.gateway.servers.openai.calling import HELLO, Service, chunks, content, service, streamed, world_with
from tests.harness import PATIENCE, Answer, Core, GivenModels, World, before_the_next_look
from tests.parts import Trail, acting

pytestmark = pytest.mark.promise("P-openai")


@asynccontextmanager
async def open_stream(served: Service, **headers: str) -> AsyncIterator[aiohttp.ClientResponse]:
    """A stream that has begun."""
    given = {"Authorization": f"Bearer {served.secret()}"} | {k.replace("_", "-"): v for k, v in headers.items()}
    body = {"model": "goclaw", "messages": HELLO, "stream": True}
    async with aiohttp.ClientSession() as http:
        async with http.post(f"{served.url}/v1/chat/completions", json=body, headers=given) as response:
            assert response.status == 200
            yield response


async def finished(core: Core, world: World) -> list[TurnFinished]:
    """The ends of turns, once there is one; time passes meanwhile."""
    async with asyncio.timeout(PATIENCE):
        while not (found := [event for event in core.seen if isinstance(event, TurnFinished)]):
            world.clock.advance(0.5)
            await before_the_next_look()
    return found


def stalled(tmp_path: Path, *answers: Answer) -> World:
    """A world whose model stalls after the first words."""
    world = world_with(tmp_path, *(answers or (Answer("Once upon a time"),)))
    world.script.gate = asyncio.Event()
    return world


async def test_a_turn_that_nobody_waits_for_any_more_is_stopped(tmp_path: Path) -> None:
    world = stalled(tmp_path)
    async with world.running() as core, service(world, core) as served:
        async with open_stream(served) as response:
            await response.content.readuntil(b"Once")
        assert [event.outcome for event in await finished(core, world)] == [Outcome.STOPPED]
        assert world.script.closed == 1


class Talker(ScriptedModel):
    """A model that talks on and on, as real ones do."""

    MOST_WORDS = 3_000

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        return aclosing(self._talk())

    async def _talk(self) -> AsyncGenerator[ModelEvent, None]:
        self.streaming.set()
        try:
            for _ in range(self.MOST_WORDS):
                yield TextDelta("word ")
                await before_the_next_look()
            yield Finished(AssistantMessage("word " * self.MOST_WORDS), Usage(), Stop.END, self.spec)
        finally:
            self.closed += 1


@pytest.mark.parametrize(("path", "asked"), [("chat/completions", "messages"), ("responses", "input")])
async def test_a_turn_ends_when_its_caller_goes_while_the_model_talks(tmp_path: Path, path: str, asked: str) -> None:
    world = world_with(tmp_path)
    talker = Talker(clock=world.clock)
    world.models = GivenModels(talker)
    async with world.running() as core, service(world, core) as served:
        async with aiohttp.ClientSession() as http:
            body = {"model": "goclaw", asked: HELLO, "stream": True}
            headers = {"Authorization": f"Bearer {served.secret()}"}
            async with http.post(f"{served.url}/v1/{path}", json=body, headers=headers) as response:
                for _ in range(3):
                    await response.content.readuntil(b"word")
        assert [event.outcome for event in await finished(core, world)] == [Outcome.STOPPED]
        assert talker.closed == 1


async def test_one_who_waits_for_a_whole_answer_is_missed_too(tmp_path: Path) -> None:
    world = stalled(tmp_path)
    async with world.running() as core, service(world, core) as served:
        asking = asyncio.create_task(served.ask())
        await world.script.streaming.wait()
        asking.cancel()
        assert [event.outcome for event in await finished(core, world)] == [Outcome.STOPPED]


async def test_a_turn_of_a_kept_session_goes_on_without_its_caller(tmp_path: Path) -> None:
    world = stalled(tmp_path)
    async with world.running() as core, service(world, core) as served:
        async with open_stream(served, X_GoClaw_Session=ANN.key) as response:
            await response.content.readuntil(b"Once")
        for _ in range(5):
            world.clock.advance(0.5)
            await before_the_next_look()
        assert world.script.gate
        world.script.gate.set()
        await core.settled()
        assert [event.outcome for event in await finished(core, world)] == [Outcome.ANSWERED]


@pytest.mark.promise("P-openai-once")
async def test_a_turn_is_not_stopped_while_another_request_waits_for_it(tmp_path: Path) -> None:
    world = stalled(tmp_path)
    async with world.running() as core, service(world, core) as served:
        async with open_stream(served, Idempotency_Key="k") as response:
            await response.content.readuntil(b"Once")
            before = len(core.bus._subscriptions)
            again = asyncio.create_task(served.ask(Idempotency_Key="k"))
            async with asyncio.timeout(PATIENCE):
                while len(core.bus._subscriptions) == before:  # nothing else tells that it follows
                    await before_the_next_look()
        for _ in range(5):
            world.clock.advance(0.5)
            await before_the_next_look()
        assert world.script.gate
        world.script.gate.set()
        assert content(await again) == "Once upon a time"
    assert len(world.script.requests) == 1


@pytest.mark.promise("P-token")
@pytest.mark.parametrize("taken", ["token", "right"])
async def test_a_token_or_a_right_that_is_taken_away_ends_the_stream_and_the_turn(tmp_path: Path, taken: str) -> None:
    world = stalled(tmp_path)
    async with world.running() as core, service(world, core) as served:
        async with open_stream(served) as response:
            await response.content.readuntil(b"Once")
            if taken == "token":
                await served.revoke()
            else:
                world.users._users = {}
            assert [event.outcome for event in await finished(core, world)] == [Outcome.STOPPED]
            rest = (await response.content.read()).decode()
        assert "upon" not in rest and "[DONE]" not in rest
        assert [chunk["error"]["code"] for chunk in chunks(rest) if "error" in chunk] == ["invalid_api_key"]
        assert (await served.ask()).status in (401, 403)


@pytest.mark.promise("P-openai-once")
async def test_a_turn_that_the_end_of_the_daemon_cut_is_taken_up_and_answers_by_its_key(tmp_path: Path) -> None:
    world = stalled(tmp_path, Answer("Once upon a time"), Answer("It ends well."))
    async with world.running() as core, AsyncExitStack() as stack:
        served = await stack.enter_async_context(service(world, core))
        asking = asyncio.create_task(served.ask(Idempotency_Key="k"))
        await world.script.streaming.wait()
        ending = asyncio.create_task(stack.aclose())
        async with asyncio.timeout(PATIENCE):
            while not asking.done():
                world.clock.advance(0.5)
                await before_the_next_look()
        refused = await asking
        assert refused.status == 503 and "Idempotency-Key" in refused.error["message"]
        await ending
    assert world.script.gate
    world.script.gate.set()
    async with world.running() as core, service(world, core) as served:
        assert content(await served.ask(Idempotency_Key="k")) == "It ends well."


@pytest.mark.promise("P-hook-unseen")
async def test_hooks_judge_the_history_too(tmp_path: Path) -> None:
    async def judge(event: HookEvent) -> HookAnswer:
        return HookAnswer(deny="No secrets." if "secret" in event.text else "")

    world = world_with(tmp_path, Answer("Fine."))
    messages = [
        {"role": "user", "content": "the secret"},
        {"role": "assistant", "content": "Which?"},
        {"role": "user", "content": "that"},
    ]
    world.hooks = Hooks([Registered("judge", frozenset({"message_in"}), judge)])
    async with world.running() as core, service(world, core) as served:
        denied = await served.send({"model": "goclaw", "messages": messages})
        assert denied.status == 500 and "No secrets." in denied.error["message"]
    assert world.script.requests == []


async def test_a_silent_turn_is_kept_alive_by_comments(tmp_path: Path) -> None:
    trail = Trail()
    waiting, answers = acting("wait", trail.leave_slowly), (Answer(calls=(ToolCall("c", "wait", {}),)), Answer("Done."))
    world = world_with(tmp_path, *answers, given=[waiting], openai={"progress": False})
    async with world.running() as core, service(world, core) as served:
        asking = asyncio.create_task(served.ask(stream=True))
        await trail.begun.wait()
        async with asyncio.timeout(PATIENCE):
            while world.clock.sleepers == 0:
                await before_the_next_look()
        for _ in range(25):
            world.clock.advance(0.5)
            await before_the_next_look()
        trail.gate.set()
        found = await asking
    assert found.said.startswith(": still at work\n\n") and streamed(found.said) == "Done."
