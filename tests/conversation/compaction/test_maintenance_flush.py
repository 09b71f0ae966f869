"""Notes before a compaction: when they are taken, where they go, and that nobody is disturbed by them."""

import asyncio
import logging
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from goclaw.common.auth.users import User
from goclaw.common.config.schema import Config
from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.events import Actor, MessageStored, Notice
from goclaw.common.core.messages import ToolCall
from goclaw.common.core.redact import remember
from goclaw.common.workspace import USERS, Workspace
from goclaw.conversation.compaction import maintenance
from goclaw.errors import ModelErrorKind
from goclaw.llm.base import Usage
from goclaw.llm.scripted import Answer, ScriptedModel
from goclaw.memory.service import open_memory
from tests.conversation.sessions.looking import SUMMARY, notices, reading, said, talk
from tests.harness import PATIENCE, Core, Tools, World
from tests.parts import Trail, acting

NOTES = "- Anna prefers tea\n- The report is due on Friday"
DAY = "2025-06-15.md"
"""Of the stepped clock."""
ANNA = Actor("tui:anna", "memory", name="Anna")
NO_CHECKPOINTS = {"enabled": False}


@pytest.fixture(autouse=True)
def in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


class NotedWorld(World):
    """A conversation whose context has so many thousand tokens of 200,000 after each turn."""

    def __init__(self, folder: Path, *thousands: int, notes: Answer | str = NOTES, **config: Any) -> None:
        self.clerk = ScriptedModel(rest=notes if isinstance(notes, Answer) else Answer(notes))
        super().__init__(folder, reading(*thousands), summary=self.clerk, **{"checkpoint": NO_CHECKPOINTS, **config})

    @property
    def asked(self) -> int:
        """How often notes were asked for."""
        return sum(request.system == maintenance.SYSTEM for request in self.clerk.requests)


async def turns(core: Core, count: int = 1) -> None:
    for number in range(count):
        await talk(core, f"question {number}")
        await core.sessions.maintenance.catch_up()


def files(world: World) -> dict[str, str]:
    """What lies in the workspace, or is shown there."""
    return {
        str(Path(shown, path.relative_to(folder))): path.read_text()
        for shown, folder in (("", world.root), (USERS, world.notes))
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink()
    }


async def test_of_a_conversation_that_is_forgotten_meanwhile_nothing_is_noted(tmp_path: Path) -> None:
    world = NotedWorld(tmp_path, 120)
    world.clerk.gate = asyncio.Event()
    async with world.running() as core:
        await talk(core, "question")
        noting = asyncio.ensure_future(core.sessions.maintenance.catch_up())
        async with asyncio.timeout(PATIENCE):
            await world.clerk.streaming.wait()
            await core.sessions.forgetter.forget("memory:here")
            world.clerk.gate.set()
            await noting
    assert world.asked == 1 and files(world) == {}


async def test_at_half_and_at_three_quarters_once_each(tmp_path: Path) -> None:
    world = NotedWorld(tmp_path, 20, 99, 100, 120, 149, 150, 160)
    counts = []
    async with world.running() as core:
        for _ in range(7):
            await turns(core)
            counts.append(world.asked)
    assert counts == [0, 0, 1, 1, 1, 2, 2]
    text = files(world)[f"memory/{DAY}"]
    assert text.startswith("# Sunday 2025-06-15\n\n## 15:06, noted by GoClaw\n\n- Anna prefers tea\n")
    assert text.count("- Anna prefers tea") == 2


async def test_a_compaction_begins_a_new_cycle_and_a_restart_does_not(tmp_path: Path) -> None:
    world = NotedWorld(tmp_path, 100, 101, 102, 103, 110, 111, notes=f"{NOTES}\n{SUMMARY}")
    async with world.running() as core:
        await turns(core, 2)
    async with world.running() as core:
        await turns(core, 2)
        assert world.asked == 1
        await talk(core, "/compact")
        await turns(core, 2)
    assert world.asked == 2


async def test_what_a_compaction_takes_out_of_the_context_amid_a_turn_is_noted_first(tmp_path: Path) -> None:
    look = Answer(calls=(ToolCall("c1", "look", {}),), usage=Usage(input=175_000))
    world = NotedWorld(tmp_path, 40, notes=f"{NOTES}\n{SUMMARY}", compaction={"min_messages": 2})
    world.tools = Tools([acting("look", Trail("a cat").leave)])
    world.script.add(look, *reading(30, 31))
    async with world.running() as core:
        await turns(core, 2)
        compacted, _ = await core.transcripts.context("memory:here")
        assert compacted, "the context went from a fifth to its end in one turn"
        assert world.asked == 1
    question = said(next(request for request in world.clerk.requests if request.system == maintenance.SYSTEM))
    assert "answer at 40" in question and "a cat" in question
    assert files(world)[f"memory/{DAY}"].count("- Anna prefers tea") == 1


async def test_what_was_cleared_while_it_was_noted_is_not_noted(tmp_path: Path) -> None:
    world = NotedWorld(tmp_path, 100)
    gate = world.clerk.gate = asyncio.Event()
    async with world.running() as core:
        await talk(core, "hello")
        work = asyncio.create_task(core.sessions.maintenance.catch_up())
        async with asyncio.timeout(PATIENCE):
            await world.clerk.streaming.wait()
            await core.command("/clear")
            gate.set()
            await work
    assert files(world) == {}


@pytest.mark.parametrize(("is_alone", "folder"), [(True, "memory"), (False, "memory/users/tui:anna")])
async def test_it_goes_to_the_persons_own_folder_unless_the_workspace_is_theirs_alone(
    tmp_path: Path, is_alone: bool, folder: str
) -> None:
    world = NotedWorld(tmp_path, 100, users=[User("tui:anna", session="memory:here")])
    world.is_alone = lambda actor, session: is_alone and actor.key == "tui:anna"
    async with world.running() as core:
        await core.say("hello", actor=ANNA)
        await core.settled()
        await core.sessions.maintenance.catch_up()
    assert list(files(world)) == [f"{folder}/{DAY}"]


def test_a_workspace_is_shared_by_those_who_have_the_same_folder_under_whatever_name(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to("a")
    roots = {"anna": tmp_path / "a", "ben": tmp_path / "link", "eve": tmp_path / "b", "me": tmp_path / "a" / ".." / "b"}
    assert not maintenance.works_alone("anna", ["anna", "ben"], roots.__getitem__)
    assert not maintenance.works_alone("me", ["anna", "eve"], roots.__getitem__), "an owner who is not listed"
    assert maintenance.works_alone("anna", ["anna", "eve"], roots.__getitem__)
    assert maintenance.works_alone("anna", [], roots.__getitem__)


@pytest.mark.promise("P-notes")
async def test_another_users_search_does_not_find_it(tmp_path: Path) -> None:
    world = NotedWorld(tmp_path, 100, users=[User("tui:anna", session="memory:here"), User("tui:ben")])
    world.is_alone = lambda actor, session: False
    async with world.running() as core:
        await core.say("hello", actor=ANNA)
        await core.settled()
        await core.sessions.maintenance.catch_up()
    async with (
        Workspace(world.root, notes=world.notes) as workspace,
        open_memory(tmp_path / "memory.db", Config(), SteppedClock()) as memory,
    ):
        found = await memory.search(workspace, "tui:anna", "tea", 5)
        assert [hit.path for hit in found.hits] == [f"memory/users/tui:anna/{DAY}"]
        assert not (await memory.search(workspace, "tui:ben", "tea", 5)).hits
        assert await memory.files(workspace, "tui:ben") == []


@pytest.mark.parametrize(
    "config",
    [
        {"users": [User("tui:here", session="memory:here", allowed_tools=frozenset({"read"}))]},
        {"tools": {"disabled": ["write"]}},
        {"policy": {"mode": "plan"}},
        {"policy": {"stricter": {"medium": "ask"}}},
        {"memory": {"flush": {"enabled": False}}},
        {"memory": {"enabled": False}},
    ],
    ids=["not among the tools", "disabled", "plan mode", "asks first", "off", "no memory"],
)
async def test_without_the_right_to_write_nobody_is_asked(tmp_path: Path, config: dict[str, Any]) -> None:
    world = NotedWorld(tmp_path, 100, 150, **config)
    async with world.running() as core:
        await turns(core, 2)
    assert (world.asked, files(world)) == (0, {})


async def test_a_right_that_is_taken_away_meanwhile_is_gone(tmp_path: Path) -> None:
    world = NotedWorld(tmp_path, 100, users=[User("tui:here", session="memory:here")])
    gate = world.clerk.gate = asyncio.Event()
    async with world.running() as core:
        await talk(core, "hello")
        work = asyncio.create_task(core.sessions.maintenance.catch_up())
        async with asyncio.timeout(PATIENCE):
            await world.clerk.streaming.wait()
            world.users._users["tui:here"] = User("tui:here", session="memory:here", allowed_tools=frozenset())
            gate.set()
            await work
    assert files(world) == {}


@pytest.mark.parametrize("answer", ["NOTHING", "There is nothing that will matter.", Answer("")])
async def test_nothing_worth_noting_leaves_no_file(tmp_path: Path, answer: Answer | str) -> None:
    world = NotedWorld(tmp_path, 100, 101, notes=answer)
    async with world.running() as core:
        await turns(core, 2)
    assert (world.asked, files(world)) == (1, {})


async def test_only_lines_that_are_notes_are_kept(tmp_path: Path) -> None:
    world = NotedWorld(tmp_path, 100, notes=f"Here are the notes:\n{NOTES}\nNothing else.")
    async with world.running() as core:
        await turns(core)
    assert files(world)[f"memory/{DAY}"].endswith(f"noted by GoClaw\n\n{NOTES}\n")


@pytest.mark.parametrize("trouble", [None, Answer(error=ModelErrorKind.NETWORK)], ids=["well", "failing"])
@pytest.mark.promise("P-notes")
async def test_nobody_hears_of_it(tmp_path: Path, trouble: Answer | None) -> None:
    world = NotedWorld(tmp_path, 100, 150, notes=trouble or NOTES)
    async with world.running() as core:
        await turns(core, 2)
        assert len(await core.messages()) == 4
        assert sum(isinstance(event, MessageStored) for event in core.seen) == 4
        assert not any(isinstance(event, Notice) for event in core.seen)
    assert world.texts() == ["answer at 100", "answer at 150"]
    assert NOTES not in "".join(map(said, world.script.requests))


async def test_secrets_are_masked_in_what_is_read_and_in_what_is_noted(tmp_path: Path) -> None:
    remember("open-sesame-for-flushes")
    world = NotedWorld(tmp_path, 100, notes="- The key is sk-ant-0123456789abcdef\n- Say open-sesame-for-flushes")
    async with world.running() as core:
        await talk(core, "my password is open-sesame-for-flushes")
        await core.sessions.maintenance.catch_up()
    for text in (files(world)[f"memory/{DAY}"], said(world.clerk.requests[0])):
        assert "open-sesame" not in text and "sk-ant" not in text and "[secret]" in text


@pytest.mark.promise("P-notes")
async def test_the_main_model_takes_notes_only_where_that_is_configured(tmp_path: Path) -> None:
    for number, (main_model, found) in enumerate([(False, []), (True, [f"memory/{DAY}"])]):
        folder = tmp_path / str(number)
        folder.mkdir()
        memory = {"flush": {"main_model": main_model}}
        world = World(folder, [*reading(100), Answer(NOTES)], memory=memory, checkpoint=NO_CHECKPOINTS)
        async with world.running() as core:
            await turns(core)
            spent = await core.sessions.ports.store.spending.of_session("memory:here")
        assert list(files(world)) == found
        assert spent.requests == 1 + main_model, "what it cost is booked"


async def test_what_somebody_else_wrote_into_the_file_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = NotedWorld(tmp_path, 100)
    path = world.root / "memory" / DAY
    path.parent.mkdir()
    path.write_text("# Mine\n")
    read, others = Workspace.read_bytes, ["- first\n", "- second\n"]

    async def overtaken(self: Workspace, name: str, limit: int = 0) -> bytes:
        found = await read(self, name, limit)
        if others:
            path.write_text(f"{path.read_text()}{others.pop(0)}")
        return found

    monkeypatch.setattr(Workspace, "read_bytes", overtaken)
    async with world.running() as core:
        await turns(core)
    assert path.read_text().startswith("# Mine\n- first\n- second\n\n## ") and NOTES in path.read_text()


def full(world: World) -> None:
    (world.root / "memory" / DAY).write_text("x" * maintenance.MAX_NOTES)


def folder(world: World) -> None:
    (world.root / "memory" / DAY).mkdir()


def link(world: World) -> None:
    (world.root / "other.md").write_text("not yours")
    (world.root / "memory" / DAY).symlink_to("../other.md")


def linked_folder(world: World) -> None:
    (world.root / "elsewhere").mkdir()
    (world.root / "memory").rmdir()
    (world.root / "memory").symlink_to("elsewhere")


def link_outside(world: World) -> None:
    (world.root / "memory" / DAY).symlink_to(world.folder / "goclaw.db")


@pytest.mark.parametrize(
    ("hinder", "words"),
    [
        (full, f"memory/{DAY} is full: the limit is 1,048,576 bytes"),
        (folder, f"is a directory: memory/{DAY}"),
        (link, f"memory/{DAY} is a symbolic link, or lies behind one"),
        (linked_folder, f"memory/{DAY} is a symbolic link, or lies behind one"),
        (link_outside, f"memory/{DAY} is a symbolic link, or lies behind one"),
    ],
    ids=["full", "a folder", "a link", "behind a link", "a link outside"],
)
async def test_a_file_that_cannot_be_written_is_refused_in_words_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, hinder: Any, words: str
) -> None:
    world = NotedWorld(tmp_path, 100, 101)
    (world.root / "memory").mkdir()
    hinder(world)
    before = files(world)
    with caplog.at_level(logging.WARNING):
        async with world.running() as core:
            await turns(core, 2)
            assert notices(core) == []
    assert f"notes of memory:here could not be stored: {words}" in caplog.text
    assert files(world) == before
    assert world.texts() == ["answer at 100", "answer at 101"]


async def test_what_others_say_in_a_group_is_not_noted_for_whoever_spoke_last(tmp_path: Path) -> None:
    world = NotedWorld(tmp_path, 100, users=[User("tui:anna")])
    async with world.running() as core:
        await talk(core, "question")
        for key, due in (("telegram:-100:7", False), ("memory:here", True)):
            session = replace(await core.sessions.contexts.session("memory:here"), key=key)
            assert bool(await core.sessions.maintenance.flush.claim(session, ANNA, 120_000)) is due
