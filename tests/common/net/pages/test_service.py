"""The service that tools use: from an address to text."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.redact import remember
from goclaw.common.net.pages.base import NoWeb
from goclaw.common.net.pages.fetching import decode
from goclaw.common.net.pages.service import Converter, MarkdownPage
from goclaw.errors import ToolError
from tests.common.net.pages.pages import ARTICLE, Site, service, serving


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with serving() as made:
        yield made


async def test_a_page_is_read_as_a_person_sees_it(site: Site) -> None:
    page = await service(site).fetch(site.serve(ARTICLE), raw=False)
    assert (page.title, page.age) == ("An article", None)
    assert page.text == f"# Köln\n\nRead [on]({site.url}/next)."


async def test_raw_is_the_source_and_text_stays_as_it_is(site: Site) -> None:
    web = service(site)
    assert (await web.fetch(site.serve(ARTICLE), raw=True)).text == ARTICLE
    url = site.serve('{"a":  "<b>"}', "application/json") + "?json"
    assert (await web.fetch(url, raw=False)).text == '{"a":  "<b>"}'


async def test_a_page_is_asked_for_once_in_its_time(site: Site) -> None:
    clock = SteppedClock()
    web, url = service(site, clock), site.serve("words", "text/plain")
    assert (await web.fetch(url, raw=False)).age is None
    clock.advance(14 * 60)
    assert (await web.fetch(f"{url}#part", raw=False)).age == 14 * 60
    assert len(site.heard) == 1
    clock.advance(60)
    assert (await web.fetch(url, raw=False)).age is None
    assert len(site.heard) == 2


async def test_an_error_is_not_kept(site: Site) -> None:
    web, url = service(site), site.serve("busy", "text/plain")
    site.status = 503
    assert [(await web.fetch(url, raw=False)).status for _ in range(2)] == [503, 503]
    assert len(site.heard) == 2


async def test_a_large_page_is_cut_where_the_configuration_says(site: Site) -> None:
    page = await service(site, max_mb=0.01).fetch(site.serve("ä" * 20_000, "text/plain"), raw=False)
    assert page.cut and page.text == "ä" * (10_485 // 2)


async def test_five_megabytes_are_worked_on_elsewhere_while_the_loop_goes_on(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Decoding happens in a thread, parsing in a process: neither is done by the loop."""
    loop_thread, decoding = [], []

    def noted(*given: object, **named: object) -> str:
        try:
            asyncio.get_running_loop()
            loop_thread.append(True)
        except RuntimeError:
            decoding.append(True)
        return decode(*given, **named)  # type: ignore[arg-type]  # passed on as they came

    async def converted(self: Converter, html: str, url: str) -> MarkdownPage:
        return MarkdownPage("", f"{len(html)} characters", False)

    monkeypatch.setattr("goclaw.common.net.pages.service.decode", noted)
    monkeypatch.setattr(Converter, "convert", converted)
    page = await service(site).fetch(site.serve("<p>a</p>" * 655_360), raw=False)
    assert page.text == "5242880 characters"
    assert decoding and not loop_thread


async def test_a_query_that_would_carry_a_secret_away_is_refused(site: Site) -> None:
    remember("search-canary-4711-secret")
    with pytest.raises(ToolError, match="secret") as refused:
        await service(site).search("what is search-canary-4711-secret", None)
    assert "4711" not in str(refused.value)


async def test_without_a_provider_a_search_says_which_keys_to_set(site: Site) -> None:
    with pytest.raises(ToolError, match=r"tools\.web_search\.provider.*tools\.web_search\.api_key"):
        await service(site).search("anything", None)


async def test_where_there_is_no_web_both_say_so() -> None:
    with pytest.raises(ToolError, match="cannot be reached here"):
        await NoWeb().fetch("https://example.com/", raw=False)
    with pytest.raises(ToolError, match="cannot be searched here"):
        await NoWeb().search("x", None)
