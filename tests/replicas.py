"""Several whole daemons of this process on one schema of Postgres, each with a room of its own to write in.

    async with replicas(place, folder, model.url) as (one, two):
        await one.takes_alone(two)       # sessions that are wanted from here on are `one`'s
        await two.say("m1 plain")
        await eventually(lambda: answers(one, two))

The model is `tests.acceptance.model`. What one process does to another is real; none can be
paused here.
"""

import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goclaw.channels.memory import Room
from goclaw.common.config.schema import Config
from goclaw.common.config.values import PostgresPlace
from goclaw.common.core.events import Acceptance, SessionNow
from goclaw.durable.engine.lanes import Lanes
from goclaw.durable.engine.leased_sessions import LeasedSessions
from goclaw.durable.store.file_writer import file_writer
from goclaw.durable.store.postgres.ownership import PostgresOwnership
from goclaw.gateway.intake.gateway import Gateway
from goclaw.program.app import App, open_app

SESSION = "memory:here"
"""The session of what is said in a room."""


@dataclass
class Replica:
    """One daemon."""

    app: App
    room: Room

    @property
    def gateway(self) -> Gateway:
        gateway = self.room._gateway
        assert isinstance(gateway, Gateway)
        return gateway

    def write_people(self, people: Mapping[str, Mapping[str, Any]]) -> None:
        """Replace users.json by these entries, by their key."""
        config = self.app.foundation.config
        with file_writer(config)(config.users_path):
            config.users_path.write_text(json.dumps({"users": people}))
            config.users_path.chmod(0o600)

    @property
    def ownership(self) -> PostgresOwnership:
        ownership = self.app.outbox.ownership
        assert isinstance(ownership, PostgresOwnership)
        return ownership

    @property
    def lanes(self) -> Lanes:
        return self.app.engine

    @property
    def sessions(self) -> LeasedSessions:
        sessions = self.app.foundation.storage.owned
        assert isinstance(sessions, LeasedSessions)
        return sessions

    async def say(self, text: str, **options: Any) -> Acceptance:
        """Write in this daemon's room (see `Room.say`)."""
        return await self.room.say(text, **options)

    async def now(self, session: str = SESSION) -> SessionNow:
        return await self.gateway.now(session)

    def has(self, session: str = SESSION) -> bool:
        """Whether this daemon works on a session, with its state in memory."""
        return self.sessions.held.of(session) is not None

    def takes_alone(self, *others: "Replica") -> None:
        """Have sessions that are wanted from here on taken by this daemon; those that others have they keep."""
        self.ownership._takes = True
        for other in others:
            other.ownership.take_no_more()

    @contextmanager
    def asleep(self, session: str = SESSION) -> Iterator[None]:
        """Have this daemon hear nothing of a session in the block, as one that was paused and has just woken."""
        leases = self.ownership._leases
        lease = leases.pop(session)
        try:
            yield
        finally:
            leases[session] = lease
            lease.news.set()

    def texts(self) -> list[str]:
        """What arrived in this daemon's room, oldest first."""
        return [heard.delivery.text for heard in self.room.all]


def texts(*replicas: Replica) -> list[str]:
    """What arrived in all rooms; of one session only its owner sends."""
    return [text for each in replicas for text in each.texts()]


def config_for(place: PostgresPlace, folder: Path, model_url: str, room: Room, **more: Any) -> Config:
    """The configuration of a daemon with the state folder `folder`; all share a workspace beside it."""
    state = folder / "state"
    state.mkdir(parents=True, mode=0o700)
    return Config.model_validate(
        {
            "state_dir": state,
            "workspace": folder.parent / "work",
            "store": f"{place.url}?schema={place.schema}",
            "telegram": {"enabled": False},
            "channels": {"memory": {"room": room}},
            "models": {"agent": ["openai-chat:echo"], "summary": []},
            "providers": {"openai-chat": {"base_url": model_url, "api_key": "none"}},
            **more,
        }
    )


@asynccontextmanager
async def replicas(
    place: PostgresPlace,
    folder: Path,
    model_url: str,
    count: int = 2,
    own: Callable[[], Mapping[str, Any]] = dict,
    **more: Any,
) -> AsyncIterator[Sequence[Replica]]:
    """Run so many daemons for as long as the block lasts.

    `more`: keys of their configuration; `own`: returns further ones for each of them.
    """
    async with AsyncExitStack() as stack:
        made = list[Replica]()
        for number in range(count):
            room = Room()
            config = config_for(place, folder / str(number), model_url, room, **more, **own())
            made.append(Replica(await stack.enter_async_context(open_app(config)), room))
        yield made
