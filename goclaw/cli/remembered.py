"""Asks memory on the state folder, which no daemon holds. A module of its own: with a daemon none of it is needed."""

from contextlib import AsyncExitStack
from typing import Any

from goclaw.access import Access
from goclaw.app import open_environment
from goclaw.app.environment import Environment
from goclaw.clock import RealClock
from goclaw.config.schema import Config
from goclaw.events import Actor
from goclaw.memory.memory_queries import MemoryQueries, MemoryQuery
from goclaw.state import open_state
from goclaw.store.database import open_database
from goclaw.store.feed import TranscriptFeed
from goclaw.users import Users, login_name, open_users
from goclaw.wire import AskMemory


async def answered(config: Config, asked: AskMemory) -> dict[str, Any]:
    """Return memory's answer, with the state folder locked meanwhile.

    Raises:
        StateError: another process holds it, or memory is off.
        AccessDenied: the user may not ask for that.
    """
    clock = RealClock()
    async with AsyncExitStack() as stack:
        stack.enter_context(open_state(config))
        users = await stack.enter_async_context(open_users(config.users_path, clock))
        feed = None
        if config.database_path.exists():
            feed = TranscriptFeed(await stack.enter_async_context(open_database(config.database_path)))
        environment = await stack.enter_async_context(open_environment(config, users, clock, feed=feed))
        actor = Actor(f"tui:{login_name()}", "cli", owner=True, name=login_name())
        if asked.order == "reindex" and config.memory.enabled:
            await _use_all(environment, users, actor)
        queries = MemoryQueries(environment.memory, Access(users, config), environment.workspace, config.memory)
        question = MemoryQuery(asked.order, asked.query, asked.user, asked.everybody, asked.limit, asked.wanted)
        return await queries.answer(actor, question)


async def _use_all(environment: Environment, users: Users, owner: Actor) -> None:
    """Add every existing workspace to those whose files are indexed."""
    for actor in (owner, *(Actor(user.key, "cli") for user in users.all())):
        if environment.root(actor.key).is_dir():
            await environment.memory.files(await environment.workspace(actor), actor.key)
