"""The Unix socket: only the same user gets in, what was missed comes first and once, nonsense is refused in words."""

import asyncio
import os
import socket
import stat
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from goclaw.clients.tui.client import Client, attach
from goclaw.common.auth.users import User, login_name
from goclaw.common.core import bus as bus_module
from goclaw.common.core.events import (
    Acceptance,
    AcceptKind,
    MessageStored,
    Notice,
    Outline,
    StreamRestarted,
    TextStreamed,
    TurnEvent,
    TurnFinished,
)
from goclaw.common.core.messages import AssistantMessage, UserMessage
from goclaw.common.core.wire import PATH, AskOutline, AskRows, OutlineFrame, Rows
from goclaw.durable.store.forgetting import Forgetting
from goclaw.errors import StateError
from goclaw.gateway.servers.socket_file import open_socket
from goclaw.gateway.servers.terminals import owner_key
from tests.harness import PATIENCE, Answer, Core, World

SESSION = "tui:me"
ATTACH = '{"type": "attach", "session": "tui:me"}'


@asynccontextmanager
async def serving(world: World) -> AsyncIterator[tuple[Core, Path]]:
    """A core behind a socket."""
    path = world.folder / "s"
    async with world.running() as core, asyncio.timeout(PATIENCE):
        async with open_socket(path, core.gateway, world.clock, lambda: "Model: scripted."):
            yield core, path


async def until(client: Client, kind: type[TurnEvent]) -> list[TurnEvent]:
    """Events up to the first of that kind."""
    seen: list[TurnEvent] = []
    async for event in client.frames():
        if isinstance(event, MessageStored | TextStreamed | StreamRestarted | TurnFinished | Notice):
            seen.append(event)
        if isinstance(event, kind):
            return seen
    raise AssertionError("the daemon closed the connection")


def rows(events: Sequence[TurnEvent]) -> list[int]:
    return [event.row for event in events if isinstance(event, MessageStored)]


def streamed(events: Sequence[TurnEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextStreamed))


async def raw(path: Path, *frames: str | bytes) -> list[str]:
    """Send frames as they are; one answer each, `closed` for the end of the connection."""
    got: list[str] = []
    async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(path))) as http:
        async with http.ws_connect(f"http://goclaw{PATH}") as connection:
            for frame in frames:
                await (connection.send_bytes(frame) if isinstance(frame, bytes) else connection.send_str(frame))
                answer = await connection.receive(PATIENCE)
                got.append(str(answer.data) if answer.type is aiohttp.WSMsgType.TEXT else "closed")
    return got


@pytest.mark.promise("P-terminal-history")
async def test_history_comes_first_then_what_happens_and_no_row_twice(tmp_path: Path) -> None:
    async with serving(World(tmp_path, [Answer("one"), Answer("two")])) as (_, path):
        async with attach(path, SESSION) as client:
            assert client.attached.history == [] and client.attached.greeting == "Model: scripted."
            await client.send("first")
            await until(client, TurnFinished)
        async with attach(path, SESSION) as client:
            before = client.attached.history
            assert [row.message for row in before] == [UserMessage("first"), AssistantMessage("one")]
            await client.send("second")
            live = await until(client, TurnFinished)
        assert rows(before) + rows(live) == [1, 2, 3, 4]
        async with attach(path, SESSION, after=3) as client:
            assert rows(client.attached.history) == [4]


@pytest.mark.promise("P-terminal-history")
async def test_who_comes_in_the_middle_of_an_answer_gets_all_of_it_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, [Answer("A rather long answer", deltas=5)])
    world.script.gate, reading = asyncio.Event(), asyncio.Event()
    async with serving(world) as (core, path), attach(path, SESSION) as first:
        await first.send("go")
        await until(first, TextStreamed)
        history = core.gateway.history

        async def late(session: str, after: int = 0, limit: int = 200) -> Sequence[MessageStored]:
            read = await history(session, after, limit)
            reading.set()
            await until(first, TurnFinished)
            return read

        monkeypatch.setattr(core.gateway, "history", late)
        attaching = attach(path, SESSION)
        opening = asyncio.ensure_future(attaching.__aenter__())
        await reading.wait()
        world.script.gate.set()
        client = await opening
        live = await until(client, TurnFinished)
        await attaching.__aexit__(None, None, None)
    assert client.attached.now.text == "A ra"
    assert client.attached.now.text + streamed(live) == "A rather long answer"
    assert rows(client.attached.history) + rows(live) == [1, 2]


@pytest.mark.promise("P-terminal-history")
async def test_an_answer_that_is_already_in_the_history_ends_what_was_streamed_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, [Answer("A rather long answer")])
    world.script.gate = asyncio.Event()
    async with serving(world) as (core, path), attach(path, SESSION) as first:
        await first.send("go")
        await until(first, TextStreamed)
        history = core.gateway.history

        async def after_the_turn(session: str, after: int = 0, limit: int = 200) -> Sequence[MessageStored]:
            assert world.script.gate
            world.script.gate.set()
            await until(first, TurnFinished)
            return await history(session, after, limit)

        monkeypatch.setattr(core.gateway, "history", after_the_turn)
        async with attach(path, SESSION) as client:
            live = await until(client, TurnFinished)
    assert rows(client.attached.history) == [1, 2] and rows(live) == []
    assert [type(event) for event in live] == [TextStreamed, StreamRestarted, TurnFinished]


@pytest.mark.promise("P-socket-owner-only")
async def test_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(World(tmp_path)) as (_, path):
        theirs = os.getuid() + 1
        with monkeypatch.context() as patch:
            # The kernel tells the peer's uid; here the daemon is the one who is somebody else.
            patch.setattr("goclaw.gateway.servers.terminals.os.getuid", lambda: theirs)
            with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
                await raw(path, ATTACH)
        assert caught.value.status == 403


@pytest.mark.promise("P-socket-owner-only")
async def test_nobody_else_can_even_open_the_socket(tmp_path: Path) -> None:
    async with serving(World(tmp_path)) as (_, path):
        mode = path.stat().st_mode
        assert stat.S_ISSOCK(mode) and stat.S_IMODE(mode) == 0o600
    assert not path.exists()


@pytest.mark.promise("P-socket-owner-only")
async def test_a_link_at_its_place_is_taken_away_and_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.write_text("mine")
    (tmp_path / "s").symlink_to(target)
    async with serving(World(tmp_path)) as (_, path), attach(path, SESSION) as client:
        assert client.attached.session == SESSION and not path.is_symlink()
    assert target.read_text() == "mine" and stat.S_IMODE(target.stat().st_mode) != 0o600


@pytest.mark.promise("P-socket-owner-only")
async def test_a_folder_that_others_can_change_holds_no_socket(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    world = World(tmp_path)
    async with world.running() as core:
        with pytest.raises(StateError, match="others can change this folder"):
            async with open_socket(tmp_path / "open" / "s", core.gateway, world.clock, lambda: ""):
                pass
    assert not (tmp_path / "open" / "s").exists()


async def test_what_somebody_put_in_its_place_meanwhile_is_left_alone(tmp_path: Path) -> None:
    async with serving(World(tmp_path)) as (_, path):
        path.unlink()
        path.write_text("theirs")
    assert path.read_text() == "theirs"


@pytest.mark.promise("P-socket-owner-only")
async def test_a_terminal_whose_right_is_taken_away_hears_no_more(tmp_path: Path) -> None:
    """The owner acts as a listed user, is taken out, and the stream of the session ends within two seconds."""
    world = World(tmp_path, users=[User("tui:bob", session="team"), User("tui:eve")])
    async with serving(world) as (core, path), attach(path, "team") as client:
        assert client.attached.person == f"tui:{login_name()}", "the owner reads everything"
    async with serving(world) as (core, path), attach(path, "tui:bob") as client:
        assert client.attached.session == "team"
        world.users._users["tui:bob"] = User("tui:bob", roles=frozenset({"nobody-defined-this"}))
        seen: list[Any] = []
        began = world.clock.monotonic()
        listening = asyncio.create_task(_all(client, seen))
        core.bus.publish(Notice("team", "a secret of the team"))
        world.clock.advance(0.5)
        await listening
        assert world.clock.monotonic() - began <= 2.0
    assert [type(each).__name__ for each in seen] == ["Refused"] and "denied: " in seen[0].reason


async def _all(client: Client, seen: list[Any]) -> None:
    seen.extend([received async for received in client.receive()])


@pytest.mark.promise("P-socket-owner-only")
async def test_a_terminal_whose_session_has_another_name_now_is_asked_to_attach_anew(tmp_path: Path) -> None:
    world = World(tmp_path, users=[User("tui:bob", session="team")])
    async with serving(world) as (core, path), attach(path, "tui:bob") as client:
        world.users._users["tui:bob"] = User("tui:bob", session="other")
        core.bus.publish(Notice("team", "a secret of the team"))
        heard: list[Any] = []
        await _all(client, heard)
        assert heard == []
        async with attach(path, "tui:bob") as again:
            assert again.attached.session == "other"


async def test_a_socket_that_a_crash_left_behind_is_replaced(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / "s"))
    async with serving(World(tmp_path)) as (_, path), attach(path, SESSION) as client:
        assert client.attached.session == SESSION


async def test_nonsense_is_refused_in_words_and_the_connection_stays(tmp_path: Path) -> None:
    async with serving(World(tmp_path)) as (_, path):
        got = await raw(path, "hello", '{"type": "dance"}', ATTACH, "[]", ATTACH, '{"type": "ask_status"}')
    assert got[0].startswith('{"reason":"not a frame: Invalid JSON')
    assert got[1].startswith('{"reason":"not a frame: Input tag \'dance\'')
    assert '"type":"attached"' in got[2]
    assert got[3].startswith('{"reason":"not a frame: ')
    assert got[4].startswith('{"reason":"already attached; open another connection"')
    assert '"type":"status"' in got[5]


async def test_the_first_frame_must_attach(tmp_path: Path) -> None:
    async with serving(World(tmp_path)) as (_, path):
        got = await raw(path, '{"type": "send", "id": "1", "text": "hi"}')
    assert got[0].startswith('{"reason":"the first frame must be `attach`"')


@pytest.mark.promise("P-answered-once")
async def test_a_message_sent_again_after_a_break_is_taken_once_and_answered_as_it_was_then(tmp_path: Path) -> None:
    world = World(tmp_path, [Answer("one"), Answer("two")])
    async with serving(world) as (core, path):
        async with attach(path, SESSION) as client:
            await client.submit("hi", "id-1")
            await until(client, TurnFinished)
        async with attach(path, SESSION) as client:
            await client.submit("hi", "id-1")
            assert await anext(client.frames()) == Acceptance(AcceptKind.TURN, "socket:id-1", session=SESSION)
        await core.settled()
        assert len(await core.messages(SESSION)) == 2
    assert len(world.script.requests) == 1


@pytest.mark.promise("P-answered-once")
async def test_a_message_sent_again_after_a_restart_is_known(tmp_path: Path) -> None:
    world = World(tmp_path, [Answer("one"), Answer("two")])
    async with serving(world) as (core, path), attach(path, SESSION) as client:
        await client.submit("hi", "id-1")
        await until(client, TurnFinished)
        await core.settled()
    async with serving(world) as (core, path), attach(path, SESSION) as client:
        await client.submit("hi", "id-1")
        assert await anext(client.frames()) == Acceptance(AcceptKind.DUPLICATE, "socket:id-1")
        await core.settled()
        assert len(await core.messages(SESSION)) == 2
    assert len(world.script.requests) == 1


async def test_who_does_not_keep_up_is_cut_off_and_finds_everything_on_return(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bus_module, "BACKLOG", 20)
    async with serving(World(tmp_path, [Answer("one")])) as (core, path):
        async with attach(path, SESSION) as client:
            for number in range(100):
                core.bus.publish(Notice(SESSION, str(number)))
            seen = [event.text async for event in client.frames() if isinstance(event, Notice)]
        assert seen == [str(number) for number in range(20)]
        async with attach(path, SESSION) as client:
            await client.send("hi")
            assert rows(await until(client, TurnFinished)) == [1, 2]


@pytest.mark.promise("P-commands-at-once")
async def test_stop_is_heard_while_the_answer_streams(tmp_path: Path) -> None:
    world = World(tmp_path, [Answer("A long answer")])
    world.script.gate = asyncio.Event()
    async with serving(world) as (_, path), attach(path, SESSION) as client:
        await client.send("go")
        await until(client, TextStreamed)
        stopped = await client.send("/stop")
        assert (stopped.kind, stopped.text) == (AcceptKind.REPLY, "Stopped.")


@pytest.mark.promise("P-terminal-history")
async def test_who_comes_back_to_a_forgotten_conversation_is_told_that_it_begins_anew(tmp_path: Path) -> None:
    async with serving(World(tmp_path, [Answer("one"), Answer("two")])) as (core, path):
        async with attach(path, SESSION) as client:
            await client.send("first")
            seen = rows(await until(client, TurnFinished))
        async with attach(path, SESSION, after=seen[-1]) as client:
            assert not client.attached.anew and client.attached.history == []
        await Forgetting(core.database).forget(SESSION, 1.0)
        core.sessions.contexts.forget(SESSION)
        async with attach(path, SESSION, after=seen[-1]) as client:
            assert client.attached.anew and client.attached.history == []
            await client.send("second")
            fresh = rows(await until(client, TurnFinished))
        assert min(fresh) > max(seen)
        async with attach(path, SESSION, after=seen[-1]) as client:
            assert client.attached.anew and rows(client.attached.history) == fresh


async def test_a_transcript_is_read_row_by_row_and_in_outline(tmp_path: Path) -> None:
    async with serving(World(tmp_path, [Answer("one")])) as (_, path), attach(path, SESSION) as client:
        await client.send("first")
        await until(client, TurnFinished)
        read = (await client.answer(AskRows(), Rows)).rows
        assert [(row.row, row.role, row.text) for row in read] == [(1, "user", "first"), (2, "assistant", "one")]
        assert (await client.answer(AskRows(2), Rows)).rows == []
        outline = (await client.answer(AskOutline(1), OutlineFrame)).outline
        assert outline == Outline(SESSION, rows=2, shown_from=1, begins=2)


async def test_a_listed_terminal_user_has_his_own_rights_and_session(tmp_path: Path) -> None:
    world = World(tmp_path, [Answer("Hi team")], users=[User("tui:bob", session="team"), User("tui:eve")])
    async with serving(world) as (core, path):
        async with attach(path, "tui:bob") as client:
            assert client.attached.session == "team"
            await client.send("hello")
            await until(client, TurnFinished)
        assert len(await core.messages("team")) == 2
        async with attach(path, "tui:eve") as client:
            assert (await client.send("/whoami")).text.startswith("You are tui:eve.\nRole: user")


def test_the_owner_speaks_under_the_sessions_name_or_his_login() -> None:
    assert owner_key("tui:me") == "tui:me"
    assert owner_key("telegram:5") == f"tui:{login_name()}"


async def test_a_message_that_cannot_be_kept_is_refused_in_words(tmp_path: Path) -> None:
    async with serving(World(tmp_path, [Answer("Hello")])) as (core, path), attach(path, SESSION) as client:
        core.database.full = True
        with pytest.raises(StateError, match="disk is full"):
            await client.send("hi")
        core.database.full = False
        await client.send("hi")
        await until(client, TurnFinished)
