import asyncio
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from goclaw.common.config.schema import ModelOptions
from goclaw.llm.base import DEFAULT_MAX_OUTPUT, Usage
from goclaw.llm.data import DEFAULT_WINDOW, ModelFacts, facts, prepare, sees
from tests.acceptance.waiting import eventually

NOW = 1_795_000_000.0


@pytest.mark.parametrize(
    ("spec", "window"),
    [
        ("anthropic:claude-opus-5-5", 1_000_000),
        ("anthropic:claude-sonnet-4-5", 200_000),
        ("anthropic:claude-unheard-of", 200_000),
        ("openai-chat:gpt-5", 400_000),
        ("openrouter:anthropic/claude-opus-4.6", 1_000_000),
        ("unheard-of:model", DEFAULT_WINDOW),
        ("vllm:gpt-5", 32_768),
    ],
)
def test_windows_come_from_the_data_and_else_from_careful_guesses(spec: str, window: int) -> None:
    assert facts(spec, ModelOptions(), NOW).context_window == window


def test_the_configuration_comes_first() -> None:
    options = ModelOptions(context_window=5_000, max_output=77, images=False, price_input=0, price_output=9)
    known = facts("anthropic:claude-opus-5-5", options, NOW)
    assert (known.context_window, known.max_output, known.sees_images) == (5_000, 77, False)
    assert (known.price_input, known.price_output) == (0, 9)


def test_an_answer_never_takes_more_than_half_of_a_small_window() -> None:
    assert facts("vllm:m", ModelOptions(context_window=4_096), NOW).max_output == 1_024
    assert facts("unheard-of:m", ModelOptions(), NOW).max_output == DEFAULT_MAX_OUTPUT
    assert facts("anthropic:claude-3-opus-20240229", ModelOptions(), NOW).max_output == 4_096


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("claude-opus-5-5", True),
        ("anthropic/claude-3-haiku", True),
        ("claude-2.1", False),
        ("gpt-6.1-sol", True),
        ("gpt-4o-mini", True),
        ("gpt-4", False),
        ("gpt-3.5-turbo", False),
        ("gpt-oss-120b", False),
        ("o3-mini", False),
        ("o4-mini", True),
        ("gemini-3-pro", True),
        ("qwen2.5-vl-7b", True),
        ("qwen2.5vl:7b", True),
        ("llava:7b", True),
        ("deepseek-chat", False),
        ("text-embedding-3-large", False),
    ],
)
def test_who_sees_pictures_is_read_from_the_name(name: str, expected: bool) -> None:
    assert sees(name) is expected


def test_cost_counts_what_came_from_the_cache_at_its_own_price() -> None:
    known = ModelFacts(1, 1, True, price_input=10, price_output=100, price_cache_read=1, price_cache_write=12.5)
    usage = Usage(input=1_000, output=100, cache_read=600, cache_write=200)
    assert known.cost(usage) == pytest.approx((200 * 10 + 600 * 1 + 200 * 12.5 + 100 * 100) / 1e6)
    assert ModelFacts(1, 1, True).cost(usage) is None
    assert facts("lmstudio:m", ModelOptions(), NOW).cost(usage) == 0


def test_prices_are_in_the_data() -> None:
    known = facts("anthropic:claude-sonnet-4-5", ModelOptions(), NOW)
    assert (known.price_input, known.price_output, known.price_cache_read) == (3.0, 15.0, 0.3)


async def test_what_is_read_beforehand_is_the_same_and_takes_no_memory_here() -> None:
    spec = "anthropic:claude-opus-5-5"
    program = f"""
import asyncio, sys
from goclaw.common.config.schema import ModelOptions
from goclaw.llm.data import facts, prepare
asyncio.run(prepare([{spec!r}, "demo", "unheard-of:model"], {NOW}))
print(facts({spec!r}, ModelOptions(), {NOW}))
print("genai_prices" in sys.modules)
"""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE)
    async with asyncio.timeout(50):
        said = (await process.communicate())[0].decode().splitlines()
    assert said == [str(facts(spec, ModelOptions(), NOW)), "False"]


async def test_the_reader_takes_no_module_of_the_folder_where_the_daemon_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That folder may be the workspace, where the agent writes."""
    (tmp_path / "orjson.py").write_text(f"open({str(tmp_path / 'taken')!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    await prepare(["anthropic:claude-opus-5-5"], NOW)
    assert not await asyncio.to_thread((tmp_path / "taken").exists)


async def test_a_reader_that_cannot_be_started_is_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    await prepare(["openai-chat:gpt-5"], NOW)
    assert facts("openai-chat:gpt-5", ModelOptions(), NOW).context_window == 400_000


def test_nothing_heavy_is_imported_before_it_is_needed() -> None:
    modules = "anthropic, openai_chat, ollama, pydantic_ai, demo, scripted, chain, open, data"
    program = f"import sys; from goclaw.llm import {modules}; print(*sys.modules)"
    said = subprocess.run([sys.executable, "-c", program], check=True, timeout=50, capture_output=True, text=True)
    assert {"genai_prices", "ollama", "pydantic_ai", "httpx"}.isdisjoint(said.stdout.split())


async def test_no_process_is_started_for_models_that_no_data_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = tmp_path / "python"
    reader.write_text(f"#!/bin/sh\n: > {shlex.quote(str(tmp_path / 'started'))}\n")
    reader.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(reader))
    await prepare(["demo", "scripted:script.json", "ollama:qwen3", "vllm:m"], NOW)
    assert not await asyncio.to_thread((tmp_path / "started").exists)
    assert facts("scripted:script.json", ModelOptions(), NOW).context_window == DEFAULT_WINDOW
    await prepare(["anthropic:claude-opus-5-5"], NOW)
    assert await asyncio.to_thread((tmp_path / "started").exists)


async def test_a_reader_that_nobody_waits_for_any_more_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, half = tmp_path / "pid", tmp_path / "half"
    reader = tmp_path / "python"
    half_name, name = shlex.quote(str(half)), shlex.quote(str(started))
    reader.write_text(f"#!/bin/sh\necho $$ > {half_name} && mv {half_name} {name}\nexec sleep 600\n")
    reader.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(reader))
    reading = asyncio.create_task(prepare(["anthropic:claude-opus-5-5"], NOW))
    async with asyncio.timeout(50):
        await eventually(started.exists)
        pid = int(await asyncio.to_thread(started.read_text))
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
