"""Pages of listings: what holds for each, whoever sends them."""

import threading
from pathlib import Path

import orjson
import pytest

from goclaw.extensions.registries.pages import (
    MAX_CURSOR,
    MAX_PARTS,
    MAX_STATIONS,
    cursor_of,
    parsed,
    read_page,
)
from tests.extensions.registries.fake_registry import asking, fake_registry, item, toolset


async def test_pages_are_read_beside_the_event_loop(tmp_path: Path) -> None:
    threads: list[threading.Thread] = []

    def wanted(name: str) -> bool:
        threads.append(threading.current_thread())
        return True

    async with fake_registry(toolset()) as registry, asking(tmp_path, registry) as asked:
        await asked.client().listing(wanted=wanted)
    assert threads and threading.main_thread() not in threads


def test_a_page_of_the_usual_size_has_room_below_the_bound() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "required": ["a"]}
    tools = [{"name": f"tool_{n}", "description": "What it does. " * 8, "input_schema": schema} for n in range(60)]
    items = [item(toolset(version=f"1.0.{n}", tools=tools)) for n in range(100)]
    body = orjson.dumps({"entries": items})
    assert len(body) > 1_500_000
    assert len(read_page(body, lambda name: True).entries) == 100


@pytest.mark.parametrize("part", [b"0,", b"[],", b"{},", b'{"a":[', b'"",'])
def test_what_holds_up_everybody_while_it_is_parsed_is_not_parsed(part: bytes) -> None:
    with pytest.raises(ValueError, match="values"):
        parsed(b'{"entries": [' + part * MAX_PARTS)


def test_a_document_too_deep_to_be_hashed_is_refused_alone() -> None:
    deep = b'{"a":' * 500 + b"1" + b"}" * 500
    body = b'{"entries": [{"document": {"kind": "toolset", "name": "deep", "x": %s}}, %s]}'
    page = read_page(body % (deep, orjson.dumps(item(toolset()))), lambda name: True)
    assert len(page.entries) == 1 and "'deep': an entry should be JSON" in page.refused[0]


def test_an_entry_that_came_through_registries_without_an_end_is_refused_alone() -> None:
    far = item(toolset("far"), via=[f"r{number}" for number in range(MAX_STATIONS + 1)])
    page = read_page(orjson.dumps({"entries": [far, item(toolset())]}), lambda name: True)
    assert len(page.entries) == 1 and "'far': it came through more than" in page.refused[0]


def test_cursors_have_an_end() -> None:
    assert (cursor_of(None), cursor_of(""), cursor_of("x"), cursor_of(7)) == ("", "", "x", "7")
    with pytest.raises(ValueError, match="next page"):
        cursor_of("x" * (MAX_CURSOR + 1))
