"""What was said with the demo reaches no real model: no context, no note, no summary."""

from pathlib import Path
from typing import Any

import pytest

from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.events import Notice
from goclaw.llm.base import ChatModel
from goclaw.llm.demo import DemoModel
from goclaw.llm.scripted import Answer, ScriptedModel
from tests.conversation.sessions.failing_models import says
from tests.conversation.sessions.looking import SUMMARY, check_mirrors_the_store, said, talk, window_of
from tests.harness import World
from tests.llm.asking import model_ports
from tests.llm.fake_provider import fake_provider
from tests.llm.wires import OPENAI
from tests.parts import GivenModels

FRESH = (
    "scripted:test answers now and starts with a fresh context. It does not see your messages with the demo; they "
    "stay in the transcript."
)
SMALL: dict[str, Any] = {"compaction": {"max_messages": 7, "min_messages": 2}}


async def life(world: World, model: ChatModel, *texts: str, summary: ChatModel | None = None) -> list[str]:
    """A run of the daemon with this model; returns what was told to who watches."""
    world.models = GivenModels(model, summary)
    async with world.running() as core:
        await talk(core, *texts)
        await core.sessions.maintenance.catch_up()
        return [event.text for event in core.seen if isinstance(event, Notice)]


@pytest.mark.promise("P-first-run")
async def test_the_first_real_model_begins_a_fresh_context_and_the_person_reads_so(tmp_path: Path) -> None:
    world = World(tmp_path)
    await life(world, DemoModel(), "hello", "my name is Anna")
    script = ScriptedModel([Answer("Hello, who are you?"), Answer("Two.")])
    told = await life(world, script, "and now?", "one")
    assert world.texts()[2:] == [FRESH, "Hello, who are you?", "Two."] and told == [FRESH]
    first, second = map(said, script.requests)
    assert "[demo" not in first + second and "Anna" not in first + second
    assert first.endswith("and now?") and "Hello, who are you?" in second
    async with world.running() as core:
        await check_mirrors_the_store(core)
        assert len(await core.messages()) == 8, "the transcript keeps everything"


@pytest.mark.promise("P-first-run")
async def test_over_the_wire_nothing_of_the_demo_is_sent(tmp_path: Path) -> None:
    async with fake_provider() as server, model_ports(SteppedClock()) as ports:
        server.will(says(OPENAI, "Hello."))
        world = World(tmp_path)
        await life(world, DemoModel(), "hello", '/tool look {"at": "me"}')
        await life(world, OPENAI.open(server.url, ports), "are you there?")
    body = str(server.asked[-1].body)
    assert "are you there?" in body and "[demo" not in body and "/tool look" not in body


async def test_what_real_models_said_before_the_demo_stays(tmp_path: Path) -> None:
    world = World(tmp_path)
    await life(world, ScriptedModel([Answer("I shall remember the cat.")]), "there is a cat")
    await life(world, DemoModel(), "hello?", "again?")
    script = ScriptedModel([Answer("A cat."), Answer("Yes.")])
    told = await life(world, script, "what is there?")
    assert told == [FRESH.replace("starts with a fresh context", "continues where a real model stopped")]
    assert "I shall remember the cat." in said(script.requests[0]) and "[demo" not in said(script.requests[0])
    assert await life(world, script, "sure?") == [], "it is told once"
    assert "[demo" not in said(script.requests[1]) and "hello?" not in said(script.requests[1])
    async with world.running() as core:
        await check_mirrors_the_store(core)


async def test_no_model_summarises_what_the_demo_said_neither_then_nor_later(tmp_path: Path) -> None:
    clerk = ScriptedModel(rest=Answer(SUMMARY))
    world = World(tmp_path, **SMALL)
    await life(world, ScriptedModel(rest=Answer("I see a cat.")), *(f"cat {n}" for n in range(3)), summary=clerk)
    await life(world, DemoModel(), *(f"chatter {n}" for n in range(6)), "/compact", summary=clerk)
    assert clerk.requests == [] and "Summary source: emergency truncation" in world.texts()[-1]
    script = ScriptedModel(rest=Answer("Well."))
    await life(world, script, "what is there?", summary=clerk)
    async with world.running() as core:
        world.clock.advance(3_600)
        await core.sessions.summary_retries.retry_due()
        await core.sessions.maintenance.catch_up()
        window = await window_of(core)
    read = "\n".join(map(said, clerk.requests))
    assert "cat 0" in read and "chatter" not in read and "[demo" not in read
    assert window.summary == SUMMARY and not window.owed
    assert "chatter" not in said(script.requests[-1])


async def test_after_a_clear_there_is_nothing_to_tell(tmp_path: Path) -> None:
    world = World(tmp_path)
    await life(world, DemoModel(), "hello", "/clear")
    script = ScriptedModel([Answer("Hi.")])
    assert await life(world, script, "and now?") == []
    assert "[demo" not in said(script.requests[0])
