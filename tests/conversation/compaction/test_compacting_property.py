"""Stops, kills, cut streams, compactions at any point: whatever is sent afterwards is valid for every provider."""

import asyncio
import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from goclaw.llm.base import Request
from tests.conversation.sessions.accepted import check_anthropic, check_openai
from tests.conversation.sessions.long_life import Agent, Clerk, babble, flaws, look
from tests.harness import Core, World
from tests.lanes import repeats
from tests.llm.oracles import Bodies, sending
from tests.llm.wires import ANTHROPIC, OPENAI
from tests.parts import GivenModels

WINDOW = 8_192
ACTIONS = st.sampled_from(
    ["say", "say", "say", "say long", "/stop", "/compact", "/cleartool", "/clear", "pay", "say two"]
)
LIVES = st.lists(st.tuples(st.lists(ACTIONS, max_size=6), st.integers(1, 60)), min_size=1, max_size=4)
"""What is done in each life of the process, and the write that ends it."""


async def act(core: Core, world: World, action: str, chance: random.Random) -> None:
    match action:
        case "pay":
            world.clock.advance(3_600)
            await core.sessions.summary_retries.retry_due()
        case "say two":
            await core.say(babble(chance, 10))
            await core.say(babble(chance, 10))
        case "/stop":
            await core.say(babble(chance, 10))
            await core.say("/stop")
        case _ if action.startswith("say"):
            await core.say(babble(chance, 400 if "long" in action else 20))
            await core.settled()
        case _:
            await core.say(action)


async def live(folder: Path, lives: list[tuple[list[str], int]], seed: int) -> Agent:
    """Live all lives, then one more in peace; returns the model with all that it was sent."""
    chance = random.Random(seed)
    agent, clerk = Agent(WINDOW, chance, trouble=0.1), Clerk(WINDOW, chance, trouble=0.3)
    world = World(folder, model=agent, summary=clerk, tools=[look(chance)], limits={"tool_calls": 6})
    world.models = GivenModels(agent, clerk)
    for actions, die_before in lives:
        async with world.running(die_before=die_before) as core:
            dead = asyncio.ensure_future(core.database.dead.wait())
            for action in actions:
                acting = asyncio.ensure_future(act(core, world, action, chance))
                await asyncio.wait({acting, dead}, return_when=asyncio.FIRST_COMPLETED)
                if not acting.done():
                    acting.cancel()
                    break
                acting.result()
            dead.cancel()
    agent.trouble = 0.0
    async with world.running() as core:
        await core.settled()
        await core.say("Are you well?")
        await core.settled()
    return agent


def check_bodies(request: Request, anthropic: Bodies, openai: Bodies) -> None:
    asked = Request(request.system, request.messages, request.tools)
    check_anthropic(anthropic.of(asked))
    check_openai(openai.of(asked))


@pytest.mark.deep
@pytest.mark.promise("P-valid-context")
@pytest.mark.timeout(900)
def test_whatever_happened_the_next_request_is_valid_and_fits() -> None:
    with sending(ANTHROPIC) as anthropic, sending(OPENAI) as openai:

        @settings(max_examples=repeats(15, 200), deadline=None, suppress_health_check=[HealthCheck.too_slow])
        @given(LIVES, st.integers(0, 1_000))
        def check(lives: list[tuple[list[str], int]], seed: int) -> None:
            with tempfile.TemporaryDirectory() as folder:
                agent = asyncio.run(live(Path(folder), lives, seed))
            assert agent.problems == []
            assert agent.last is not None and flaws(agent.last.messages) == []
            check_bodies(agent.last, anthropic, openai)

        check()
