"""The `web_search` tool: what the model reads of what was found, through every step of the dispatcher."""

from pathlib import Path
from typing import Any

import pytest

from goclaw.common.net.search.base import Hits
from goclaw.common.specs import Risk
from goclaw.testing import open_bench
from goclaw.tools.builtin.web import web_search
from tests.common.net.search.fake_server import KEY, FakeSearch, fake_search
from tests.tools.builtin.memory_support import surroundings
from tests.tools.builtin.web_support import SmallWeb


def settings(fake: FakeSearch) -> dict[str, Any]:
    return {"web_search": {"provider": fake.name, "url": fake.url, "api_key": KEY, "count": 2}}


async def test_pages_are_listed_as_the_text_of_others(tmp_path: Path) -> None:
    async with fake_search("brave") as fake, open_bench(tmp_path, web_search, tools=settings(fake)) as bench:
        result = await bench.call("web_search", {"query": " example \n domain "})
    assert result.content == (
        '1. Example Domain\nhttps://example.com/\nFor use in "docs"\n\n'
        "2. Other\nhttps://other.example/a?b=1&c=2\nSecond\n\n"
        "[there is more: ask for more with count, or narrow the query]"
    )
    assert result.foreign and result.hint.startswith("2 result(s) from brave for ") and not bench.wanted
    assert fake.heard[0]["q"] == "example domain"


async def test_a_key_that_is_refused_is_named_nowhere(tmp_path: Path) -> None:
    async with fake_search("tavily") as fake, open_bench(tmp_path, web_search, tools=settings(fake)) as bench:
        fake.status = 401
        result = await bench.call("web_search", {"query": "x"})
    assert result.is_error and "check tools.web_search.api_key" in result.content
    assert KEY not in f"{result} {bench.audited} {bench.events}"


async def test_nothing_found_is_a_result(tmp_path: Path) -> None:
    async with surroundings(tmp_path, enabled=False) as around:
        around.web = SmallWeb(found=Hits("searxng", []))
        assert "found nothing for 'x'" in await around.call(web_search, {"query": "x"})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "query"),
        ({"query": 5}, "query"),
        ({"query": ""}, "query"),
        ({"query": " \n "}, "query"),
        ({"query": "x" * 500}, "query"),
        ({"query": "x", "count": 0}, "count"),
        ({"query": "x", "count": 1_000}, "count"),
        ({"query": "x", "count": "three"}, "count"),
        ({"query": "x", "provider": "evil"}, "provider"),
        ({"query": "x"}, "tools.web_search.provider"),
    ],
)
async def test_bad_input_is_refused_with_what_is_wrong(tmp_path: Path, given: dict[str, Any], said: str) -> None:
    async with open_bench(tmp_path, web_search) as bench:
        result = await bench.call("web_search", given)
    assert result.is_error and said in result.content


def test_it_runs_without_asking() -> None:
    assert web_search.spec.risk is Risk.LOW
