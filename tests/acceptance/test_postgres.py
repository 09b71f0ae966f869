"""The same daemon with `store: postgresql://…`: nothing lost over kills and outages, and the same commands."""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import psycopg
import pytest

from tests.acceptance.daemon import ROOT, Installation, installation
from tests.acceptance.model import EchoModel
from tests.acceptance.waiting import clock, eventually
from tests.fake_telegram.server import FakeTelegram
from tests.postgres import Server, frozen
from tests.terminal import Terminal, open_terminal

pytestmark = [pytest.mark.slow, pytest.mark.sqlite("starts a Postgres of its own, in every run")]

ANN = 5
OUTAGE, TOLD_SECONDS, WAIT_SECONDS = "My database cannot be reached", 20.0, 60.0
PHOTO = b"\x89PNG\r\n\x1a\n a picture, as far as its first bytes go"


@asynccontextmanager
async def open_home(
    folder: Path, telegram: FakeTelegram, model: EchoModel, server: Server
) -> AsyncIterator[Installation]:
    """An installation on a Postgres, where Ann may do everything; no daemon runs yet."""
    async with installation(folder, telegram, model.url, forks=True, store=server.url) as made:
        made.write_users({f"telegram:{ANN}": {"name": "Ann"}})
        yield made


@asynccontextmanager
async def open_client(home: Installation) -> AsyncIterator[Terminal]:
    """The terminal client of a daemon."""
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(home.folder), "PYTHONPATH": str(ROOT), "LANG": "C.UTF-8"}
    environment |= {"GOCLAW_STATE_DIR": str(home.state)}
    command = [sys.executable, "-m", "goclaw", "tui"]
    async with open_terminal(command, environment, folder=home.folder, size=(120, 40)) as terminal:
        yield terminal


@pytest.fixture
async def home(folder: Path, telegram: FakeTelegram, model: EchoModel, server: Server) -> AsyncIterator[Installation]:
    async with open_home(folder, telegram, model, server) as made:
        yield made


@pytest.fixture
async def own_home(
    folder: Path, telegram: FakeTelegram, model: EchoModel, own_server: Server
) -> AsyncIterator[Installation]:
    """On a Postgres that the test may stop."""
    async with open_home(folder, telegram, model, own_server) as made:
        yield made


def texts(telegram: FakeTelegram) -> list[str]:
    return [sent.text for sent in telegram.sent(ANN)]


def answers(telegram: FakeTelegram) -> list[str]:
    return [said for said in texts(telegram) if "(end)" in said]


def have_come(telegram: FakeTelegram, count: int) -> bool:
    return len(answers(telegram)) == count


def rows(server: Server, query: str) -> list[tuple[object, ...]]:
    with psycopg.connect(server.url, options="-csearch_path=goclaw") as connection:
        return connection.execute(query.encode()).fetchall()


async def answered(telegram: FakeTelegram, text: str) -> None:
    """Let Ann write, and wait for the answer."""
    await telegram.world.say(text, user=ANN)
    name = text.split(" ", 1)[0]
    await eventually(lambda: any(name in said and "(end)" in said for said in texts(telegram)))


async def test_conversations_are_in_postgres_and_go_on_after_a_kill(
    home: Installation, telegram: FakeTelegram, server: Server
) -> None:
    await home.start(telegram)
    await answered(telegram, "m1 exec")
    await home.kill()
    await telegram.world.say("m2 plain", user=ANN)
    await home.start(telegram)
    await eventually(lambda: any("m2" in said and "(end)" in said for said in texts(telegram)))
    assert not (home.state / "goclaw.db").exists()
    said = [row[0] for row in rows(server, "SELECT text FROM messages WHERE role = 'user' ORDER BY id")]
    assert [text.split(" ")[0] for text in map(str, said)] == ["m1", "m2"]
    assert rows(server, "SELECT count(*) FROM deliveries WHERE state <> 'sent'") == [(0,)]
    status = json.loads((await home.run("status", "--json")).out)
    assert status["health"]["ready"], status["health"]
    assert "Postgres" in (await home.run("status")).out
    found = await home.run("doctor", "--offline")
    assert "the schema goclaw of postgresql://goclaw@127.0.0.1" in found.out
    assert "used by 1: " in found.out
    assert "the role is a superuser" in found.out
    assert (await home.run("audit", "verify")).code == 0
    assert await home.stop() == 0
    exported = await home.run("sessions", "export", "telegram:5")
    assert "m1 exec" in exported.out and "m2 plain" in exported.out, exported.err


@pytest.mark.long
@pytest.mark.promise("P-disk")
async def test_while_postgres_is_away_people_are_told_and_every_message_is_answered_later(
    own_home: Installation, telegram: FakeTelegram, own_server: Server
) -> None:
    await own_home.start(telegram)
    await answered(telegram, "m1 plain")
    await asyncio.to_thread(own_server.stop, signal.SIGQUIT)
    await telegram.world.say("m2 plain", user=ANN)
    await telegram.world.say("m3 plain", user=ANN)
    await eventually(lambda: any("My database cannot be reached" in said for said in texts(telegram)))
    status = await own_home.run("status")
    assert status.code != 0
    assert "My database cannot be reached" in status.err
    found = await own_home.run("doctor", "--offline")
    assert "is Postgres running" in found.out
    await asyncio.to_thread(own_server.start)
    await eventually(
        lambda: all(any(name in said and "(end)" in said for said in texts(telegram)) for name in ("m2", "m3"))
    )
    assert len(answers(telegram)) == 3, texts(telegram)
    assert await own_home.stop() == 0


@pytest.mark.long
@pytest.mark.timeout(240)
@pytest.mark.promise("P-disk")
@pytest.mark.parametrize("together", [True, False])
async def test_everyone_who_writes_while_postgres_is_frozen_is_told_within_twenty_seconds(
    own_home: Installation, telegram: FakeTelegram, own_server: Server, together: bool
) -> None:
    people = [ANN, *range(21, 26)]
    own_home.write_users({f"telegram:{each}": {"name": f"User {each}"} for each in people})
    await own_home.start(telegram)
    for each in people:
        await telegram.world.say(f"m{each} plain", user=each)
    await eventually(lambda: all("(end)" in str(telegram.sent(each)) for each in people))
    async with open_client(own_home) as terminal:
        await terminal.until("connected")
        waits = dict[object, float]()

        async def write(each: int) -> None:
            await clock.sleep(0 if together else 4 * people.index(each))
            since = clock.monotonic()
            await telegram.world.say(f"n{each} plain", user=each)
            await eventually(lambda: OUTAGE in str(telegram.sent(each)), WAIT_SECONDS)
            waits[each] = clock.monotonic() - since

        async def type_in_the_terminal() -> None:
            since = clock.monotonic()
            await terminal.type("n1 plain\r")
            await terminal.until("Not accepted: the schema", WAIT_SECONDS)
            waits["terminal"] = clock.monotonic() - since

        with frozen(own_server):
            await asyncio.gather(type_in_the_terminal(), *map(write, people))
            assert max(waits.values()) < TOLD_SECONDS, waits
        await eventually(
            lambda: all(f"answer n{each} (end)" in str(telegram.sent(each)) for each in people), WAIT_SECONDS
        )
    for each in people:
        assert len([sent for sent in telegram.sent(each) if OUTAGE in sent.text]) == 1
    assert await own_home.stop() == 0


@pytest.mark.long
@pytest.mark.promise("P-disk")
async def test_turns_that_run_while_postgres_goes_and_comes_answer_once(
    own_home: Installation, telegram: FakeTelegram, model: EchoModel, own_server: Server
) -> None:
    await own_home.start(telegram)
    gates = [model.gate(f"m{number} ", streamed=0) for number in range(1, 4)]
    for number in range(1, 4):
        await telegram.world.say(f"m{number} exec", user=ANN)
        gate = gates[number - 1]
        await gate.reached.wait()
        await asyncio.to_thread(own_server.stop, signal.SIGQUIT)
        gate.opened.set()
        await asyncio.to_thread(own_server.start)
        await eventually(partial(have_come, telegram, number))
    assert all(f"m{number}" in said for number, said in enumerate(answers(telegram), 1)), answers(telegram)
    results = rows(own_server, "SELECT turn, count(*) FROM messages WHERE role = 'tool_result' GROUP BY turn")
    assert [count for _, count in results] == [1, 1, 1]
    assert await own_home.stop() == 0


async def test_a_start_without_postgres_ends_with_what_is_wrong(own_home: Installation, own_server: Server) -> None:
    await asyncio.to_thread(own_server.stop)
    done = await own_home.run("gateway")
    assert done.code != 0
    assert "127.0.0.1" in done.err and "is Postgres running" in done.err
    assert "Traceback" not in done.err


async def test_a_password_in_the_address_is_refused_without_being_repeated(home: Installation) -> None:
    home.config["store"] = "postgresql://goclaw:hunter2@127.0.0.1/goclaw"
    home.write_config()
    done = await home.run("status")
    assert done.code == 78
    assert "secrets/store_password" in done.err
    assert "hunter2" not in done.err + done.out


@pytest.mark.long
async def test_a_backup_of_a_running_daemon_is_restored_into_postgres(
    home: Installation, telegram: FakeTelegram, server: Server
) -> None:
    await home.start(telegram)
    await answered(telegram, "m1 exec")
    archive = home.folder / "a.tar.gz"
    made = await home.run("backup", str(archive))
    assert made.code == 0, made.err
    await answered(telegram, "m2 plain")
    refused = await home.run("restore", str(archive))
    assert refused.code != 0
    assert await home.stop() == 0
    done = await home.run("restore", "--keep-settings", str(archive))
    assert done.code == 0, done.err
    said = [str(row[0]) for row in rows(server, "SELECT text FROM messages WHERE role = 'user' ORDER BY id")]
    assert [text.split(" ")[0] for text in said] == ["m1", ""], "a number that was used is not used again"
    kept = list(home.state.glob("goclaw.db.before-restore-*"))
    assert len(kept) == 1
    await home.start(telegram)
    await answered(telegram, "m3 plain")
    numbers = [int(str(row[0])) for row in rows(server, "SELECT id FROM messages ORDER BY id")]
    assert len(set(numbers)) == len(numbers)
    assert await home.stop() == 0


async def test_a_backup_from_sqlite_is_restored_into_postgres_and_back(
    home: Installation, telegram: FakeTelegram, server: Server
) -> None:
    address = home.config.pop("store")
    home.write_config()
    await home.start(telegram)
    await answered(telegram, "m1 exec")
    assert await home.stop() == 0
    archive = home.folder / "sqlite.tar.gz"
    assert (await home.run("backup", "--secrets", str(archive))).code == 0
    home.config["store"] = address
    home.write_config()
    other = await home.run("restore", str(archive))
    assert other.code != 0
    assert "--keep-settings" in other.err
    done = await home.run("restore", "--keep-settings", str(archive))
    assert done.code == 0, done.err
    await home.start(telegram)
    await answered(telegram, "m2 plain")
    assert await home.stop() == 0
    back = home.folder / "postgres.tar.gz"
    assert (await home.run("backup", str(back))).code == 0
    del home.config["store"]
    home.write_config()
    done = await home.run("restore", "--keep-settings", str(back))
    assert done.code == 0, done.err
    said = home.read("SELECT text FROM messages WHERE role = 'user' ORDER BY id")
    assert [str(row[0]).split(" ")[0] for row in said] == ["m1", "m2"]


@pytest.mark.promise("P-store-copy")
async def test_a_copy_to_postgres_and_back_goes_on_with_what_was_under_way(
    home: Installation, telegram: FakeTelegram, model: EchoModel, server: Server
) -> None:
    address = home.config.pop("store")
    home.write_config()
    await home.start(telegram)
    await answered(telegram, "m1 exec")
    gate = model.gate("m2 ", streamed=0)
    await telegram.world.say("m2 plain", user=ANN)
    await gate.reached.wait()
    refused = await home.run("store", "copy", "--to", address)
    assert refused.code == 1 and "stop it with `goclaw stop`" in refused.err
    await home.kill()
    gate.opened.set()
    done = await home.run("store", "copy", "--to", address)
    assert done.code == 0, done.err
    assert f"Set `store: {address}` in the configuration, then `goclaw start`." in done.out
    assert (await home.run("store", "copy", "--to", address)).code == 1
    home.config["store"] = address
    home.write_config()
    await home.start(telegram)
    await eventually(lambda: any("m2" in said and "(end)" in said for said in texts(telegram)))
    assert await home.stop() == 0
    done = await home.run("store", "copy", "--to", "sqlite", "--replace")
    assert done.code == 0, done.err
    assert "Remove `store` from the configuration" in done.out
    del home.config["store"]
    home.write_config()
    await home.start(telegram)
    await answered(telegram, "m3 plain")
    assert await home.stop() == 0
    said = home.read("SELECT text FROM messages WHERE role = 'user' ORDER BY id")
    assert [str(row[0]).split(" ")[0] for row in said] == ["m1", "m2", "m3"]
    assert [sum(name in said for said in answers(telegram)) for name in ("m1", "m2", "m3")] == [1, 1, 1]


def number_of_lines(verified: str) -> int:
    return int(verified.split(" lines verified")[0].replace(",", ""))


@pytest.mark.promise("P-store-files")
async def test_a_gateway_with_an_empty_state_folder_goes_on_with_people_tokens_and_pictures(
    home: Installation, telegram: FakeTelegram, model: EchoModel
) -> None:
    await home.start(telegram)
    await answered(telegram, "m0 exec")
    await telegram.world.say("m1 plain", user=ANN, photo=PHOTO)
    await eventually(lambda: any("m1" in said and "(end)" in said for said in texts(telegram)))
    made = await home.run("token", "add", "laptop", "--user", f"telegram:{ANN}")
    assert made.code == 0, made.err
    assert await home.stop() == 0
    lines = number_of_lines((await home.run("audit", "verify")).out)
    pictures = {path.name for path in (home.state / "blobs" / "media").iterdir()}
    assert pictures
    other = Installation(home.folder / "other", {**home.config, "workspace": str(home.folder / "work")}, forks=True)
    other.write_config()
    try:
        await other.start(telegram)
        await answered(telegram, "m2 exec")
        await eventually(lambda: {path.name for path in (other.state / "blobs" / "media").iterdir()} == pictures)
        assert "laptop" in (await other.run("token", "list")).out
        verified = await other.run("audit", "verify")
        assert verified.code == 0 and "no fault found" in verified.out, verified.out
        ours, _, theirs = verified.out.partition("the log of another gateway")
        assert number_of_lines(ours) >= 1 and number_of_lines(theirs.partition("\n")[2]) == lines >= 1
        assert "another version" not in (await other.run("doctor", "--offline")).out
        assert await other.stop() == 0
    finally:
        if other.process is not None:
            await other.kill()
    assert "m1" in str(model.requests[-1])


async def test_an_address_that_is_none_is_refused_before_anything_is_read(home: Installation) -> None:
    done = await home.run("store", "copy", "--to", "postgresql://goclaw:hunter2@127.0.0.1/goclaw")
    assert done.code == 2 and "secrets/store_password" in done.err
    assert "hunter2" not in done.err + done.out
