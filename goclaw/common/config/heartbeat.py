"""The settings of the heartbeat: a turn every now and then for the agent to look after the matters in HEARTBEAT.md."""

from typing import Annotated

from pydantic import AfterValidator, Field

from goclaw.common.config.section import Section
from goclaw.common.config.values import Duration, Selection, Spec
from goclaw.common.core.hours import hours

LIGHT = ("read", "list", "search", "memory_search", "memory_get", "memory_read", "web_fetch")
"""Tools that look and change nothing."""


def _check_hours(value: str) -> str:
    hours(value)
    return value


DayHours = Annotated[str, AfterValidator(_check_hours)]
"""Hours of the day (`goclaw.common.core.hours`)."""


class HeartbeatSettings(Section):
    """The settings of each person's heartbeat; `/heartbeat on` turns it on for the person who sends it."""

    every: Annotated[Duration, Field(ge=60, le=86_400)] = Field(
        1800.0, description="How often it runs, counted from the beginning of the active hours."
    )
    active: DayHours = Field(
        "08:00-22:00", description="Hours of the day in which it runs, in the person's time zone; always: 00:00-24:00."
    )
    budget_per_day: float | None = Field(
        0.5, gt=0, description="Maximum cost of a person's runs per day in US dollars; null: no separate limit."
    )
    tools: Selection = Field(
        LIGHT, description="The tools it may use, of those the person may; the default tools change nothing."
    )
    model: Spec | None = Field(None, description="The model that answers; not set: the agent's.")
    time_limit: Duration = Field(300.0, description="Time limit of one run.")
