"""The keys of `schedules`: the operator's messages and tasks at a time."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Annotated, Literal

from cronsim import CronSim, CronSimError
from pydantic import AfterValidator, Field

from goclaw.common.config.keys import Loc
from goclaw.common.config.values import Duration, require, require_that
from goclaw.common.config.webhooks import NotifyTarget, UnattendedSettings, of_target
from goclaw.common.core.timezones import find_zone

MIN_EVERY = 60.0
"""Seconds: the least interval, which is cron's too."""
_AT_LEAST_A_MINUTE = require_that(lambda seconds: seconds >= MIN_EVERY, "should be at least a minute")
_NO_MOMENT = "should be a date and time such as 2026-12-24T18:00"
_TASK_ONLY = ("session", "agent", "model", "tools", "ask", "budget", "time_limit")


def _check_at(value: str) -> str:
    try:
        datetime.fromisoformat(value)
    except ValueError:
        raise ValueError(_NO_MOMENT) from None
    if len(value) <= len("2026-12-24"):
        raise ValueError(_NO_MOMENT)
    return value


def _check_cron(value: str) -> str:
    expression = " ".join(value.split())
    try:
        if len(expression.split()) == 5:  # cronsim takes a sixth one, for seconds
            next(CronSim(expression, datetime(2026, 1, 1)))  # noqa: DTZ001 -- only its form counts here
            return expression
    except StopIteration:
        raise ValueError("is never due") from None
    except CronSimError as error:
        raise ValueError(f"should be a cron expression: {str(error).lower()}") from None
    raise ValueError("should be a cron expression of five fields, as in `30 8 * * 1-5`")


def _check_zone(value: str) -> str:
    find_zone(value)
    return value


class ScheduleSettings(UnattendedSettings):
    """A message or a task at a time (docs/schedules.md). One of `at`, `every`, `cron`; one of `message`, `task`."""

    at: Annotated[str, AfterValidator(_check_at)] | None = Field(
        None, description="Once: a date and time, `2026-12-24T18:00`."
    )
    every: Annotated[Duration, _AT_LEAST_A_MINUTE] | None = Field(
        None, description="Repeatedly, counted from the first start with it: `30m`; at least a minute."
    )
    cron: Annotated[str, AfterValidator(_check_cron)] | None = Field(
        None, examples=["30 8 * * 1-5"], description="Five fields: minute, hour, day, month, weekday."
    )
    message: str | None = Field(None, max_length=20_000, pattern=r"\S", description="The text, sent word for word.")
    task: str | None = Field(
        None,
        max_length=20_000,
        pattern=r"\S",
        examples=["Tell me what is new in the project"],
        description="A task for an agent, whose answer is sent.",
    )
    user: str = Field("", description="The user it belongs to, with whose rights it runs; empty: the owner.")
    timezone: Annotated[str, AfterValidator(_check_zone)] | None = Field(
        None, description="Time zone, `Europe/Berlin`; not set: the user's, else the machine's."
    )
    time_limit: Duration | None = Field(None, description="Time for one run.")
    catch_up: Literal["last", "all", "none"] = Field("last", description="Which missed times to catch up on.")
    catch_up_within: Duration = Field(86_400, description="How late a missed run may start.")


ScheduleName = Annotated[
    str, require(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", "should be letters, digits, `-` and `_`, at most 64")
]
ConfiguredSchedules = dict[ScheduleName, ScheduleSettings]


def contradictions(
    schedules: Mapping[str, ScheduleSettings], targets: Mapping[str, NotifyTarget]
) -> Iterator[tuple[Loc, str]]:
    """Yield contradictions between valid values: the place, and the fault."""
    for name, settings in schedules.items():
        loc: Loc = ("schedules", name)
        yield from (((*loc, *inner), why) for inner, why in of_target(settings.to, targets, ask=settings.ask))
        if sum(each is not None for each in (settings.at, settings.every, settings.cron)) != 1:
            yield loc, "should have one of `at`, `every` and `cron`"
        if bool(settings.message) == bool(settings.task):
            yield loc, "should have one of `message` and `task`"
        elif settings.message:
            for key in sorted(settings.model_fields_set & set(_TASK_ONLY)):
                yield (*loc, key), "is only for a `task`, because a message is sent word for word; remove the key"
