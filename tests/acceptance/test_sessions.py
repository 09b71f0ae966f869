"""Conversations from outside: read beside a daemon and without one, forgotten for ever, also through a kill."""

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from goclaw.common.core.messages import UserMessage
from goclaw.durable.store.open import open_database
from goclaw.durable.store.transcripts import Origin, Transcripts, rows_of
from tests.acceptance import hasty
from tests.acceptance.daemon import Installation, installation
from tests.acceptance.model import EchoModel
from tests.acceptance.waiting import clock, eventually

pytestmark = [pytest.mark.slow]


@pytest.fixture
async def talking(folder: Path, model: EchoModel) -> AsyncIterator[Installation]:
    """A daemon without Telegram that has answered twice."""
    async with installation(folder, None, model.url, forks=True) as made:
        made.environment, made.module = {"LOG_LEVEL": "DEBUG"}, hasty.__name__
        await made.start()
        for text in ("m1 plain", "m2 run echo hello"):
            assert (await made.run("send", "--session", "tui:me", text)).code == 0
        yield made


@pytest.mark.long
async def test_a_conversation_reads_the_same_from_the_daemon_and_from_the_disk(talking: Installation) -> None:
    commands = (
        ("sessions", "list"),
        ("sessions", "list", "--json"),
        ("sessions", "show", "tui:me"),
        ("sessions", "show", "tui:me", "--full", "--limit", "2"),
        ("sessions", "export", "tui:me"),
        ("sessions", "export", "tui:me", "--format", "jsonl"),
        ("sessions", "show", "tui:you"),
    )
    beside = [await talking.run(*command) for command in commands]
    assert [ran.code for ran in beside] == [0, 0, 0, 0, 0, 0, 1]
    assert "did you mean `tui:me`?" in beside[-1].err
    assert "m1 plain" in beside[2].out and "m1 plain" not in beside[3].out
    rows = [json.loads(line) for line in beside[5].out.splitlines()]
    roles = " ".join(row["role"] for row in rows)
    assert roles == "user assistant user assistant tool_use tool_result assistant"
    assert await talking.stop() == 0
    after = [await talking.run(*command) for command in commands]
    assert [(ran.code, ran.out, ran.err) for ran in after] == [(ran.code, ran.out, ran.err) for ran in beside]


async def test_an_export_beside_the_daemon_is_whole_and_takes_nobodys_place(talking: Installation) -> None:
    target = talking.folder / "out.md"
    assert (await talking.run("sessions", "export", "tui:me", str(target))).code == 0
    written = target.read_text()
    assert written.startswith("# Conversation `tui:me`\n") and "**calls** `exec`" in written
    again = await talking.run("sessions", "export", "tui:me", str(target))
    assert again.code == 1 and "already exists" in again.err and target.read_text() == written


WORD = "pomegranate"
ROWS = "SELECT count(*) FROM messages WHERE session = 'tui:me'"


async def order(home: Installation) -> str:
    """Ask `/forget` for its code."""
    explained = await home.run("send", "--session", "tui:me", "/forget")
    code = re.search(r"^/forget (\w+)$", explained.out, re.MULTILINE)
    assert code, explained
    return code[1]


def holding(folder: Path) -> list[str]:
    """Files that hold the word, whatever they are; a journal may be gone before it is read."""
    found = []
    for path in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            if path.is_file() and WORD.encode() in path.read_bytes():
                found.append(path.name)
    return sorted(found)


async def indexed(folder: Path) -> None:
    """Wait until the memory index has the word, too."""
    await eventually(lambda: any(name.startswith("memory.db") for name in holding(folder)))


@pytest.mark.long
@pytest.mark.promise("P-forgotten")
async def test_forgotten_words_are_in_no_file_of_the_state_folder(talking: Installation) -> None:
    assert (await talking.run("send", "--session", "tui:me", f"m3 run echo {WORD}")).code == 0
    await eventually(lambda: "audit.jsonl" in holding(talking.state))
    assert (await talking.run("send", "--session", "tui:you", "m4 plain orange")).code == 0
    await indexed(talking.state)
    forgotten = await talking.run("send", "--session", "tui:me", f"/forget {await order(talking)}")
    assert forgotten.out.startswith("Deleted ")
    assert holding(talking.state) == []
    assert "did you mean" in (await talking.run("sessions", "show", "tui:me")).err
    assert "orange" in (await talking.run("sessions", "show", "tui:you")).out
    assert (await talking.run("send", "--session", "tui:me", "m5 plain")).out.startswith("answer m5")
    assert await talking.stop() == 0
    assert holding(talking.state) == []
    verified = await talking.run("audit", "verify")
    assert (
        verified.code == 0 and "no fault found\n" in verified.out and "the text of 2 lines was removed" in verified.out
    )


@pytest.mark.long
@pytest.mark.promise("P-audit")
async def test_an_audit_log_that_is_cut_off_is_not_taken_for_one_after_a_kill(talking: Installation) -> None:
    path = talking.state / "logs" / "audit.jsonl"
    await eventually(lambda: talking.read("SELECT value FROM daemon_facts WHERE name LIKE 'audit head%'"))
    assert (await talking.run("send", "--session", "tui:me", "m3 run true")).code == 0
    await eventually(lambda: path.read_bytes().count(b'"tool.use"') == 2)
    await talking.kill()
    killed = await talking.run("audit", "verify")
    assert killed.code == 0 and "no fault found\n" in killed.out
    await talking.start()
    assert await talking.stop() == 0
    whole = path.read_bytes().splitlines(keepends=True)
    sound = await talking.run("audit", "verify")
    assert sound.out == f"{len(whole)} lines verified, starting at {path}:1: no fault found\n"
    path.write_bytes(b"".join(whole[:-1]))
    cut = await talking.run("audit", "verify")
    place, gone = f"{path}:{len(whole) - 1}", f"line {len(whole)} of the chain is missing"
    assert cut.code == 1 and cut.out.startswith(f"{place}: {gone} after this line: the log was cut off here\n")
    await talking.start()
    after = await talking.run("audit", "verify")
    assert after.code == 1 and f"{path}:{len(whole)}: {gone} before this line\n" in after.out
    assert "audit.broken" in (await talking.run("audit", "--denied")).out
    assert await talking.stop() == 0


async def fill(home: Installation, turns: int) -> None:
    """A conversation of a hundred long messages a turn: of forty turns, it takes a while to delete."""
    async with open_database(home.state / "goclaw.db") as database:
        await database.write(Transcripts(database).ensure_session("tui:me", clock.now()))
        for turn in range(turns):
            origin = Origin("tui:me", f"t:{turn}", "user", clock.now())
            message = UserMessage(f"{WORD} " * 200)
            await database.write(*(row for _ in range(100) for row in rows_of(message, origin)))


@pytest.mark.promise("P-forgotten")
@pytest.mark.parametrize(
    "moment", ["when it is said", pytest.param("while it is done", marks=pytest.mark.long), "when the rows are gone"]
)
@pytest.mark.sqlite("watches the log of the file")
async def test_a_kill_leaves_all_or_nothing_and_the_next_start_finishes(
    folder: Path, model: EchoModel, moment: str
) -> None:
    async with installation(folder, None, model.url, forks=True) as home:
        home.state.mkdir(mode=0o700, exist_ok=True)
        home.module = hasty.__name__
        turns = 40 if moment == "while it is done" else 4
        await fill(home, turns)
        await home.start()
        await indexed(home.state)
        said = asyncio.ensure_future(home.run("send", "--session", "tui:me", f"/forget {await order(home)}"))
        log = home.state / "goclaw.db-wal"
        if moment == "while it is done":
            size = log.stat().st_size
            await eventually(lambda: log.stat().st_size > size + 4_096 or home.read(ROWS) == [(0,)])
        elif moment == "when the rows are gone":
            await eventually(lambda: home.read(ROWS) == [(0,)])
        await home.kill()
        said.cancel()  # it would look for the daemon for half a minute
        with suppress(asyncio.CancelledError):
            await said
        ((left,),) = home.read(ROWS)
        assert left in (0, 100 * turns) and (left == 0 or moment != "when the rows are gone")
        await home.start()
        if left == 0:
            await eventually(lambda: holding(home.state) == [])
        else:
            assert holding(home.state)
        assert (await home.run("send", "--session", "tui:me", "m1 plain")).out.startswith("answer m1")
        assert await home.stop() == 0


async def test_what_is_older_than_wanted_is_gone_after_the_start(folder: Path, model: EchoModel) -> None:
    async with installation(folder, None, model.url, forks=True, retention={"days": 7}) as home:
        home.state.mkdir(mode=0o700, exist_ok=True)
        async with open_database(home.state / "goclaw.db") as database:
            await database.write(Transcripts(database).ensure_session("tui:me", 0.0))
            for days in (30, 8, 1):
                origin = Origin("tui:me", f"t:{days}", "user", clock.now() - days * 24 * 3600)
                await database.write(*rows_of(UserMessage(f"said {days} days ago"), origin))
        await home.start()
        await eventually(lambda: home.read(ROWS) == [(1,)])
        log = home.state / "logs" / "goclaw.log"
        await eventually(lambda: "deleted 2 rows of 1 sessions, older than retention.days (7)" in log.read_text())
        assert "said 1 days ago" in (await home.run("sessions", "show", "tui:me", "--full")).out
        assert await home.stop() == 0
