"""Three daemons on one Postgres: a minute of kills, pauses and cut lines (hours: `tests.acceptance.replica_fuzz`)."""

import asyncio
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from goclaw.common.config.values import PostgresPlace
from goclaw.common.core.clock import RealClock
from goclaw.durable.store.postgres.database import open_schema
from tests.acceptance import replica_ledger
from tests.acceptance.blows import HOLE, PAUSE, RESET, RESTART, START, TERM, TIME, TROUBLES
from tests.acceptance.crash_points import POINTS
from tests.acceptance.replica import FENCE
from tests.acceptance.replica_fuzz import Report, is_enough, totals
from tests.acceptance.replica_ledger import ReplicaOutcome
from tests.acceptance.replica_world import SIMPLE_CHATS, lives_of, replica_world
from tests.acceptance.waiting import eventually
from tests.parts import sql
from tests.postgres import Server

SEED, KILLS = "314", 12
ANN = min(number for number in SIMPLE_CHATS if number > 0)
SESSION = f"telegram:{ANN}"
LEFT = "another process has taken the session over"
WAIT_SECONDS = 60.0


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.promise("P-answered-once")
@pytest.mark.promise("P-repeat-marked")
@pytest.mark.promise("P-tool-once")
@pytest.mark.sqlite("has a Postgres of its own")
async def test_kills_pauses_cut_lines_and_restarts_of_postgres_lose_nothing_and_repeat_nothing_unmarked(
    folder: Path,
) -> None:
    async with replica_world(folder, SEED) as world:
        found = await world.run(lives_of(SEED, KILLS))
    assert found.faults == []
    assert found.kills == KILLS
    assert set(found.troubles) >= {PAUSE, RESET, HOLE, RESTART}
    assert found.messages > KILLS and found.takeovers > KILLS


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(200)
@pytest.mark.sqlite("has a Postgres of its own")
@pytest.mark.parametrize("fenced", [True, False])
async def test_the_books_find_what_a_paused_daemon_writes_where_the_fence_does_not_hold_it(
    folder: Path, fenced: bool
) -> None:
    async with replica_world(folder, SEED, chats=SIMPLE_CHATS, fenced=fenced) as world:
        await world.first_start()
        await world.start_all()
        gate = world.model.gate("m1", streamed=1)
        await world.telegram.world.say("m1 exec", user=ANN)
        await eventually(gate.reached.is_set, WAIT_SECONDS)
        paused = world.owner_of(SESSION)
        assert paused is not None and paused.home.process is not None
        paused.home.process.send_signal(signal.SIGSTOP)
        await eventually(lambda: (other := world.owner_of(SESSION)) and other is not paused, WAIT_SECONDS)
        gate.opened.set()
        await eventually(lambda: "(end)" in str(world.telegram.sent(ANN)), WAIT_SECONDS)
        paused.home.process.send_signal(signal.SIGCONT)
        if fenced:
            await eventually(lambda: LEFT in paused.said(), WAIT_SECONDS)
            assert replica_ledger.old_epochs(world.server) == []
        else:
            await eventually(lambda: replica_ledger.old_epochs(world.server), WAIT_SECONDS)


def test_a_run_is_repeated_by_its_seed_and_has_everything_in_it_that_can_happen() -> None:
    lives = [life for _, life in lives_of("7", 1_000)]
    assert lives == [life for _, life in lives_of("7", 1_000)]
    assert lives != [life for _, life in lives_of("8", 1_000)]
    assert sum(life.end != TERM for life in lives) == 1_000
    assert {life.end for life in lives} == {START, TIME, TERM, *POINTS}
    troubles = [life.trouble for life in lives]
    assert troubles.count(PAUSE) >= 200 and troubles.count(RESTART) >= 20
    assert troubles.count(RESET) + troubles.count(HOLE) >= 50
    assert all(life.stalls >= 2 for life in lives)


def test_the_minute_has_every_trouble_in_it() -> None:
    assert {life.trouble for _, life in lives_of(SEED, KILLS)} >= set(TROUBLES)


def test_a_report_goes_on_where_it_was_ended_and_says_the_sums(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    one = ReplicaOutcome(kills=600, troubles={PAUSE: 150, RESTART: 15, HOLE: 10, RESET: 20}, integrity="ok")
    report = Report(path)
    report.add("1", report.next_of("1"), 10.0, one)
    again = Report(path)
    again.load()
    assert (again.next_of("1"), again.next_of("2")) == (1, 0)
    assert not is_enough(totals(again.batches), 1_000)
    again.add("1", 1, 5.0, replace(one, lost=["m1"]))
    sums = totals(again.batches)
    assert (sums["kills"], sums["pauses"], sums["cuts"], sums["lost"], sums["seconds"]) == (1_200, 300, 60, 1, 15)
    assert sums["faults"] == ["1.1: lost: m1"]
    assert is_enough(sums, 1_000)


@pytest.mark.sqlite("has a Postgres of its own")
async def test_the_books_find_a_row_that_is_written_under_an_epoch_that_has_passed(server: Server) -> None:
    async with open_schema(PostgresPlace.of(server.url), RealClock()) as database:
        await asyncio.to_thread(replica_ledger.watch, server)
        held = await database.acquire("s")
        told, step = f"SELECT set_config('{FENCE}', :f, true)", "INSERT INTO messages (session, turn, step, role, text"
        row = sql(f"{step}, created_at) VALUES ('s', 't', 'user', 'user', 'm1c5 plain', 0)")
        await database.write(sql(told, f=f"{held.epoch} s"), row)
        assert replica_ledger.old_epochs(server) == []
        again = await database.acquire("s")
        await database.write(sql(told, f=f"{held.epoch} s"), row)
        assert replica_ledger.old_epochs(server) == [f"messages of s: {held.epoch} s, not {again.epoch}"]
        assert replica_ledger.disorder(server) == ["s: m1 before m1"]
