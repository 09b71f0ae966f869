"""Jobs and their runs, as they are stored."""

from typing import Literal

from goclaw.common.core.codec import Codec
from goclaw.common.core.events import Actor, Address
from goclaw.common.core.records import record
from goclaw.conversation.schedules.recurrence import AnyRecurrence

CatchUp = Literal["last", "all", "none"]
"""Handling of runs that were missed while the daemon was off: the last one runs, all do, or none."""

SessionChoice = Literal["fresh", "same"]
"""A task's session: a new one for each run, or the session in which the job was created."""

JobState = Literal["active", "paused", "stopped", "done"]
"""`paused` by a person; `stopped` by the daemon, which has said why; `done`: it is due no more."""

RunState = Literal["running", "done", "failed", "stopped", "missed"]

DAY_SECONDS = 86_400.0


@record
class TaskOptions:
    """How a task's turn differs from a turn of its maker."""

    session: SessionChoice | str = "fresh"
    """Or the key of a session that the maker may write in."""
    agent: str = ""
    """The agent that answers; empty: the agent that would answer the maker there."""
    model: str = ""
    """The model; empty: the agent's."""
    tools: tuple[str, ...] | None = None
    """A selection (`goclaw.common.core.selection`) that narrows the maker's tools; None: all of these."""
    budget: float | None = None
    """US dollars for one run; None: the agent's limit."""
    seconds: float | None = None
    """Time for one run; None: the agent's limit."""
    ask: bool = False
    """Whether a call that needs approval asks in the chat, and the turn waits; otherwise such a call is refused."""


@record
class Job:
    """An action with its times, its person and its destination."""

    name: str
    """Unique among those of its person: letters, digits, `-` and `_`."""
    kind: Literal["message", "task"]
    """`message`: the text word for word. `task`: a turn of an agent that gets the text."""
    text: str
    when: AnyRecurrence
    actor: Actor
    """The maker, whose rights a run has then."""
    session: str
    """The maker's session, where the job was made."""
    address: Address
    """Where the message or the task's answer goes."""
    task: TaskOptions = TaskOptions()
    catch_up: CatchUp = "last"
    catch_up_within: float = DAY_SECONDS
    """Seconds after its due time within which a missed run is caught up."""
    personal: bool = False
    """Whether its maker set the very time of it: quiet hours do not hold it back."""
    elsewhere: bool = False
    """Whether its maker named another chat than that in which it was made, which takes a right at each run."""
    configured: bool = False
    """Whether it comes from `schedules` of the configuration, which alone can change it."""
    origin: str = ""
    """Id of the message or call that made it: redelivered after a crash, it makes no second one."""
    heartbeat: bool = False
    """Whether its text, tools and budget are made when it runs (`schedules.heartbeat`)."""


@record
class StoredJob:
    """A job with its state."""

    id: int
    job: Job
    state: JobState
    next: float | None
    """The next due time in epoch seconds; None unless it is active."""
    running: str
    """The turn of its run that has not ended; empty: no run is open."""
    failures: int
    """Failed runs since the last successful one."""
    note: str
    """Why it was stopped, for people."""
    made_at: float


@record
class Skipped:
    """In place of a job's run: it does not run this time."""

    why: str


@record
class Run:
    """One run of a job."""

    job: int
    due: float
    state: RunState
    turn: str
    """The id of its turn or delivery."""
    began_at: float
    ended_at: float | None
    text: str
    """The beginning of its answer, or what went wrong."""
    cost: float | None
    """US dollars; None: unknown, or nothing was spent."""


JOB: Codec[Job] = Codec(Job)


def turn_of(job: int, due: float) -> str:
    """Return the id of the turn or delivery of a run: it follows from job and due time, so that none is made twice."""
    return f"schedule:{job}:{due:.3f}"
