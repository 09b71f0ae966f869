"""Who may call `/api/v1`, what may come in, and how refusals look: always problem details, without secrets."""

import subprocess
import sys
from pathlib import Path

import pytest

from goclaw.common.core.wire import MAX_FRAME
from goclaw.gateway.servers.api.routes import LIMITS
from goclaw.gateway.servers.http import ListenerLimits
from tests.gateway.servers.api.calling import Service, at, service, world_with
from tests.gateway.servers.calling import ANN, BOB
from tests.harness import Core, World

BODY = b'{"id": "1", "text": "Hello"}'
HURRIED = ListenerLimits(body_seconds=0.2)
MESSAGES = f"{at(ANN.key)}/messages"

pytestmark = pytest.mark.promise("P-api")


async def nothing_happened(world: World, core: Core) -> bool:
    await core.settled()
    return world.script.requests == []


def head(served: Service, more: str, path: str = MESSAGES, method: str = "POST") -> str:
    own = f"Authorization: Bearer {served.secret()}\nContent-Type: application/json\n"
    return f"{method} /api/v1{path} HTTP/1.1\nHost: 127.0.0.1\nConnection: close\n{own}{more}\n"


@pytest.mark.promise("P-http-closed")
async def test_a_caller_without_a_valid_token_is_refused_and_made_to_wait(tmp_path: Path) -> None:
    world = world_with(tmp_path)
    async with world.running() as core, service(world, core) as served:
        for shown in ("", "Basic abc", "Bearer goclaw_wrong", f"Bearer {served.secret()}x"):
            refused = await served.send("GET", "/sessions", Authorization=shown)
            assert refused.status == 401 and refused.headers["WWW-Authenticate"] == "Bearer" and refused.problem
        for _ in range(9):  # no token is no guess
            await served.send("POST", MESSAGES, {}, Authorization="Bearer no")
        waits = await served.send("GET", "/sessions", Authorization="Bearer no")
        assert waits.status == 429 and waits.headers["Retry-After"] and waits.problem
        assert await nothing_happened(world, core)


async def test_a_token_in_the_address_is_refused_and_not_repeated(tmp_path: Path) -> None:
    world = world_with(tmp_path)
    async with world.running() as core, service(world, core) as served:
        secret = served.secret()
        for query in (f"access_token={secret}", f"token={secret}", f"{secret}", f"limit=1&{secret}=1", "cursor=a&x=1"):
            for path in ("/sessions", MESSAGES):
                refused = await served.get(f"{path}?{query}")
                assert refused.status == 400 and "Authorization" in refused.problem["detail"]
                assert secret[:12] not in str(refused.said)
            assert (await served.post(f"{MESSAGES}?{query}", {"id": "1", "text": "x"})).status == 400
        assert (await served.get("/sessions?limit=1&limit=2")).problem["field"] == "limit"
        assert await nothing_happened(world, core)


async def test_paths_and_methods_that_are_none_are_refused_in_the_same_shape(tmp_path: Path) -> None:
    world = world_with(tmp_path)
    async with world.running() as core, service(world, core) as served:
        for path in ("/", "/nothing", "/sessions/", "/sessions/a/b/c", "/sessions//messages"):
            missing = await served.get(path)
            assert missing.status == 404 and "openapi.json" in missing.problem["detail"], path
        wrong = await served.send("DELETE", MESSAGES)
        assert wrong.status == 405 and set(wrong.headers["Allow"].split(",")) >= {"GET", "POST"} and wrong.problem


async def test_a_field_that_is_none_is_refused_by_its_name(tmp_path: Path) -> None:
    world = world_with(tmp_path)
    async with world.running() as core, service(world, core) as served:
        for body, field in (
            ({"id": "1", "text": "x", "urgent": True}, "urgent"),
            ({"id": "1"}, "text"),
            ({"text": "x"}, "id"),
            ({"id": "1", "text": " \n"}, "text"),
            ({"id": 1, "text": "x"}, "id"),
            ({"id": "a b", "text": "x"}, "id"),
            ({"id": "1", "text": "x", "session": BOB.key}, "session"),
        ):
            refused = await served.post(MESSAGES, body)
            assert (refused.status, refused.problem["field"]) == (400, field), body
        for query in (
            "limit=0",
            "limit=x",
            "limit=1.0",
            "limit=%2B1",
            "limit=201",
            "limit=",
            "limit=99999999999999999999",
        ):
            assert (await served.get(f"{MESSAGES}?{query}")).problem["field"] == "limit"
        for raw in (b"", b"[]", b"{", b'"x"', b'{"id": ' + b"[" * 100_000, b'{"a": ' + b"[" * 40 + b"]" * 40 + b"}"):
            assert (await served.post(MESSAGES, raw)).status == 400
        for key in ("%00", "a%0Ab", "x" * 201):
            assert (await served.get(f"/sessions/{key}")).problem["field"] == "session"
        assert await nothing_happened(world, core)


async def test_a_body_that_is_too_deep_is_refused_by_its_depth(tmp_path: Path) -> None:
    world = world_with(tmp_path)
    async with world.running() as core, service(world, core) as served:
        refused = await served.post(MESSAGES, b'{"id": "1", "text": "x", "more": ' + b"[" * 40 + b"]" * 40 + b"}")
        assert refused.status == 400 and "32 levels" in refused.problem["detail"]


async def test_a_body_of_another_kind_or_size_or_pace_is_refused(tmp_path: Path) -> None:
    world = world_with(tmp_path)
    length = f"Content-Length: {len(BODY)}\n"
    async with world.running() as core, service(world, core) as served, service(world, core, HURRIED) as hurried:
        for more in ("Content-Encoding: gzip\n",):
            assert (await served.raw(head(served, f"{length}{more}"), BODY))[0] == 415
        plain = head(served, length).replace("application/json", "text/plain")
        assert (await served.raw(plain, BODY))[0] == 415
        status, said = await served.raw(head(served, f"Content-Length: {MAX_FRAME + 1}\n"))
        assert status == 413 and '"title"' in said
        assert (await hurried.raw(head(hurried, "Content-Length: 900\n"), b"{"))[0] == 408
        assert (await served.raw(head(served, f"{length}Transfer-Encoding: chunked\n"), BODY))[0] == 400
        assert (await served.raw(head(served, f"{length}Origin: https://evil.example\n"), BODY))[0] == 403
        bare = "POST /api/v1/sessions/x/messages HTTP/1.1\nHost: 127.0.0.1\nConnection: close\nContent-Length: 900\n\n"
        assert (await served.raw(bare))[0] == 401
        evil = head(served, length).replace("127.0.0.1", "evil.example")
        status, said = await served.raw(evil, BODY)
        assert status == 421 and '"title"' in said
        assert await nothing_happened(world, core)


async def test_a_token_has_a_number_of_requests_in_a_minute(tmp_path: Path) -> None:
    world = world_with(tmp_path)
    assert LIMITS.per_minute is not None
    async with world.running() as core, service(world, core) as served:
        for _ in range(LIMITS.per_minute):
            assert (await served.get("/sessions?x=1")).status == 400
        refused = await served.get("/sessions")
        assert refused.status == 429 and 0 < int(refused.headers["Retry-After"]) <= 61 and refused.problem
        assert (await served.get("/sessions", user=BOB.key)).status == 200


async def test_a_revoked_token_and_a_user_who_was_removed_are_refused(tmp_path: Path) -> None:
    world = world_with(tmp_path, users=(ANN,))
    async with world.running() as core, service(world, core) as served:
        assert (await served.get("/sessions", user="memory:gone")).status == 403
        assert (await served.get("/sessions")).status == 200
        await served.revoke()
        assert (await served.get("/sessions")).status == 401


def test_nothing_of_it_is_loaded_while_it_is_off() -> None:
    imports = "import goclaw.program.app.running, goclaw.gateway.servers.http, sys; "
    look = imports + "print([n for n in sys.modules if 'servers.api' in n])"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"
