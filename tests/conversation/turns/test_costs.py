"""What may be spent: by a turn, and by a person in a day; told with the key, and with what could not be counted."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from goclaw.common.auth.users import User
from goclaw.common.core.events import Actor
from goclaw.common.core.messages import ToolCall
from goclaw.durable.store.database import Statement
from goclaw.durable.store.schema import usage
from goclaw.durable.store.spending import Spending
from goclaw.errors import LimitReached
from goclaw.llm.base import Usage
from goclaw.llm.scripted import ScriptedModel
from tests.harness import Answer, World
from tests.parts import Trail, acting

SPEC = "openai-chat:of-the-test"
PRICED = {"options": {SPEC: {"price_input": 10, "price_output": 20, "context_window": 100_000}}}
USED = Usage(input=60_000, output=5_000)
PERSONS = Statement(select(usage.c.person))
CALL = Answer(calls=(ToolCall("c", "look", {}),), usage=USED)


def world_of(folder: Path, *answers: Answer, spec: str = SPEC, **config: Any) -> World:
    model = ScriptedModel(answers, spec=spec)
    return World(folder, model=model, tools=[acting("look", Trail().leave)], models=PRICED, **config)


async def test_a_turn_ends_before_the_request_after_its_tokens_are_spent(tmp_path: Path) -> None:
    policy = {"max_tokens": 100_000, "max_tool_calls": 40}
    world = world_of(tmp_path, CALL, CALL, CALL, agents={"main": {"policy": policy}}, limits={"repeated_calls": 40})
    async with world.running() as core:
        await core.say("go")
        await core.settled()
        assert (await core.sessions.ports.store.spending.of_session("memory:here")).requests == 2
    assert world.texts() == ["I stopped: this turn used 130,000 tokens; the limit is 100,000."]


async def test_a_turn_ends_when_it_has_cost_enough_and_the_next_one_begins_anew(tmp_path: Path) -> None:
    world = world_of(tmp_path, CALL, Answer("fine", usage=USED), limits={"turn_cost": 0.5})
    async with world.running() as core:
        for text in ("go", "and now?"):
            await core.say(text)
            await core.settled()
    assert world.texts() == ["I stopped: this turn used $0.70; the limit is $0.50.", "fine"]


async def test_what_is_spent_is_known_after_a_restart(tmp_path: Path) -> None:
    world = world_of(tmp_path, CALL, Answer("never said"), limits={"turn_tokens": 60_000})
    async with world.running(die_after=3) as core:
        await core.say("go")
        await core.settled()
    async with world.running() as core:
        await core.settled()
    assert world.texts()[-1].endswith("; the limit is 60,000.")


async def test_a_person_has_a_day_over_all_sessions_and_nobody_elses(tmp_path: Path) -> None:
    answers = [Answer(text, usage=USED) for text in ("one", "two", "three")]
    users = [User("memory:anna", roles=frozenset({"admin"})), User("memory:ben", roles=frozenset({"admin"}))]
    world = world_of(tmp_path, *answers, limits={"daily_tokens": 65_000}, users=users)
    anna, ben = Actor("memory:anna", "memory"), Actor("memory:ben", "memory")
    async with world.running() as core:
        for actor, chat in ((anna, "a"), (anna, "b"), (ben, "a")):
            await core.say("hi", actor=actor, chat=chat)
            await core.settled()
        assert "Today: 65,000 of 65,000 tokens" in await core.command("/status", actor=ben, chat="a")
        said = world.texts()[:3]
        assert said[0] == "one"
        assert said[1] == (
            "I stopped: your requests today used 65,000 tokens; the limit is 65,000. I can continue after midnight."
        )
        assert said[2] == "two"
        now = datetime.fromtimestamp(world.clock.now()).astimezone()
        midnight = (now + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
        world.clock.advance(midnight.timestamp() - now.timestamp() + 1)
        await core.say("a new day", actor=anna, chat="b")
        await core.settled()
    assert world.texts()[-1] == "three"


@pytest.mark.promise("P-daily-budget")
async def test_the_budget_of_a_role_holds_for_its_people_alone(tmp_path: Path) -> None:
    answers = [Answer(text, usage=USED) for text in ("one", "two", "three")]
    users = [User("memory:cem", roles=frozenset({"child"})), User("memory:ben", roles=frozenset({"admin"}))]
    world = world_of(tmp_path, *answers, users=users, roles={"child": {"daily_cost": 0.5}})
    cem, ben = Actor("memory:cem", "memory"), Actor("memory:ben", "memory")
    async with world.running() as core:
        for actor, chat in ((cem, "cem"), (cem, "cem"), (ben, "ben"), (ben, "ben")):
            await core.say("hi", actor=actor, chat=chat)
            await core.settled()
        assert "Today: $0.70 of $0.50" in await core.command("/status", actor=cem, session="memory:cem", chat="cem")
        assert "Today" not in await core.command("/status", actor=ben, session="memory:ben", chat="ben")
    assert sorted(world.texts()[:4]) == [
        "I stopped: your requests today used $0.70; the limit is $0.50. I can continue after midnight.",
        "one",
        "three",
        "two",
    ]


async def test_what_has_no_price_is_not_counted_and_that_is_said(tmp_path: Path) -> None:
    world = world_of(tmp_path, Answer("fine"), limits={"daily_cost": 0.5})
    async with world.running() as core:
        await core.say("go")
        await core.settled()
        now = world.clock.now()
        person = "memory:here"
        rows = [
            Spending.row(person, "t", "answer", "m", tokens=(1, 1, 0, 0), cost=cost, at=now, person=person)
            for cost in (0.75, None, None)
        ]
        await core.database.write(*rows)
        with pytest.raises(LimitReached, match=r"\$0\.75; the limit is \$0\.50; 2 answers of unknown price not incl"):
            await core.sessions.costs.check_day(person)


async def test_for_whom_it_was_is_kept_for_two_days_only(tmp_path: Path) -> None:
    world = world_of(tmp_path, Answer("fine"))
    async with world.running() as core:
        await core.say("go")
        await core.settled()
        person = next(iter(await core.database.read(PERSONS())))[0]
        assert person
        world.clock.advance(3 * 24 * 3600)
        await core.sessions.costs.prune()
        assert [row[0] for row in await core.database.read(PERSONS())] == [""]
        assert (await core.sessions.ports.store.spending.of_session("memory:here")).requests == 1


async def test_a_compaction_that_somebody_orders_is_not_made_when_the_day_is_spent(tmp_path: Path) -> None:
    world = world_of(tmp_path, Answer("fine", usage=USED), limits={"daily_tokens": 10})
    async with world.running() as core:
        await core.say("go")
        await core.settled()
        await core.say("/compact")
        await core.settled()
    assert world.texts()[-1].startswith("I stopped: your requests today used 65,000 tokens")
