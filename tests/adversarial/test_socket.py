"""The Unix socket: frames that no client of ours sends, sessions of others, and texts that steer a terminal."""

import asyncio
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from goclaw.clients.tui.client import attach
from goclaw.clients.tui.plain import PlainView, converse
from goclaw.common.auth.users import User, login_name
from goclaw.common.core.events import (
    Acceptance,
    AcceptKind,
    Actor,
    Address,
    Inbound,
    MessageStored,
    Notice,
    Outcome,
    StreamRestarted,
    TextStreamed,
    ToolFinished,
    ToolStarted,
    TurnEvent,
    TurnFinished,
)
from goclaw.common.core.messages import AssistantMessage, UserMessage
from goclaw.common.core.redact import printable
from goclaw.errors import StateError
from goclaw.gateway.servers.socket_file import open_socket
from tests.gateway.servers.test_terminals_socket import raw
from tests.harness import PATIENCE, Answer, Core, World

EVIL = "a\x1b]52;c;cm0gLXJm\x07b\x1b[2Jc\x9b31md\x08\x7f\r\u202ee"
"""Writes the clipboard, clears the screen, colours, goes back over what was written, turns the line round."""
TAME = "abcde"


@asynccontextmanager
async def serving(folder: Path, *users: User) -> AsyncIterator[tuple[Core, Path]]:
    """A core behind a socket, for these users."""
    world = World(folder, [Answer("ok")], users=users)
    async with world.running() as core, asyncio.timeout(PATIENCE):
        async with open_socket(folder / "s", core.gateway, world.clock, lambda: "Model: scripted."):
            yield core, folder / "s"


async def telegrams_secret(core: Core) -> None:
    """Something is said in Ann's session."""
    actor = Actor("telegram:5", "telegram", name="Ann")
    await core.gateway.accept(Inbound("i1", actor, "telegram:5", "my secret", Address("chat", "5"), 0.0))
    await core.settled()


@pytest.mark.promise("P-sessions-are-private")
async def test_a_listed_login_without_the_role_reads_no_other_session(tmp_path: Path) -> None:
    me = User(f"tui:{login_name()}")
    async with serving(tmp_path, me, User("telegram:5"), User("tui:bob")) as (core, path):
        await telegrams_secret(core)
        with pytest.raises(StateError, match=r"no access to the session telegram:5 \(telegram:5 is not a session of"):
            async with attach(path, "telegram:5"):
                pass
        for session in ("telegram:5", "telegram:-100", "primary", ""):
            answers = await raw(path, f'{{"type": "attach", "session": "{session}"}}', '{"type": "ask_status"}')
            assert "denied" in answers[0] and "secret" not in repr(answers) and answers[1] == "closed"
        async with attach(path, me.key) as client:
            assert client.attached.session == me.key


async def test_the_owner_who_is_not_listed_reads_every_session(tmp_path: Path) -> None:
    async with serving(tmp_path, User("telegram:5")) as (core, path):
        await telegrams_secret(core)
        async with attach(path, "telegram:5") as client:
            assert [row.message for row in client.attached.history][:1] == [UserMessage("my secret")]


@pytest.mark.parametrize(
    "frame",
    [
        "", "null", "[]", "{", '"attach"', '{"type": "attach"}', '{"type": ["attach"], "session": "tui:x"}',
        '{"type": "attach", "session": 5}', '{"type": "attach", "session": null}', '{"type": "attach", "session": ""}',
        '{"type": "attach", "session": "tui:\\u001b[31m"}', '{"type": "attach", "session": "tui:a\\nb"}',
        '{"type": "attach", "session": "tui:\\ud800"}', f'{{"type": "attach", "session": "tui:{"x" * 1_000_000}"}}',
        '{"type": "attach", "session": "tui:x", "after": -1}', '{"type": "attach", "session": "tui:x", "limit": -1}',
        '{"type": "attach", "session": "tui:x", "after": 99999999999999999999}',
        '{"type": "attach", "session": "tui:x", "limit": 99999999999999999999}',
        "[" * 100_000, '{"type": "attach", "session": ' + "[" * 100_000, '{"type": "send", "id": "1", "text": "x"}',
    ],
)  # fmt: skip
async def test_a_bad_first_frame_is_refused_and_the_server_goes_on(tmp_path: Path, frame: str) -> None:
    async with serving(tmp_path) as (_, path):
        answers = await raw(path, frame, "again")
        assert '"refused"' in answers[0] and len(answers[0]) < 500
        assert answers[1] == "closed" or '"refused"' in answers[1]
        async with attach(path, "tui:x") as client:
            assert client.attached.history == []


async def test_odd_names_of_sessions_are_only_names(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, path):
        for session in ("tui:../../etc/passwd", "tui:'; DROP TABLE messages; --", "tui:%s", "tui:*", "telegram:-1:2:3"):
            async with attach(path, session) as client:
                assert (await client.send("hello")).kind is AcceptKind.TURN


async def test_odd_messages_after_a_good_start_are_answered_each(tmp_path: Path) -> None:
    frames = [
        '{"type": "send", "id": "", "text": "x"}', '{"type": "send", "id": 5, "text": "x"}', '{"type": "send"}',
        f'{{"type": "send", "id": "{"i" * 1_000}", "text": "x"}}', '{"type": "send", "id": "1", "text": null}',
    ]  # fmt: skip
    async with serving(tmp_path) as (_, path):
        for frame in frames:
            answers = await raw(path, '{"type": "attach", "session": "tui:x"}', frame)
            assert '"refused"' in answers[1]


async def test_many_clients_at_once_are_served(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, path):

        async def visit(number: int) -> str:
            async with attach(path, f"tui:{number}") as client:
                return client.attached.session

        assert len(set(await asyncio.gather(*map(visit, range(60))))) == 60


async def test_bytes_that_are_no_text_are_sent_as_question_marks(tmp_path: Path) -> None:
    async with serving(tmp_path) as (core, path), attach(path, "tui:x") as client:
        await client.send("caf\udce9")
        await core.settled()
        async with attach(path, "tui:x") as later:
            assert later.attached.history[0].message == UserMessage("caf?")


def shown(*events: TurnEvent | Acceptance) -> str:
    written: list[str] = []
    view = PlainView(written.append)
    view.history(
        [MessageStored("t", "s", 1, UserMessage(EVIL), 0.0), MessageStored("t", "s", 2, AssistantMessage(EVIL), 0.0)]
    )
    view.partial(EVIL)
    for event in events:
        view.show(event)
    return "".join(written)


def test_nothing_that_others_wrote_steers_the_terminal_of_the_plain_client() -> None:
    text = shown(
        TextStreamed("t", "s", EVIL),
        StreamRestarted("t", "s", EVIL),
        ToolStarted("t", "s", "1", EVIL, {EVIL: EVIL}),
        ToolFinished("t", "s", "1", EVIL, EVIL, False, 0.1),
        Notice("s", EVIL),
        Acceptance(AcceptKind.REPLY, text=EVIL),
        TurnFinished("t", "s", Outcome.FAILED, EVIL),
    )
    assert text.count(TAME) >= 7
    assert [character for character in text if not character.isprintable() and character != "\n"] == []


def test_printable_keeps_every_letter_line_end_and_tab() -> None:
    assert printable(EVIL) == TAME
    kept = "täglich\t→ 日本語 👩‍👩‍👧 مرحبا\nx"
    assert printable(kept) == kept


async def test_input_that_is_no_text_ends_the_plain_client_instead_of_hanging_it(tmp_path: Path) -> None:
    source = io.TextIOWrapper(io.BytesIO(b"hello\n\xff\xfe\n"), encoding="utf-8")
    async with serving(tmp_path) as (_, path):
        await converse(path, "tui:x", source, io.StringIO())
