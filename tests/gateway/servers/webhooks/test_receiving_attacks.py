"""Calls of strangers and of hostile callers: nothing is made of them, and nothing is learnt by them."""

import logging
from pathlib import Path

import pytest

from goclaw.gateway.servers.http import ListenerLimits
from goclaw.gateway.servers.webhooks.credentials import sign
from tests.gateway.servers.webhooks.calling import PATH, SECRET, Caller, caller, world_with
from tests.harness import Answer, Core, World

BODY = b'{"title": "A fix"}'
SMALL, HURRIED = ListenerLimits(body_bytes=1_000), ListenerLimits(body_seconds=0.2)

pytestmark = pytest.mark.promise("P-http-closed")


async def nothing_happened(world: World, core: Core) -> bool:
    await core.settled()
    return world.texts() == [] and world.script.requests == []


@pytest.mark.parametrize("style", [None, "github", "stripe"])
async def test_a_wrong_or_missing_credential_makes_nothing(
    tmp_path: Path, style: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    world = world_with(tmp_path, hmac=style)
    async with world.running() as core, caller(world, core) as service:
        other = world.config.webhooks["ci"].model_copy(update={"secret": type(service.hook.secret)("x" * 32)})
        now = world.clock.now()
        for headers in ({}, sign(other, BODY, now), {"Authorization": "Bearer \xe9", "X-Hub-Signature-256": "=\xe9"}):
            answered = await service.send(BODY, headers)
            assert answered.status == 401 and "error" in answered.said
            assert SECRET not in str(answered)
        assert await nothing_happened(world, core)
    assert SECRET not in caplog.text and "A fix" not in caplog.text


async def test_a_changed_body_does_not_fit_its_signature(tmp_path: Path) -> None:
    world = world_with(tmp_path, hmac="github")
    async with world.running() as core, caller(world, core) as service:
        headers = sign(service.hook, BODY, world.clock.now())
        assert (await service.send(BODY.replace(b"fix", b"bug"), headers)).status == 401
        assert await nothing_happened(world, core)


async def test_what_was_overheard_is_no_credential_for_long(tmp_path: Path) -> None:
    world = world_with(tmp_path, hmac="stripe")
    async with world.running() as core, caller(world, core) as service:
        headers = sign(service.hook, BODY, world.clock.now())
        world.clock.advance(301)
        answered = await service.send(BODY, headers)
        assert (answered.status, answered.said) == (401, {"error": "Stripe-Signature is more than 300 s old"})
        assert await nothing_happened(world, core)


async def test_a_replay_under_another_id_is_known_by_its_body(tmp_path: Path) -> None:
    world = world_with(tmp_path, Answer("Fine."), hmac="github", idempotent_by_hash=True)
    async with world.running() as core, caller(world, core) as service:
        headers = sign(service.hook, BODY, world.clock.now())
        statuses = [(await service.send(BODY, {**headers, "X-GitHub-Delivery": each})).status for each in "ab"]
        await core.settled()
    assert statuses == [202, 200] and len(world.texts()) == 1


async def test_an_unknown_name_is_a_path_like_any_other(tmp_path: Path) -> None:
    world = world_with(tmp_path)
    async with world.running() as core, caller(world, core) as service:
        headers = {"Authorization": f"Bearer {SECRET}"}
        for path in ("/hooks/cd", "/hooks/", "/hooks/ci/", "/hooks/ci/more", "/hooks"):
            answered = await service.send(BODY, headers, path)
            assert (answered.status, answered.said) == (404, {}), path
        assert await nothing_happened(world, core)


def head(more: str, path: str = PATH) -> str:
    return f"POST {path} HTTP/1.1\nHost: 127.0.0.1\nConnection: close\n{more}\n"


async def test_the_body_is_read_only_behind_a_credential(tmp_path: Path) -> None:
    """The answer comes although the body never does."""
    world = world_with(tmp_path, hmac="github", per_minute=1)
    signature = f"X-Hub-Signature-256: sha256={'0' * 64}\n"
    async with world.running() as core, caller(world, core) as service:
        assert (await service.raw(head("Content-Length: 900\n")))[0] == 401
        assert (await service.raw(head("Content-Length: 900\n", "/hooks/cd")))[0] == 404
        assert (await service.call(b"{}")).status == 422
        assert (await service.raw(head(f"{signature}Content-Length: 900\n")))[0] == 429
        assert await nothing_happened(world, core)


async def test_a_body_that_is_too_large_or_too_slow_is_refused(tmp_path: Path) -> None:
    world = world_with(tmp_path)
    token = f"X-GoClaw-Token: {SECRET}\n"
    async with world.running() as core, caller(world, core, SMALL) as service, caller(world, core, HURRIED) as hurried:
        assert (await service.raw(head(f"{token}Content-Length: 1001\n")))[0] == 413
        chunk = b"3e9\r\n" + b"x" * 1_001 + b"\r\n0\r\n\r\n"
        assert (await service.raw(head(f"{token}Transfer-Encoding: chunked\n"), chunk))[0] == 413
        assert (await hurried.raw(head(f"{token}Content-Length: 900\n"), b"{"))[0] == 408
        assert await nothing_happened(world, core)


async def smuggled(service: Caller, more: str, body: bytes = BODY) -> int:
    return (await service.raw(head(f"X-GoClaw-Token: {SECRET}\n{more}"), body))[0]


async def test_heads_that_two_servers_would_read_differently_are_refused(tmp_path: Path) -> None:
    world = world_with(tmp_path)
    length = f"Content-Length: {len(BODY)}\n"
    async with world.running() as core, caller(world, core) as service:
        assert await smuggled(service, f"{length}Transfer-Encoding: chunked\n") == 400
        assert await smuggled(service, f"{length}Content-Length: 5\n") == 400
        assert await smuggled(service, f"{length}Idempotency-Key: a\nIdempotency-Key: b\n") == 400
        assert await smuggled(service, f"{length}X-GoClaw-Token: other\n") == 401
        assert await smuggled(service, f"{length}Host: evil.example\n") in (400, 421)
        assert await smuggled(service, f"{length}Content-Encoding: gzip\n") == 415
        assert await smuggled(service, f"{length}Origin: https://evil.example\n") == 403
        assert await nothing_happened(world, core)


async def test_a_bomb_in_the_body_is_refused_or_cut(tmp_path: Path) -> None:
    world = world_with(tmp_path, Answer("Fine."), task="{% for a in body %}{% for b in body %}{% endfor %}{% endfor %}")
    async with world.running() as core, caller(world, core) as service:
        assert (await service.call([0] * 200_000)).status == 422
        assert (await service.call(b"[" * 500_000)).status == 400
        assert await nothing_happened(world, core)
