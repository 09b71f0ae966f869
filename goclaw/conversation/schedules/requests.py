"""Requests about schedules by people and agents, with the rights of the requester.

A person sees and changes their own jobs, an admin those of all. A job from the configuration is removed there alone.
Each error of a request (`draft`) names the option, and the forms that it may have.
"""

import logging
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import tzinfo
from itertools import count
from typing import get_args

from goclaw.common.auth.access import Access, ChosenMode
from goclaw.common.auth.users import Users
from goclaw.common.config.keys import what_helps
from goclaw.common.config.schema import Config
from goclaw.common.config.webhooks import NOTIFY
from goclaw.common.core import catalog
from goclaw.common.core.clock import Clock
from goclaw.common.core.events import LOCAL, Actor, Address, Inbound
from goclaw.common.core.plugins import third_party
from goclaw.common.core.records import record
from goclaw.common.core.selection import find_fault
from goclaw.common.specs import Risk
from goclaw.conversation.schedules.heartbeat import PREFIX, Heartbeat
from goclaw.conversation.schedules.jobs import (
    AnyRecurrence,
    CatchUp,
    Job,
    Once,
    Run,
    StoredJob,
    TaskOptions,
    cron,
    interval,
)
from goclaw.conversation.schedules.moments import understand_moment
from goclaw.conversation.schedules.quiet_hours import home_of
from goclaw.conversation.schedules.rows import KEEP_SECONDS, NameTaken, ScheduleRows
from goclaw.conversation.schedules.scheduler import TOOL, Scheduler, find_missing_right
from goclaw.conversation.schedules.times import NoTime, duration, format_moment
from goclaw.conversation.sessions.models import Models
from goclaw.conversation.sessions.state import MODE
from goclaw.durable.store.settings import Settings
from goclaw.errors import AccessDenied, StateError
from goclaw.tools.approval.policy import decide
from goclaw.tools.toolkit.schedule_orders import ScheduleRequest

log = logging.getLogger(__name__)

WHEN = (
    "say when, in one of these ways: at (20m, tomorrow 8:00, friday 17:00, 2026-12-24T18:00), every (30m, 2h, 1d), "
    "or cron (`30 8 * * 1-5`)"
)
CONFIGURED = "{name} stands in the configuration of this gateway, where an admin can change it"
WHAT = "say what, as one of these: message (sent word for word) or task (an agent gets it)"
_TASK_ONLY = ("agent", "model", "tools", "ask", "budget", "time_limit")
_CHAT = re.compile(r"(?P<channel>[a-z][a-z0-9_-]{0,31}):(?P<chat>-?[^\s:]{1,64})(?::(?P<thread>[0-9]{1,20}))?")
_CATCH_UP: dict[str, CatchUp] = {each: each for each in get_args(CatchUp)}
MAX_JOBS = 100
"""Jobs of one person."""
MAX_TEXT = 20_000
"""Characters of a job's text."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


def draft(name: str, wanted: ScheduleRequest, inbound: Inbound, now: float, zone: tzinfo) -> Job:
    """Return the job that a person asks for with a message; their rights are not checked.

    Args:
        name: of the job; empty: it gets one when it is stored.
        wanted: the request.
        inbound: the message that asks: its owner, its origin, and the result's target unless `wanted` names one.
        now: epoch seconds.
        zone: that of the person.

    Raises:
        StateError: it contradicts itself, lacks something or has it in no known form.
    """
    if bool(wanted.message.strip()) == bool(wanted.task.strip()):
        raise StateError(WHAT)
    is_task = bool(wanted.task.strip())
    if not is_task and (given := [option for option in _TASK_ONLY if getattr(wanted, option)]):
        raise StateError(f"{given[0].replace('_', '-')} is for a task: a message is sent as it stands")
    if not is_task and wanted.session and wanted.to:
        raise StateError("a message goes to a chat (to) or into a session (session), not both")
    catch_up = _CATCH_UP.get(wanted.catch_up or "last")
    if catch_up is None:
        raise StateError(f"`{wanted.catch_up[:40]}` is not a catch-up mode: write last, all or none")
    address = replace(inbound.address, reply_to=None)
    if wanted.to:
        address = parse_chat(wanted.to)
    elif wanted.session and not is_task:
        address = Address(LOCAL, wanted.session)
    return Job(
        name,
        "task" if is_task else "message",
        (wanted.task if is_task else wanted.message).strip(),
        _when(wanted, now, zone),
        replace(inbound.actor, behalf=()),
        wanted.session if wanted.session and not is_task else inbound.session,
        address,
        _task(wanted) if is_task else TaskOptions(),
        catch_up,
        personal=not is_task and bool(wanted.at),
        elsewhere=bool(wanted.to) and f"{address.channel}:{address.chat}" != inbound.actor.key,
        origin=inbound.id,
    )


def parse_chat(text: str) -> Address:
    """Return the chat that a text such as `telegram:123456` names.

    Raises:
        StateError: it names no chat, or one of an unknown channel.
    """
    found = _CHAT.fullmatch(text)
    if found is None:
        raise StateError(
            f"`{text[:60]}` is not a chat: write telegram:<chat id>, as in telegram:123456, or notify:<name>"
        )
    known = {**catalog.CHANNELS, **third_party("channels"), **catalog.CHANNELS_OF_SECTIONS}
    if found["channel"] not in known:
        raise StateError(f"there is no channel {found['channel']}: {', '.join(sorted(known))}")
    return Address(found["channel"], found["chat"], found["thread"])


def _when(wanted: ScheduleRequest, now: float, zone: tzinfo) -> AnyRecurrence:
    given = [each for each in (wanted.at, wanted.every, wanted.cron) if each.strip()]
    if len(given) != 1:
        raise StateError(WHEN)
    key = str(getattr(zone, "key", ""))
    try:
        if wanted.at.strip():
            said = understand_moment(wanted.at, now, zone)
            return Once(said.at, key, said.by_duration, said.has_offset)
        return interval(wanted.every, now, key) if wanted.every.strip() else cron(wanted.cron, key, now)
    except NoTime as error:
        raise StateError(str(error)) from None


def _task(wanted: ScheduleRequest) -> TaskOptions:
    seconds = duration(wanted.time_limit.strip()) if wanted.time_limit else None
    if wanted.time_limit and not seconds:
        raise StateError(f"`{wanted.time_limit[:40]}` is not a time limit: write 90s, 10m or 1h")
    if wanted.budget is not None and not 0 < wanted.budget < 1_000_000:
        raise StateError("the budget should be a number of US dollars above 0, as in 0.50")
    tools = tuple(filter(None, (each.strip() for each in wanted.tools.split(","))))
    if problem := find_fault(tools):
        raise StateError(f"the tools: {problem}")
    return TaskOptions(
        wanted.session or "fresh",
        wanted.agent,
        wanted.model,
        tools or None,
        budget=wanted.budget,
        seconds=seconds,
        ask=wanted.ask,
    )


@record
class Schedules:
    """The jobs, as people and agents reach them.

    Methods raise AccessDenied where the person may not, and StateError where it cannot be done, with the reason.
    """

    rows: ScheduleRows
    scheduler: Scheduler
    access: Access
    users: Users
    config: Config
    clock: Clock
    models: Models
    agents: Callable[[Actor], Collection[str]]
    """Returns the agents that may answer a person."""
    facts: Settings
    heartbeat: Heartbeat

    def zone(self, actor: Actor) -> tzinfo:
        """Return the time zone of a person: `timezone` in users.json, else the machine's."""
        return self.users.zone(actor.key)

    def home(self, actor: Actor) -> tuple[str, Address]:
        """Return the session that a person has of their own, and the chat where they read it."""
        return home_of(actor, self.access)

    async def make(self, inbound: Inbound, name: str, wanted: ScheduleRequest, *, by_agent: bool = False) -> StoredJob:
        """Store the job that a person asks for with a message; an empty name is chosen here.

        `by_agent`: a call of an agent, which the policy has judged before.

        Raises:
            AccessDenied: the person may not have it.
            StateError: it is malformed or cannot be.
        """
        await self.scheduler.follow_clock()  # what is made now counts by the clock as it is now
        job = draft(name, wanted, inbound, self.clock.now(), self.zone(inbound.actor))
        if job.task.model:
            await self._check_model(inbound.actor, job.task.model)
        if job.task.agent and job.task.agent not in (known := self.agents(inbound.actor)):
            raise StateError(f"there is no agent {job.task.agent[:40]} for you{what_helps(job.task.agent, known)}")
        if job.elsewhere and not by_agent:
            await self._check_policy(inbound)
        if job.address.channel == NOTIFY:
            self._check_target(job)
        elif job.elsewhere and job.task.ask:
            raise StateError("ask needs the chat where you can answer: leave out ask, or to")
        elif wanted.to:
            there = self.access.session_for(job.actor, f"{job.address.channel}:{job.address.chat}")
            if self.access.authorize(job.actor, "session.write", there).allowed:
                job = replace(job, session=there)
        return await self.add(job)

    async def add(self, job: Job) -> StoredJob:
        """Store a job of `job.actor` and have it run at its times; an empty name is chosen here.

        One that was made before, by the same message, is returned as it is.

        Raises:
            AccessDenied: the person may not make it.
            StateError: the name is taken or malformed, the text is too long, there are too many, or it is never due.
        """
        self._check(job)
        now, own = self.clock.now(), await self.rows.all(job.actor.key)
        if known := next((each for each in own if job.origin and each.job.origin == job.origin), None):
            return known
        if sum(each.state != "done" for each in own) >= MAX_JOBS:
            raise StateError(f"{job.actor.key} already has {MAX_JOBS} schedules; remove some first")
        next_due = job.when.after(now)
        if next_due is None:
            raise StateError(f"{job.name or 'it'} would never be due")
        if over := next((each for each in own if each.job.name == job.name and each.state == "done"), None):
            await self.rows.remove(over)
        stored = await self._store(job, next_due, now)
        self.scheduler.on_change()
        return stored

    async def replace(self, stored: StoredJob, job: Job) -> None:
        """Have another job of the same name and person go on in the place of one; raises as `add`."""
        self._check(job)
        next_due = job.when.after(self.clock.now())
        await self.rows.change(stored, job, next_due, "done" if next_due is None else "active")
        self.scheduler.on_change()

    async def _store(self, job: Job, next_due: float, now: float) -> StoredJob:
        if job.name:
            return await self.rows.add(job, next_due, now)
        stem = "reminder" if job.kind == "message" else "task"
        for number in count(await self.rows.last_id() + 1):
            try:
                return await self.rows.add(replace(job, name=f"{stem}-{number}"), next_due, now)
            except NameTaken:
                continue
        raise AssertionError("numbers end")

    async def of(self, actor: Actor) -> Sequence[StoredJob]:
        """Return the jobs that the person may see, the next one first."""
        return await self.rows.all(None if self._oversees(actor) else actor.key)

    async def runs(self, actor: Actor, name: str) -> Sequence[Run]:
        """Return the latest runs of a job, the newest first."""
        return await self.rows.runs((await self._find(actor, name)).id)

    async def pause(self, actor: Actor, name: str) -> StoredJob:
        """Keep a job from running until it is resumed."""
        stored = await self._find(actor, name)
        if stored.state != "active":
            raise StateError(f"{name} is already {stored.state}")
        await self.rows.set_state(stored, "paused", None)
        self.scheduler.on_change()
        return stored

    async def resume(self, actor: Actor, name: str) -> float:
        """Have a paused or stopped job go on; return when it is due."""
        stored = await self._find(actor, name)
        if stored.state == "active":
            raise StateError(f"{name} is active")
        next_due = stored.job.when.after(self.clock.now())
        if next_due is None:
            raise StateError(f"{name} was due on {format_moment(stored.job.when.after(0.0) or 0.0, self.zone(actor))}")
        await self.rows.set_state(stored, "active", next_due)
        self.scheduler.on_change()
        return next_due

    async def run(self, actor: Actor, name: str) -> StoredJob:
        """Run a job now, in addition to its times."""
        stored = await self._find(actor, name)
        await self.scheduler.start(stored, actor)
        return stored

    async def remove(self, actor: Actor, name: str) -> StoredJob:
        """Forget a job and its runs. A run that is under way goes on."""
        stored = await self._find(actor, name)
        if stored.job.configured:
            raise StateError(CONFIGURED.format(name=name))
        await self.rows.remove(stored)
        self.scheduler.on_change()
        return stored

    async def prune(self) -> None:
        """Forget runs, finished jobs and messages that were held, after a month."""
        now = self.clock.now()
        await self.rows.prune(now)
        await self.scheduler.quiet.prune(now - KEEP_SECONDS)

    def _check(self, job: Job) -> None:
        if job.name and not _NAME.fullmatch(job.name):
            raise StateError(f"`{job.name[:80]}` is not a valid name: use letters, digits, - and _, at most 64")
        if job.name.startswith(PREFIX) and not job.heartbeat:
            raise StateError(f"names that begin with {PREFIX} are reserved for heartbeats: /heartbeat on creates one")
        if not job.text.strip():
            raise StateError("the text is empty")
        if len(job.text) > MAX_TEXT:
            raise StateError(f"the text has {len(job.text):,} characters; the limit is {MAX_TEXT:,}")
        if lacking := find_missing_right(self.access, job):
            raise AccessDenied(f"you may not {lacking}")

    async def _check_model(self, actor: Actor, wanted: str) -> None:
        """Check a model as `/model` does: one that is not configured uses another person's money, or machine."""
        choices, _ = await self.models.choices()
        configured = [choice.spec for choice in choices if choice.configured]
        if wanted not in configured and not self.access.authorize(actor, "command.admin", "model").allowed:
            raise StateError(f"only admins may name a model that is not configured{what_helps(wanted, configured)}")

    async def _check_policy(self, inbound: Inbound) -> None:
        """Judge a command about another chat as the agent's own message there would be judged.

        If the person may approve such a call, the command is the approval.
        """
        actor = inbound.actor
        stored = await self.facts.of_session(self.access.session_for(actor, inbound.session))
        chosen = ChosenMode(**stored[MODE]) if MODE in stored else None
        spec = self.access.spec("message") or self.access.spec(TOOL)
        answer = decide(self.access, actor, spec, Risk.HIGH, chosen=chosen) if spec else "ask"
        if answer == "refuse":
            raise AccessDenied("the policy or the mode of this conversation refuses messages to other chats")
        if answer == "ask" and (rule := self.access.missing(actor, "question.answer", actor.key)):
            log.info("a message of %s to another chat is refused: %s", actor.key, rule)
            raise AccessDenied("a message to another chat needs an approval that you may not give")

    def _check_target(self, job: Job) -> None:
        """Check that there is the URL that a job names, and that no answer is waited for there."""
        name = job.address.chat
        if name not in (targets := self.config.notify):
            raise StateError(f"there is no place for notifications named {name[:40]}{what_helps(name, targets)}")
        if job.task.ask:
            raise StateError(f"ask needs a chat where a person can answer, but notify:{name} is a URL")

    def _oversees(self, actor: Actor) -> bool:
        return self.access.authorize(actor, "command.admin", TOOL).allowed

    async def _find(self, actor: Actor, name: str) -> StoredJob:
        """Return the job of this name, or `PERSON/NAME`; one of another person is unknown to who may not see it."""
        person, _, bare = name.rpartition("/")
        found = [each for each in await self.rows.list_by_name(bare) if person in ("", each.job.actor.key)]
        if not self._oversees(actor):
            found = [each for each in found if each.job.actor.key == actor.key]
        if own := next((each for each in found if each.job.actor.key == actor.key), None):
            return own
        if not found:
            raise StateError(f"there is no schedule named {name[:80]}")
        if len(found) > 1:
            names = ", ".join(f"{each.job.actor.key}/{bare}" for each in found)
            raise StateError(f"{len(found)} people have a schedule named {bare}: write one of {names}")
        return found[0]

    async def _own(self, actor: Actor, name: str) -> StoredJob:
        stored = await self._find(actor, name)
        if stored.job.configured:
            raise StateError(CONFIGURED.format(name=name))
        return stored
