"""A gateway's client and another's registry: what is published at one is used at the other, and never twice its own."""

import asyncio
from pathlib import Path

import aiohttp
import pytest

from goclaw.common.config.registries import RegistrySettings
from goclaw.common.core.clock import SteppedClock
from goclaw.extensions.registries.base import EntryKind, RegistryError
from goclaw.extensions.registries.catalog_store import FILE, OWN, CatalogStore
from goclaw.extensions.registries.client import RegistryClient
from goclaw.extensions.registries.syncing import sync
from tests.extensions.registries.server.house import House, document, open_house


def settings(house: House, user: str = "bob", **more: object) -> RegistrySettings:
    """Whoever reads a registry as one of its users."""
    given = {"url": f"http://127.0.0.1:{house.port}", "auth": house.tokens.get(user, user), "retry": {"max": 0}}
    return RegistrySettings.model_validate({**given, **more})


def client(house: House, http: aiohttp.ClientSession, user: str = "bob") -> RegistryClient:
    return RegistryClient("corp", settings(house, user), http, SteppedClock())


async def test_what_is_published_is_fetched_with_its_digest(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house, aiohttp.ClientSession() as http:
        entry = document("io.github.bob/tools", "1.0.0+b.1", later=[1.5, "é"])
        assert await client(house, http).publish(entry) and not await client(house, http).publish(entry)
        shelf = CatalogStore(tmp_path / "other" / FILE)
        taken = await sync("corp", settings(house, "eve"), shelf, http, SteppedClock())
        assert (taken.entries, taken.refused) == (1, ())
        [kept], [published] = shelf.entries("corp"), house.shelf.entries(OWN)
        assert (kept.document, kept.sha256, kept.published_at) == (entry, published.sha256, published.published_at)
        assert await client(house, http).withdraw(EntryKind.TOOLSET, "io.github.bob/tools", "1.0.0+b.1")
        assert not await client(house, http).withdraw(EntryKind.TOOLSET, "io.github.bob/tools", "1.0.0+b.1")
        await sync("corp", settings(house, "eve"), shelf, http, SteppedClock())
        assert shelf.entries("corp") == []


async def test_a_large_catalogue_comes_whole_and_only_when_it_has_changed(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house, aiohttp.ClientSession() as http:
        for at in range(7):  # of which a page holds five
            house.shelf.publish(document(f"n{at}", later="x" * 400_000), "tui:bob", 1.0)
        first = await client(house, http).listing()
        assert first is not None and len(first.listed) == 7 and first.etag and first.refused == ()
        assert await client(house, http).listing(first.etag) is None
        house.shelf.publish(document("new"), "tui:bob", 1.0)
        second = await client(house, http).listing(first.etag)
        assert second is not None and len(second.listed) == 8


@pytest.mark.parametrize(
    ("user", "words"),
    [
        ("goclaw_" + "x" * 43, "a valid access token is required"),
        ("gone", "no longer in users.json"),
        ("eve", "this user may not publish here"),
        ("mal", "belongs to another publisher"),
    ],
)
async def test_a_refusal_is_in_the_words_of_the_registry(tmp_path: Path, user: str, words: str) -> None:
    async with open_house(tmp_path) as house, aiohttp.ClientSession() as http:
        await client(house, http).publish(document())
        with pytest.raises(RegistryError, match=words) as raised:
            await client(house, http, user).publish(document(version="2.0.0", later="x" * 400_000))
        assert house.tokens.get(user, user) not in str(raised.value)
        with pytest.raises(RegistryError, match="already published with other content"):
            await client(house, http).publish(document(description="Other."))


async def test_what_is_shared_on_does_not_come_home(tmp_path: Path) -> None:
    """A publishes, B takes it over and shares it, C reads it at B, and A reads B without its own."""
    async with open_house(tmp_path / "a") as a, aiohttp.ClientSession() as http:
        a.shelf.publish(document("of-a"), "tui:bob", 1.0)
        shared = {"corp": {"url": f"http://127.0.0.1:{a.port}", "federation": {"share": True}}}
        async with open_house(tmp_path / "b", registries=shared) as b:
            b.shelf.publish(document("of-b"), "tui:bob", 1.0)
            await sync("corp", settings(a, "eve"), b.shelf, http, SteppedClock())
            c = CatalogStore(tmp_path / "c" / FILE)
            await sync("b", settings(b, "eve"), c, http, SteppedClock())
            await sync("b", settings(b, "eve"), a.shelf, http, SteppedClock())
            ids = [(await each.ask("GET", "/v1/")).body["registry"]["id"] for each in (a, b)]
            assert {each.entry.name: each.via for each in c.entries("b")} == {"of-a": tuple(ids), "of-b": (ids[1],)}
            assert [each.entry.name for each in a.shelf.entries("b")] == ["of-b"]


async def test_a_catalogue_is_fetched_while_it_is_published_to(tmp_path: Path) -> None:
    """Here by the same gateway: both write one file."""
    async with open_house(tmp_path) as house, aiohttp.ClientSession() as http:
        house.shelf.publish(document("first"), "tui:bob", 1.0)
        mine = [client(house, http).publish(document(f"n{at}")) for at in range(10)]
        fetched = [
            sync("self", settings(house), CatalogStore(house.state / FILE), http, SteppedClock()) for _ in range(5)
        ]
        await asyncio.gather(*mine, *fetched)
        assert len(house.shelf.entries(OWN)) == 11
        assert house.shelf.entries("self") == [], "what came from here is not taken over"
