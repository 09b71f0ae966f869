"""The first quarter of an hour: nothing is configured, and everything but an AI works."""

import asyncio
import re

import pytest

from tests.acceptance.daemon import Installation
from tests.acceptance.model import EchoModel, texts_of
from tests.acceptance.waiting import eventually
from tests.fake_telegram.server import FakeTelegram

pytestmark = [pytest.mark.slow]

NO_AI = "[demo] No AI is connected"
FIRST_BLOCKS = re.compile(
    r"Session Status\n"
    r"  Messages: [\d,]+\n"
    r"  Tokens: [\d,]+ / [\d,]+ \(\d+\.\d%\)\n"
    r"  Compactions: [\d,]+\n"
    r"\n"
    r"Compaction Health\n"
    r"  Ollama: not configured\n"
)
"""The lines of the tools contract."""
BROKEN = {
    "an unknown key": "workspase: /tmp/x\n",
    "a wrong type": "limits:\n  tool_calls: many\n",
    "no YAML": "telegram: [\n",
}


@pytest.mark.promise("P-first-run")
@pytest.mark.sandbox
async def test_without_any_configuration_one_can_talk_run_tools_ask_and_stop(bare: Installation) -> None:
    bare.forks = False
    await bare.start()
    hello = await bare.run("send", "hello")
    assert hello.code == 0 and hello.out.startswith(NO_AI) and "You said: hello" in hello.out
    bare.forks = True
    listing = await bare.run("send", '/tool exec {"command": "ls && id -un && pwd"}')
    assert listing.code == 0 and "AGENTS.md" in listing.out and "exit code: 0" in listing.out
    status = await bare.run("send", "/status")
    assert FIRST_BLOCKS.match(status.out), status.out
    said = (await bare.run("status")).out
    assert said.startswith("Session Status\n")
    assert re.search(r"\n\nGoClaw\n  Daemon: running for .*\n  Model: demo.*\n  Telegram: not connected", said), said
    numbers = await bare.run("status", "--json")
    assert numbers.code == 0 and '"running":true' in numbers.out.replace(" ", "")
    stopped = await bare.run("stop")
    assert stopped.code == 0
    assert await bare.wait() == 0
    assert "Traceback" not in bare.output
    assert (await bare.run("status")).code == 1


async def test_a_message_without_a_daemon_is_answered_and_that_is_said(bare: Installation) -> None:
    alone = await bare.run("send", "hello")
    assert alone.code == 0 and "You said: hello" in alone.out and "no daemon" not in alone.out
    assert "no daemon is running, so this command answers on its own" in alone.err
    await bare.start()
    answered = await bare.run("send", "hello")
    assert answered.code == 0 and "no daemon" not in answered.err
    assert await bare.stop() == 0


@pytest.mark.promise("P-first-run")
async def test_the_first_real_model_reads_nothing_of_the_demo_and_the_person_is_told(
    home: Installation, telegram: FakeTelegram, model: EchoModel
) -> None:
    models = home.config.pop("models")
    home.config["models"] = {"agent": "demo"}
    home.write_config()
    await home.start(telegram)
    await telegram.world.say("I am Ann", user=5)
    assert (await telegram.wait_sent(5))[0].text.startswith(NO_AI)
    assert await home.stop() == 0
    home.config["models"] = models
    home.write_config()
    await home.start(telegram)
    await telegram.world.say("m1 plain", user=5)
    told, answer = (sent.text for sent in (await telegram.wait_sent(5, 3))[1:])
    assert "starts with a fresh context" in told and answer == "answer m1 (end)"
    assert [text for text in texts_of(model.requests[0]) if "[demo" in text or "I am Ann" in text] == []
    assert await home.stop() == 0


async def test_lines_through_a_pipe_are_a_conversation(bare: Installation) -> None:
    await bare.start()
    talk = await bare.run("tui", stdin="good morning\n/whoami\nand good night\n")
    assert talk.code == 0
    assert "You said: good morning" in talk.out and "You said: and good night" in talk.out
    assert talk.out.index("good morning") < talk.out.index("good night")
    assert "You are tui:" in talk.out
    again = await bare.run("tui", stdin="/quit\n")
    assert "You said: good morning" in again.out, "what was said before is shown"


async def test_a_message_needs_no_daemon(bare: Installation) -> None:
    hello = await bare.run("send", "hello")
    assert hello.code == 0 and "You said: hello" in hello.out
    await bare.start()
    talk = await bare.run("tui", stdin="/quit\n")
    assert "You said: hello" in talk.out, "the daemon has the same conversation"


@pytest.mark.promise("P-one-daemon")
async def test_a_second_daemon_on_the_same_state_folder_names_the_first(bare: Installation) -> None:
    await bare.start()
    assert bare.process is not None
    second = await bare.run("gateway")
    assert second.code == 1
    assert f"pid {bare.process.pid}" in second.err and "Traceback" not in second.err
    hello = await bare.run("send", "hello")
    assert hello.code == 0, "the first one goes on"


@pytest.mark.promise("P-config-errors")
@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN.keys())
async def test_a_bad_configuration_is_refused_in_words_with_78(bare: Installation, text: str) -> None:
    bare.forks = False
    bare.config_path.write_text(text)
    refused = await bare.run("gateway")
    assert refused.code == 78, refused.err
    assert refused.out == "" and "Traceback" not in refused.err
    assert refused.err.startswith("goclaw: ") and "config.yaml" in refused.err


@pytest.mark.promise("P-one-daemon")
async def test_of_two_daemons_started_together_one_runs(bare: Installation) -> None:
    other = Installation(bare.folder, forks=True)
    await asyncio.gather(bare.spawn(), other.spawn())
    assert bare.process is not None and other.process is not None
    both = [bare.process, other.process]

    def ended() -> list[int]:
        return [process.returncode for process in both if process.returncode is not None]

    try:
        await eventually(lambda: ended() and "GoClaw is running." in bare.output)
        assert ended() == [1]
        assert "another GoClaw" in bare.output and "Traceback" not in bare.output
        assert (await bare.run("send", "hello")).code == 0
    finally:
        await other.kill()
