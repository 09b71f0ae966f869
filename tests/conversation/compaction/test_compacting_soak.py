"""A conversation of many turns in little room: nothing that was planted is lost, nothing that is sent is invalid."""

import random
from pathlib import Path

import pytest

from goclaw.common.core.messages import UserMessage
from goclaw.llm.base import SMALL_WINDOW
from tests.conversation.sessions.long_life import Agent, Clerk, babble, facts_in, look
from tests.harness import World
from tests.lanes import repeats
from tests.parts import GivenModels

TURNS = repeats(200, 2_000)
WINDOW = SMALL_WINDOW + 16
"""The smallest in which a summary is written at once: in a smaller one it would be owed at the end."""
PLANTED = 50


def world_of(folder: Path, agent: Agent, clerk: Clerk, chance: random.Random) -> World:
    world = World(folder, model=agent, summary=clerk, tools=[look(chance)], limits={"tool_calls": 20})
    world.models = GivenModels(agent, clerk)
    return world


@pytest.mark.deep
@pytest.mark.promise("P-context-fits")
@pytest.mark.promise("P-valid-context")
@pytest.mark.timeout(900)
async def test_no_fact_is_lost_and_no_request_is_invalid_through_many_compactions(tmp_path: Path) -> None:
    chance = random.Random(20_261_121)
    agent, clerk = Agent(WINDOW, chance), Clerk(WINDOW, chance, trouble=0.15)
    world = world_of(tmp_path, agent, clerk, chance)
    facts = [f"fact-{number:03}={chance.randrange(10**6):06x}" for number in range(PLANTED)]
    said = 0
    for life in range(4):
        async with world.running() as core:
            for turn in range(TURNS // 4):
                number = life * (TURNS // 4) + turn
                text = babble(chance, chance.randint(5, 120))
                if number % (TURNS // PLANTED) == 0 and said < PLANTED:
                    text, said = f"{text} Remember {facts[said]}.", said + 1
                await core.say(text)
                await core.settled()
                await core.sessions.maintenance.catch_up()
                if number % 20 == 19:
                    world.clock.advance(3_600)
                    await core.sessions.summary_retries.retry_due()
    assert agent.problems == []
    assert agent.largest <= WINDOW
    async with world.running() as core:
        world.clock.advance(3_600)
        await core.sessions.summary_retries.retry_due()
        await core.say("What do you remember?")
        await core.settled()
        assert agent.last is not None
        shown = [message.text for message in agent.last.messages if isinstance(message, UserMessage)]
        assert sorted(facts_in(shown)) == sorted(facts[:said]), "each fact is in the summary or in the tail"
        assert await core.transcripts.compactions("memory:here") >= TURNS // 60
        rows = await core.transcripts.history("memory:here", 0, 1_000_000)
        original = [row.message.text for row in rows if isinstance(row.message, UserMessage)]
        assert facts_in(original) == facts[:said] and len(original) == TURNS + 1
    assert agent.problems == []
