"""Usage: tokens and costs of models, by day, model, person or session."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Literal

from aiohttp import web
from pydantic import Field

from goclaw.durable.store.spending import Grouping
from goclaw.gateway.servers.api import plots
from goclaw.gateway.servers.api.operations import Call, Operations, Reply, Request, Response
from goclaw.gateway.servers.http import HEADERS
from goclaw.memory.dates import moment

DAY_SECONDS = 86_400.0
MAX_DAYS = 3_660
MAX_PLOT_DAYS = 366


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


OPERATIONS = Operations()


@OPERATIONS.add("GET", "/usage", "usage")
async def get_usage(call: Call, asked: UsageAsked) -> Usage:
    """Sum up tokens and costs by day, model, person or session"""
    if asked.everybody:
        call.demand_admin()
    own = "" if asked.everybody else call.services.programs.home(call.actor)
    since = call.ports.clock.now() - asked.days * DAY_SECONDS
    found = await call.ports.gauges.spending.group(asked.by, since, own)
    return Usage(sums=[Sum(of=name, **asdict(each)) for name, each in found])


class PlotAsked(Request):
    """The fields of `plotUsage`."""

    by: Annotated[Literal["day", "model", "person"], Field(description="What a bar is of.")] = "day"
    days: Annotated[int, Field(ge=1, le=MAX_PLOT_DAYS, description="From how many days ago on.")] = 30
    of: Annotated[Literal["cost", "tokens"], Field(description="What its length is.")] = "cost"
    everybody: Annotated[bool, Field(description="Of all users, for admins; else of your own conversations.")] = False
    theme: Annotated[plots.Theme, Field(description="The page that it is shown on.")] = "light"


@OPERATIONS.add("GET", "/usage/plot", "usage", Reply(body=str, media_type=plots.MEDIA_TYPE))
async def plot_usage(call: Call, asked: PlotAsked) -> web.Response:
    """Show tokens or costs by day, model or person as a picture"""
    usage = await get_usage(call, UsageAsked(by=asked.by, days=asked.days, everybody=asked.everybody))
    bars = [(each.of, each.cost if asked.of == "cost" else float(each.input + each.output)) for each in usage.sums]
    what = "Cost" if asked.of == "cost" else "Tokens"
    amount = plots.dollars if asked.of == "cost" else plots.count
    total, most = sum(value for _, value in bars), max(bars, key=lambda bar: bar[1], default=("", 0.0))
    described = f"{amount(total)} in all in the last {asked.days} days."
    if most[1]:
        described += f" Most: {most[0] or 'forgotten'}, {amount(most[1])}."
    words = plots.PlotWords(f"{what} by {asked.by}: {amount(total)}", described, amount)
    if asked.by == "day":
        # All days of UTC, also those on which nothing was spent.
        now, sums = call.ports.clock.now(), dict(bars)
        names = [f"{moment(now - DAY_SECONDS * ago):%Y-%m-%d}" for ago in range(asked.days - 1, -1, -1)]
        return picture(plots.columns(words, [(name, sums.get(name, 0.0)) for name in names], asked.theme))
    return picture(plots.rows(words, sorted(bars, key=lambda bar: -bar[1]), asked.theme))


def picture(svg: str) -> web.Response:
    """Return a plot as an answer."""
    headers = {**HEADERS, "Content-Type": plots.MEDIA_TYPE, "Content-Security-Policy": "sandbox; default-src 'none'"}
    return web.Response(body=svg.encode(), headers=headers)
