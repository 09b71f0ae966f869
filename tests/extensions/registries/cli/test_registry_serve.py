"""`goclaw registry serve` as a process of its own: from its first word to its end, also a violent one."""

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from goclaw.common.auth.audit import read_audit
from goclaw.common.auth.tokens import add_token
from goclaw.extensions.registries.catalog_store import FILE, OWN, CatalogStore
from tests import house
from tests.extensions.registries.server.house import address_of, document, open_house


@asynccontextmanager
async def served(
    state: Path, registries: dict[str, Any] | None = None
) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """The process, and where it says that it listens."""
    settings = {"state_dir": str(state), "registry_server": {"port": 0}, "registries": registries or {}}
    config = state / "config.yaml"
    config.write_text(json.dumps(settings))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "goclaw", "--config", str(config), "registry", "serve"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        cwd=house.ROOT,
        env={**os.environ, "HOME": str(state)},
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(30):
            line = (await process.stdout.readline()).decode()
        found = re.fullmatch(r"The registry runs at (http://127\.0\.0\.1:\d+)\. Stop it with Ctrl\+C\.\n", line)
        assert found, line
        yield process, found[1]
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def home(folder: Path) -> tuple[Path, dict[str, str]]:
    """A state folder in which Ann is an admin, and what she shows."""
    state = folder / "state"
    state.mkdir(mode=0o700)
    (state / "users.json").write_text(json.dumps({"users": {"tui:ann": {"roles": ["admin"]}}}))
    secret = add_token(state / "access-tokens.json", "laptop", "tui:ann", 1_750_000_000.0)
    return state, {"Authorization": f"Bearer {secret}"}


async def test_it_says_where_it_is_takes_what_is_published_and_ends_in_order(tmp_path: Path) -> None:
    state, shown = home(tmp_path)
    async with served(state) as (process, url), aiohttp.ClientSession(url, headers=shown) as http:
        async with http.put(address_of(document()), json=document()) as response:
            assert response.status == 201
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(20):
            assert await process.wait() == 0
    assert [each.published_by for each in CatalogStore(state / FILE).entries(OWN)] == ["tui:ann"]
    [entry] = read_audit(state / "logs" / "audit.jsonl")
    assert (entry["action"], entry["rule"]) == ("registry.publish", "token laptop, users.json tui:ann role admin")
    assert "tui:ann with the token laptop" in (state / "logs" / "registry.log").read_text()


async def test_it_keeps_fresh_what_it_shares_on(tmp_path: Path) -> None:
    state, shown = home(tmp_path)
    async with open_house(tmp_path / "theirs") as theirs, asyncio.timeout(30):
        theirs.shelf.publish(document("of-theirs"), "tui:bob", 1.0)
        shared = {"url": f"http://127.0.0.1:{theirs.port}", "auth": theirs.tokens["eve"], "federation": {"share": True}}
        async with served(state, {"theirs": shared}) as (_, url), aiohttp.ClientSession(url, headers=shown) as http:
            listed: list[str] = []
            while not listed:
                async with http.get("/v1/entries") as response:
                    listed = [each["document"]["name"] for each in (await response.json())["entries"]]
    assert listed == ["of-theirs"]


async def test_a_kill_loses_nothing_that_was_answered(tmp_path: Path) -> None:
    state, shown = home(tmp_path)
    answered: list[str] = []
    async with served(state) as (process, url), aiohttp.ClientSession(url, headers=shown) as http:

        async def publish(at: int) -> None:
            entry = document(f"n{at}", later="x" * 20_000)
            async with http.put(address_of(entry), json=entry) as response:
                if response.status == 201:
                    answered.append(entry["name"])
            if len(answered) >= 20 and process.returncode is None:
                process.kill()

        async with asyncio.timeout(30):
            await asyncio.gather(*(publish(at) for at in range(100)), return_exceptions=True)
            await process.wait()
    kept = [each.entry.name for each in CatalogStore(state / FILE).entries(OWN)]
    assert len(answered) >= 20 and set(answered) <= set(kept)
    assert CatalogStore(state / FILE).publish(document(), "tui:ann", 1.0)
