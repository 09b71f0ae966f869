"""A client of MCP whose requests a proxy passes on to several gateways, as the protocol has it."""

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitResult

from goclaw.auth.tokens import add_token
from goclaw.auth.users import add_user
from goclaw.core.events import Actor
from goclaw.servers.mcp.uris import transcript_uri
from tests.acceptance.model import echo_model
from tests.acceptance.waiting import eventually
from tests.postgres import Server, fresh_place, running
from tests.replicas import Replica, replicas

pytestmark = pytest.mark.timeout(120)

ANN = Actor("memory:ann", "memory")
SESSION = "Mcp-Session-Id"
OLDER = "2025-11-25"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running() as started:
        yield started


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short path: the sockets below it may have 107 bytes."""
    made = Path(tempfile.mkdtemp(prefix="goclaw-"))
    yield made
    shutil.rmtree(made)


@pytest.fixture
async def both(server: Server, folder: Path) -> AsyncIterator[Sequence[Replica]]:
    """Two gateways that serve clients of MCP."""
    mcp = {"server": {"enabled": True, "port": 0}}
    async with echo_model() as model, replicas(fresh_place(server), folder, model.url, mcp=mcp) as made:
        add_user(made[0].app.foundation.config.users_path, ANN.key)
        for each in made:
            await eventually(lambda app=each.app: app.mcp_server.port and app.foundation.users.get(ANN.key))  # type: ignore[misc]  # bound at once
        yield made


def new_token(replica: Replica) -> str:
    return add_token(replica.app.foundation.config.tokens_path, "laptop", ANN.key, 0.0)


async def send(
    replica: Replica, token: str, method: str, params: Mapping[str, Any] | None = None, **headers: str
) -> tuple[int, str, Mapping[str, str]]:
    """Send a request of the older protocol; returns the status, the body and the headers of the answer."""
    own = {
        "Authorization": f"Bearer {token}",
        "Accept": "application/json, text/event-stream",
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    body: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": dict(params or {})}
    if not method.startswith("notifications/"):
        body["id"] = 1
    url = f"http://127.0.0.1:{replica.app.mcp_server.port}/mcp"
    async with aiohttp.ClientSession() as http, http.post(url, json=body, headers=own) as response:
        return response.status, await response.text(), response.headers.copy()


async def begun(replica: Replica, token: str) -> str:
    """Begin a session; returns its id."""
    hello = {"protocolVersion": OLDER, "capabilities": {}, "clientInfo": {"name": "a client", "version": "1"}}
    status, body, headers = await send(replica, token, "initialize", hello)
    assert status == 200, body
    session = headers[SESSION]
    assert (await send(replica, token, "notifications/initialized", Mcp_Session_Id=session))[0] == 202
    return session


async def test_a_session_of_one_gateway_is_not_found_at_another_so_the_client_begins_anew(
    both: Sequence[Replica],
) -> None:
    one, two = both
    token = new_token(one)
    session = await begun(one, token)
    for _ in range(2):
        status, body, _ = await send(two, token, "tools/list", Mcp_Session_Id=session)
        # Not 400: on 404 a client must begin a new session (specification 2025-11-25, Transports, Session Management).
        assert status == 404 and "Session not found" in body
    again = await begun(two, token)
    status, body, _ = await send(two, token, "tools/list", Mcp_Session_Id=again)
    assert status == 200 and '"read"' in body
    status, body, _ = await send(one, token, "tools/list", Mcp_Session_Id=session)
    assert status == 200 and '"read"' in body, "the first one is as it was"


async def test_the_transcript_that_a_client_reads_is_the_same_at_each_gateway(both: Sequence[Replica]) -> None:
    one, two = both
    one.takes_alone(two)
    await two.say("m1 plain", actor=ANN, chat="ann")
    await eventually(lambda: any("answer m1" in text for text in one.texts()))
    token = new_token(two)
    for replica in (two, one):
        session = await begun(replica, token)
        uri = {"uri": transcript_uri(ANN.key)}
        status, body, _ = await send(replica, token, "resources/read", uri, Mcp_Session_Id=session)
        assert status == 200 and "answer m1" in body, body


async def test_a_question_that_one_gateway_has_put_is_answered_at_another_once(server: Server, folder: Path) -> None:
    more: Any = {
        "mcp": {"server": {"enabled": True, "port": 0, "elicitation": True}},
        "policy": {"always_ask": ["read"]},
    }
    given: Any = {"approval": ElicitResult(action="accept")}
    async with (
        echo_model() as model,
        replicas(fresh_place(server), folder, model.url, **more) as (one, two),
        AsyncExitStack() as stack,
    ):
        add_user(one.app.foundation.config.users_path, ANN.key)
        token = new_token(one)
        for each in (one, two):
            await eventually(lambda app=each.app: app.mcp_server.port and app.foundation.users.get(ANN.key))  # type: ignore[misc]  # bound at once
        work = folder / "work"
        work.mkdir(exist_ok=True)
        (work / "note.txt").write_text("the note")
        at_one, at_two = [await stack.enter_async_context(modern(each, token)) for each in (one, two)]
        call: Any = ("read", {"path": "note.txt"})
        asked = await at_one.session.call_tool(*call, allow_input_required=True)
        state = getattr(asked, "request_state", None)
        assert state, asked
        answer: Any = {"input_responses": given, "request_state": state, "allow_input_required": True}
        read = await at_two.session.call_tool(*call, **answer)
        assert "the note" in str(getattr(read, "content", "")), read
        again = await at_one.session.call_tool(*call, **answer)
        assert getattr(again, "result_type", "") == "input_required", "a yes is good for one call"


@asynccontextmanager
async def modern(replica: Replica, token: str) -> AsyncIterator[Client]:
    """A client of the newest protocol, with a person who can be asked."""

    async def nobody(context: Any, params: Any) -> ElicitResult:
        raise AssertionError("the test answers")

    url = f"http://127.0.0.1:{replica.app.mcp_server.port}/mcp"
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=20) as http,
        Client(streamable_http_client(url, http_client=http), mode="2026-07-28", elicitation_callback=nobody) as client,
    ):
        yield client
