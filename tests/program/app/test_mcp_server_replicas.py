"""A client of MCP whose requests a proxy passes on to several gateways, as the protocol has it."""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import httpx2
import psycopg
import pytest
import pytest_asyncio
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitResult

from goclaw.common.auth.tokens import add_token
from goclaw.common.config.values import PostgresPlace
from goclaw.common.core.events import AGENT_MARK, Actor
from goclaw.conversation.turns.external_runs import FORGOTTEN
from goclaw.durable.store.file_writer import file_writer
from goclaw.gateway.servers.mcp.uris import transcript_uri
from tests.acceptance.model import EchoModel, echo_model
from tests.acceptance.waiting import PATIENCE, eventually
from tests.postgres import Server, fresh_place
from tests.replicas import Replica, replicas

pytestmark = [pytest.mark.timeout(120), pytest.mark.asyncio(loop_scope="module")]

ANN, BOB, CID, DEE = (Actor(f"memory:{name}", "memory") for name in ("ann", "bob", "cid", "dee"))
SESSION = "Mcp-Session-Id"
OLDER = "2025-11-25"
PLAN = {"description": "Plan a party.", "prompt": "Plan the party."}
MORE: Any = {
    "mcp": {"server": {"enabled": True, "port": 0, "elicitation": True}},
    "policy": {"always_ask": ["read"]},
    "agents": {"kinds": {"planner": {"exports": {"planning": {"tools": {"plan": PLAN}, "publish_to": ["shared"]}}}}},
}


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder with a short path: the sockets below it may have 107 bytes."""
    made = Path(tempfile.mkdtemp(prefix="goclaw-"))
    yield made
    shutil.rmtree(made)


@pytest.fixture(scope="module")
def place(server: Server) -> PostgresPlace:
    return fresh_place(server)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def model(shared_by_the_module: None) -> AsyncIterator[EchoModel]:
    async with echo_model() as serving:
        yield serving


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def both(place: PostgresPlace, folder: Path, model: EchoModel) -> AsyncIterator[Sequence[Replica]]:
    """Two gateways that serve clients of MCP. Each test has a person, and so a conversation, of its own."""
    async with replicas(place, folder, model.url, **MORE) as made:
        person = {"name": "A person", "roles": ["user"], "allowedTools": ["read", "plan"]}
        people = {each.key: person for each in (ANN, BOB, CID, DEE)}
        made[0].write_people(people)
        for each in made:
            await eventually(lambda app=each.app: app.mcp_server.port and app.foundation.users.get(DEE.key))  # type: ignore[misc]  # bound at once
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tokens(both: Sequence[Replica]) -> Mapping[Actor, str]:
    """A token of each person, which both gateways know."""
    paths = [each.app.foundation.config.tokens_path for each in both]
    writer = file_writer(both[0].app.foundation.config)
    made = {each: add_token(paths[0], each.key[-3:], each.key, 0.0, writer=writer) for each in (ANN, BOB, CID, DEE)}
    await eventually(lambda: all(path.is_file() and f'"{DEE.key[-3:]}"' in path.read_text() for path in paths))
    return made


async def say(replica: Replica, person: Actor, text: str) -> str:
    return (await replica.say(text, actor=person, chat=person.key.partition(":")[2])).text


def is_answered(replica: Replica, person: Actor) -> bool:
    """Whether the answer to a person's "m1" has arrived, and not that of an earlier test."""
    heard = [each.delivery for each in replica.room.all if each.delivery.address.chat == person.key.partition(":")[2]]
    return any("answer m1" in each.text for each in heard)


def stored(server: Server, place: PostgresPlace, session: str) -> list[str]:
    """The texts of the rows of a session and of its agents."""
    with psycopg.connect(server.url, options=f"-csearch_path={place.schema}") as connection:
        rows = connection.execute("SELECT session, text FROM messages ORDER BY id").fetchall()
    return [text for of, text in rows if of == session or of.startswith(session + AGENT_MARK)]


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
    both: Sequence[Replica], tokens: Mapping[Actor, str]
) -> None:
    one, two = both
    token = tokens[ANN]
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


async def test_the_transcript_that_a_client_reads_is_the_same_at_each_gateway(
    both: Sequence[Replica], tokens: Mapping[Actor, str]
) -> None:
    one, two = both
    one.takes_alone(two)
    await say(two, BOB, "m1 plain")
    await eventually(lambda: is_answered(one, BOB))
    token = tokens[BOB]
    for replica in (two, one):
        session = await begun(replica, token)
        uri = {"uri": transcript_uri(BOB.key)}
        status, body, _ = await send(replica, token, "resources/read", uri, Mcp_Session_Id=session)
        assert status == 200 and "answer m1" in body, body


async def test_a_question_that_one_gateway_has_put_is_answered_at_another_once(
    both: Sequence[Replica], tokens: Mapping[Actor, str], folder: Path
) -> None:
    one, two = both
    given: Any = {"approval": ElicitResult(action="accept")}
    token = tokens[ANN]
    work = folder / "work"
    work.mkdir(exist_ok=True)
    (work / "note.txt").write_text("the note")
    async with modern(one, token) as at_one, modern(two, token) as at_two:
        call: Any = ("read", {"path": "note.txt"})
        asked = await at_one.session.call_tool(*call, allow_input_required=True)
        state = getattr(asked, "request_state", None)
        assert state, asked
        answer: Any = {"input_responses": given, "request_state": state, "allow_input_required": True}
        read = await at_two.session.call_tool(*call, **answer)
        assert "the note" in str(getattr(read, "content", "")), read
        again = await at_one.session.call_tool(*call, **answer)
        assert getattr(again, "result_type", "") == "input_required", "a yes is good for one call"


async def test_a_subscriber_hears_of_what_another_gateway_stores_and_of_new_conversations_there(
    both: Sequence[Replica], tokens: Mapping[Actor, str]
) -> None:
    one, two = both
    two.takes_alone(one)
    uri = transcript_uri(CID.key)
    async with (
        modern(one, tokens[CID]) as client,
        client.listen(resources_list_changed=True, resource_subscriptions=[uri]) as heard,
        asyncio.timeout(PATIENCE),
    ):
        assert heard.honored.resource_subscriptions == [uri]
        events = aiter(heard)
        for message, wanted in (("m1", {uri, "the list"}), ("m2", {uri})):
            await say(one, CID, f"{message} plain")
            told = set[str]()
            while not told >= wanted or f"answer {message}" not in str((await client.read_resource(uri)).contents):
                told.add(str(getattr(await anext(events), "uri", "the list")))
            assert told == wanted
    assert two.has(CID.key) and not one.has(CID.key)


@pytest.mark.promise("P-forgotten")
async def test_what_is_forgotten_does_not_come_back_with_an_agent_that_works_for_a_client_of_another_gateway(
    both: Sequence[Replica], tokens: Mapping[Actor, str], model: EchoModel, server: Server, place: PostgresPlace
) -> None:
    one, two = both
    two.takes_alone(one)
    await say(one, DEE, "m1 plain")
    await eventually(lambda: is_answered(two, DEE))
    token, gate = tokens[DEE], model.gate("Plan the party")
    async with modern(one, token) as client, asyncio.timeout(PATIENCE):
        calling = asyncio.create_task(client.call_tool("plan", {}))
        await gate.reached.wait()
        assert "Plan the party." in stored(server, place, DEE.key)
        explained = await say(two, DEE, "/forget")
        code = explained.rpartition("/forget ")[2]
        await eventually(lambda: not two.app.outbox.waiting())
        said = await say(two, DEE, f"/forget {code}")
        assert said.startswith("Deleted "), explained
        gate.opened.set()
        ended = await calling
        assert ended.is_error and FORGOTTEN in str(ended.content)
        assert stored(server, place, DEE.key) == []
        assert not one.app.sessions.costs.reservations.own
        again = await client.call_tool("plan", {})
        assert not again.is_error, "what begins after it is a run of its own"
        assert "Plan the party." in stored(server, place, DEE.key)


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
