"""The whole daemon on a disk that fills up, cannot be written, is held by others, or loses the database."""

import asyncio
import logging
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from goclaw.channels.memory import Room
from goclaw.common.config.schema import Config
from goclaw.common.core import supervise
from goclaw.common.health.logs import log_path, open_logs
from goclaw.durable.engine import lanes
from goclaw.durable.engine.machine_faults import NOT_KEPT
from goclaw.durable.store.blobs import open_blobs
from goclaw.durable.store.sqlite import database as store
from goclaw.durable.store.sqlite.database import SqliteDatabase
from goclaw.errors import DiskError, DiskFault, StateError
from goclaw.program.app import App, open_app, running
from tests.small_disk import SmallDisk, small_disk

pytestmark = pytest.mark.sqlite("the disk of the file is full, read-only or gone")

PATIENCE = 20.0


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What failed is tried again at once, and what cannot be finished is not waited for at the end."""
    monkeypatch.setattr(lanes, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(supervise, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(running, "FLUSH_SECONDS", 0.1)
    monkeypatch.setattr(running, "GRACE_SECONDS", 0.2)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """A disk of its own for the state folder."""
    with small_disk(tmp_path / "disk") as mounted:
        yield mounted


def config_in(folder: Path, room: Room) -> Config:
    channels = {"memory": {"room": room}}
    return Config.model_validate(
        {"state_dir": folder / "state", "workspace": folder / "workspace", "channels": channels}
    )


@asynccontextmanager
async def daemon(folder: Path, room: Room) -> AsyncIterator[App]:
    async with open_app(config_in(folder, room)) as app, asyncio.timeout(PATIENCE):
        yield app


async def answers(room: Room, count: int) -> list[str]:
    """The next deliveries that are no news of an outage."""
    found = list[str]()
    while len(found) < count:
        text = (await room.heard()).delivery.text
        if NOT_KEPT not in text:
            found.append(text)
    return found


async def refused(room: Room, fault: DiskFault) -> None:
    """Say the same three times, as a service does that gets no acknowledgement; once is told why."""
    before = len(room.all)
    for _ in range(3):
        with pytest.raises(DiskError) as caught:
            await room.say("in between", message_id="2")
        assert caught.value.fault is fault
    assert [heard.delivery.text for heard in room.all[before:]] == [f"{fault.value}. {NOT_KEPT}"]


async def goes_on(app: App, room: Room) -> None:
    """What was refused is taken in when it comes again, and answered once."""
    await room.say("in between", message_id="2")
    assert len(await answers(room, 1)) == 1
    await app.engine.idle()
    assert app.foundation.storage.database.trouble is None
    assert "database" not in app.foundation.alerts.open()


@pytest.mark.promise("P-disk")
async def test_a_full_disk_is_told_once_and_over_when_there_is_room(disk: SmallDisk) -> None:
    room = Room()
    async with daemon(disk.folder, room) as app:
        await room.say("hello", message_id="1")
        await answers(room, 1)
        disk.fill()
        await refused(room, DiskFault.FULL)
        assert "make room" in app.foundation.alerts.open()["database"]
        disk.make_room()
        await goes_on(app, room)
    with closing(sqlite3.connect(disk.folder / "state" / "goclaw.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("SELECT state FROM inbox").fetchall() == [("done",)] * 2


@pytest.mark.promise("P-disk")
async def test_a_disk_that_can_only_be_read_is_told_once_and_over_when_it_can_be_written(tmp_path: Path) -> None:
    room = Room()
    async with daemon(tmp_path, room) as app:
        await room.say("hello", message_id="1")
        await answers(room, 1)
        # A file system with files open for writing becomes so only by errors of its disk: SQLite's own switch stands
        # in for that, with the error that it gives then.
        database = app.foundation.storage.database
        assert isinstance(database, SqliteDatabase)
        await database._writer.run(lambda writer: writer.execute("PRAGMA query_only=ON"))
        await refused(room, DiskFault.READ_ONLY)
        await database._writer.run(lambda writer: writer.execute("PRAGMA query_only=OFF"))
        await goes_on(app, room)


@pytest.mark.promise("P-disk")
@pytest.mark.parametrize("trouble", ["full", "read-only"])
async def test_a_start_on_such_a_disk_says_what_helps(disk: SmallDisk, trouble: str) -> None:
    if trouble == "full":
        disk.fill()
    else:
        disk.writable(False)
    with pytest.raises(StateError, match="make room" if trouble == "full" else "writable"):
        async with daemon(disk.folder, Room()):
            pass
    if trouble == "full":
        disk.make_room()
    else:
        disk.writable(True)
    async with daemon(disk.folder, Room()) as app:
        assert app.foundation.storage.database.salvaged is None


@pytest.mark.promise("P-disk")
@pytest.mark.parametrize("size", [64, 128, 256, 512, 1024])
async def test_a_start_that_a_full_disk_cuts_anywhere_leaves_nothing_broken(disk: SmallDisk, size: int) -> None:
    disk.fill()
    with (disk.folder / "ballast").open("ab") as ballast:
        ballast.truncate((disk.folder / "ballast").stat().st_size - size * 1024)
    try:
        async with daemon(disk.folder, Room()):
            pass
    except StateError:
        pass
    disk.make_room()
    async with daemon(disk.folder, Room()) as app:
        assert app.foundation.storage.database.salvaged is None


HOLD = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
connection.close()
"""


@pytest.mark.promise("P-disk")
async def test_another_program_on_the_database_is_waited_for_and_then_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "BUSY_MS", 2_000)  # in which the other one can end, too
    room = Room()
    async with daemon(tmp_path, room) as app:
        await room.say("hello", message_id="1")
        await answers(room, 1)
        path = tmp_path / "state" / "goclaw.db"
        command = [sys.executable, "-c", HOLD, str(path)]
        holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: ASYNC220  # for a test
        assert holder.stdin and holder.stdout
        await asyncio.to_thread(holder.stdout.readline)
        began = app.foundation.clock.monotonic()
        saying = asyncio.ensure_future(room.say("in between", message_id="2"))
        beats = 0
        while not saying.done():
            await asyncio.sleep(0)
            beats += 1
        assert app.foundation.clock.monotonic() - began >= 2.0
        assert beats > 100, "the event loop was held up"
        with pytest.raises(DiskError) as caught:
            await saying
        assert caught.value.fault is DiskFault.LOCKED
        # What waits when the other one lets go is committed, and nothing of it is lost.
        many = [asyncio.ensure_future(room.say(f"/status {n}", message_id=f"c{n}")) for n in range(20)]
        await asyncio.sleep(0)
        await asyncio.to_thread(holder.communicate)
        holder.wait(10)
        await asyncio.gather(*many)
        await goes_on(app, room)


@pytest.mark.promise("P-disk")
async def test_a_database_that_is_taken_away_is_noticed_kept_and_taken_back(tmp_path: Path) -> None:
    room = Room()
    async with daemon(tmp_path, room) as app:
        await room.say("hello", message_id="1")
        await answers(room, 1)
        path = tmp_path / "state" / "goclaw.db"
        path.rename(path.with_name("elsewhere"))
        await refused(room, DiskFault.GONE)
        (rescued,) = path.parent.glob("goclaw.db.rescued-*")
        with closing(sqlite3.connect(rescued)) as connection:
            assert connection.execute("SELECT id FROM inbox").fetchall() == [("memory:1",)]
        path.with_name("elsewhere").rename(path)
        await goes_on(app, room)


@pytest.mark.promise("P-disk")
async def test_a_database_that_is_replaced_gets_nothing_of_the_running_daemon(tmp_path: Path) -> None:
    room = Room()
    async with daemon(tmp_path, room) as app:
        await room.say("hello", message_id="1")
        await answers(room, 1)
        path = tmp_path / "state" / "goclaw.db"
        other = path.with_name("other")
        other.write_bytes(path.read_bytes())
        found = other.read_bytes()
        other.rename(path)
        await refused(room, DiskFault.GONE)
        assert "goclaw restart" in app.foundation.alerts.open()["database"]
        assert path.read_bytes() == found


@pytest.mark.promise("P-disk")
async def test_a_picture_for_which_there_is_no_room_leaves_nothing(disk: SmallDisk) -> None:
    async with open_blobs(disk.folder / "blobs") as blobs:
        disk.fill()
        with pytest.raises(DiskError, match="make room"):
            await blobs.put(b"x" * 100_000, "image/png")
        disk.make_room()
        left = [path.name for path in (disk.folder / "blobs" / "media").iterdir() if path.suffix != ".type"]
        assert left == []
        key = await blobs.put(b"x" * 100_000, "image/png")
        assert await blobs.get(key) == b"x" * 100_000


@pytest.mark.promise("P-disk")
async def test_a_long_output_is_kept_as_far_as_there_is_room(disk: SmallDisk) -> None:
    async with open_blobs(disk.folder / "blobs") as blobs:
        async with blobs.open_spill("a") as spill:
            await spill.write(b"y" * 100_000)
            disk.fill()
            await spill.write(b"y" * 100_000)
            await spill.write(b"y" * 100_000)
        assert spill.truncated and 100_000 <= spill.kept < 300_000
        found = await blobs.use_spill(spill.id, "a", lambda file: file.read())
        assert set(found) == {ord("y")} and len(found) >= spill.kept


@pytest.mark.promise("P-disk")
def test_the_log_goes_on_when_there_is_room_and_says_how_much_is_missing(
    disk: SmallDisk, capsys: pytest.CaptureFixture[str]
) -> None:
    config = config_in(disk.folder, Room())
    log = logging.getLogger("tests.durable.store")
    with open_logs(config, None):
        log.warning("before")
        disk_is_full(disk, log)
        log.warning("after")
    text = log_path(config).read_text("utf-8")
    assert "before" in text and "after" in text
    assert "log lines while the disk" in text
    assert capsys.readouterr().err.count("cannot be written") == 1


def disk_is_full(disk: SmallDisk, log: logging.Logger) -> None:
    """More than a page of the disk, while there is no room. Ends when all of it was tried."""
    logging.getLogger().handlers[0].flush()  # what came before has its room
    disk.fill()
    for number in range(50):
        log.warning("lost %d %s", number, "z" * 1_000)
    logging.getLogger().handlers[0].flush()
    disk.make_room()
