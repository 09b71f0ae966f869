"""The words and buttons of a schedule's message when it is due."""

from goclaw.common.core.events import Choice
from goclaw.conversation.schedules.jobs import Job, Once, StoredJob

DONE, LATER, TOMORROW = "done", "later", "tomorrow"
_LABELS = {DONE: "Done", LATER: "In 10 minutes", TOMORROW: "Tomorrow"}
QUESTION = r"R(?P<job>[0-9]{1,12})T(?P<at>[0-9]{1,15})"
"""The id of a reminder's question: the schedule, and the millisecond that it was for. Other ids have small letters."""


def is_reminder(job: Job) -> bool:
    """Whether it is a message that its maker set for themselves at one moment, or orders now by hand."""
    return job.kind == "message" and job.personal and not (job.elsewhere or job.configured)


def describe_job(job: Job) -> str:
    """Return what is said when it is due."""
    return f"⏰ Reminder: {job.text}" if is_reminder(job) else job.text


def make_choices(stored: StoredJob) -> tuple[Choice, ...]:
    """Return the buttons of a schedule that was due once."""
    when = stored.job.when
    if not isinstance(when, Once):
        return ()
    question = f"R{stored.id}T{round(when.at * 1000)}"
    return tuple(Choice(label, question, answer) for answer, label in _LABELS.items())
