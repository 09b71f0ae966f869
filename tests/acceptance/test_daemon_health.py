"""A daemon that can be watched: by a service manager, in its log, and by asking where it stands."""

import asyncio
import json
import re
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from goclaw.common.health.heartbeat import BEAT_SECONDS
from tests.acceptance import hasty
from tests.acceptance.daemon import ROOT, START_SECONDS, Installation
from tests.acceptance.model import EchoModel
from tests.acceptance.shared import Person, SharedDaemon
from tests.acceptance.waiting import eventually
from tests.fake_telegram.server import FakeTelegram

pytestmark = [pytest.mark.slow]

with_the_shared_daemon = pytest.mark.asyncio(loop_scope="module")
STALL = """
import pathlib, threading
from goclaw.gateway.intake.commands.base import Command, CommandContext, Reply

async def _stall(context: CommandContext) -> Reply:
    while not pathlib.Path(context.arguments).exists():
        threading.Event().wait(0.05)
    return Reply("going on")

COMMAND = Command("stall", "Hold everything up until a file exists", _stall)
"""


@pytest.fixture
def manager(folder: Path) -> Iterator[socket.socket]:
    """A service manager's socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(folder / "notify"))
        listening.setblocking(False)
        yield listening


@pytest.fixture
def stalling(folder: Path) -> Path:
    """A plugin as others install them: its command blocks the event loop, which no code of ours does."""
    packages = folder / "packages"
    described = packages / "stalling-1.0.dist-info"
    described.mkdir(parents=True)
    (packages / "stalling.py").write_text(STALL)
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: stalling\nVersion: 1.0\n")
    (described / "entry_points.txt").write_text("[goclaw.plugins]\ncommands.stall = stalling:COMMAND\n")
    return packages


def log_of(home: Installation) -> list[dict[str, Any]]:
    """The records of the log, oldest first."""
    path = home.state / "logs" / "goclaw.log"
    written, _, _ = path.read_text().rpartition("\n") if path.exists() else ("", "", "")
    return [json.loads(line) for line in written.splitlines()]  # without the line that is just being written


def logged(home: Installation, text: str) -> list[dict[str, Any]]:
    return [record for record in log_of(home) if text in record["event"]]


async def hear(manager: socket.socket, beginning: str) -> None:
    """Wait for a message that begins like this."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(START_SECONDS):
        while not (await loop.sock_recv(manager, 4096)).decode().startswith(beginning):
            pass


async def test_a_service_manager_hears_when_it_answers_that_it_lives_and_when_it_ends(
    bare: Installation, manager: socket.socket, folder: Path
) -> None:
    bare.environment = {"NOTIFY_SOCKET": str(folder / "notify"), "WATCHDOG_USEC": "400000"}
    await bare.spawn()
    await hear(manager, "READY=1\nSTATUS=Running; event loop")
    assert "GoClaw is running." in bare.output and (bare.state / "goclaw.sock").exists()
    for _ in range(3):
        await hear(manager, "WATCHDOG=1\nSTATUS=Running")
    stopping = asyncio.create_task(bare.stop())
    await hear(manager, "STOPPING=1\nSTATUS=Stopping")
    assert await stopping == 0


async def test_a_stuck_event_loop_is_shown_in_the_log_and_in_the_status(
    bare: Installation, stalling: Path, folder: Path
) -> None:
    def reports(text: str) -> list[dict[str, Any]]:
        return [record for record in logged(bare, text) if "stalling.py" in record.get("stack", "stalling.py")]

    bare.environment, bare.module = {"PYTHONPATH": f"{ROOT}:{stalling}"}, hasty.__name__
    await bare.start()
    held_up = asyncio.create_task(bare.run("send", f"/stall {folder / 'gate'}"))
    (stuck,) = await eventually(lambda: reports("the event loop has been stuck"), START_SECONDS)
    assert stuck["level"] == "error"
    assert "in _stall" in stuck["stack"]
    (folder / "gate").touch()
    assert (await held_up).out == "going on\n"
    await eventually(lambda: reports("the event loop goes on after"))
    assert len(reports("the event loop has been stuck")) == 1, "once per incident"
    details = json.loads((await bare.run("status", "--json")).out)["details"]
    late = int(details["Event loop"].split(" ms")[0].rpartition(" ")[2].replace(",", ""))
    assert late >= 1000 * (hasty.STUCK_SECONDS - BEAT_SECONDS)


@with_the_shared_daemon
async def test_sigusr2_writes_every_task_into_the_log_and_the_daemon_goes_on(ann: Person, shared: SharedDaemon) -> None:
    gate = ann.gate("a")
    await ann.say(f"{ann.name('a')} plain")
    await gate.reached.wait()
    assert shared.home.process is not None
    shared.home.process.send_signal(signal.SIGUSR2)
    (dump,) = await eventually(lambda: logged(shared.home, "asked for with SIGUSR2"))
    assert f"lane {ann.session}" in dump["stack"] and "turn telegram:" in dump["stack"], "what runs, by name"
    assert "in _stream" in dump["stack"], "and where it waits: for the model"
    gate.opened.set()
    assert await ann.hears() == [ann.answer("a")]


@with_the_shared_daemon
async def test_the_log_tells_a_turns_story_with_its_ids_and_without_its_words(
    ann: Person, shared: SharedDaemon
) -> None:
    def story() -> list[dict[str, Any]]:
        return [record for record in log_of(shared.home) if record.get("session") == ann.session]

    await ann.say(f"{ann.name('a')} exec canary-in-a-message")
    await ann.hears()
    await eventually(lambda: "delivered to telegram" in str(story()))
    # The first turn of a daemon also opens the workspace.
    told = [record for record in story() if record.get("turn") and "approved as they are now" not in record["event"]]
    assert len({record["turn"] for record in told}) == 1 and told[0]["turn"].startswith("telegram:")
    events = [record["event"] for record in told]
    beginnings = ["model openai-chat:echo answered in", "tool exec finished in"]
    beginnings += ["turn answered in", "delivered to telegram"]
    assert [event[: len(begin)] for event, begin in zip(events, beginnings, strict=True)] == beginnings
    end = told[2]
    assert end["model"] == "openai-chat:echo" and {"tokens_in", "tokens_out"} <= end.keys()
    assert 0 <= end["model_seconds"] <= 60
    tool = next(record for record in told if record["event"].startswith("tool exec"))
    assert tool["tool"] == "exec" and tool["call"]
    everything = (shared.home.state / "logs" / "goclaw.log").read_text() + shared.home.output
    assert "canary-in-a-message" not in everything and ann.answer("a")[:-6] not in everything
    assert shared.telegram.token not in everything and "sk-none" not in everything


async def test_a_turn_that_failed_says_why_in_the_log(
    home: Installation, telegram: FakeTelegram, model: EchoModel
) -> None:
    """The person reads it, and so does the operator, who sees no chat."""
    home.config["providers"]["openai-chat"]["base_url"] = f"{model.url}/nowhere"
    home.write_config()
    await home.start(telegram)
    await telegram.world.say("m1 plain", user=5)
    (sent,) = await telegram.wait_sent(5)
    (end,) = await eventually(lambda: logged(home, "turn failed in"))
    assert end["level"] == "warning" and end["session"] == "telegram:5"
    assert sent.text.split()[0] in end["event"]


@pytest.mark.sqlite("the size of the file")
async def test_the_status_says_what_the_disk_holds_in_words_and_in_numbers(bare: Installation) -> None:
    (bare.state / "logs").mkdir(mode=0o700, parents=True)
    (bare.state / "logs" / "goclaw.log.1").write_bytes(b"x" * 2_000_000)
    await bare.start()
    numbers = json.loads((await bare.run("status", "--json")).out)["disk"]
    assert numbers["logs"] >= 2_000_000
    assert numbers["database"] > 0 and numbers["logs"] > 0 and numbers["free"] > 0
    said = (await bare.run("status")).out
    assert re.search(r"\n  Disk: [\d.]+ [kM]B database, 0 kB media, 2\.0 MB logs; [\d.,]+ [MG]B free", said)
    assert await bare.stop() == 0
