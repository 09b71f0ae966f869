"""`/memory`, and what `/status` says of memory."""

from pathlib import Path

import pytest

from goclaw.common.auth.users import User
from goclaw.common.core.events import Actor
from goclaw.memory import memory_queries
from goclaw.memory.base import DISABLED, MemoryStatus, NoMemory
from tests.harness import World

ANNA, BOSS = Actor("telegram:5", "telegram"), Actor("telegram:7", "telegram")
NONE = "not available (docs/memory.md says how to get one)"
USERS = [User("telegram:5"), User("telegram:7", roles=frozenset({"admin"}))]


class Standing(NoMemory):
    """A memory that stands as a test says."""

    def __init__(self, status: MemoryStatus) -> None:
        self._status = status
        self.made_anew = 0

    async def status(self) -> MemoryStatus:
        return self._status

    async def reindex(self) -> None:
        self.made_anew += 1


def world_with(tmp_path: Path, status: MemoryStatus) -> tuple[World, Standing]:
    world = World(tmp_path, users=USERS)
    world.memory = standing = Standing(status)
    return world, standing


async def test_an_admin_is_told_how_memory_stands_and_how_much_all_people_have(tmp_path: Path) -> None:
    world, _ = world_with(tmp_path, MemoryStatus(12, 3, 4_567, "minilm", embedded=1_000, to_embed=4_000))
    async with world.running() as core:
        assert await core.command("/memory", actor=BOSS, session="telegram:7", chat="7") == (
            "Memory\n"
            "  Files: 12\n"
            "  Conversations: 3\n"
            "  Passages: 4,567\n"
            "  Mode: hybrid: words and meaning\n"
            "  Embedder: minilm\n"
            "  Vectors: 1,000 of 4,000 (25 %)"
        )
        assert await core.command("/memory", actor=ANNA, session="telegram:5", chat="5") == (
            "Memory\n  Mode: hybrid: words and meaning\n  Embedder: minilm\n  Vectors: 25 %"
        )


async def test_only_an_admin_has_the_index_made_anew(tmp_path: Path) -> None:
    world, standing = world_with(tmp_path, MemoryStatus(1, 0, 1, ""))
    async with world.running() as core:
        said = await core.command("/memory reindex", actor=ANNA, session="telegram:5", chat="5")
        assert (said, standing.made_anew) == ("Only admins can rebuild the memory index.", 0)
        said = await core.command("/memory reindex", actor=BOSS, session="telegram:7", chat="7")
        assert said.startswith("Rebuilding the index")
        assert standing.made_anew == 1


async def test_where_memory_is_off_there_is_nothing_to_make_anew(tmp_path: Path) -> None:
    world = World(tmp_path, users=USERS)
    async with world.running() as core:
        boss = {"actor": BOSS, "session": "telegram:7", "chat": "7"}
        assert await core.command("/memory reindex", **boss) == f"Nothing to rebuild: {DISABLED}."
        assert await core.command("/memory", **boss) == f"Memory\n  Mode: off: {DISABLED}"


async def test_another_word_is_answered_with_the_words_there_are(tmp_path: Path) -> None:
    async with World(tmp_path).running() as core:
        assert (await core.command("/memory please")).startswith("Send /memory for")


@pytest.mark.parametrize(
    ("status", "mode", "embedder", "vectors"),
    [
        (
            MemoryStatus(1, 1, 1, ""),
            "keyword: words only",
            "not available (docs/memory.md says how to get one)",
            None,
        ),
        (MemoryStatus(1, 1, 1, "m", "it is away"), "keyword: words only", "it is away", None),
        (MemoryStatus(1, 1, 1, "m", embedded=2, to_embed=2), "hybrid: words and meaning", "m", "all 2"),
        (
            MemoryStatus(1, 1, 1, "m", embedded=1, to_embed=3, coming="l"),
            "hybrid: words and meaning",
            "m",
            "1 of 3 (33 %) of l, which then takes over",
        ),
    ],
)
def test_mode_embedder_and_progress_are_told(
    status: MemoryStatus, mode: str, embedder: str, vectors: str | None
) -> None:
    told = dict(memory_queries.status_lines(status, counts=True))
    assert (told["Mode"], told["Embedder"], told.get("Vectors")) == (mode, embedder, vectors)


@pytest.mark.parametrize(
    ("status", "more"),
    [
        (MemoryStatus(1, 1, 1, ""), {}),
        (MemoryStatus(1, 1, 1, "m", embedded=2, to_embed=2), {}),
        (MemoryStatus(1, 1, 1, "m", embedded=1, to_embed=4), {"Vectors": "25 %"}),
        (
            MemoryStatus(1, 1, 1, "m", embedded=1, to_embed=3, coming="l"),
            {"Vectors": "33 % of l, which then takes over"},
        ),
        (MemoryStatus(1, 1, 1, "m", "it is away", to_embed=2), {"Embedder": "it is away"}),
        (MemoryStatus(1, 1, 1, "", details=("it is being made anew",)), {"Note": "it is being made anew"}),
    ],
)
def test_the_brief_lines_are_two_and_what_is_not_well(status: MemoryStatus, more: dict[str, str]) -> None:
    told = dict(memory_queries.brief_status_lines(status))
    assert told.pop("Searched") == "1 file, 1 conversation"
    assert told.pop("Mode").startswith(("hybrid: ", "keyword: "))
    assert told == more


def test_the_brief_lines_of_memory_that_is_off_are_one() -> None:
    assert dict(memory_queries.brief_status_lines(MemoryStatus(0, 0, 0, "", enabled=False))) == {
        "Mode": f"off: {DISABLED}"
    }
