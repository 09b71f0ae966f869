"""Answers that do not come to their end: what was written reaches the person, stays, and the model knows it."""

import json
import sys
from pathlib import Path

import pytest

from tests.acceptance.daemon import ROOT, Installation
from tests.acceptance.model import EchoModel
from tests.acceptance.shared import Person, SharedDaemon
from tests.acceptance.waiting import eventually
from tests.fake_telegram.server import FakeTelegram
from tests.terminal import open_terminal

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

STOPPED = "[stopped here]"


@pytest.mark.promise("P-no-silent-cut")
async def test_an_answer_that_the_output_limit_cut_says_so_and_how_to_go_on(ann: Person, shared: SharedDaemon) -> None:
    name = ann.name("a")
    cut = await ann.ask(f"{name} cut")
    assert cut.startswith(f"answer {name}\n\n[The answer ends here: ") and 'Say "go on"' in cut
    told = await shared.home.run("send", "--session", "tui:cut", "--json", f"{name} cut")
    (end,) = [event for event in map(json.loads, told.out.splitlines()) if event["name"] == "TurnFinished"]
    assert (told.code, end["outcome"], end["text"].partition("\n")[0]) == (0, "cut", f"answer {name}")


@pytest.mark.promise("P-no-silent-cut")
async def test_what_a_stream_that_breaks_had_said_stays_in_the_chat_the_transcript_and_the_context(
    ann: Person, shared: SharedDaemon
) -> None:
    begun = f"answer {ann.name('a')}"
    broken = await ann.ask(f"{ann.name('a')} break")
    assert broken.startswith(f"{begun}\n\n{STOPPED}\n")
    shown = (await shared.home.run("sessions", "show", ann.session)).out
    answer, _, notice = shown.partition("assistant\n")[2].partition("  GoClaw\n")
    assert answer.split()[:2] == begun.split() and notice.split("\n")[0].strip() == STOPPED
    await ann.ask(f"{ann.name('b')} plain")
    said = [message["content"] for message in ann.requests[-1]["messages"] if message["role"] == "assistant"]
    assert said == [begun], "the mark is GoClaw's, and no model is shown it as its own words"


@pytest.mark.promise("P-interim")
async def test_a_turn_that_says_nothing_behind_its_call_has_said_what_it_said_before(
    ann: Person, shared: SharedDaemon
) -> None:
    await ann.say(f"{ann.name('a')} mute")
    await ann.say_in_group(f"{ann.name('b')} mute")
    await eventually(lambda: len(ann.requests) == 4)
    await ann.ask("/whoami")
    assert ann.texts()[:1] == [f"plan {ann.name('a')}"] and len(ann.texts()) == 2
    await eventually(lambda: ann.texts(ann.group) == [f"plan {ann.name('b')}"])


@pytest.mark.promise("P-interim")
async def test_what_is_said_before_a_call_is_printed_told_to_programs_and_kept(shared: SharedDaemon) -> None:
    run, both = shared.home.run, ["plan m1", "answer m1 (end)"]
    assert (await run("send", "--session", "tui:plan", "m1 plan")).out == "\n\n".join(both) + "\n"
    told = await run("send", "--session", "tui:json", "--json", "m1 plan")
    events = [json.loads(line) for line in told.out.splitlines()]
    said = [event["message"] for event in events if event["name"] == "MessageStored"]
    assert [message["text"] for message in said if message["role"] == "assistant"] == both
    kept = await run("sessions", "export", "tui:plan", "--format", "jsonl")
    rows = [json.loads(line) for line in kept.out.splitlines()]
    assert [row["text"] for row in rows if row["role"] == "assistant"] == both


@pytest.mark.promise("P-interim")
@pytest.mark.asyncio(loop_scope="function")
async def test_what_was_said_before_a_call_comes_once_through_a_kill_in_the_call(
    home: Installation, telegram: FakeTelegram, model: EchoModel
) -> None:
    group = -5
    told = {5: ["plan m1", "answer m1 (end)"], group: ["plan m2", "answer m2 (end)"]}
    await home.start(telegram)
    first = [model.gate(name, streamed=0) for name in ("m1", "m2")]
    await telegram.world.say("m1 plan", user=5)
    await telegram.world.say("@claw_bot m2 plan", user=5, chat=group)
    for gate in first:
        await gate.reached.wait()
    second = [model.gate(name, streamed=0) for name in ("m1", "m2")]
    for gate in first:
        gate.opened.set()
    for gate in second:
        await gate.reached.wait()  # both have been called
    await eventually(
        lambda: {chat: texts_in(telegram, chat)[:1] for chat in told} == {5: ["plan m1"], group: ["plan m2"]}
    )
    # One that is killed before it knows that it was shown sends it again, and says so (P-repeat-marked).
    await eventually(lambda: home.read("SELECT state FROM deliveries") == [("sent",), ("sent",)])
    await home.kill()
    for gate in second:
        gate.opened.set()
    await home.start(telegram)
    await eventually(lambda: all(texts_in(telegram, chat)[-1:] == told[chat][-1:] for chat in told))
    assert {chat: texts_in(telegram, chat) for chat in told} == told
    assert await home.stop() == 0


def texts_in(telegram: FakeTelegram, chat: int) -> list[str]:
    return [sent.text for sent in telegram.sent(chat)]


@pytest.mark.promise("P-stop")
async def test_keys_that_stop_an_answer_in_the_terminal_leave_what_was_written(
    ann: Person, shared: SharedDaemon, folder: Path
) -> None:
    name = ann.name("")
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "PYTHONPATH": str(ROOT), "LANG": "C.UTF-8"}
    environment["GOCLAW_STATE_DIR"] = str(shared.home.state)
    command = [sys.executable, "-m", "goclaw", "tui", "--session", f"tui:{name}"]
    async with open_terminal(command, environment, folder=folder) as terminal:
        await terminal.until("connected")
        for letter, key in (("a", "\x1b"), ("b", "\x03")):
            gate = ann.gate(letter, streamed=2)
            await terminal.type(f"{ann.name(letter)} plain\r")
            await terminal.until(f"answer {ann.name(letter)}")
            await terminal.type(key)
            await eventually(lambda: terminal.text().count(STOPPED) == "ab".index(letter) + 1)  # noqa: B023  # used here
            await eventually(gate.left.is_set)
            gate.opened.set()
        await terminal.type(f"{ann.name('c')} plain\r")
        await terminal.until(ann.answer("c"))
    said = [message["content"] for message in ann.requests[-1]["messages"] if message["role"] == "assistant"]
    assert said == [f"answer {ann.name(letter)}" for letter in "ab"], "the mark is GoClaw's"
