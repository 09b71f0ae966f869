"""The `web_fetch` tool: what the model reads of a page, through every step of the dispatcher."""

from pathlib import Path
from typing import Any

import pytest

from goclaw.common.specs import Risk
from goclaw.testing import open_bench
from goclaw.tools.approval.policy import apply_table
from goclaw.tools.builtin.web import web_fetch
from tests.common.net.pages.pages import ARTICLE, serving
from tests.extensions.documents.made import pdf
from tests.tools.builtin.memory_support import surroundings
from tests.tools.builtin.web_support import ADDRESS, SmallWeb


async def read(folder: Path, web: SmallWeb, **given: Any) -> str:
    async with surroundings(folder, enabled=False) as around:
        around.web = web
        return await around.call(web_fetch, {"url": ADDRESS, **given})


async def test_a_real_page_is_read_through_the_dispatcher_as_the_text_of_others(tmp_path: Path) -> None:
    async with serving() as site:
        tools = {"network": {"allow": [f"127.0.0.1:{site.port}"]}}
        async with open_bench(tmp_path, web_fetch, tools=tools) as bench:
            url = site.serve(ARTICLE)
            first, second = [await bench.call("web_fetch", {"url": url}) for _ in range(2)]
            missing = await bench.call("web_fetch", {"url": f"{site.url}/missing"})
    assert first.content == f"URL: {url}\nTitle: An article\n\n# Köln\n\nRead [on]({site.url}/next)."
    assert first.foreign and not bench.wanted
    assert "Cached, 0 s old" in second.content and second.hint.endswith("(cached)")
    assert not missing.is_error and "Status: 404" in missing.content and missing.hint.endswith("HTTP 404")


@pytest.mark.sandbox
@pytest.mark.parametrize("kind", ["application/pdf", "application/octet-stream"])
async def test_a_document_is_read_as_text(tmp_path: Path, kind: str) -> None:
    async with serving() as site:
        tools = {"network": {"allow": [f"127.0.0.1:{site.port}"]}}
        async with open_bench(tmp_path, web_fetch, tools=tools) as bench:
            url = site.serve(pdf(["Terms", "Pay in 30 days"]), kind)
            whole = await bench.call("web_fetch", {"url": url})
            part = await bench.call("web_fetch", {"url": url, "max_characters": 100, "offset": 20})
    assert whole.content == f"URL: {url}\nTitle: PDF, 2 pages\n\n--- page 1 ---\nTerms\n--- page 2 ---\nPay in 30 days"
    assert whole.foreign and "Pay in 30 days" in part.content


@pytest.mark.sandbox
async def test_a_document_that_is_larger_than_what_is_fetched_is_refused(tmp_path: Path) -> None:
    async with serving() as site:
        tools = {"network": {"allow": [f"127.0.0.1:{site.port}"]}, "web_fetch": {"max_mb": 0.01}}
        async with open_bench(tmp_path, web_fetch, tools=tools) as bench:
            url = site.serve(pdf([f"page {number}" for number in range(100)]), "application/pdf")
            result = await bench.call("web_fetch", {"url": url})
    assert result.is_error and "is larger than 0.01 MB, the most that is fetched" in result.content
    assert "tools.web_fetch" not in result.content


async def test_what_fails_is_an_error_in_words(tmp_path: Path) -> None:
    async with serving() as site, open_bench(tmp_path, web_fetch) as bench:
        result = await bench.call("web_fetch", {"url": site.serve(ARTICLE)})
    assert result.is_error and "an admin can make an exception" in result.content
    assert site.heard == []


async def test_a_long_page_comes_in_parts_that_say_how_to_go_on(tmp_path: Path) -> None:
    text = await read(tmp_path, SmallWeb("0123456789" * 100), max_characters=400)
    assert text.endswith("[characters 0 to 400 of 1,000: go on with offset=400]")
    assert text.count("0123456789") == 40


@pytest.mark.parametrize(
    ("given", "cut", "said"),
    [
        ({"offset": 600, "max_characters": 400}, False, "the end of the page"),
        ({"offset": 5_000}, False, "the page ends at 1,000 characters"),
        ({"max_characters": 400}, True, "of 1,000 and more: go on with offset=400"),
        ({}, True, "larger than what is read of one"),
    ],
)
async def test_every_part_says_what_it_is_not(tmp_path: Path, given: dict[str, Any], cut: bool, said: str) -> None:
    assert said in await read(tmp_path, SmallWeb("0123456789" * 100, cut=cut), **given)


async def test_a_page_without_words_says_so(tmp_path: Path) -> None:
    assert "(nothing to read here)" in await read(tmp_path, SmallWeb(""))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "url"),
        ({"url": 5}, "url"),
        ({"url": None}, "url"),
        ({"url": ""}, "url"),
        ({"url": "x" * 9_000}, "url"),
        ({"url": ADDRESS, "max_characters": 0}, "max_characters"),
        ({"url": ADDRESS, "max_characters": 10**9}, "max_characters"),
        ({"url": ADDRESS, "max_characters": "10"}, "max_characters"),
        ({"url": ADDRESS, "offset": -1}, "offset"),
        ({"url": ADDRESS, "raw": "yes"}, "raw"),
        ({"url": ADDRESS, "method": "POST"}, "method"),
        ({"url": "file:///etc/passwd"}, "only http and https"),
        ({"url": "http://169.254.169.254/latest/meta-data"}, "refused"),
        ({"url": "http://me:secret@example.com/"}, "password"),
        ({"url": "http://example.com/\r\nX: y"}, "control characters"),
        ({"url": "not an address"}, "spaces"),
    ],
)
async def test_bad_input_is_refused_with_what_is_wrong(
    tmp_path: Path, given: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GOCLAW_LOOPBACK_ONLY")
    async with open_bench(tmp_path, web_fetch) as bench:
        result = await bench.call("web_fetch", given)
    assert result.is_error and said in result.content


def test_it_runs_without_asking_in_every_mode() -> None:
    assert web_fetch.spec.risk is Risk.LOW
    assert {apply_table(mode, Risk.LOW) for mode in ("default", "accept-edits", "plan", "bypass")} == {"run"}
