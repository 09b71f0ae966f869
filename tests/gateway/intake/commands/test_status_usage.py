"""`/usage`: what was asked and what it cost, here, and for admins everywhere."""

from pathlib import Path

import pytest

from goclaw.common.auth.users import User
from goclaw.common.core.events import Actor
from goclaw.durable.store.database import Database
from goclaw.durable.store.spending import Spending
from tests.harness import World

DAY = 24 * 3600.0
ANNA, BOSS = Actor("telegram:5", "telegram"), Actor("telegram:7", "telegram")
USERS = [User("telegram:5"), User("telegram:7", roles=frozenset({"admin"}))]
ANNAS = {"actor": ANNA, "session": "telegram:5", "chat": "5"}


async def spend(
    database: Database, session: str, model: str, at: float, tokens: tuple[int, int, int], cost: float | None
) -> None:
    given, output, cached = tokens
    row = Spending.row(session, "t", "answer", model, tokens=(given, output, cached, 0), cost=cost, at=at)
    await Spending(database).store(row)


async def spent(world: World, database: Database) -> None:
    """A dear model today, an unpriced one ten days ago, somebody else's, and what was forgotten."""
    now = world.clock.now()
    await spend(database, "telegram:5", "acme:best", now - 60, (1_000, 200, 750), 0.42)
    await spend(database, "telegram:5", "acme:best", now - 2 * DAY, (1_000, 200, 0), 0.5)
    await spend(database, "telegram:5", "ollama:local", now - 10 * DAY, (5_000, 10, 0), None)
    await spend(database, "telegram:-100", "acme:best", now - 60, (10, 2, 0), 3.0)
    await spend(database, "", "acme:small", now - 100 * DAY, (7, 7, 0), 0.001)


@pytest.mark.parametrize(
    ("period", "lines"),
    [
        (
            "day",
            [
                "This conversation in the last 24 hours:",
                "- acme:best: 1 request, 1,000 tokens in (75% cached), 200 out, $0.42",
            ],
        ),
        (
            "week",
            [
                "This conversation in the last 7 days:",
                "- acme:best: 2 requests, 2,000 tokens in (38% cached), 400 out, $0.92",
            ],
        ),
        (
            "MONTH",
            [
                "This conversation in the last 30 days:",
                "- acme:best: 2 requests, 2,000 tokens in (38% cached), 400 out, $0.92",
                "- ollama:local: 1 request, 5,000 tokens in, 10 out, price unknown",
                "Total: 3 requests, 7,000 tokens in (11% cached), 410 out, $0.92 and 1 of unknown price",
            ],
        ),
    ],
)
async def test_a_user_sees_his_own(tmp_path: Path, period: str, lines: list[str]) -> None:
    world = World(tmp_path, users=USERS)
    async with world.running() as core:
        await spent(world, core.database)
        assert (await core.command(f"/usage {period}", **ANNAS)).splitlines() == lines


async def test_an_admin_sees_all_per_model_and_per_conversation(tmp_path: Path) -> None:
    world = World(tmp_path, users=USERS)
    async with world.running() as core:
        await spent(world, core.database)
        told = await core.command("/usage", actor=BOSS, session="telegram:7", chat="7")
        assert told.split("\n\n") == [
            "This conversation since the beginning: no requests.",
            "All conversations since the beginning:\n"
            "- acme:best: 3 requests, 2,010 tokens in (37% cached), 402 out, $3.92\n"
            "- ollama:local: 1 request, 5,000 tokens in, 10 out, price unknown\n"
            "- acme:small: 1 request, 7 tokens in, 7 out, $0.0010\n"
            "Total: 5 requests, 7,017 tokens in (11% cached), 419 out, $3.92 and 1 of unknown price",
            "By conversation since the beginning:\n"
            "- telegram:-100: 1 request, 10 tokens in, 2 out, $3.00\n"
            "- telegram:5: 3 requests, 7,000 tokens in (11% cached), 410 out, $0.92 and 1 of unknown "
            "price\n"
            "- forgotten ones: 1 request, 7 tokens in, 7 out, $0.0010",
        ]


async def test_another_word_is_answered_with_the_words_there_are(tmp_path: Path) -> None:
    async with World(tmp_path).running() as core:
        assert await core.command("/usage yesterday") == (
            "Send /usage with one of: day, week, month, all. The default is all."
        )
