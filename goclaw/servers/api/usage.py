"""Usage: tokens and costs of models, by day, model, person or session."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from goclaw.servers.api.operations import Call, Operation, Request, Response
from goclaw.store.spending import Grouping

DAY_SECONDS = 86_400.0
MAX_DAYS = 3_660


class UsageAsked(Request):
    """The fields of `getUsage`."""

    by: Annotated[Grouping, Field(description="What a sum is of; `day` is a day of UTC.")] = "day"
    days: Annotated[int, Field(ge=1, le=MAX_DAYS, description="From how many days ago on.")] = 30
    everybody: Annotated[bool, Field(description="Of all users, for admins; else of your own conversations.")] = False


class Sum(Response):
    """What was spent on one day, with one model, for one person or in one session."""

    of: str = Field(description="`2026-11-24`, `provider:name`, or a key; empty: forgotten, or no person's.")
    requests: int
    input: int = Field(description="Tokens, with those that the provider's cache had.")
    output: int
    cache_read: int
    cost: float = Field(description="US dollars, of the answers whose price is known.")
    unpriced: int = Field(description="Answers whose price is unknown.")


class Usage(Response):
    """Sums: days in their order, others with the dearest first. Persons are known for two days."""

    sums: Sequence[Sum]


async def get(call: Call, asked: UsageAsked) -> Usage:
    """Return sums of what was spent."""
    if asked.everybody:
        call.demand_admin()
    own = "" if asked.everybody else call.services.programs.home(call.actor)
    since = call.ports.clock.now() - asked.days * DAY_SECONDS
    found = await call.ports.spending.grouped(asked.by, since, own)
    return Usage(
        sums=[
            Sum(
                of=name,
                requests=each.requests,
                input=each.input,
                output=each.output,
                cache_read=each.cache_read,
                cost=each.cost,
                unpriced=each.unpriced,
            )
            for name, each in found
        ]
    )


OPERATIONS = (
    Operation(
        "GET",
        "/usage",
        "getUsage",
        "Sum up tokens and costs by day, model, person or session",
        "usage",
        get,
        UsageAsked,
        Usage,
    ),
)
