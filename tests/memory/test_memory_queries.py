"""What terminals ask of memory, and who may."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from goclaw.common.auth.access import Access
from goclaw.common.auth.users import User, Users
from goclaw.common.config.schema import Config
from goclaw.common.core.events import Actor
from goclaw.common.workspace import Workspace
from goclaw.errors import AccessDenied, StateError
from goclaw.memory.base import (
    MemoryFile,
    NoMemory,
    NoteHit,
    NoteResults,
    Quote,
    Score,
    Talk,
    TranscriptLine,
    TranscriptQuery,
    TranscriptResults,
)
from goclaw.memory.memory_queries import (
    HEARD,
    TALKS,
    WANTED,
    MemoryOff,
    MemoryQueries,
    MemoryQuery,
    NoSuchFile,
)

OWNER = Actor("tui:me", "cli", owner=True)
ANNA = Actor("telegram:5", "telegram")
SCORE = Score(1.0, 1.0, 0.0, weak=False)


class Remembering(NoMemory):
    """A memory that has one note of everybody, and answers with the conversations that it was asked to look into."""

    def __init__(self) -> None:
        super().__init__()
        self.made_anew = 0

    async def search(self, workspace: Workspace, actor_key: str, query: str, limit: int) -> NoteResults:
        return NoteResults(
            "hybrid", [NoteHit(f"memory/users/{actor_key}/a.md", 1, 2, SCORE, "Tea", query, 0.0)][:limit]
        )

    async def talks(self) -> Sequence[Talk]:
        return [
            Talk("tui:me", frozenset({"tui:me"})),
            Talk("telegram:5", frozenset({"telegram:5"})),
            Talk("telegram:6", frozenset({"telegram:6"})),
        ]

    async def search_transcripts(self, wanted: TranscriptQuery, limit: int) -> TranscriptResults:
        lines = [TranscriptLine(1, 0.0, "Anna", wanted.query)]
        return TranscriptResults("hybrid", [Quote(session, lines, 1, SCORE) for session in wanted.sessions])

    async def reindex(self) -> None:
        self.made_anew += 1


def desk(tmp_path: Path, memory: NoMemory, **settings: object) -> MemoryQueries:
    config = Config.model_validate({"state_dir": tmp_path, "memory": settings})
    access = Access(Users([User("telegram:5")]), config)

    async def workspace(actor: Actor) -> Workspace:
        return Workspace(tmp_path)

    return MemoryQueries(memory, access, workspace, config.memory)


async def test_notes_and_ones_own_conversations_are_searched(tmp_path: Path) -> None:
    answer = await desk(tmp_path, Remembering()).answer(OWNER, MemoryQuery("search", "tea"))
    assert [hit["path"] for hit in answer["notes"]] == ["memory/users/tui:me/a.md"]
    assert [(quote["session"], quote["lines"][0]["text"]) for quote in answer["conversations"]] == [("tui:me", "tea")]
    assert answer["mode"] == "hybrid"


async def test_everybodys_conversations_are_those_that_may_be_read(tmp_path: Path) -> None:
    memory = desk(tmp_path, Remembering())
    answer = await memory.answer(OWNER, MemoryQuery("search", "tea", everybody=True))
    assert [quote["session"] for quote in answer["conversations"]] == ["tui:me", "telegram:5", "telegram:6"]
    answer = await memory.answer(ANNA, MemoryQuery("search", "tea", everybody=True))
    assert [quote["session"] for quote in answer["conversations"]] == ["telegram:5"]


async def test_only_the_owner_asks_as_somebody_else_and_has_only_that_ones_rights(tmp_path: Path) -> None:
    memory = desk(tmp_path, Remembering())
    answer = await memory.answer(OWNER, MemoryQuery("search", "tea", user="telegram:5"))
    assert [hit["path"] for hit in answer["notes"]] == ["memory/users/telegram:5/a.md"]
    assert [quote["session"] for quote in answer["conversations"]] == ["telegram:5"]
    with pytest.raises(AccessDenied, match="only the owner"):
        await memory.answer(ANNA, MemoryQuery("search", "tea", user="tui:me"))
    with pytest.raises(AccessDenied):
        await memory.answer(OWNER, MemoryQuery("search", "tea", user="telegram:6"))


async def test_the_conversations_by_themselves_are_for_the_owner_alone(tmp_path: Path) -> None:
    memory = desk(tmp_path, Remembering())
    wanted = WANTED.to_data(TranscriptQuery("tea", ["telegram:6"]))
    talks = TALKS.from_data((await memory.answer(OWNER, MemoryQuery("talks")))["talks"])
    assert {talk.session for talk in talks} == {"tui:me", "telegram:5", "telegram:6"}
    heard = HEARD.from_data((await memory.answer(OWNER, MemoryQuery("heard", wanted=wanted)))["heard"])
    assert [quote.session for quote in heard.quotes] == ["telegram:6"]
    for question in (MemoryQuery("talks"), MemoryQuery("heard", wanted=wanted)):
        with pytest.raises(AccessDenied, match="only the owner"):
            await memory.answer(ANNA, question)
    with pytest.raises(StateError, match="goclaw restart"):
        await memory.answer(OWNER, MemoryQuery("heard", wanted={"query": 5}))


async def test_only_admins_have_the_index_made_anew(tmp_path: Path) -> None:
    remembering = Remembering()
    with pytest.raises(AccessDenied):
        await desk(tmp_path, remembering).answer(ANNA, MemoryQuery("reindex"))
    assert remembering.made_anew == 0
    answer = await desk(tmp_path, remembering).answer(OWNER, MemoryQuery("reindex"))
    assert (remembering.made_anew, answer["files"]) == (1, 0)


async def test_memory_that_is_off_says_so(tmp_path: Path) -> None:
    memory = desk(tmp_path, NoMemory(), enabled=False)
    for question in (MemoryQuery("search", "tea"), MemoryQuery("list"), MemoryQuery("reindex")):
        with pytest.raises(MemoryOff):
            await memory.answer(OWNER, question)
    assert (await memory.answer(OWNER, MemoryQuery("status")))["lines"][0][0] == "Mode"


async def test_how_much_all_people_have_is_told_to_admins_alone(tmp_path: Path) -> None:
    memory = desk(tmp_path, Remembering())
    assert (await memory.answer(OWNER, MemoryQuery("status")))["conversations"] == 0
    answer = await memory.answer(OWNER, MemoryQuery("status", user="telegram:5"))
    assert not answer.keys() & {"files", "conversations", "passages", "embedded", "to_embed"}
    assert answer["lines"]


class Listing(NoMemory):
    """A memory that lists a person's own note and one for everybody."""

    async def files(self, workspace: Workspace, actor_key: str) -> Sequence[MemoryFile]:
        own = f"memory/users/{actor_key}/tea.md"
        return [MemoryFile(path, 3, 1, 0.0) for path in (own, "MEMORY.md")]


@asynccontextmanager
async def open_desk(folder: Path) -> AsyncIterator[MemoryQueries]:
    async with Workspace(folder) as opened:

        async def workspace(actor: Actor) -> Workspace:
            return opened

        yield replace(desk(folder.parent / "state", Listing()), workspace=workspace)


async def test_a_file_is_read_by_those_for_whom_it_is_listed_and_no_other(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "MEMORY.md").write_text("for *all*")
    (home / "config.yaml").write_text("no note")
    paths = ("config.yaml", "../x", "/etc/passwd", "memory/users/telegram:6/tea.md", "memory/users", "", "MEMORY.md/")
    async with open_desk(home) as memory:
        shown = {"path": "MEMORY.md", "text": "for *all*"}
        for path in ("MEMORY.md", "./MEMORY.md"):
            assert await memory.answer(OWNER, MemoryQuery("file", path)) == shown
        for path in paths:
            with pytest.raises(NoSuchFile):
                await memory.answer(OWNER, MemoryQuery("file", path))
        with pytest.raises(AccessDenied):
            await memory.answer(Actor("telegram:6", "telegram"), MemoryQuery("file", "MEMORY.md"))


async def test_a_link_in_the_place_of_a_listed_file_reaches_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    (tmp_path / "secret.md").write_text("secret")
    (tmp_path / "inside" / "MEMORY.md").symlink_to(tmp_path / "secret.md")
    async with open_desk(tmp_path / "inside") as memory:
        with pytest.raises(StateError):
            await memory.answer(OWNER, MemoryQuery("file", "MEMORY.md"))
