"""SIGTERM at every moment that matters: in order, in time, and nothing is lost after the restart."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import psutil
import pytest

from goclaw.program.app import GRACE_SECONDS
from goclaw.program.cli.serving import MAX_END
from tests.acceptance import hasty
from tests.acceptance.daemon import ROOT, STOP_SECONDS, Installation
from tests.acceptance.model import UNKNOWN, EchoModel
from tests.acceptance.waiting import clock, eventually, never
from tests.fake_telegram.server import FakeTelegram

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120), pytest.mark.promise("P-sigterm")]

ANN = 5
SLACK = 6.0
"""Seconds beside the grace time: the parts close, and machines that run tests are slow."""
HANG = """
import asyncio, pathlib, threading
from goclaw.gateway.intake.commands.base import Command, CommandContext, Reply

hanging = []

async def _hang(context: CommandContext) -> Reply:
    def wait() -> None:
        pathlib.Path(context.arguments).touch()
        threading.Event().wait()
    hanging.append(asyncio.create_task(asyncio.to_thread(wait)))
    return Reply("hanging")

COMMAND = Command("hang", "Let a thread hang for ever", _hang)
"""

HANG_UP = """
import os, signal, sys

class Hook:
    def find_spec(self, name, path=None, target=None):
        if name == "goclaw.program.cli.serving":
            print("SIGHUP was sent", flush=True)
            os.kill(os.getpid(), signal.SIGHUP)

sys.meta_path.insert(0, Hook())
"""
"""Sends the signal to the daemon at the last moment before it can handle it itself."""


def texts(telegram: FakeTelegram) -> list[str]:
    return [sent.text for sent in telegram.sent(ANN)]


@pytest.fixture
def in_haste(home: Installation) -> None:
    """Daemons that give what runs less time to end."""
    home.module = hasty.__name__


def lives(process: psutil.Process) -> bool:
    """Whether a process goes on, and does not only wait until its end is noticed."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def ended(home: Installation) -> float:
    """SIGTERM; the seconds until the daemon was gone, properly and with all that it ran."""
    assert home.process is not None
    grace = hasty.GRACE_SECONDS if home.module == hasty.__name__ else GRACE_SECONDS
    family = psutil.Process(home.process.pid).children(recursive=True)
    began = clock.monotonic()
    assert await home.stop() == 0
    seconds = clock.monotonic() - began
    await eventually(lambda: not any(map(lives, family)))
    assert "Traceback" not in home.output and seconds < grace + SLACK
    return seconds


async def rest(home: Installation, telegram: FakeTelegram, *answers: str) -> None:
    """The next daemon does what was left: exactly these answers have come then, and nothing is open."""
    await home.start(telegram)
    await eventually(lambda: not home.read("SELECT id FROM inbox WHERE state != 'done'"))
    await eventually(lambda: not home.read("SELECT id FROM deliveries WHERE state != 'sent'"))
    await eventually(lambda: len(texts(telegram)) >= len(answers))
    assert texts(telegram) == list(answers)
    assert home.integrity() == "ok"
    await home.stop()


async def test_an_idle_daemon_ends_at_once(home: Installation, telegram: FakeTelegram) -> None:
    await home.start(telegram)
    assert await ended(home) < GRACE_SECONDS / 2
    assert not (home.state / "goclaw.sock").exists()
    await home.start(telegram)
    assert await home.stop() == 0


async def test_a_hangup_without_a_terminal_reloads_and_ends_nothing(home: Installation, telegram: FakeTelegram) -> None:
    await home.start(telegram)
    process, log = home.process, home.state / "logs" / "goclaw.log"
    assert process is not None
    for number in (1, 2):
        log.replace(log.with_name(f"moved.{number}"))
        process.send_signal(signal.SIGHUP)
        await eventually(lambda: log.exists() and "SIGHUP" in log.read_text())
    await telegram.world.say("m1 plain", user=ANN)
    await eventually(lambda: texts(telegram) == ["answer m1 (end)"])
    assert home.process is process and process.returncode is None
    await ended(home)


async def test_a_hangup_while_the_daemon_starts_ends_nothing(home: Installation, folder: Path) -> None:
    """Half a second passes before anything can be reloaded: `logrotate` does not wait for it."""
    hooks = folder / "hooks"
    hooks.mkdir()
    (hooks / "sitecustomize.py").write_text(HANG_UP)
    home.environment = {**home.environment, "PYTHONPATH": f"{hooks}:{ROOT}"}
    await home.start()
    assert home.output.count("SIGHUP was sent") == 1
    assert await home.stop() == 0


@pytest.mark.parametrize("how", ["kill", "the terminal is closed"])
async def test_a_hangup_in_a_terminal_ends_in_order(home: Installation, how: str) -> None:
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "goclaw", "--config", str(home.config_path), "gateway"]
    process = await asyncio.create_subprocess_exec(
        *("sh", "-c", f'exec "$0" "$@" <>{os.ttyname(theirs)} >&0 2>&0', *command),
        cwd=ROOT,
        env={**os.environ, "GOCLAW_STATE_DIR": str(home.state)},
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # the tests may run under nohup
    )
    said = ""
    while "GoClaw is running" not in said:
        said += (await asyncio.to_thread(os.read, ours, 4096)).decode()
    os.close(theirs)
    if how == "kill":
        process.send_signal(signal.SIGHUP)
    else:
        os.close(ours)
    async with asyncio.timeout(STOP_SECONDS):
        assert await process.wait() == 0
    if how == "kill":
        os.close(ours)
    assert not (home.state / "goclaw.sock").exists()


async def test_an_answer_that_ends_in_time_goes_out_and_nothing_comes_in_meanwhile(
    home: Installation, telegram: FakeTelegram, model: EchoModel
) -> None:
    gate = model.gate("m1")
    await home.start(telegram)
    await telegram.world.say("m1 plain", user=ANN)
    await gate.reached.wait()
    assert home.process is not None
    home.process.terminate()
    await eventually(lambda: "Stopping" in home.output)
    polls = len(telegram.called("getUpdates"))
    await telegram.world.say("m2 plain", user=ANN)
    await never(lambda: len(telegram.called("getUpdates")) > polls + 1, 0.3)
    gate.opened.set()
    assert await home.wait() == 0
    assert texts(telegram) == ["answer m1 (end)"]
    await rest(home, telegram, "answer m1 (end)", "answer m2 (end)")


@pytest.mark.usefixtures("in_haste")
async def test_a_model_that_does_not_end_is_cut_and_asked_again(
    home: Installation, telegram: FakeTelegram, model: EchoModel
) -> None:
    gate = model.gate("m1")
    await home.start(telegram)
    await telegram.world.say("m1 plain", user=ANN)
    await telegram.world.say("m2 plain", user=ANN)
    await gate.reached.wait()
    await ended(home)
    assert texts(telegram) == []
    gate.opened.set()
    await rest(home, telegram, "answer m1 (end)", "answer m2 (end)")


@pytest.mark.sandbox
@pytest.mark.usefixtures("in_haste")
async def test_a_command_that_does_not_end_dies_with_its_tree_and_is_told_as_unknown(
    home: Installation, telegram: FakeTelegram
) -> None:
    await home.start(telegram)
    await telegram.world.say("m1 run touch begun; setsid sleep 300 & sleep 300", user=ANN)
    await eventually((home.workspace / "begun").exists)
    await ended(home)
    await home.start(telegram)
    assert UNKNOWN in (await telegram.wait_sent(ANN))[0].text
    await home.stop()


@pytest.mark.usefixtures("in_haste")
async def test_a_delivery_that_hangs_is_made_once_more_and_marked(home: Installation, telegram: FakeTelegram) -> None:
    never_answered = asyncio.Event()
    telegram.fail("sendMessage", gate=never_answered)
    await home.start(telegram)
    await telegram.world.say("m1 plain", user=ANN)
    await eventually(lambda: home.read("SELECT id FROM deliveries WHERE state = 'sending'"))
    await ended(home)
    await home.start(telegram)
    (sent,) = await telegram.wait_sent(ANN)
    assert "answer m1 (end)" in sent.text
    await eventually(lambda: not home.read("SELECT id FROM deliveries WHERE state != 'sent'"))
    assert len(texts(telegram)) == 1
    await home.stop()


async def test_a_telegram_that_answers_nothing_at_all_holds_nothing_up(
    home: Installation, telegram: FakeTelegram
) -> None:
    await home.start(telegram)
    telegram.fail("*", gate=asyncio.Event(), times=1000)
    await eventually(lambda: telegram.called("getUpdates"))
    assert await ended(home) < GRACE_SECONDS / 2


@pytest.mark.usefixtures("in_haste")
async def test_a_compaction_is_given_up_and_the_conversation_goes_on(
    home: Installation, telegram: FakeTelegram, model: EchoModel
) -> None:
    await home.start(telegram)
    for number in range(1, 5):
        await telegram.world.say(f"m{number} plain", user=ANN)
        await telegram.wait_sent(ANN, number)
    asked = len(model.requests)
    gate = model.gate("", streamed=0)
    await telegram.world.say("/compact", user=ANN)
    await eventually(gate.reached.is_set)
    assert len(model.requests) > asked
    await ended(home)
    gate.opened.set()
    await home.start(telegram)
    await telegram.world.say("m5 plain", user=ANN)
    await eventually(lambda: "answer m5 (end)" in texts(telegram))
    assert [text for text in texts(telegram) if text.startswith("answer")] == [
        f"answer m{number} (end)" for number in range(1, 6)
    ]
    await home.stop()


async def test_stop_works_while_the_daemon_winds_down(
    home: Installation, telegram: FakeTelegram, model: EchoModel
) -> None:
    gate = model.gate("m1")
    await home.start(telegram)
    await telegram.world.say("m1 plain", user=ANN)
    await gate.reached.wait()
    assert home.process is not None
    home.process.terminate()
    await eventually(lambda: "Stopping" in home.output)
    began = clock.monotonic()
    assert "Stopped." in (await home.run("send", "/stop", "--session", f"telegram:{ANN}")).out
    assert await home.wait() == 0
    assert clock.monotonic() - began < GRACE_SECONDS - 2, "it does not wait for a turn that was stopped"
    gate.opened.set()
    await rest(home, telegram, "answer\n\n[stopped here]")


@pytest.mark.sandbox
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_second_signal_ends_it_at_once_with_all_that_it_runs(
    home: Installation, telegram: FakeTelegram, number: signal.Signals
) -> None:
    await home.start(telegram)
    await telegram.world.say("m1 run touch begun; setsid sleep 300 & sleep 300", user=ANN)
    await eventually((home.workspace / "begun").exists)
    assert home.process is not None
    family = psutil.Process(home.process.pid).children(recursive=True)
    home.process.terminate()
    await eventually(lambda: "Stopping" in home.output)
    began = clock.monotonic()
    home.process.send_signal(number)
    assert await home.wait() == 128 + number
    assert clock.monotonic() - began < GRACE_SECONDS / 2, "it waits for nothing"
    await eventually(lambda: not any(map(lives, family)))
    await home.start(telegram)
    assert UNKNOWN in (await telegram.wait_sent(ANN))[0].text
    await home.stop()


@pytest.mark.long
async def test_a_thread_that_hangs_keeps_no_daemon_alive(folder: Path) -> None:
    packages = folder / "packages"
    described = packages / "hanging-1.0.dist-info"
    described.mkdir(parents=True)
    (packages / "hanging.py").write_text(HANG)
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: hanging\nVersion: 1.0\n")
    (described / "entry_points.txt").write_text("[goclaw.plugins]\ncommands.hang = hanging:COMMAND\n")
    bare = Installation(folder, environment={"PYTHONPATH": f"{packages}:{ROOT}"})
    await bare.start()
    assert (await bare.run("send", f"/hang {folder / 'hangs'}")).out.strip() == "hanging"
    await eventually((folder / "hangs").exists)
    began = clock.monotonic()
    assert await bare.stop() == 0
    assert clock.monotonic() - began < MAX_END
    assert "threads are still running" in bare.output
