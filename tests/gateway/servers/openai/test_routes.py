"""Who may call `/v1`, and how refusals look: always as OpenAI's, with the place and the reason."""

import asyncio
import logging
import subprocess
import sys
from pathlib import Path

import openai
import pytest

from goclaw.common.auth.users import User
from goclaw.gateway.servers.http import ListenerLimits
from goclaw.gateway.servers.openai.routes import MAX_BODY
from goclaw.gateway.servers.programs import ProgramLimits
from tests.gateway.servers.calling import ANN
from tests.gateway.servers.openai.calling import HELLO, Service, content, service, world_with
from tests.harness import Answer, Core, World, before_the_next_look

BODY = b'{"model": "goclaw", "messages": [{"role": "user", "content": "Hello"}]}'
AT_ONCE = ProgramLimits().at_once
HURRIED = ListenerLimits(body_seconds=0.2)

pytestmark = pytest.mark.promise("P-openai")


async def nothing_happened(world: World, core: Core) -> bool:
    await core.settled()
    return world.script.requests == []


def head(served: Service, more: str, path: str = "/v1/chat/completions", method: str = "POST") -> str:
    token = f"Authorization: Bearer {served.secret()}\n"
    return f"{method} {path} HTTP/1.1\nHost: 127.0.0.1\nConnection: close\n{token}{more}\n"


@pytest.mark.promise("P-http-closed")
async def test_a_caller_without_a_valid_token_is_refused_and_made_to_wait(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    world = world_with(tmp_path)
    async with world.running() as core, service(world, core) as served:
        for shown in ("", "Basic abc", "Bearer goclaw_wrong", f"Bearer {served.secret()}x"):
            refused = await served.ask(Authorization=shown)
            assert refused.status == 401 and refused.error["code"] == "invalid_api_key"
            assert refused.headers["WWW-Authenticate"] == "Bearer"
        async with openai.AsyncOpenAI(base_url=f"{served.url}/v1", api_key="goclaw_x", max_retries=0) as client:
            with pytest.raises(openai.AuthenticationError):
                await client.models.list()
        for _ in range(7):  # no token is no guess
            await served.send({}, "/v1/models", method="GET", Authorization="Bearer no")
        waits = await served.send({}, "/v1/models", method="GET", Authorization="Bearer no")
        assert waits.status == 429 and waits.error["type"] == "rate_limit_error" and waits.headers["Retry-After"]
        assert await nothing_happened(world, core)
        assert served.secret() not in caplog.text


async def test_a_token_in_the_address_is_refused(tmp_path: Path) -> None:
    world = world_with(tmp_path)
    async with world.running() as core, service(world, core) as served:
        for query in (f"api_key={served.secret()}", f"access_token={served.secret()}", "x"):
            refused = await served.send({}, f"/v1/models?{query}", method="GET", Authorization="")
            assert refused.status == 400 and "Authorization" in refused.error["message"]
            assert (await served.send({}, f"/v1/models?{query}", method="GET")).status == 400


async def test_paths_and_methods_that_are_none_are_refused_in_the_same_shape(tmp_path: Path) -> None:
    world = world_with(tmp_path)
    async with world.running() as core, service(world, core) as served:
        for path in ("/v1/embeddings", "/v1/", "/v1/chat", "/v1/models/a/b", "/v1/responses/resp_1"):
            missing = await served.send(BODY, path)
            assert missing.status == 404 and "/v1/models" in missing.error["message"], path
        wrong = await served.send({}, "/v1/chat/completions", method="GET")
        assert wrong.status == 405 and wrong.headers["Allow"] == "POST" and wrong.error["type"]
        assert (await served.send({}, "/elsewhere", method="GET")).said == ""


async def test_a_user_who_was_removed_may_do_nothing(tmp_path: Path) -> None:
    world = world_with(tmp_path, users=(ANN,))
    async with world.running() as core, service(world, core) as served:
        refused = await served.ask(user="memory:gone")
        assert (refused.status, refused.error["type"]) == (403, "permission_error")
        assert await nothing_happened(world, core)


async def test_models_are_the_agents_that_the_user_may_use(tmp_path: Path) -> None:
    kinds = {"kinds": {"poet": {"description": "Writes."}, "clerk": {"description": "Counts."}}}
    roles = {"guest": {"agents": ["main", "clerk"]}}
    guest = User("memory:there", "Bob", roles=frozenset({"guest"}))
    world = world_with(tmp_path, Answer("One."), users=(ANN, guest), agents=kinds, roles=roles)
    async with world.running() as core, service(world, core) as served:
        async with served.client() as ann, served.client(guest.key) as bob:
            assert [model.id async for model in await ann.models.list()] == ["goclaw", "poet", "clerk"]
            assert [model.id async for model in await bob.models.list()] == ["goclaw", "clerk"]
            assert (await bob.models.retrieve("clerk")).owned_by == "goclaw"
            for unknown in ("poet", "gpt-5", "nobody"):
                with pytest.raises(openai.NotFoundError) as caught:
                    await bob.chat.completions.create(model=unknown, messages=HELLO)  # type: ignore[arg-type] # plain dicts
                assert (caught.value.code, caught.value.param) == ("model_not_found", "model")
                with pytest.raises(openai.NotFoundError):
                    await bob.models.retrieve(unknown)
        assert content(await served.send({"model": "clerk", "messages": HELLO}, user=guest.key)) == "One."


async def test_the_body_is_read_only_behind_a_token(tmp_path: Path) -> None:
    """The answer comes although the body never does."""
    world = world_with(tmp_path)
    async with world.running() as core, service(world, core) as served:
        bare = "POST /v1/responses HTTP/1.1\nHost: 127.0.0.1\nConnection: close\nContent-Length: 900\n\n"
        assert (await served.raw(bare))[0] == 401
        assert await nothing_happened(world, core)


async def test_a_body_that_is_too_large_or_too_slow_is_refused(tmp_path: Path) -> None:
    world = world_with(tmp_path)
    async with world.running() as core, service(world, core) as served, service(world, core, HURRIED) as hurried:
        status, said = await served.raw(head(served, f"Content-Length: {MAX_BODY + 1}\n"))
        assert status == 413 and '"error"' in said and "too large" in said
        chunk = b"%x\r\n" % (MAX_BODY + 1) + b"x" * (MAX_BODY + 1) + b"\r\n0\r\n\r\n"
        assert (await served.raw(head(served, "Transfer-Encoding: chunked\n"), chunk))[0] == 413
        status, said = await hurried.raw(head(hurried, "Content-Length: 900\n"), b"{")
        assert status == 408 and '"error"' in said
        assert await nothing_happened(world, core)


async def test_other_paths_keep_their_small_bodies(tmp_path: Path) -> None:
    world = world_with(tmp_path)
    async with world.running() as core, service(world, core) as served:
        status, said = await served.raw(head(served, f"Content-Length: {2 << 20}\n", "/hooks/ci"))
        assert (status, said) == (413, "")


async def test_heads_that_two_servers_would_read_differently_are_refused(tmp_path: Path) -> None:
    world = world_with(tmp_path)
    length = f"Content-Length: {len(BODY)}\n"
    async with world.running() as core, service(world, core) as served:

        async def status(more: str) -> int:
            return (await served.raw(head(served, f"{length}{more}"), BODY))[0]

        assert await status("Transfer-Encoding: chunked\n") == 400
        assert await status("Content-Length: 5\n") == 400
        assert await status("Authorization: Bearer other\n") == 401
        assert await status("Idempotency-Key: a\nIdempotency-Key: b\n") == 400
        assert await status("X-GoClaw-Session: a\nX-GoClaw-Session: b\n") == 400
        assert await status("Host: evil.example\n") in (400, 421)
        assert await status("Content-Encoding: gzip\n") == 415
        assert await status("Origin: https://evil.example\n") == 403
        evil = head(served, length).replace("127.0.0.1", "evil.example")
        misdirected = await served.raw(evil, BODY)
        assert misdirected[0] == 421 and '"error"' in misdirected[1]
        assert await nothing_happened(world, core)


async def test_pages_get_no_permission_to_call(tmp_path: Path) -> None:
    world = world_with(tmp_path)
    async with world.running() as core, service(world, core) as served:
        status, said = await served.raw(head(served, "Origin: https://evil.example\n", method="OPTIONS"))
        assert status == 403 and "Access-Control" not in said


async def test_a_token_has_a_number_of_requests_at_once(tmp_path: Path) -> None:
    world = world_with(tmp_path, *(Answer("Hello.") for _ in range(AT_ONCE)))
    world.script.gate = asyncio.Event()
    async with world.running() as core, service(world, core) as served:
        asking = [asyncio.create_task(served.ask()) for _ in range(AT_ONCE)]
        while len(world.script.requests) < AT_ONCE:
            await before_the_next_look()
        refused = await served.ask()
        assert (refused.status, refused.error["code"]) == (429, "rate_limit_exceeded")
        assert (await served.send({}, "/v1/models", method="GET", user="memory:there")).status == 200
        world.script.gate.set()
        assert {content(each) for each in await asyncio.gather(*asking)} == {"Hello."}


def test_nothing_of_it_is_loaded_while_it_is_off() -> None:
    imports = "import goclaw.program.app.running, goclaw.gateway.servers.http, sys; "
    look = imports + "print([n for n in sys.modules if '.openai' in n])"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"
