"""procrastinate's statements on its jobs, for a worker that outlives an outage of Postgres and costs little when idle.

Postgres announces each inserted job and each lock that becomes free (`replicas.BEATS`). Looks without
a notice are for what may have been missed: a job with its row locked at the last look, a lost connection.
"""

import logging
import math
from collections.abc import Awaitable, Callable, Iterable

import psycopg
from procrastinate.connector import BaseAsyncConnector
from procrastinate.exceptions import ConnectorException
from procrastinate.jobs import Job, Notification, Status
from procrastinate.manager import JobManager, NotificationCallback

from goclaw.common.core.clock import Backoff, Clock
from goclaw.common.core.supervise import cancellable

log = logging.getLogger(__name__)

POLL_SECONDS = 0.2
"""Seconds between two looks for a job while there may be one."""
QUIET_SECONDS = 1.0
"""Seconds without a notice after which there is hardly a job to be found."""
IDLE_POLL_SECONDS = 2.0
"""Seconds between two looks for a job from then on."""
RECONNECT_SECONDS = 4.0
"""Seconds for which the pool tries to restore a lost connection; afterwards the next query makes it try again."""


class Jobs(JobManager):
    """The jobs of one worker."""

    def __init__(
        self,
        connector: BaseAsyncConnector,
        clock: Clock,
        takes: Callable[[], bool],
        was_seen: Callable[[float], Awaitable[None]],
    ) -> None:
        """Begin to look immediately.

        Args:
            connector: procrastinate's connections.
            clock: the time.
            takes: returns whether jobs are taken now.
            was_seen: called with the send time (`Clock.awake_or_not`) of a heartbeat that the others see from now on.
        """
        super().__init__(connector)
        self._clock = clock
        self._takes = takes
        self._was_seen = was_seen
        self._due_at = self._told_at = clock.monotonic()
        """When the next look for a job is due, and when Postgres told of one last."""

    async def prune_stalled_workers(self, seconds_since_heartbeat: float) -> list[int]:
        """Remove workers without a heartbeat."""
        return await cancellable(super().prune_stalled_workers(seconds_since_heartbeat), "looking for stalled workers")

    async def register_worker(self) -> int:
        """Register this worker; return its id."""
        sent_at = self._clock.awake_or_not()
        worker = await cancellable(super().register_worker(), "registering this worker")
        await self._was_seen(sent_at)
        return worker

    async def fetch_job(self, queues: Iterable[str] | None, worker_id: int) -> Job | None:
        """Take a job, if a look is due; the worker asks every `POLL_SECONDS`, and after each notice."""
        while self._takes() and self._clock.monotonic() >= self._due_at:
            self._due_at = math.inf  # a notice that comes during the look makes the next one due
            try:
                if job := await super().fetch_job(queues, worker_id):
                    self._due_at = 0.0
                    return job
            except ConnectorException as error:
                if isinstance(error.__cause__, psycopg.errors.ForeignKeyViolation):
                    raise  # another process has removed this worker, which was paused: it is registered anew
                log.debug("no job can be looked for: %s", error.__cause__)
            finally:
                self._due_at = min(self._due_at, self._seconds_to_poll())
        return None

    def _seconds_to_poll(self) -> float:
        now = self._clock.monotonic()
        # The worker asks as often as that: the part of a period keeps a look from falling to the ask behind it.
        return now + (POLL_SECONDS if now - self._told_at < QUIET_SECONDS else IDLE_POLL_SECONDS) - POLL_SECONDS / 2

    async def update_heartbeat(self, worker_id: int) -> None:
        """Send a heartbeat if Postgres can be reached."""
        sent_at = self._clock.awake_or_not()
        try:
            await super().update_heartbeat(worker_id)
        except ConnectorException as error:
            log.debug("no heartbeat can be sent: %s", error.__cause__)
        else:
            await self._was_seen(sent_at)

    async def finish_job(self, job: Job, status: Status, delete_job: bool) -> None:
        """Try until Postgres has taken it: one that is done and there would keep its session from everyone."""
        backoff = Backoff(POLL_SECONDS, RECONNECT_SECONDS)
        while True:
            try:
                return await super().finish_job(job, status, delete_job)
            except ConnectorException as error:
                if isinstance(error.__cause__, psycopg.errors.RaiseException):
                    return None  # it is gone: we counted as dead, and its session has another job
                log.debug("a job cannot be ended: %s", error.__cause__)
            await self._clock.sleep(backoff.next())

    async def listen_for_jobs(
        self, *, on_notification: NotificationCallback, queues: Iterable[str] | None = None
    ) -> None:
        """Listen until cancelled, also through outages."""

        async def on_notify(*, channel: str, notification: Notification) -> None:
            self._told_at = self._clock.monotonic()
            self._due_at = 0.0
            await on_notification(channel=channel, notification=notification)

        while True:
            try:
                await super().listen_for_jobs(on_notification=on_notify, queues=queues)
            except ConnectorException as error:
                log.debug("new jobs are not told of: %s", error.__cause__)
            await self._clock.sleep(RECONNECT_SECONDS)
