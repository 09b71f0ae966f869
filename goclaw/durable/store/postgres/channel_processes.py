"""State shared by the channels of all processes on one schema. Implements `channels.processes.Processes`."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from goclaw.common.core.clock import Clock
from goclaw.durable.store.ownership import LeaseStore
from goclaw.durable.store.postgres.database import PostgresDatabase
from goclaw.durable.store.postgres.replica_share import ReplicaShare

TOPIC = "channels"
"""Of the notices between the channels of all processes."""


class PostgresProcesses:
    """The processes of one schema. All methods that wait raise `DiskError` as `Database` does."""

    is_alone = False

    def __init__(self, database: PostgresDatabase, ownership: LeaseStore, clock: Clock) -> None:
        self._database = database
        self._ownership = ownership
        self._share = ReplicaShare(database, clock)
        self._heard: dict[str, Callable[[str], None]] = {}
        self.takes: list[Callable[[str], Awaitable[None]]] = []
        database.notices.subscribe(TOPIC, self._dispatch, _ignore_loss)

    def holds(self, session: str) -> bool:
        return self._ownership.is_sure_of(session)

    async def lead(self, duty: str, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        await self._ownership.lead(duty, run)

    def share(self) -> float:
        return self._share.part()

    async def follow(self) -> None:
        await self._share.follow()

    def subscribe(self, kind: str, heard: Callable[[str], None]) -> None:
        self._heard[kind] = heard

    async def broadcast(self, kind: str, words: str) -> None:
        await self._database.write(self._database.notices.notice_for(TOPIC, f"{kind} {words}"))

    def _dispatch(self, payload: str) -> None:
        kind, _, words = payload.partition(" ")
        if heard := self._heard.get(kind):
            heard(words)


def _ignore_loss() -> None:
    """Do nothing: a notice that is lost is made up for by the service's own refusal."""
