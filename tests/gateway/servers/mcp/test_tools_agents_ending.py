"""Agents that work for clients end with the call: whoever waited for them is gone, and nothing of them goes on."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from mcp.shared.exceptions import MCPError

from goclaw.common.core.messages import AssistantMessage, Message
from tests.conversation.sessions.agents import agents_of, results
from tests.conversation.sessions.exporting import PLAN
from tests.gateway.servers.mcp.exporting import living, offering, world_of
from tests.gateway.servers.mcp.house import ANN, House
from tests.gateway.servers.mcp.test_tools import said
from tests.gateway.servers.mcp.test_tools_agents import ERAS, NOTING, plans
from tests.gateway.servers.mcp.test_watching import until
from tests.harness import World
from tests.parts import Trail, acting

pytestmark = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
STOPPED = '{"error": "stopped by the user"}'


def world_with(folder: Path, trail: Trail) -> World:
    """Its agent is at work until the trail's gate opens."""
    return world_of(folder, NOTING, [acting("note", trail.leave_slowly)], agents=offering(PLAN))


async def ended(home: House, trail: Trail) -> list[Message]:
    """What the agent's conversation holds when it was cut, and nothing of it runs any more."""
    await until(lambda: trail.cancelled and not home.core.sessions.agents.of(ANN), home)
    await until(lambda: not home.core.sessions.external_runs._open)
    (theirs,) = await agents_of(home.core, ANN)
    assert not await home.core.sessions.ports.store.journal.steps(turn_of(home)), "nothing is left to be taken up"
    return await home.core.messages(theirs)


def turn_of(home: House) -> str:
    return next(each.turn.partition(":")[0] for each in home.audited if each.object == "note")


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_that_cancels_ends_the_agent(tmp_path: Path, era: str) -> None:
    trail = Trail()
    async with living(world_with(tmp_path, trail)) as home, home.listener() as listener:
        async with listener.client(await listener.token("ann", ANN), era) as client:
            calling = asyncio.create_task(plans(client))
            await trail.begun.wait()
            calling.cancel()
            messages = await ended(home, trail)
            await asyncio.wait({calling})
    assert results(messages) == [STOPPED] and messages[-1] == AssistantMessage("[Stopped.]", notice=True)


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_that_goes_away_ends_the_agent(tmp_path: Path, era: str) -> None:
    trail = Trail()
    async with living(world_with(tmp_path, trail)) as home, home.listener() as listener:
        token = await listener.token("ann", ANN)

        async def call() -> None:
            async with listener.client(token, era) as client:
                await plans(client)

        calling = asyncio.create_task(call())
        await trail.begun.wait()
        calling.cancel()
        assert results(await ended(home, trail)) == [STOPPED]
        await asyncio.wait({calling})


@pytest.mark.promise("P-token")
@pytest.mark.parametrize("era", ERAS)
async def test_whose_token_is_revoked_has_no_agent_at_work(tmp_path: Path, era: str) -> None:
    trail = Trail()
    async with living(world_with(tmp_path, trail)) as home, home.listener() as listener:
        async with lenient(), listener.client(await listener.token("ann", ANN), era) as client:
            calling = asyncio.create_task(plans(client))
            await trail.begun.wait()
            await listener.revoke("ann")
            assert results(await ended(home, trail)) == [STOPPED]
            calling.cancel()
            await asyncio.wait({calling})


@pytest.mark.parametrize("era", ERAS)
async def test_the_daemons_end_ends_the_agent(tmp_path: Path, era: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("goclaw.gateway.servers.mcp.http.GRACE_SECONDS", 0.5)
    trail = Trail()
    async with living(world_with(tmp_path, trail)) as home:
        calling: asyncio.Task[None] | None = None
        async with home.listener() as listener:
            token = await listener.token("ann", ANN)

            async def call() -> None:
                async with lenient(), listener.client(token, era) as client:
                    await plans(client)

            calling = asyncio.create_task(call())
            await trail.begun.wait()
        assert trail.cancelled == 1 and not home.core.sessions.agents.of(ANN), "it has ended when the listener has"
        assert results(await ended(home, trail)) == [STOPPED]
        calling.cancel()
        await asyncio.wait({calling})


async def test_forgetting_the_conversation_ends_what_works_for_clients_there(tmp_path: Path) -> None:
    trail = Trail()
    async with living(world_with(tmp_path, trail)) as home, home.client() as client:
        calling = asyncio.create_task(plans(client))
        await trail.begun.wait()
        await home.core.sessions.forgetter.forget(ANN)
        found = await calling
        assert found.is_error and "its conversation was deleted" in said(found)
        assert not await agents_of(home.core, ANN) and trail.cancelled == 1


@contextlib.asynccontextmanager
async def lenient() -> AsyncIterator[None]:
    """Whatever becomes of a client whose connection was cut."""
    with contextlib.suppress(MCPError, BaseExceptionGroup):
        yield
