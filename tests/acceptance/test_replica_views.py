"""Views at one daemon of a conversation that another one has: a terminal, a program and a page, word for word."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from goclaw.common.core.supervise import background
from tests.acceptance.daemon import Installation, replicas_on
from tests.acceptance.model import EchoModel, answer_to
from tests.acceptance.test_replicas import owner_of
from tests.acceptance.views import View, Views
from tests.acceptance.waiting import eventually
from tests.fake_telegram.server import FakeTelegram
from tests.ports import free_port
from tests.postgres import Server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

ANN = 5
SESSION = f"telegram:{ANN}"
WAIT_SECONDS = 60.0


@pytest.fixture
async def replicas(
    folder: Path, telegram: FakeTelegram, model: EchoModel, server: Server
) -> AsyncIterator[list[Installation]]:
    """Three daemons with pages and programs."""
    users = {SESSION: {"name": "Ann", "roles": ["admin"]}}
    async with replicas_on(server.url, folder, telegram, model.url, ("one", "two", "three"), users) as made:
        for home in made:
            home.config["http"] = {"port": free_port(), "api": True, "web": True, "clients": True, "openai": True}
            home.write_config()
        yield made


async def begun(
    replicas: list[Installation], telegram: FakeTelegram, model: EchoModel, server: Server
) -> tuple[Installation, list[Installation]]:
    """Start them, and have a long answer begun, of which four pieces are out; returns its owner, and the others."""
    await asyncio.gather(*(home.start() for home in replicas))
    gate = model.gate("m1 ", streamed=4)
    await telegram.world.say("m1 long", user=ANN)
    await eventually(gate.reached.is_set, WAIT_SECONDS)
    owner = owner_of(server, replicas)
    assert owner is not None
    return owner, [home for home in replicas if home is not owner]


async def views_at(stack: AsyncExitStack, home: Installation) -> tuple[Views, list[View]]:
    made = await home.run("token", "add", f"of-{home.folder.name}", "--user", SESSION)
    assert made.code == 0, made.err
    views = Views(stack, home, f"http://127.0.0.1:{home.config['http']['port']}", made.out.strip())
    return views, [await views.terminal(), await views.page(SESSION), await views.program(SESSION)]


def whole(said: str = "m1 long") -> str:
    """The answer to a message."""
    body = {"messages": [{"role": "user", "content": said}]}
    return "".join(delta["content"] for delta in answer_to(body))


def see_right(views: list[View], *answers: str) -> None:
    """Each has all answers once; whatever stood on its screen was the beginning of one."""
    for view in views:
        said = [text for text in view.said if text.endswith("(end)")]
        # A program reads messages that were there before by another request.
        assert said == list(answers), (view.name, said)
        wrong = [screen for screen in view.screens if not any(answer.startswith(screen) for answer in answers)]
        assert not wrong, (view.name, wrong[-1][-500:])
        assert not view.doubled or view.name != "program", (view.name, view.doubled)


@pytest.mark.promise("P-views-anywhere")
async def test_views_at_another_daemon_have_every_word_of_an_answer(
    replicas: list[Installation], telegram: FakeTelegram, model: EchoModel, server: Server
) -> None:
    _, (other, _) = await begun(replicas, telegram, model, server)
    async with AsyncExitStack() as stack:
        views, seen = await views_at(stack, other)
        await eventually(lambda: all("line 32" in view.text for view in seen), WAIT_SECONDS)
        for view in seen:
            assert view.turn and whole().startswith(view.text), (view.name, view.text[-200:])
        model.gates[0].opened.set()
        await eventually(lambda: all(view.ended for view in seen), WAIT_SECONDS)
        see_right(seen, whole())
        assert all("StreamRestarted" not in view.names for view in seen if view.name == "program")
        await views.say("m2 plain", SESSION)
        await eventually(lambda: all(len(view.ended) == 2 for view in seen), WAIT_SECONDS)
        see_right(seen, whole(), "answer m2 (end)")
        assert all(view.turn == "" for view in seen)


@pytest.mark.long
@pytest.mark.promise("P-views-anywhere")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
async def test_views_go_on_when_the_daemon_that_answers_is_gone(
    replicas: list[Installation], telegram: FakeTelegram, model: EchoModel, server: Server, how: signal.Signals
) -> None:
    owner, (other, third) = await begun(replicas, telegram, model, server)
    async with AsyncExitStack() as stack:
        _, seen = await views_at(stack, other)
        _, at_third = await views_at(stack, third)
        seen += at_third
        if how is signal.SIGKILL:
            await owner.kill()
        else:
            assert await owner.stop() == 0
        model.gates[0].opened.set()
        await eventually(lambda: all(view.ended for view in seen), WAIT_SECONDS)
        see_right(seen, whole())
        assert all(view.turn == "" for view in seen)


@pytest.mark.long
@pytest.mark.promise("P-views-anywhere")
async def test_a_program_that_asks_at_another_daemon_reads_the_answer_while_it_is_written(
    replicas: list[Installation], telegram: FakeTelegram, model: EchoModel, server: Server
) -> None:
    _, (other, _) = await begun(replicas, telegram, model, server)
    async with AsyncExitStack() as stack:
        views, _ = await views_at(stack, other)
        model.gates[0].opened.set()
        gate, pieces = model.gate("m2 ", streamed=4), list[str]()
        async with background(views.ask("m2 long", SESSION, pieces.append), "a program that asks") as asking:
            await eventually(lambda: "line 32" in "".join(pieces), WAIT_SECONDS)
            assert gate.reached.is_set() and not asking.done()
            gate.opened.set()
            await asyncio.wait({asking}, timeout=WAIT_SECONDS)
            asking.result()
    assert "".join(pieces).strip() == whole("m2 long")
