"""Orders about schedules, in the words of people and agents: checked and carried out above (`schedules`)."""

from typing import Literal

from goclaw.common.core.messages import SourceKind
from goclaw.common.core.records import record

Action = Literal["add", "list", "pause", "resume", "run", "remove", "runs", "timezone"]


@record
class ScheduleRequest:
    """A schedule as it is asked for. Of `at`, `every`, `cron` one is given, of `message` and `task`, too."""

    at: str = ""
    """A moment: `20m`, `8:00`, `tomorrow 8:00`, or an ISO date and time."""
    every: str = ""
    cron: str = ""
    message: str = ""
    """What is said word for word."""
    task: str = ""
    """The task of an agent."""
    to: str = ""
    """`channel:chat`, where the message or the task's answer goes; empty: where it was asked for."""
    session: str = ""
    """A task's session: `fresh` (also if empty), `same`, or a key. The session in which a message is said."""
    agent: str = ""
    model: str = ""
    tools: str = ""
    """A selection (`goclaw.common.core.selection`) with commas that narrows a task's tools; empty: the maker's."""
    catch_up: str = ""
    """`last` (also if empty), `all` or `none`."""
    ask: bool = False
    budget: float | None = None
    """US dollars."""
    time_limit: str = ""
    """For one run: `10m`."""
    source: SourceKind | None = None
    """Whose words may have asked for it: an agent made it that had read them; None: nobody else's."""


@record
class ScheduleOrder:
    """One order."""

    action: Action
    name: str = ""
    """Of the schedule; of the zone for `timezone`. Empty: one is chosen for a new schedule."""
    request: ScheduleRequest = ScheduleRequest()
    """For `add`."""
    user: str = ""
    """The key of the person for whom the owner acts; empty: who orders."""
    as_json: bool = False
