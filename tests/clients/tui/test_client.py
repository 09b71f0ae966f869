"""The client's end of the socket, against a real daemon's end."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from goclaw.clients.tui.client import Client, attach
from goclaw.common.core.events import Acceptance, AcceptKind, Notice, TurnEvent, TurnFinished
from goclaw.common.core.messages import UserMessage
from goclaw.common.core.wire import MAX_FRAME
from goclaw.durable.store.transcripts import Origin, rows_of
from goclaw.errors import StateError
from goclaw.gateway.servers.socket_file import open_socket
from tests.harness import PATIENCE, Answer, Core, World

SESSION = "tui:me"


@asynccontextmanager
async def daemon(world: World) -> AsyncIterator[tuple[Core, Path]]:
    async with world.running() as core, asyncio.timeout(PATIENCE):
        async with open_socket(world.folder / "s", core.gateway, world.clock, lambda: ""):
            yield core, world.folder / "s"


async def until_finished(client: Client) -> list[TurnEvent | Acceptance]:
    seen: list[TurnEvent | Acceptance] = []
    async for event in client.frames():
        seen.append(event)
        if isinstance(event, TurnFinished):
            break
    return seen


async def test_a_message_is_accepted_and_its_turn_can_be_followed(tmp_path: Path) -> None:
    async with daemon(World(tmp_path, [Answer("Hello")])) as (_, path), attach(path, SESSION) as client:
        receipt = await client.send("hi")
        finished = (await until_finished(client))[-1]
    assert receipt.kind is AcceptKind.TURN
    assert isinstance(finished, TurnFinished) and (finished.turn, finished.text) == (receipt.turn, "Hello")


async def test_what_came_while_an_answer_was_awaited_is_not_lost(tmp_path: Path) -> None:
    async with daemon(World(tmp_path)) as (core, path), attach(path, SESSION) as client:
        core.bus.publish(Notice(SESSION, "one"))
        core.bus.publish(Notice(SESSION, "two"))
        assert (await client.status())["messages"] == 0
        core.bus.publish(Notice(SESSION, "three"))
        assert (await client.send("/nonsense")).text.startswith("Unknown command")
        seen = []
        async for event in client.frames():
            assert isinstance(event, Notice)
            seen.append(event.text)
            if event.text == "three":
                break
    assert seen == ["one", "two", "three"]


async def test_submitting_does_not_wait_and_the_receipt_comes_as_a_frame(tmp_path: Path) -> None:
    async with daemon(World(tmp_path, [Answer("Hello")])) as (_, path), attach(path, SESSION) as client:
        assert await client.submit("hi", "my-id") == "my-id"
        receipts = [event for event in await until_finished(client) if isinstance(event, Acceptance)]
    assert [receipt.turn for receipt in receipts] == ["socket:my-id"]


async def test_without_a_daemon_the_error_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(StateError, match=r"no GoClaw daemon answers at .* Start one with `goclaw gateway`"):
        async with attach(tmp_path / "nobody", SESSION):
            pass


async def test_a_daemon_that_ends_is_noticed(tmp_path: Path) -> None:
    async with daemon(World(tmp_path)) as (_, path):
        attaching = attach(path, SESSION)
        client = await attaching.__aenter__()
    assert await until_finished(client) == []
    with pytest.raises(StateError, match="closed the connection"):
        await client.send("anybody there?")
    await attaching.__aexit__(None, None, None)


async def test_a_long_history_of_long_results_arrives(tmp_path: Path) -> None:
    async with daemon(World(tmp_path)) as (core, path):
        for number in range(50):
            origin = Origin(SESSION, "t", f"step {number}", 0.0)
            await core.database.write(*rows_of(UserMessage("я" * 100_000), origin))
        async with attach(path, SESSION) as client:
            assert len(client.attached.history) == 50
    assert MAX_FRAME < 50 * 200_000, "more than the daemon would take in one frame"


async def test_a_message_beyond_all_measure_ends_the_connection_not_the_daemon(tmp_path: Path) -> None:
    async with daemon(World(tmp_path, [Answer("Hello")])) as (_, path):
        with pytest.raises(StateError, match="closed the connection"):
            async with attach(path, SESSION) as client:
                await client.send("x" * (MAX_FRAME + 1))
        async with attach(path, SESSION) as client:
            assert (await client.send("hi")).kind is AcceptKind.TURN
            await until_finished(client)
