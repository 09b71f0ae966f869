"""The lane with a real model, tried without one: what it records, counts, checks and blames."""

import hashlib
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import orjson
import pytest

from goclaw.llm.base import ModelPorts
from tests.llm.asking import ask, model_ports, saying
from tests.llm.fake_provider import FakeProvider, fake_provider
from tests.llm.llama_server import open_llama, replay, replays
from tests.real_model.gateway import from_cache, reuse
from tests.real_model.minimal import converse
from tests.real_model.recorder import CHAT, Exchange, recorder
from tests.real_model.tasks import FILES, TASKS, Task, lay
from tests.real_model.working import Fault, Outcome, blame, shortcomings
from tests.tables import table

BY_HAND = {
    "write": ("printf 'Hello World' > hello.txt", "Done."),
    "read": ("true", "On Thursday at 14:30 in B12."),
    "list": ("true", "alpha.txt and beta.txt"),
    "exec": ("true", f"It prints {hashlib.sha256(FILES['key.txt'].encode()).hexdigest()[:8]}."),
    "edit": ("sed -i s/8080/9090/ config.ini", "Done."),
    "count": ("true", "It has 37 lines."),
    "mkdir": ("mkdir reports && echo '# Report' > reports/today.md", "Done."),
    "delete": ("rm old.log", "Done."),
    "rename": ("mv draft.txt final.txt", "Done."),
    "search": ("true", "src/dates.py"),
    "append": ("echo milk >> shopping.txt", "Done."),
    "remember": ("echo 'likes teal' > memo.txt", "Noted."),
    "sum": ("echo 42 > sum.txt", "Done."),
    "summary": ("true", "She kept a lighthouse."),
}
"""A command that does each task, and what may then be said."""


@table("task", TASKS, ids=lambda task: task.name)
def test_a_task_counts_as_done_when_it_was_done_and_never_for_words_alone(tmp_path: Path, task: Task) -> None:
    workspace = tmp_path / f"{task.name}-work"
    workspace.mkdir()
    lay(workspace)
    command, answer = BY_HAND[task.name]
    assert not task.check(workspace, "Done: I wrote the file as you said.")
    subprocess.run(["bash", "-c", command], cwd=workspace, check=True)
    assert task.check(workspace, answer)
    lay(workspace)
    assert command == "true" or task.name == "remember" or not task.check(workspace, answer)


def exchange(text: str = "", cache: int = 0, prompt: int = 0) -> Exchange:
    """Return an exchange that ended, as the recorder keeps it."""
    made = Exchange(CHAT, b"{}", 0.0, 200, ended=True)
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": "stop"}
    last = {"choices": [choice], "timings": {"cache_n": cache, "prompt_n": prompt}}
    made.pieces.append(b"data: " + orjson.dumps(last) + b"\n\ndata: [DONE]\n\n")
    return made


def outcome(task: str, *, done: bool, answer: str = "Done.", wrote: str = "Done.") -> Outcome:
    return Outcome(task, done, answer, 1.0, [exchange(wrote)])


def test_the_share_of_the_cache_is_that_of_the_requests_behind_the_first() -> None:
    grown = [exchange(cache=0, prompt=1_000), exchange(cache=990, prompt=110), exchange(cache=1_100, prompt=100)]
    assert reuse(grown) == pytest.approx(2_090 / 2_100)
    assert from_cache(grown) == pytest.approx(2_090 / 2_300)
    assert reuse(grown[:1]) is None and from_cache([]) is None


def test_a_failed_task_is_the_readings_fault_the_requests_or_the_models() -> None:
    call = '{"name": "write", "arguments": {}}'
    product = [
        outcome("write", done=False, wrote=call),
        outcome("read", done=False),
        outcome("list", done=False),
        outcome("exec", done=True, wrote=call),
    ]
    blame(product, [outcome("write", done=True), outcome("read", done=True), outcome("list", done=False)])
    assert [each.fault for each in product] == [Fault.READING, Fault.REQUEST, Fault.MODEL, None]


@table(
    "answer, marked",
    [
        ("<system-reminder>Remember</system-reminder> Hi", True),
        ('<material from="a">x', True),
        ("<tool_call>", True),
        ("The tag <b>material</b> and 3 < 4", False),
    ],
)
def test_a_mark_in_an_answer_is_seen(answer: str, *, marked: bool) -> None:
    assert outcome("read", done=True, answer=answer).has_marks is marked


def test_figures_below_the_aims_are_named() -> None:
    good = {"product": 9, "minimal": 6, "marks": 0, "reuse_in_turns": 0.97, "fixed_text": {"words": 250}}
    assert shortcomings(good) == []
    bad = {"product": 7, "minimal": 6, "marks": 1, "reuse_in_turns": 0.5, "fixed_text": {"words": 251}}
    assert len(shortcomings(bad)) == 5


@pytest.fixture
async def fake() -> AsyncIterator[FakeProvider]:
    async with fake_provider() as server:
        yield server


@pytest.fixture
async def ports() -> AsyncIterator[ModelPorts]:
    async with model_ports() as given:
        yield given


async def test_the_recorder_keeps_both_sides_of_every_exchange(
    fake: FakeProvider, ports: ModelPorts, tmp_path: Path
) -> None:
    replays(fake, "text", "overflow", "killed")
    async with recorder(fake.url) as line:
        model = open_llama(line.url, ports)
        heard = [await ask(model, saying(f"question {number}")) for number in range(3)]
        first, refused, cut = line.chats
        assert heard[0].text == first.text == "The capital of France is Paris." and first.timings["prompt_n"] == 43
        assert line.invalid == [refused] and b"exceed_context_size_error" in refused.answer
        assert heard[2].error is not None and not cut.ended and cut.answer == b"".join(replay("killed").pieces)
        line.save(tmp_path / "kept")
    assert b"question 2" in (tmp_path / "kept" / "003.json").read_bytes()
    assert (tmp_path / "kept" / "003.sse").read_bytes() == cut.answer


async def test_a_minimal_request_does_a_task_by_the_calls_that_the_server_hands_on(
    fake: FakeProvider, ports: ModelPorts, tmp_path: Path
) -> None:
    lay(tmp_path)
    replays(fake, "structured_command", "text")
    said = await converse(open_llama(fake.url, ports), tmp_path, "Delete the file old.log")
    assert not (tmp_path / "old.log").exists() and said.strip() == "The capital of France is Paris."
    assert [message["role"] for message in fake.asked[1].body["messages"]] == ["system", "user", "assistant", "tool"]
