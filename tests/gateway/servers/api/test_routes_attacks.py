"""Attacks on `/api/v1`, made from the table of operations: a new operation is attacked without a new test."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from urllib.parse import quote

import aiohttp
import pytest

from goclaw.common.core.messages import ToolCall
from goclaw.common.specs import Confirmation
from goclaw.gateway.servers.api.operations import Operation
from goclaw.gateway.servers.api.table import OPERATIONS
from tests.gateway.servers.api.calling import PREFIX, Answered, Service, at, service, world_with
from tests.gateway.servers.calling import ANN, BOB
from tests.harness import Answer, World, before_the_next_look
from tests.parts import Trail, acting

pytestmark = [pytest.mark.promise("P-api"), pytest.mark.promise("P-http-closed")]

SECRET = "what Bob told nobody else"
BODIES: Mapping[str, Mapping[str, object]] = {
    "sendMessage": {"id": "1", "text": "Hello"},
    "answerQuestion": {"answer": "allow"},
    "addSchedule": {"id": "1", "name": "tea", "at": "20m", "message": "tea"},
    "changeSetting": {"key": "log.level", "value": "debug"},
}
"""Bodies that would be taken, by the operation's id; the others have none."""
BLOB = "0" * 64
THEIRS, UNKNOWN = "theirs", "unknown"
FIELDS = {"session", "question", "name", "blob"}
"""Fields that name something of a person's. A new one in the table has to be added, or its test fails."""
IDS = tuple(each.id for each in OPERATIONS)
NAMING = tuple(
    each.id for each in OPERATIONS if each.in_path or (each.method == "GET" and "session" in each.request.model_fields)
)
HOSTILE_NUMBERS = ("0", "-1", str(2**63), str(2**64), "9" * 10_000, "1e400", "NaN", "Infinity", "0x1", "١", "1_000")


def operation(name: str) -> Operation:
    return next(each for each in OPERATIONS if each.id == name)


def test_every_field_that_names_something_is_attacked() -> None:
    assert {name for each in OPERATIONS for name in each.in_path} <= FIELDS
    assert {each.id for each in OPERATIONS if each.has_body} == set(BODIES)


def path_of(asked: Operation, names: Mapping[str, str]) -> str:
    """The path of an operation that names these things."""
    path = asked.path
    for field in asked.in_path:
        path = path.replace(f"{{{field}}}", quote(names[field], safe=""))
    if "session" in asked.request.model_fields and "session" not in asked.in_path and asked.method == "GET":
        path += f"?session={quote(names['session'], safe='')}"
    return f"{path}?name=a" if asked.request.takes_bytes else path


async def ask(served: Service, asked: Operation, path: str, **headers: str) -> Answered:
    return await served.send(asked.method, path, BODIES.get(asked.id), **headers)


def belongings(folder: Path) -> World:
    """A world in which Bob's conversation waits for an approval."""
    risky = acting("risky", Trail().leave, confirm=Confirmation("Risky", SECRET))
    answers = Answer("I try.", calls=(ToolCall("c", "risky", {}),)), Answer("Done.")
    return world_with(folder, *answers, given=[risky])


async def bobs_things(served: Service) -> dict[str, str]:
    """Make Bob's session, question and schedule; return their names by field."""
    assert (await served.say(SECRET, user=BOB.key)).status == 202
    tea = {"id": "1", "name": "tea", "at": "20m", "message": SECRET}
    assert (await served.post("/schedules", tea, user=BOB.key)).status < 300
    async with asyncio.timeout(10):
        while not (found := (await served.get("/questions", user=BOB.key)).said["questions"]):
            await before_the_next_look()
    return {"session": BOB.key, "question": found[0]["question"]["id"], "name": "tea", "blob": BLOB}


def shape(heard: Answered, names: Mapping[str, str]) -> str:
    """What a refusal says, without the names that the caller gave."""
    said = json.dumps(heard.said)
    for name in names.values():
        said = said.replace(json.dumps(name)[1:-1], "*")
    return said


async def test_what_is_another_user_s_cannot_be_told_from_what_is_not_there(tmp_path: Path) -> None:
    world = belongings(tmp_path)
    nothing = {"session": "memory:nowhere", "question": "0" * 8, "name": "ten", "blob": BLOB}
    async with world.running() as core, service(world, core) as served:
        things = await bobs_things(served)
        before = len(world.script.requests)
        for name in NAMING:
            asked = operation(name)
            theirs = await ask(served, asked, path_of(asked, things))
            unknown = await ask(served, asked, path_of(asked, nothing))
            assert theirs.status == unknown.status == (403 if asked.admins_only else 404), name
            assert shape(theirs, things) == shape(unknown, nothing), name
        for asked in OPERATIONS:
            if asked.id not in (*NAMING, "changeSetting", "addSchedule"):
                assert SECRET not in json.dumps((await ask(served, asked, asked.path)).said), asked.id
        assert len(world.script.requests) == before
        assert [each["name"] for each in (await served.get("/schedules", user=BOB.key)).said["schedules"]] == ["tea"]
        assert len((await served.get("/questions", user=BOB.key)).said["questions"]) == 1


@pytest.mark.parametrize("name", IDS)
async def test_an_operation_admits_no_page_no_other_host_and_no_other_credential(tmp_path: Path, name: str) -> None:
    world = world_with(tmp_path)
    async with world.running() as core, service(world, core) as served:
        asked, own = operation(name), {"session": ANN.key, "question": "0" * 8, "name": "tea", "blob": BLOB}
        path, secret = path_of(asked, own), served.secret()
        for headers, status in (
            ({"Origin": "https://evil.example"}, 403),
            ({"Origin": "null"}, 403),
            ({"Origin": served.url}, 403),
            ({"Host": "evil.example"}, 421),
            ({"Host": f"127.0.0.1.evil.example:{served.port}"}, 421),
            ({"Authorization": f"Basic {secret}"}, 401),
            ({"Authorization": f"bear {secret}"}, 401),
            ({"Authorization": "", "Cookie": f"token={secret}; Authorization=Bearer {secret}"}, 401),
            ({"Authorization": "", "X_Api_Key": secret, "Proxy_Authorization": f"Bearer {secret}"}, 401),
        ):
            heard = await ask(served, asked, path, **headers)
            assert heard.status == status, (headers, heard.status)
            assert "Access-Control-Allow-Origin" not in heard.headers and secret not in str(heard.said)
        joined = "&" if "?" in path else "?"
        without = await ask(served, asked, f"{path}{joined}access_token={secret}", Authorization="")
        assert without.status == 401
        before = await served.send("OPTIONS", path, Origin="https://evil.example", Authorization="")
        assert before.status == 403 and not [each for each in before.headers if each.startswith("Access-Control")]
        await core.settled()
        assert world.script.requests == []


async def test_a_token_that_was_revoked_is_of_no_use_anywhere_also_on_a_connection_that_is_kept(tmp_path: Path) -> None:
    world = world_with(tmp_path)
    async with world.running() as core, service(world, core) as served, aiohttp.ClientSession() as kept:
        headers = served.headers(ANN.key, {})
        own = {"session": ANN.key, "question": "0" * 8, "name": "tea", "blob": BLOB}
        async with kept.get(f"{served.url}{PREFIX}/sessions", headers=headers) as first:
            assert first.status == 200
        await served.revoke()
        for asked in OPERATIONS:
            url = f"{served.url}{PREFIX}{path_of(asked, own)}"
            async with kept.request(asked.method, url, json=BODIES.get(asked.id), headers=headers) as again:
                assert again.status in (401, 429), asked.id
        await core.settled()
        assert world.script.requests == []


@pytest.mark.parametrize("name", IDS)
async def test_numbers_out_of_their_range_are_refused_by_name(tmp_path: Path, name: str) -> None:
    asked = operation(name)
    numbers = [
        field
        for field, about in asked.request.model_fields.items()
        if about.annotation in (int, int | None, float) and field not in asked.in_path and not asked.has_body
    ]
    world = world_with(tmp_path)
    async with world.running() as core, service(world, core) as served:
        path = path_of(asked, {"session": ANN.key, "question": "0" * 8, "name": "tea", "blob": BLOB})
        path += "?q=x" if "q" in asked.request.model_fields else ""
        for field in numbers:
            for number in HOSTILE_NUMBERS:
                heard = await ask(served, asked, f"{path}{'&' if '?' in path else '?'}{field}={quote(number)}")
                fits = number == "0" and heard.status == 200
                named = heard.said["field"] == field if heard.status == 400 and heard.said else True
                assert fits or (heard.status in (400, 403, 409) and named), (field, number, heard.said)


HOSTILE_BODIES = (
    b'{"id": "1", "id": "2", "text": NaN}',
    b'{"id": 1e400, "text": "x"}',
    b'{"id": "1", "text": "\\ud800"}',
    b'{"id": "1", "text": "\xff\xfe"}',
    b'{"id": ' + b"9" * 10_000 + b', "text": "x"}',
    b"[" * 100_000,
    b'{"a":' * 50_000,
    b'{"id": "1", "text": null}',
    b'{"id": "1", "text": ["x"]}',
    b'{"id": "1", "text": {"$ne": ""}}',
    b'{"__proto__": {"admin": true}, "id": "1", "text": "x"}',
    b"\x00",
    "\ufeff".encode() + b"{}",
)


@pytest.mark.parametrize("name", sorted(BODIES))
async def test_a_hostile_body_is_refused_and_begins_nothing(tmp_path: Path, name: str) -> None:
    world = world_with(tmp_path)
    async with world.running() as core, service(world, core) as served:
        asked = operation(name)
        path = path_of(asked, {"session": ANN.key, "question": "0" * 8, "name": "tea", "blob": BLOB})
        for body in HOSTILE_BODIES:
            heard = await served.send(asked.method, path, body)
            assert 400 <= heard.status < 500 and heard.problem["detail"], (body[:40], heard.status)
        await core.settled()
        assert world.script.requests == [] and (await served.get("/schedules")).said["schedules"] == []


PATHS = (
    "/sessions/%2e%2e/%2e%2e/healthz",
    "/sessions/..%2f..%2fetc%2fpasswd/messages",
    f"/sessions/{quote(ANN.key, safe='')}%00/messages",
    f"/sessions/{quote(ANN.key, safe='')}%0d%0aX-Evil:%201/messages",
    f"/sessions/{quote(ANN.key, safe='')};a=b/messages",
    f"/sessions//{quote(ANN.key, safe='')}/messages",
    "/sessions/%ff%fe/messages",
    f"/sessions/{quote(BOB.key, safe='').upper()}/messages",
    f"/sessions/{quote(BOB.key, safe='')}%20/messages",
    f"/sessions/%20{quote(BOB.key, safe='')}/messages",
    f"/sessions/{quote(ANN.key, safe='')}%2F..%2F{quote(BOB.key, safe='')}/messages",
    f"/sessions/{quote(quote(BOB.key, safe=''), safe='')}/messages",
)


@pytest.mark.parametrize("path", PATHS)
async def test_a_path_with_tricks_leads_nowhere(tmp_path: Path, path: str) -> None:
    world = belongings(tmp_path)
    async with world.running() as core, service(world, core) as served:
        await bobs_things(served)
        heard = await served.get(path)
        assert heard.status in (400, 404) and SECRET not in str(heard.said)
        assert "X-Evil" not in heard.headers


FRAMINGS = {
    "a length and chunks": "Content-Length: 4\nTransfer-Encoding: chunked\n",
    "two lengths": "Content-Length: 4\nContent-Length: 40\n",
    "a list of lengths": "Content-Length: 4, 40\n",
    "a signed length": "Content-Length: +4\n",
    "a length that is none": "Content-Length: 0x4\n",
    "a folded line": "Content-Length: 4\nX-A: b\n Transfer-Encoding: chunked\n",
    "a space before the colon": "Content-Length : 4\nTransfer-Encoding: chunked\n",
    "an unknown coding": "Transfer-Encoding: xchunked\n",
    "a coding twice": "Transfer-Encoding: chunked, chunked\n",
    "a null in a name": "Content-Length: 4\nX\x00A: b\n",
}


@pytest.mark.parametrize("framing", FRAMINGS.values(), ids=FRAMINGS)
async def test_a_request_whose_end_is_in_doubt_smuggles_no_second_one(tmp_path: Path, framing: str) -> None:
    world = world_with(tmp_path)
    async with world.running() as core, service(world, core) as served:
        own = f"Authorization: Bearer {served.secret()}\nContent-Type: application/json\n"
        path = f"{PREFIX}{at(ANN.key)}/messages"
        line = f"POST {path} HTTP/1.1\nHost: 127.0.0.1\n"
        body = b'{"id": "9", "text": "smuggled"}'
        second = f"{line}{own}Content-Length: {len(body)}\nConnection: close\n\n".replace("\n", "\r\n").encode() + body
        # The first one has no token: the second must not come in by its connection's end.
        heard = await answers(served, f"{line}{own}{framing}\n", b"0\r\n\r\n" + second)
        assert b" 202 " not in heard and heard[9:10] == b"4", heard[:200]
        await core.settled()
        assert world.script.requests == []


async def test_a_second_request_on_a_connection_has_its_own_rights(tmp_path: Path) -> None:
    world = world_with(tmp_path)
    async with world.running() as core, service(world, core) as served:
        own = f"Authorization: Bearer {served.secret()}\n"
        line = f"GET {PREFIX}/sessions HTTP/1.1\nHost: 127.0.0.1\n"
        second = f"{line}Connection: close\n\n".replace("\n", "\r\n").encode()
        heard = await answers(served, f"{line}{own}\n", second)
        assert [each.split()[0] for each in heard.split(b"HTTP/1.1 ")[1:]] == [b"200", b"401"]


async def answers(served: Service, head: str, rest: bytes) -> bytes:
    """Send two requests at once, and return everything that comes until the other end closes."""
    heard = b""
    async with asyncio.timeout(20), connection(served) as (reader, writer):
        writer.write(head.replace("\n", "\r\n").encode() + rest)
        with contextlib.suppress(ConnectionError):
            while piece := await reader.read(4096):
                heard += piece
    return heard


@contextlib.asynccontextmanager
async def connection(served: Service) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    try:
        yield reader, writer
    finally:
        writer.close()
