"""The client of a registry, against one on the loopback that fails in every way there is."""

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from goclaw.extensions.registries import client
from goclaw.extensions.registries.base import EntryKind, RegistryError
from goclaw.extensions.registries.client import MAX_PAUSE
from goclaw.extensions.registries.pages import MAX_PAGE, MAX_PARTS
from tests.extensions.registries.fake_registry import TOKEN, Asking, asking, fake_registry, item, toolset


@pytest.fixture
async def asked(tmp_path: Path) -> AsyncIterator[Asking]:
    async with fake_registry(toolset(), toolset(version="1.1.0")) as registry, asking(tmp_path, registry) as made:
        yield made


async def refused(asked: Asking, **settings: object) -> str:
    """Why its catalogue cannot be had."""
    with pytest.raises(RegistryError) as error:
        await asked.client(**settings).listing()
    assert TOKEN not in str(error.value) and "registry corp" in str(error.value)
    return str(error.value)


async def test_all_pages_are_read_with_the_token(asked: Asking) -> None:
    asked.registry.items = [item(toolset(version=f"1.0.{number}")) for number in range(250)]
    found = await asked.client().listing()
    assert found is not None and len(found.listed) == 250 and found.refused == ()
    assert asked.registry.pages() == ["", "100", "200"]
    assert {request.headers["Authorization"] for request in asked.registry.asked} == {f"Bearer {TOKEN}"}
    assert {request.path for request in asked.registry.asked} == {"/v1/entries"}
    assert found.listed[3].unwrap().document["version"] == "1.0.3" and len(found.listed[10:20]) == 10


async def test_the_version_of_the_interface_may_stand_in_the_address(asked: Asking) -> None:
    await asked.client(url=f"{asked.registry.url}/shared/v2/", api_version="v2").listing()
    assert asked.registry.asked[0].path == "/shared/v2/entries"


async def test_what_has_not_changed_is_not_fetched_again(asked: Asking) -> None:
    asked.registry.etag = '"7"'
    found = await asked.client().listing()
    assert found is not None and found.etag == '"7"'
    assert await asked.client().listing(found.etag) is None
    asked.registry.etag = '"8"'
    assert await asked.client().listing(found.etag) is not None


async def test_an_etag_that_no_request_could_repeat_is_none(asked: Asking) -> None:
    page = b'{"entries": []}'
    for etag in ("x" * 201, "\xfc"):
        asked.registry.instead = [web.Response(body=page, headers={"ETag": etag})]
        found = await asked.client().listing()
        assert found is not None and found.etag == ""


async def test_entries_end_with_the_registry_that_they_came_from(asked: Asking) -> None:
    asked.registry.items = [item(toolset(), via=["first"])]
    found = await asked.client().listing()
    assert found is not None and found.listed[0].via == ("first", "fake")


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_what_may_pass_is_tried_again_after_longer_and_longer_pauses(asked: Asking, status: int) -> None:
    asked.registry.instead = [web.Response(status=status) for _ in range(3)]
    assert await asked.client(retry={"max": 3, "backoff": "2s"}).listing() is not None
    assert asked.clock.pauses == [2, 4, 8]


async def test_it_is_given_up_after_as_many_tries_as_the_configuration_says(asked: Asking) -> None:
    asked.registry.instead = [web.Response(status=502) for _ in range(3)]
    assert "does not answer now (HTTP 502)" in await refused(asked, retry={"max": 2})
    assert len(asked.registry.asked) == 3


async def test_no_pause_grows_without_an_end(asked: Asking) -> None:
    asked.registry.instead = [web.Response(status=500) for _ in range(10)]
    assert await asked.client(retry={"max": 10, "backoff": 5}).listing() is not None
    assert asked.clock.pauses[-1] == MAX_PAUSE


async def test_the_registrys_own_wish_is_kept_as_long_as_it_is_short(asked: Asking) -> None:
    asked.registry.instead = [web.Response(status=429, headers={"Retry-After": "30"})]
    assert await asked.client().listing() is not None
    assert asked.clock.pauses == [30]
    asked.registry.instead = [web.Response(status=429, headers={"Retry-After": "4000"})]
    with pytest.raises(RegistryError) as error:
        await asked.client().listing()
    assert error.value.retry_after == 4000 and asked.clock.pauses == [30]


async def test_a_registry_that_says_nothing_is_given_up_in_time(asked: Asking) -> None:
    silent = asyncio.Event()
    asked.registry.instead = [silent]
    assert "did not answer within 0.05 s" in await refused(asked, timeout=0.05, retry={"max": 0})
    silent.set()


async def test_a_registry_that_is_not_there_is_told_in_words(tmp_path: Path) -> None:
    async with fake_registry() as registry:
        pass
    async with asking(tmp_path, registry) as asked:
        assert "cannot be reached (ClientConnectorError)" in await refused(asked)
        assert asked.clock.pauses == [1, 2, 4]


async def test_the_token_goes_to_no_other_origin(asked: Asking) -> None:
    async with fake_registry() as other:
        asked.registry.instead = [web.Response(status=302, headers={"Location": f"{other.url}/v1/entries"})]
        words = await refused(asked)
        assert "redirects to another address (127.0.0.1)" in words and "registries.corp.url" in words
        assert other.asked == []


async def test_a_redirect_that_stays_at_home_is_followed_and_one_without_an_end_is_not(asked: Asking) -> None:
    asked.registry.instead = [web.Response(status=307, headers={"Location": "/v1/entries?limit=5"})]
    assert await asked.client().listing() is not None
    assert asked.registry.asked[-1].query["limit"] == "5"
    asked.registry.instead = [web.Response(status=302, headers={"Location": "/v1/entries"}) for _ in range(9)]
    assert "redirects without end" in await refused(asked)


async def test_the_token_stands_in_no_word_that_the_registry_says_and_in_no_log(
    asked: Asking, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    asked.registry.instead = [web.json_response({"error": f"who is {TOKEN}?"}, status=401)]
    words = await refused(asked)
    assert "refused (HTTP 401)" in words and "who is [secret]?" in words and "check registries.corp.auth" in words
    assert TOKEN not in caplog.text


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"<html>no</html>", "it is no JSON"),
        (b"[]", "it is no JSON object"),
        (b"{}", "it has no list `entries`"),
        (b'{"entries": 4}', "it has no list `entries`"),
        (b"[" * 100_000, "it is no JSON"),
        (b'{"entries": [' + b"0," * MAX_PARTS + b"0]}", f"more than {MAX_PARTS:,} values"),
        (b'{"entries": [], "next_cursor": {}}', "does not say where its next page begins"),
        (b'{"entries": [], "registry": {"id": 4}}', "its id is none"),
        (b"x" * (MAX_PAGE + 1), "more than 2.5 MB at once"),
    ],
    ids=lambda value: value[:20].decode() if isinstance(value, bytes) else "",
)
async def test_what_is_no_catalogue_is_refused_in_words(asked: Asking, body: bytes, why: str) -> None:
    asked.registry.instead = [body]
    assert why in await refused(asked)


async def test_what_is_packed_is_not_unpacked(asked: Asking) -> None:
    asked.registry.instead = [web.Response(body=b"\x1f\x8b", headers={"Content-Encoding": "gzip"})]
    assert "compresses its answers" in await refused(asked)


async def test_an_address_without_a_registry_is_told(asked: Asking) -> None:
    asked.registry.instead = [web.Response(status=404)]
    assert "registries.corp.url and .api_version" in await refused(asked)


async def test_a_listing_without_an_end_is_given_up(asked: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "MAX_PAGES", 5)
    asked.registry.instead = [b'{"entries": [], "next_cursor": "a"}'] * 3
    assert "page after page without an end" in await refused(asked)
    asked.registry.instead = [b'{"entries": [], "next_cursor": "%d"}' % n for n in range(6)]
    asked.registry.asked.clear()
    assert "page after page without an end" in await refused(asked)
    assert len(asked.registry.asked) == 5


async def test_entries_that_are_none_leave_the_others_alone(asked: Asking) -> None:
    asked.registry.items = [
        4,
        {"document": 4},
        item(toolset("lies"), sha256="0" * 64),
        item(toolset("round"), via=["x"] * 21),
        item(toolset("odd"), via=[4]),
        item(toolset("\x1b[31mred"), via=4, sha256=None, published_at="soon"),
    ]
    found = await asked.client().listing()
    assert found is not None and [each.unwrap().document["name"] for each in found.listed] == ["\x1b[31mred"]
    assert [line.partition(":")[0] for line in found.refused] == [
        *["an entry without a name"] * 2,
        *["'lies'", "'round'", "'odd'"],
    ]


async def test_what_is_not_wanted_is_not_kept(asked: Asking) -> None:
    asked.registry.items = [item(toolset(name)) for name in ("data-tools", "secret-tools")] + [4]
    found = await asked.client().listing(wanted=lambda name: name.startswith("data"))
    assert found is not None and [each.unwrap().document["name"] for each in found.listed] == ["data-tools"]


async def test_a_version_is_offered_and_withdrawn(asked: Asking) -> None:
    document = toolset("team/data tools".replace(" ", "-"), version="1.0+x")
    assert await asked.client().publish(document)
    request = asked.registry.asked[-1]
    assert request.method == "PUT" and asked.registry.put == [document]
    assert request.raw_path == "/v1/entries/toolset/team%2Fdata-tools/versions/1.0%2Bx"
    asked.registry.instead = [web.Response(status=200), web.Response(status=204), web.Response(status=404)]
    assert not await asked.client().publish(document)
    assert await asked.client().withdraw(EntryKind.TOOLSET, "team/data-tools", "1.0+x")
    assert not await asked.client().withdraw(EntryKind.TOOLSET, "team/data-tools", "1.0+x")
    assert asked.registry.asked[-1].method == "DELETE"


@pytest.mark.parametrize("status", [400, 403, 409, 413])
async def test_what_the_registry_does_not_take_is_told_in_its_words_and_not_repeated(
    asked: Asking, status: int
) -> None:
    asked.registry.instead = [web.json_response({"error": "somebody else's"}, status=status)]
    with pytest.raises(RegistryError, match=rf"refused \(HTTP {status}\).*was not published: somebody else's"):
        await asked.client().publish(toolset())
    assert asked.clock.pauses == []


async def test_what_is_no_entry_goes_nowhere(asked: Asking) -> None:
    with pytest.raises(RegistryError, match="nothing was published to the registry corp: version"):
        await asked.client().publish(toolset(version="latest"))
    with pytest.raises(RegistryError, match="with its own program"):
        await asked.client(api_version="v0").publish(toolset())
    assert asked.registry.asked == []


async def test_tests_reach_nobody_else(asked: Asking) -> None:
    with pytest.raises(
        RegistryError, match=r"registry corp cannot be reached: registry\.example\.org may not be reached"
    ):
        await asked.client(url="https://registry.example.org").listing()
