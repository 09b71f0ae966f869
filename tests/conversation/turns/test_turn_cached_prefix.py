"""What a provider has cached is sent again byte for byte, turn after turn, whatever happens in between."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from goclaw.common.core import catalog
from goclaw.common.core.plugins import load
from goclaw.llm.base import ModelPorts
from goclaw.llm.scripted import Answer, ScriptedModel
from goclaw.tools.toolkit.base import Tool
from goclaw.tools.toolkit.services import Reminder
from tests.conversation.sessions.looking import HERE, talk, window_of
from tests.harness import Core, Tools, World
from tests.llm.asking import model_ports
from tests.llm.caching_provider import CachingProvider, caching_provider, minimum
from tests.llm.wires import ANTHROPIC
from tests.parts import acting

pytestmark = pytest.mark.promise("P-cache-stable")

NOTES = "- Anna sails on Friday.\n" * 4
LONG = "The blue boat left at six and was back after dark, because of the wind. " * 60
SAID: dict[str, Any] = {"type": "text", "text": "So it is. " * 40}
THOUGHT: dict[str, Any] = {"type": "thinking", "thinking": "Two places to look at.", "signature": "EqQBCgIYAhIM1gbc"}


def call(number: int) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"toolu_{number}", "name": "look", "input": {}}


@pytest.fixture
async def provider() -> AsyncIterator[CachingProvider]:
    async with caching_provider() as opened:
        yield opened


@pytest.fixture
async def ports() -> AsyncIterator[ModelPorts]:
    async with model_ports() as given:
        yield given


async def look() -> str:
    return LONG


@dataclass
class Life:
    """One life of the daemon on what the last one left."""

    world: World
    clerk: ScriptedModel

    @classmethod
    def of(cls, folder: Path, provider: CachingProvider, ports: ModelPorts, window: int, **config: Any) -> "Life":
        clerk = ScriptedModel(rest=Answer(NOTES))
        model = ANTHROPIC.open(provider.url, ports, thinking="low", context_window=window)
        world = World(folder, tools=[acting("look", look)], model=model, summary=clerk, **config)
        (world.root / "AGENTS.md").write_text("Answer like a sailor. " * 80)
        return cls(world, clerk)


def breaks(provider: CachingProvider) -> list[int]:
    """Which requests did not go on where the one before them ended."""
    pairs = pairwise(provider.asked)
    return [number for number, (before, after) in enumerate(pairs, 1) if not after.goes_on(before)]


async def test_every_request_goes_on_where_the_last_one_ended(
    tmp_path: Path, provider: CachingProvider, ports: ModelPorts
) -> None:
    config: dict[str, Any] = {"checkpoint": {"every_turns": 2, "min_tokens": 0}}
    provider.answers = [[SAID], [THOUGHT, SAID, call(1), call(2)], [THOUGHT, call(3)], [SAID], [SAID]]
    async with Life.of(tmp_path, provider, ports, 8_500, **config).world.running() as core:
        await talk(core, "hello")
        await core.say("look twice", pictures={"image/png": b"png"})
        await core.settled()
        await core.command("/status")
        await talk(core, "and now?")
    provider.answers = [[SAID], [SAID], [SAID], [THOUGHT, call(4)], [SAID]]
    life = Life.of(tmp_path, provider, ports, 8_500, **config)
    async with life.world.running() as core:
        await core.command("/status")
        await talk(core, "after the restart")
        await core.sessions.maintenance.catch_up()
        await talk(core, "after a checkpoint", "and once more")
        await core.sessions.maintenance.catch_up()
        assert len(life.clerk.requests) == 2, "notes and a checkpoint"
        assert list((life.world.root / "memory").rglob("*.md"))
        await talk(core, "after notes and a checkpoint")
    assert len(provider.asked) == 10 and breaks(provider) == []
    assert provider.asked[-1].read > 3 * (provider.asked[-1].written + provider.asked[-1].rest)


async def test_thinning_breaks_it_once_and_the_thinned_prefix_outlives_a_restart(
    tmp_path: Path, provider: CachingProvider, ports: ModelPorts
) -> None:
    async def work(core: Core, turns: int) -> None:
        provider.answers += [answer for number in range(turns) for answer in ([call(number)], [SAID])]
        for number in range(turns):
            await talk(core, f"look for the {number}th time")

    config: dict[str, Any] = {"checkpoint": {"enabled": False}, "memory": {"flush": {"enabled": False}}}
    async with Life.of(tmp_path, provider, ports, 20_000, **config).world.running() as core:
        await work(core, 14)
        view = (await window_of(core)).view
        assert view.thinned_before and await core.transcripts.compactions(HERE) == 0
    async with Life.of(tmp_path, provider, ports, 20_000, **config).world.running() as core:
        await work(core, 2)
        assert (await window_of(core)).view == view
    assert len(breaks(provider)) == 1


async def test_a_result_that_is_cut_to_the_window_is_cut_alike_every_time(
    tmp_path: Path, provider: CachingProvider, ports: ModelPorts
) -> None:
    provider.answers = [[call(1)], [SAID], [SAID], [SAID]]
    async with Life.of(tmp_path, provider, ports, 3_000).world.running() as core:
        await talk(core, "look", "and?")
    async with Life.of(tmp_path, provider, ports, 3_000).world.running() as core:
        await talk(core, "and after the restart?")
    assert "characters are left out here" in provider.asked[-1].raw.decode()
    assert breaks(provider) == []


async def test_a_changed_file_of_the_prompt_costs_the_prefix_after_the_tools_once(
    tmp_path: Path, provider: CachingProvider, ports: ModelPorts
) -> None:
    provider.answers = [[SAID]] * 4
    life = Life.of(tmp_path, provider, ports, 20_000)
    # Enough of them to be worth the cache by themselves.
    life.world.tools = Tools([load(catalog.TOOLS[name], Tool) for name in ("read", "write", "edit", "search", "exec")])
    async with life.world.running() as core:
        await talk(core, "one", "two")
        (life.world.root / "AGENTS.md").write_text("Answer like a captain. " * 50)
        await talk(core, "three", "four")
    assert breaks(provider) == [2]
    assert provider.asked[2].read >= minimum("claude-opus-5-5"), "the tools"


async def test_plan_mode_costs_the_prefix_once_in_a_context_also_over_a_restart(
    tmp_path: Path, provider: CachingProvider, ports: ModelPorts
) -> None:
    provider.answers = [[SAID]] * 6
    tools = [acting("look", look), load(catalog.TOOLS["exit_plan_mode"], Tool)]
    life = Life.of(tmp_path, provider, ports, 20_000)
    life.world.tools = Tools(tools)
    async with life.world.running() as core:
        await talk(core, "one", "two", "/mode plan", "three", "/mode default", "four")
    async with life.world.running() as core:
        await talk(core, "five", "/mode plan", "six")
    # What is said about plan mode stands behind the marks, so that bytes alone do not tell what the cache had.
    pairs = list(pairwise(provider.asked))
    missed = [number for number, (one, two) in enumerate(pairs, 1) if two.read < one.read + one.written]
    assert len(pairs) == 5 and missed == [2], "when plan mode was entered"


async def test_what_the_model_is_reminded_of_breaks_no_prefix(
    tmp_path: Path, provider: CachingProvider, ports: ModelPorts
) -> None:
    provider.answers = [[call(1)], [call(2)], [SAID], [SAID]]
    life = Life.of(tmp_path, provider, ports, 100_000)
    reminding = acting("look", look)
    life.world.tools = Tools([replace(reminding, spec=replace(reminding.spec, reminder="The user sees a picture."))])
    async with life.world.running() as core:
        session = await core.sessions.contexts.session(HERE)
        session.reminders.add(Reminder("now and then", "Be kind.", min_turns_between=1, max_per_run=None))
        await talk(core, "look", "thanks")
    told = [json.dumps(asked.body["messages"]).count("<system-reminder>") for asked in provider.asked]
    assert told == [1, 1, 1, 0]
    for before, after in pairwise(provider.asked):
        assert after.read == before.read + before.written > 0, "all but the reminder, which is no part of it"
