"""Reminders and mementos for the model: chosen afresh for every request, placed at its end, kept in no transcript.

Reminders live in memory only. One that must outlive a restart is added again by the code that knows that it still
holds; a tool's declared reminder follows from the results of the turn, and so does not need it.

Mementos are those of the person who speaks, and the shared ones. They are marked as data and not stored: the system
prompt is the same for all users of a workspace, and a transcript is read by all participants. In a group the others
would learn of the person's own mementos through the answers, so only shared ones are shown there.
"""

from collections.abc import Sequence

from goclaw.common.core.redact import mask
from goclaw.common.workspace import Workspace
from goclaw.conversation.agent.context.model_messages import ContentMarkers, reminder
from goclaw.errors import GoclawError
from goclaw.memory.user_memory import mementos_of
from goclaw.tools.execution.tasks.base import TaskInfo
from goclaw.tools.toolkit.services import Reminder, Reminders

MAX_CHARACTERS = 4_000
"""Maximum characters of one reminder: it comes on top of the conversation, and is never shortened later."""
MEMENTO_TOOL = "memento"
"""Tool with the permission that mementos require."""
MAX_SHOWN_MEMENTOS = 20
MAX_MEMENTO_CHARACTERS = 3_000
"""Maximum characters of all mementos together: they are sent with every request."""
MEMENTO_ORIGIN = "your own mementos, which the tool memento reads"


class SessionReminders(Reminders):
    """The reminders of a session: an added one holds from turn to turn until removed."""

    def __init__(self) -> None:
        self.kept: dict[str, Reminder] = {}
        self._requests = 0
        self._quiet_until: dict[str, int] = {}
        """The first request where a reminder may appear again, if that is not the very next."""

    def add(self, reminder: Reminder) -> None:
        """Show a reminder from the next request on; it replaces one with the same id."""
        self.kept[reminder.id] = reminder

    def remove(self, id: str) -> None:
        """Remove a reminder; an unknown id is ignored."""
        self.kept.pop(id, None)

    @property
    def idle(self) -> bool:
        """Whether it may be dropped without a loss."""
        return not self.kept and not self._quiet_until

    def count_request(self) -> None:
        """Count one request more."""
        self._requests += 1
        self._quiet_until = {id: until for id, until in self._quiet_until.items() if until > self._requests}

    def may_remind(self, id: str) -> bool:
        """Whether the pause after the reminder's last appearance is over."""
        return id not in self._quiet_until

    def record_reminders(self, told: Reminder) -> None:
        """Start the pause of these reminders."""
        if told.min_turns_between:
            self._quiet_until[told.id] = self._requests + 1 + told.min_turns_between


class TurnReminders(Reminders):
    """The reminders of one turn: an added one ends with it."""

    def __init__(self, session: SessionReminders) -> None:
        self._session = session
        self._own: dict[str, Reminder] = {}
        self._told: dict[str, int] = {}
        """Number of appearances, by id."""

    def add(self, reminder: Reminder) -> None:
        """Show a reminder from the next request on; within the turn it replaces one with the same id."""
        self._own[reminder.id] = reminder

    def remove(self, id: str) -> None:
        """Remove a reminder, in this turn and in later ones."""
        self._own.pop(id, None)
        self._session.remove(id)

    def block(self, results: Sequence[Reminder] = ()) -> str:
        """Return the reminders at the end of the next request; `results`: those of the results right before it.

        Safety comes first, and within a tier the order of addition.
        """
        self._session.count_request()
        wanted = {**self._session.kept, **self._own, **{each.id: each for each in results}}
        due = sorted(filter(self._is_due, wanted.values()), key=lambda each: each.tier)
        for each in due:
            self._told[each.id] = self._told.get(each.id, 0) + 1
            self._session.record_reminders(each)
        return reminder([_shorten(mask(each.text.strip())) for each in due])

    def _is_due(self, each: Reminder) -> bool:
        told = self._told.get(each.id, 0)
        capped = each.max_per_run is not None and told >= each.max_per_run
        return bool(each.text.strip()) and not capped and self._session.may_remind(each.id)


def of_result(tool: str, text: str) -> Reminder:
    """Return the reminder that a tool declares: shown after each of its results."""
    return Reminder(f"result of {tool}", text, max_per_run=None)


def of_task(ended: TaskInfo) -> Reminder:
    """Return the reminder that a background task has ended, without its command: the runtime did not write it."""
    code = "" if ended.code is None else f" (exit code {ended.code})"
    return Reminder(
        f"end of {ended.id}",
        f"The background task {ended.id} is {ended.state}{code} since you looked last. task_output shows what it said.",
    )


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]} [cut]"


async def format_mementos(workspace: Workspace, key: str, markers: ContentMarkers, *, own: bool) -> str:
    """Return the summaries of the latest mementos, in their marks; empty: there are none, or they cannot be read."""
    try:
        found = await mementos_of(workspace, key, own=own)
    except GoclawError:
        return ""
    lines: list[str] = []
    left = MAX_MEMENTO_CHARACTERS
    for memento in found[:MAX_SHOWN_MEMENTOS]:
        line = f"- {memento.name}{' (shared)' if memento.shared else ''}"
        line += f": {memento.summary}" if memento.summary else ""
        left -= len(line) + 1
        if left < 0:
            break
        lines.append(line)
    if len(lines) < len(found):
        lines.append(f"and {len(found) - len(lines)} more (action list)")
    return markers.beside(mask("\n".join(lines)), MEMENTO_ORIGIN) if lines else ""
