"""Requests of people as turns make them; a process: `-m tests.conversation.turns.spenders ADDRESS PERSON SEED TOKENS`.

The program makes one request after the other, several at once, until the person has used up the day.
"""

import asyncio
import sys
from dataclasses import dataclass
from random import Random
from typing import Any

from goclaw.common.auth.access import Access
from goclaw.common.auth.users import Users
from goclaw.common.config.schema import Config
from goclaw.common.config.values import PostgresPlace
from goclaw.common.core.clock import RealClock
from goclaw.common.core.messages import AssistantMessage
from goclaw.common.core.supervise import background
from goclaw.conversation.sessions.state import Contexts
from goclaw.conversation.turns.costs import Costs, Payer, reservation_of
from goclaw.durable.store.database import Database
from goclaw.durable.store.open import open_database
from goclaw.durable.store.ownership import Lease
from goclaw.durable.store.postgres.ownership import PostgresOwnership
from goclaw.durable.store.settings import Settings
from goclaw.durable.store.spending import Spending, reservations_of
from goclaw.durable.store.transcripts import Transcripts
from goclaw.errors import LimitReached
from goclaw.llm.base import Finished, Stop, Usage
from goclaw.llm.scripted import ScriptedModel

CAP = 150
SPEC = "scripted:test"
PROMPT = 20


class QuickClock(RealClock):
    """Time goes on; who sleeps, sleeps a fiftieth."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds / 50)


CLOCK = QuickClock()


@dataclass(frozen=True)
class Call:
    """One request of a person, made by one of the processes."""

    person: int
    process: int
    answer: int
    """Tokens."""
    seconds: float
    fails: bool


def costs_of(database: Database, **limits: Any) -> Costs:
    config = Config.model_validate({"limits": {"daily_tokens": CAP, **limits}})
    contexts = Contexts(Transcripts(database), Settings(database), CLOCK)
    return Costs(Spending(database), config, CLOCK, contexts, Access(Users(), config), reservations_of(database))


async def request(costs: Costs, person: str, name: str, call: Call) -> str:
    """Make a request as a turn does; return how it ended."""
    payer = Payer(reservation_of(name, "model:1"), person, person, name)
    try:
        async with costs.reserve(payer, ScriptedModel(spec=SPEC), PROMPT, call.answer):
            await CLOCK.sleep(call.seconds)
            if call.fails:
                raise ZeroDivisionError
    except LimitReached:
        return "refused"
    except ZeroDivisionError:
        return "failed"
    done = Finished(AssistantMessage("x"), Usage(input=PROMPT, output=call.answer), Stop.END, SPEC)
    row = costs.row(person, name, "answer", done, person)
    await costs.spending.store(row, *costs.reservations.end_statements(payer.reservation))
    costs.reservations.on_end(payer.reservation)
    return "answered"


AT_ONCE = 3


async def spend(costs: Costs, person: str, seed: str) -> None:
    """Make requests, a few at once, until one is refused."""

    async def go_on(line: int) -> None:
        random, number, end = Random(f"{seed}:{line}"), 0, ""
        while end != "refused":
            number += 1
            call = Call(0, 0, random.randint(1, 100), random.choice([0.0, 2.0, 10.0]), fails=random.random() < 0.2)
            end = await request(costs, person, f"{seed}:{line}:{number}", call)

    await asyncio.gather(*(go_on(line) for line in range(AT_ONCE)))


async def main(address: str, person: str, seed: str) -> None:
    """Spend from a schema, as a process that the others know of."""

    async def none(lease: Lease) -> bool:
        return True

    async with open_database(PostgresPlace.of(address), CLOCK) as database:
        ownership = PostgresOwnership(database, RealClock())  # type: ignore[arg-type]  # it is on Postgres
        async with background(ownership.run(none), "a process"):
            await spend(costs_of(database, daily_tokens=int(sys.argv[4])), person, seed)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:4]))
