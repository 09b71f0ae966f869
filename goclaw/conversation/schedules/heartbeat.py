"""The heartbeat: every now and then a turn of the agent for a person who turned it on, with what HEARTBEAT.md asks.

It is a job like any other, one per person; what differs is made when it runs: its text, its tools and its budget.
It does not run while HEARTBEAT.md says nothing, while a turn of the person's conversation runs, nor once the budget of
the day is used up. An answer of `HEARTBEAT_OK` is not delivered.
"""

import hashlib
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime, time

from goclaw.common.auth.users import Users
from goclaw.common.config.heartbeat import HeartbeatSettings
from goclaw.common.core.clock import Clock
from goclaw.common.core.events import NOTHING_TO_SAY, Actor, Inbound, Unattended
from goclaw.common.core.records import record
from goclaw.common.core.redact import mask_known
from goclaw.common.workspace import PROMPT_FILES
from goclaw.common.workspace.approved_files import FILE_LIMIT
from goclaw.conversation.agent.prompt import found_files
from goclaw.conversation.schedules.jobs import DAY_SECONDS, Beat, Job, Skipped, StoredJob, TaskOptions
from goclaw.conversation.schedules.quiet_hours import QuietHours, Submit, send_to_chat
from goclaw.conversation.schedules.rows import ScheduleRows
from goclaw.conversation.schedules.times import in_zone, shown_shortly
from goclaw.durable.engine.base import LaneState
from goclaw.errors import DiskError, StateError
from goclaw.tools.toolkit.base import ToolEnvironment

FILE = "HEARTBEAT.md"
PREFIX = "heartbeat-"
"""Begins the names of these jobs, and of no others."""
ORDERS = f"""This is the heartbeat: no person wrote it. Do now what {FILE} asks of you. If there is something that the
person should hear of now, answer with that alone; else answer {NOTHING_TO_SAY} and nothing more.

# {FILE}

"""
DUE = "\n\n# Schedules of this person that are due within a day\n\n"
MAX_DUE = 5
_SHOWN_TEXT = 80
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_SAYS_NOTHING = re.compile(r"\s*(#.*|[-*+]?\s*(\[ ?\])?\s*)")
"""A heading, or an item of a list that is empty."""


def orders_in(text: str) -> str:
    """Return the text of HEARTBEAT.md; empty where it has headings and comments only."""
    lines = _COMMENT.sub("", text).splitlines()
    return text.strip() if any(not _SAYS_NOTHING.fullmatch(line) for line in lines) else ""


def name_for(person: str) -> str:
    """Return the name of a person's heartbeat; two persons never have the same one."""
    plain = re.sub(r"[^A-Za-z0-9_-]", "-", person)
    channel, _, name = person.partition(":")
    if channel.isalnum() and plain == f"{channel}-{name}" and len(plain) <= 50:
        return f"{PREFIX}{plain}"
    return f"{PREFIX}{plain[:30]}-{hashlib.sha256(person.encode()).hexdigest()[:12]}"


@record
class Heartbeat:
    """Makes the jobs of heartbeats, and what each of their runs gets."""

    settings: HeartbeatSettings
    rows: ScheduleRows
    users: Users
    environment: ToolEnvironment
    queue: Callable[[str], Awaitable[LaneState]]
    """Returns how far a session is with its messages (`Engine.queue`)."""
    submit: Submit
    quiet: QuietHours
    clock: Clock

    def job(self, inbound: Inbound) -> Job:
        """Return the heartbeat of the person who wrote a message; its results go to where that came from."""
        actor = replace(inbound.actor, behalf=())
        address = replace(inbound.address, reply_to=None)
        return Job(
            name_for(actor.key),
            "task",
            FILE,
            self._when(actor),
            actor,
            inbound.session,
            address,
            catch_up="none",
            heartbeat=True,
        )

    async def prepare(self, stored: StoredJob) -> Job | Skipped:
        """Return a job as it runs now, or why it does not; a job that is no heartbeat stays as it is.

        Settings and time zone are those of now: a job that follows others is changed.
        """
        job = stored.job
        if not job.heartbeat:
            return job
        if (when := self._when(job.actor)) != job.when:
            job = replace(job, when=when)
            await self.rows.change(stored, job, stored.next, stored.state)
        try:
            orders = await self.orders(job)
        except DiskError:
            raise
        except StateError as error:
            return Skipped(str(error))
        if not orders:
            return Skipped(f"{FILE} is empty")
        if (await self.queue(job.session)).running:
            return Skipped("a turn of the conversation is running")
        spent, most = await self.spent_today(stored), self.settings.budget_per_day
        if most is not None and spent >= most:
            await self._report_budget(stored, most)
            return Skipped(f"its daily budget of ${most:,.2f} is used up")
        options = TaskOptions(
            model=self.settings.model or "",
            tools=self.settings.tools,
            budget=None if most is None else most - spent,
            seconds=self.settings.time_limit,
        )
        return replace(job, text=f"{ORDERS}{orders}{await self._due(job)}", task=options)

    async def spent_today(self, stored: StoredJob) -> float:
        """Return the US dollars that the runs of the person's day have cost; those of unknown price count nothing."""
        return await self.rows.spent(stored.id, self._midnight(stored.job.actor))

    def _when(self, actor: Actor) -> Beat:
        zone = str(getattr(self.users.zone(actor.key), "key", ""))
        return Beat(self.settings.every, self.settings.active, zone)

    async def orders(self, job: Job) -> str:
        """Return what HEARTBEAT.md says, as it is approved; empty: nothing, and there is no run.

        Raises:
            StateError: the workspace cannot be opened.
        """
        workspace = await self.environment.workspace(job.actor, job.session)
        # All prompt files: one that is not named counts as removed.
        used = await self.environment.approved_files.texts_to_use(
            workspace.root, await found_files(workspace, PROMPT_FILES)
        )
        return mask_known(orders_in(used.texts.get(FILE, "")))[:FILE_LIMIT]

    async def _due(self, job: Job) -> str:
        """Return what else is due for the person soon, as a part of the text."""
        now, zone = self.clock.now(), self.users.zone(job.actor.key)
        lines = [
            f"- {each.job.name}, {shown_shortly(each.next, zone, now)}: {' '.join(each.job.text.split())[:_SHOWN_TEXT]}"
            for each in await self.rows.all(job.actor.key)
            if each.next is not None and each.next <= now + DAY_SECONDS and not each.job.heartbeat
        ]
        return mask_known(DUE + "\n".join(lines[:MAX_DUE])) if lines else ""

    def _midnight(self, actor: Actor) -> float:
        zone = self.users.zone(actor.key)
        today = datetime.fromtimestamp(self.clock.now(), zone).date()
        return in_zone(datetime.combine(today, time()), zone).timestamp()

    async def _report_budget(self, stored: StoredJob, most: float) -> None:
        """Say once a day that the budget is used up."""
        job, now = stored.job, self.clock.now()
        identity = f"schedule:{stored.id}:{self._midnight(job.actor):.0f}:budget"
        text = f"The heartbeat has used up today's budget (${most:,.2f}); it continues tomorrow."
        unattended = Unattended(stored.id, job.name, now)
        said = Inbound(identity, job.actor, job.session, text, job.address, now, unattended=unattended)
        await send_to_chat(said, self.submit, self.quiet.way(job.actor.key, job.address))
