"""Class `permission`: what one person said, did and has is seen by nobody else, whichever way they ask."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from goclaw.clients.tui.client import attach
from goclaw.common.auth.users import User
from goclaw.common.core.events import LOCAL, Actor, Address, Inbound, MessageStored, SessionInfo, TurnFinished
from goclaw.common.core.wire import (
    AskOlder,
    AskOutline,
    AskRows,
    AskSessions,
    Older,
    OutlineFrame,
    Refused,
    Rows,
    SessionsReply,
)
from goclaw.errors import AccessDenied
from goclaw.gateway.servers.socket_file import open_socket
from tests.harness import PATIENCE, Answer, Core, World

ANN, BOB, GUEST, READER, BOSS = "tui:ann", "telegram:7", "tui:guest", "tui:reader", "tui:boss"
SECRET = "swordfish"
"""What Ann says. It must reach nobody."""
ROLES = {
    "guest": {"tools": ["read"], "commands": ["help", "status", "whoami"], "approves": "none", "other_chats": False},
    "reader": {"sessions": "read"},
}
PRYING = [
    "/sessions", "/status", "/usage", "/usage all", "/whoami", "/help", "/queue", "/forget", "/forget AAAA", "/compact",
    "/approve 5d0c", "/deny 5d0c", "/pair list", "/pair approve AAAAAAAA", f"/sessions {ANN}", f"/status {ANN}",
    f"/forget {ANN}", f"/usage {ANN}", "/clear", "/stop",
]  # fmt: skip


@asynccontextmanager
async def house(folder: Path) -> AsyncIterator[tuple[World, Core, Path]]:
    """Ann has told her secret; others listen."""
    users = [
        User(ANN),
        User(BOB),
        User(GUEST, roles=frozenset({"guest"})),
        User(READER, roles=frozenset({"reader"})),
        User(BOSS, roles=frozenset({"admin"})),
    ]
    answers = [Answer(f"I shall keep {SECRET} to myself."), *(Answer("Hello") for _ in range(20))]
    world = World(folder, answers, users=users, roles=ROLES)
    path = folder / "s"
    async with world.running() as core, asyncio.timeout(PATIENCE):
        async with open_socket(path, core.gateway, world.clock, lambda: ""):
            async with attach(path, ANN) as ann:
                await ann.send(f"my secret is {SECRET}")
                async for event in ann.receive():
                    if isinstance(event, TurnFinished):
                        break
            await core.settled()
            yield world, core, path


def by(key: str, text: str, session: str, number: int, *, entry: str = "", chat: str = "") -> Inbound:
    """What somebody writes, in whichever session they claim."""
    channel = entry or key.partition(":")[0]
    address = Address(LOCAL, session) if channel == "tui" else Address("memory", chat or "here")
    return Inbound(f"t:{key}:{number}", Actor(key, channel), session, text, address, 0.0)


@pytest.mark.promise("P-sessions-are-private")
@pytest.mark.parametrize("session", [ANN, BOSS, "telegram:-100", "memory:here"])
@pytest.mark.parametrize("key", [GUEST, "tui:eve"])
async def test_on_the_socket_no_session_of_others_is_opened(tmp_path: Path, key: str, session: str) -> None:
    async with house(tmp_path) as (_, core, _):
        stranger = Actor(key, "socket")
        with pytest.raises(AccessDenied):
            core.gateway.session_for(stranger, session)
        assert SECRET not in str(await core.gateway.sessions(stranger))


@pytest.mark.promise("P-sessions-are-private")
async def test_on_the_socket_a_guest_is_told_nothing_of_others(tmp_path: Path) -> None:
    async with house(tmp_path) as (_, core, path), attach(path, GUEST) as guest:
        seen: list[Any] = [guest.attached]
        seen.append(await guest.answer(AskSessions(), SessionsReply))
        seen.append(await guest.answer(AskOlder(10_000, 1_000), Older))
        seen.append(await guest.answer(AskRows(), Rows))
        seen.append(await guest.answer(AskOutline(10), OutlineFrame))
        seen.append(await guest.status())
        seen += [await guest.send(text) for text in PRYING]
        said = str(seen)
        assert SECRET not in said and BOB not in said
        assert not any(isinstance(each, Refused) for each in seen)
        assert seen[1].sessions == []
        assert len(await core.messages(ANN)) == 2, "and nothing of theirs is gone"


@pytest.mark.promise("P-sessions-are-private")
async def test_what_happens_in_a_session_streams_to_its_own_people_only(tmp_path: Path) -> None:
    async with house(tmp_path) as (_, _, path), attach(path, GUEST) as guest, attach(path, ANN) as ann:
        await ann.send("again")
        async for event in ann.receive():
            if isinstance(event, TurnFinished):
                break
        assert (await guest.status())["session"] == GUEST
        early = [frame for frame in guest._early if not isinstance(frame, SessionsReply)]
        assert early == [], "nothing came unasked"


@pytest.mark.promise("P-sessions-are-private")
async def test_commands_from_a_chat_tell_nothing_of_others_wherever_they_claim_to_be(tmp_path: Path) -> None:
    async with house(tmp_path) as (world, core, _):
        before = await core.messages(ANN)
        number = 0
        for session in (BOB, ANN, BOSS, "telegram:-100", "memory:here"):
            for text in (*PRYING, "what was said before?"):
                number += 1
                accepted = await core.gateway.accept(by(BOB, text, session, number))
                assert SECRET not in accepted.text and ANN not in accepted.text.replace(text, "")
        await core.settled()
        assert await core.messages(ANN) == before
        assert all(SECRET not in text for text in world.texts())
        # The model is shown each person's own conversation.
        own = list(world.script.requests[1:])
        assert own and SECRET not in str(own)


@pytest.mark.promise("P-sessions-are-private")
async def test_a_role_that_reads_all_reads_and_changes_nothing(tmp_path: Path) -> None:
    async with house(tmp_path) as (_, core, _):
        actor = Actor(READER, "http")
        listed: list[SessionInfo] = list(await core.gateway.sessions(actor))
        assert [info.key for info in listed] == [ANN], "shared by the configuration"
        for number, text in enumerate(("/clear", "/forget", "/stop", "write this", "/model demo")):
            accepted = await core.gateway.accept(by(READER, text, ANN, number, entry="http"))
            assert accepted.kind == "ignored"
        assert len(await core.messages(ANN)) == 2


@pytest.mark.promise("P-sessions-are-private")
async def test_what_is_shared_stops_being_so_at_once(tmp_path: Path) -> None:
    async with house(tmp_path) as (world, core, path):
        actor = Actor(READER, "http")
        assert core.gateway.session_for(actor, ANN) == ANN
        world.users._users[READER] = User(READER)
        with pytest.raises(AccessDenied):
            core.gateway.session_for(actor, ANN)
        async with attach(path, READER) as reader:
            assert (await reader.answer(AskSessions(), SessionsReply)).sessions == []


@pytest.mark.promise("P-sessions-are-private")
async def test_numbers_of_rows_open_no_rows_of_others(tmp_path: Path) -> None:
    """Rows are numbered over all sessions: a client that claims to have one of another session learns nothing."""
    async with house(tmp_path) as (_, core, path):
        (row, *_) = await core.gateway.history(ANN)
        assert isinstance(row, MessageStored)
        for after in range(4):
            async with attach(path, GUEST, after=after, limit=1_000) as guest:
                assert guest.attached.history == []
