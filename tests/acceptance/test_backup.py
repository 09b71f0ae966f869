"""A backup of a daemon that is busy, and what its people see after a restore: nothing twice, nothing lost."""

import asyncio
import os
import signal
import sqlite3
import sys
import tarfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from goclaw.program.ops.backup.archive import read_archive
from tests.acceptance.daemon import ROOT, Installation
from tests.acceptance.model import EchoModel
from tests.acceptance.waiting import eventually, never
from tests.fake_telegram.server import FakeTelegram

pytestmark = [pytest.mark.slow]

ANN = 5
QUIET_SECONDS = 0.7
"""How long nothing more may come when everything has come: past the pause before a delivery is tried again."""


def texts(telegram: FakeTelegram) -> list[str]:
    return [sent.text for sent in telegram.sent(ANN)]


@asynccontextmanager
async def chatter(telegram: FakeTelegram) -> AsyncIterator[list[str]]:
    """Ann writes on and on while the block runs; yields what she has written."""
    said: list[str] = []

    async def talk() -> None:
        while True:
            said.append(f"m{len(said) + 1}")
            await telegram.world.say(f"{said[-1]} plain", user=ANN)
            await eventually(lambda: len(texts(telegram)) >= len(said) - 5)

    task = asyncio.create_task(talk())
    yield said
    task.cancel()


@pytest.mark.long
@pytest.mark.promise("P-backup-whole")
async def test_backups_of_a_busy_daemon_are_whole_and_hold_nobody_up(
    home: Installation, telegram: FakeTelegram
) -> None:
    await home.start(telegram)
    async with chatter(telegram) as said:
        await eventually(lambda: len(texts(telegram)) > 5)
        for number in range(3):
            answered = len(texts(telegram))
            done = await home.run("backup", str(home.folder / f"{number}.gz"))
            assert done.code == 0, done.err
            assert ", verified" in done.out
            assert len(texts(telegram)) > answered, "the daemon waited for the backup"
    await eventually(lambda: len(answers(telegram)) == len(said))
    assert await home.stop() == 0
    assert answers(telegram) == [f"answer {word} (end)" for word in said]
    for number in range(3):
        unpacked = home.folder / str(number)
        unpacked.mkdir()
        read_archive(home.folder / f"{number}.gz", unpacked)
        whole_turns(unpacked / "goclaw.db")
        assert telegram.token.encode() not in (unpacked / "config.yaml").read_bytes()


def answers(telegram: FakeTelegram) -> list[str]:
    """What was answered; so many messages make a compaction, of whose trouble the chat is told besides."""
    return [text for text in texts(telegram) if text.startswith("answer")]


def whole_turns(path: Path) -> None:
    """Every transaction is there as a whole: a turn that has ended has its answer, its delivery and no steps."""
    with closing(sqlite3.connect(path)) as database:

        def count(query: str, turn: str) -> int:
            return int(database.execute(f"SELECT count(*) FROM {query}", (turn,)).fetchone()[0])  # noqa: S608 -- ours

        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        turns = [row[0] for row in database.execute("SELECT id FROM inbox WHERE state = 'done'")]
        assert len(turns) > 3
        for turn in turns:
            assert count("messages WHERE turn = ? AND role = 'assistant'", turn) == 1
            assert count("deliveries WHERE id = ? || ':deliver:1'", turn) == 1
            assert count("steps WHERE turn = ?", turn) == 0


@pytest.mark.promise("P-restore-whole")
async def test_after_a_restore_nothing_is_answered_or_sent_twice(
    home: Installation, telegram: FakeTelegram, model: EchoModel
) -> None:
    """m2 is open in the backup and answered later; m3 comes later, and Telegram never hears that it was taken in."""
    await home.start(telegram)
    await telegram.world.say("m1 plain", user=ANN)
    await telegram.wait_sent(ANN, 1)
    gate = model.gate("m2", streamed=0)
    await telegram.world.say("m2 plain", user=ANN)
    await gate.reached.wait()
    assert (await home.run("backup", str(home.folder / "backup.gz"))).code == 0
    gate.opened.set()
    await telegram.wait_sent(ANN, 2)
    telegram.fail("getUpdates", gate=asyncio.Event(), times=1)
    await telegram.world.say("m3 plain", user=ANN)
    await telegram.wait_sent(ANN, 3)
    confirmed = len(telegram.world.confirmed)
    await home.kill()

    refused = await home.run("restore", str(home.folder / "nothing.gz"))
    assert refused.code == 1 and "nothing.gz" in refused.err
    done = await home.run("restore", str(home.folder / "backup.gz"))
    assert done.code == 0, done.err
    assert "skipped, so that nothing" in done.out and "messages without an answer in the backup: 1" in done.out
    assert "lacks its secrets" in done.err and "telegram.token" in done.err

    await home.start(telegram)
    await eventually(lambda: len(telegram.world.confirmed) > confirmed)
    await telegram.world.say("m4 plain", user=ANN)
    await telegram.wait_sent(ANN, 4)
    await never(lambda: texts(telegram)[4:], QUIET_SECONDS)
    # To a local server what a person said in a row goes as one message: the model still sees m2.
    assert texts(telegram) == ["answer m1 (end)", "answer m2 (end)", "answer m3 (end)", "answer m2 m4 (end)"]
    kept = [row[0] for row in home.read("SELECT text FROM messages WHERE session != '' ORDER BY id")]
    assert kept[:3] == ["m1 plain", "answer m1 (end)", "m2 plain"]
    assert "not taken up: restored from a backup" in kept[3]
    assert kept[4:] == ["m4 plain", "answer m2 m4 (end)"]
    assert await home.stop() == 0


async def test_a_running_daemon_is_not_restored_over(home: Installation, telegram: FakeTelegram) -> None:
    await home.start(telegram)
    assert home.process is not None
    assert (await home.run("backup", str(home.folder / "backup.gz"))).code == 0
    refused = await home.run("restore", str(home.folder / "backup.gz"))
    assert refused.code == 1
    assert f"pid {home.process.pid}" in refused.err and "goclaw stop" in refused.err
    assert not list(home.state.glob("*restor*"))
    assert await home.stop() == 0


async def test_a_backup_that_is_ended_leaves_nothing(home: Installation, folder: Path) -> None:
    assert (await home.run("send", "hello")).code == 0
    with (home.workspace / "large").open("wb") as file:
        file.truncate(300_000_000)
    target = folder / "out"
    target.mkdir()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "goclaw", "--config", str(home.config_path), "backup", str(target / "x.gz")),
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "PYTHONPATH": str(ROOT),
            "GOCLAW_STATE_DIR": str(home.state),
            **home.store_environment,
        },
    )
    await eventually(lambda: list(target.glob(".x.gz.*/archive")))
    process.send_signal(signal.SIGTERM)
    async with asyncio.timeout(20):
        assert await process.wait() == 128 + signal.SIGTERM
    assert list(target.iterdir()) == []


async def test_another_machine_gets_everything_from_one_file(home: Installation, folder: Path) -> None:
    assert (await home.run("send", "m1 plain")).code == 0
    (home.workspace / "MEMORY.md").write_text("Ann likes tea.\n")
    assert (await home.run("backup", str(folder / "backup.gz"))).code == 0
    with tarfile.open(folder / "backup.gz") as tar:
        assert "workspace/MEMORY.md" in tar.getnames(), "any tar can read it"

    other = Installation(folder / "other", forks=True)
    refused = await other.run("restore", str(folder / "backup.gz"))
    assert refused.code == 1
    assert str(home.workspace) in refused.err and "--outside" in refused.err
    done = await other.run("restore", str(folder / "backup.gz"), "--keep-settings")
    assert done.code == 0, done.err
    assert (other.state / "workspace" / "MEMORY.md").read_text() == "Ann likes tea.\n"
    assert (home.workspace / "MEMORY.md").exists()
    try:
        await other.start()
        shown = await other.run("tui", stdin="/quit\n")
    finally:
        await other.kill()
    assert "answer m1 (end)" in shown.out, shown.err


@pytest.mark.sqlite("a trial in another folder is a file")
async def test_a_restore_into_another_folder_leaves_this_one_alone(home: Installation, folder: Path) -> None:
    assert (await home.run("send", "m1 plain")).code == 0
    assert (await home.run("backup", str(folder / "backup.gz"), "--no-workspace")).code == 0
    before = home.read("SELECT count(*) FROM messages")
    trial = folder / "trial"
    done = await home.run("restore", str(folder / "backup.gz"), "--state-dir", str(trial))
    assert done.code == 0, done.err
    assert f"GOCLAW_STATE_DIR={trial} goclaw" in done.out
    with closing(sqlite3.connect(trial / "goclaw.db")) as database:
        assert database.execute("SELECT count(*) FROM messages").fetchall() == before
    assert not list(home.state.glob("*.before-restore-*"))
