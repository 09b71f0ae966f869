"""`/status` to the letter of the tools contract."""

import asyncio
import re
from dataclasses import asdict
from pathlib import Path

import pytest

from goclaw.common.auth.users import User
from goclaw.common.core.events import Actor
from goclaw.conversation.turns.status import Details
from goclaw.errors import ConfigError, ModelErrorKind
from goclaw.llm.base import ChatModel, Usage
from goclaw.llm.scripted import ScriptedModel
from goclaw.llm.token_counts import estimate_text, estimate_tools
from goclaw.memory import memory_queries
from goclaw.memory.base import MemoryStatus
from tests.harness import OWNER, PATIENCE, Answer, World
from tests.parts import GivenModels, Trail, acting

ANNA = Actor("telegram:5", "memory")

SUMMARY = "Anna wants the report on Friday; the file is report.md; nothing is open."


def block(text: str, heading: str) -> str:
    """One block of the answer."""
    (found,) = [each for each in text.split("\n\n") if each.startswith(heading)]
    return found


@pytest.mark.promise("P-commands-at-once")
async def test_the_sizes_of_the_session(tmp_path: Path) -> None:
    world = World(tmp_path, [Answer("Hi", usage=Usage(input=124_000, output=1_000))])
    async with world.running() as core:
        await core.say("hello")
        await core.settled()
        text = await core.command("/status")
    assert block(text, "Session Status") == (
        "Session Status\n  Messages: 2\n  Tokens: 125,000 / 200,000 (62.5%)\n  Compactions: 0"
    )


async def test_a_summary_model_that_is_no_ollama_stands_there_by_its_name(tmp_path: Path) -> None:
    world = World(tmp_path, summary=ScriptedModel())
    world.models.summary_specs = ("llamacpp:qwen", "openai:gpt-5-mini")
    async with world.running() as core:
        assert "  llamacpp:qwen: healthy (0/3 failures)\n" in await core.command("/status")


@pytest.mark.promise("P-commands-at-once")
async def test_with_a_healthy_ollama(tmp_path: Path) -> None:
    world = World(tmp_path, [Answer(str(n)) for n in range(4)], summary=ScriptedModel([Answer(SUMMARY)]))
    async with world.running() as core:
        for number in range(4):
            await core.say(f"question {number}")
            await core.settled()
        await core.say("/compact")
        await core.settled()
        world.clock.advance(300)
        text = await core.command("/status")
    assert block(text, "Compaction Health") == (
        "Compaction Health\n"
        "  Ollama: healthy (0/3 failures)\n"
        "  Mode: normal\n"
        "  Last attempt: 5 min ago\n"
        "  Pending retries: 0"
    )
    assert "  Compactions: 1" in block(text, "Session Status")
    assert "  Messages: 2" in block(text, "Session Status"), "what the context holds"


@pytest.mark.promise("P-commands-at-once")
async def test_when_ollama_is_degraded(tmp_path: Path) -> None:
    broken = ScriptedModel(rest=Answer(error=ModelErrorKind.NETWORK))
    world = World(tmp_path, [Answer(str(n)) for n in range(4)], summary=broken)
    world.script.rest = Answer(SUMMARY)
    async with world.running() as core:
        for number in range(4):
            await core.say(f"question {number}")
            await core.settled()
        for _ in range(3):
            await core.sessions.compactor.compact(await core.sessions.contexts.session("memory:here"), forced=True)
            for _ in range(3):
                await core.say("more")
                await core.settled()
        world.clock.advance(300)
        text = await core.command("/status")
        asked = len(broken.requests)
        assert block(text, "Compaction Health") == (
            "Compaction Health\n  Ollama: degraded (3/3 failures)\n  Mode: fallback to main model\n  Reset in: 25 min"
        )
        await core.say("/compact")
        await core.settled()
        assert len(broken.requests) == asked == 3, "it is left alone"
        world.clock.advance(25 * 60)
        assert "Ollama: healthy (0/3 failures)" in await core.command("/status"), "it is tried again"
        assert (await core.gateway.status("memory:here", OWNER))["ollama"]["failures"] == 0


@pytest.mark.promise("P-commands-at-once")
async def test_less_than_a_minute_to_the_next_try_is_told_in_seconds_and_owed_summaries_are_counted(
    tmp_path: Path,
) -> None:
    broken = Answer(error=ModelErrorKind.NETWORK)
    world = World(tmp_path, [Answer(str(n)) for n in range(4)], summary=ScriptedModel(rest=broken))
    world.script.rest = broken
    async with world.running() as core:
        for number in range(4):
            await core.say(f"question {number}")
            await core.settled()
        await core.say("/compact")
        await core.settled()
        for _ in range(2):
            await core.sessions.summary_retries.retry_due()
            world.clock.advance(3_600)
        await core.sessions.summary_retries.retry_due()
        lines = (
            "Compaction Health\n"
            "  Ollama: degraded (3/3 failures)\n"
            "  Mode: fallback to main model\n"
            "  Reset in: {left}\n"
            "  Pending retries: 1"
        )
        for passed, left in ((30 * 60 - 61, "1 min"), (2, "59 s"), (58.5, "1 s")):
            world.clock.advance(passed)
            assert block(await core.command("/status"), "Compaction Health") == lines.format(left=left)
        world.clock.advance(1)
        text = await core.command("/status")
    assert "Ollama: healthy (0/3 failures)" in text and "Pending retries: 1" in text


def tokens_in(text: str) -> int:
    """What the first lines say of the size."""
    found = re.search(r"^  Tokens: ([\d,]+) / ", text, re.MULTILINE)
    assert found, text
    return int(found[1].replace(",", ""))


async def test_tokens_include_prompt_and_tools_before_the_first_request_and_whatever_ended_the_last(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, [Answer("Hi there."), Answer("Never said.")], tools=[acting("look", Trail().leave)])
    async with world.running() as core:
        new = tokens_in(await core.command("/status"))
        await core.say("hello")
        await core.settled()
        (request,) = world.script.requests
        prompt, tools = estimate_text(request.system), estimate_tools(request.tools)
        assert new == prompt + tools and prompt > 0 < tools
        world.script.gate = asyncio.Event()
        world.script.streaming.clear()
        await core.say("go on")
        async with asyncio.timeout(PATIENCE):
            await world.script.streaming.wait()
        await core.command("/stop")
        await core.settled()
        assert tokens_in(await core.command("/status")) > new, "after a stop, which reads the context anew"
    async with world.running() as core:
        assert tokens_in(await core.command("/status")) > new, "after a restart"
        await core.command("/clear")
        assert tokens_in(await core.command("/status")) == new
    async with world.running() as core:
        assert tokens_in(await core.command("/status")) == new
        assert (await core.gateway.status("memory:here", OWNER))["tokens"] == new


class LateModels(GivenModels):
    """Has no model until `is_there`."""

    is_there = False

    async def agent(self, session: str = "") -> ChatModel:
        if not self.is_there:
            raise ConfigError("no model yet")
        return await super().agent(session)


async def test_prompt_and_tools_are_measured_for_the_model_that_answers_and_not_before_it_is_known(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, [Answer("Hi there.")], tools=[acting("look", Trail().leave)])
    models = world.models = LateModels(world.script)
    async with world.running() as core:
        assert tokens_in(await core.command("/status")) == 0
        models.is_there = True
        known = tokens_in(await core.command("/status"))
        await core.say("hello")
        await core.settled()
        (request,) = world.script.requests
        assert known == estimate_text(request.system) + estimate_tools(request.tools)


async def test_what_compact_says_includes_prompt_and_tools_after_a_restart(tmp_path: Path) -> None:
    world = World(tmp_path, [Answer(str(n)) for n in range(4)], summary=ScriptedModel(rest=Answer(SUMMARY)))
    async with world.running() as core:
        for number in range(4):
            await core.say(f"question {number}")
            await core.settled()
    async with world.running() as core:
        before = tokens_in(await core.command("/status"))
    async with world.running() as core:
        await core.say("/compact")
        await core.settled()
    assert f"  Tokens before: {before:,}\n" in world.texts()[-1]


@pytest.mark.promise("P-commands-at-once")
async def test_without_ollama(tmp_path: Path) -> None:
    async with World(tmp_path).running() as core:
        text = await core.command("/status")
    assert re.match(
        r"Session Status\n  Messages: 0\n  Tokens: [1-9]\d* / 200,000 \(0\.\d%\)\n  Compactions: 0\n\n", text
    )
    assert block(text, "Compaction Health").startswith(
        "Compaction Health\n  Ollama: not configured\n  Mode: main model only\n"
    )


async def test_what_we_add_stands_in_a_block_of_its_own(tmp_path: Path) -> None:
    async with World(tmp_path).running() as core:
        text = await core.command("/status")
    assert text.split("\n\n")[2:] == [
        "GoClaw\n"
        "  Model: scripted:test\n"
        "  Cost so far: nothing (no requests yet)\n"
        "  Queue: 0 waiting\n"
        "  A turn: at most 50 tool calls, 5 failures in a row, 15m"
    ]


@pytest.mark.promise("P-commands-at-once")
async def test_our_block_begins_with_daemon_model_and_telegram(tmp_path: Path) -> None:
    world = World(tmp_path)
    lines = {"Queue": "1 waiting", "Telegram": "polling", "Daemon": "running for 2 h"}
    world.details = Details(lines)
    async with world.running() as core:
        text = await core.command("/status")
    assert text.split("\n\n")[2].splitlines()[:5] == [
        "GoClaw",
        "  Daemon: running for 2 h",
        "  Model: scripted:test",
        "  Telegram: polling",
        "  Cost so far: nothing (no requests yet)",
    ]
    assert text.count("Daemon:") == text.count("Telegram:") == 1 and "  Queue: 1 waiting" in text


async def test_a_line_that_says_that_all_is_well_is_for_a_command_line(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.details = Details({"Disk": "12 GB free", "Tasks": "2 running"}, calm=frozenset({"Disk"}))
    async with world.running() as core:
        said, shown = await core.command("/status"), (await core.gateway.status("memory:here", OWNER))["text"]
    assert "\n  Tasks: 2 running" in said and "Disk" not in said
    assert "\n  Disk: 12 GB free" in shown


async def test_memory_takes_two_lines_for_admins_alone(tmp_path: Path) -> None:
    stands = MemoryStatus(1, 2_000, 13, "")
    world = World(tmp_path, users=[User("telegram:5"), User("telegram:7", roles=frozenset({"admin"}))])
    world.details = Details({}, {"memory": asdict(stands)}, tuple(memory_queries.brief_status_lines(stands)))
    async with world.running() as core:
        boss = await core.command("/status", actor=Actor("telegram:7", "memory"), session="telegram:7")
        anna = await core.command("/status", actor=ANNA, session=ANNA.key)
        numbers = (await core.gateway.status(ANNA.key, ANNA))["memory"]
    assert block(boss, "Memory") == ("Memory\n  Searched: 1 file, 2,000 conversations\n  Mode: keyword: words only")
    assert "\n\nMemory\n" not in anna
    assert numbers == {"embedder": "", "trouble": "", "coming": "", "details": (), "enabled": True}


async def test_a_chat_shows_the_status_as_it_is_and_how_the_daemon_does_to_admins_only(tmp_path: Path) -> None:
    boss = Actor("telegram:6", "memory")
    world = World(tmp_path, users=[User(ANNA.key), User(boss.key, roles=frozenset({"admin"}))])
    world.details = Details({"Disk": "full", "Event loop": "900 ms at worst"})
    async with world.running() as core:
        shown = await core.command("/status", actor=ANNA, session=ANNA.key)
        assert "Disk" not in shown and "Event loop" not in shown
        told = await core.command("/status", actor=boss, session=boss.key)
        assert "Event loop: 900 ms" in told and "Disk: full" in told
        await core.settled()
    assert world.texts()[0] == f"```\n{shown}\n```"
