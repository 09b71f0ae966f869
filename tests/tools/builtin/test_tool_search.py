"""The tools `tool_search` and `tool_call`, on the bench."""

import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

from goclaw.common.core import catalog
from goclaw.common.core.events import ToolStarted
from goclaw.common.core.plugins import load
from goclaw.testing import open_bench
from goclaw.tools.builtin.listing import glob
from goclaw.tools.builtin.read import read
from goclaw.tools.builtin.tool_search import ROOM, TOLD, tool_call, tool_search
from goclaw.tools.builtin.write import write
from goclaw.tools.toolkit.base import Tool


async def test_what_is_found_is_told_with_its_arguments(tmp_path: Path) -> None:
    async with open_bench(tmp_path, read, glob, tool_search, tool_call) as bench:
        told = (await bench.call("tool_search", {"query": "files by pattern"})).content
    first, arguments = told.split("\n\n")[0], [each for each in told.splitlines() if each.startswith("arguments: ")]
    assert first.startswith("glob: Find files by a pattern")
    schema = json.loads(arguments[0].removeprefix("arguments: "))
    assert "pattern" in schema["required"] and "additionalProperties" not in schema
    assert "tool_call:" not in told


class WatchedSchema(dict[str, Any]):
    """A schema that knows the threads in which its properties were looked up."""

    readers: set[threading.Thread]

    def get(self, key: str, default: Any = None) -> Any:
        self.readers.add(threading.current_thread())
        return super().get(key, default)


async def test_hundreds_of_tools_are_compared_beside_the_event_loop(tmp_path: Path) -> None:
    schema = WatchedSchema(glob.spec.schema)
    schema.readers = set()
    watched = replace(glob, spec=replace(glob.spec, schema=schema))
    async with open_bench(tmp_path, watched, tool_search) as bench:
        schema.readers.clear()
        await bench.call("tool_search", {"query": "zymurgy"})
    assert schema.readers and threading.main_thread() not in schema.readers


async def test_a_small_window_is_not_filled_and_the_others_are_named(tmp_path: Path) -> None:
    many = [load(path, Tool) for path in catalog.TOOLS.values()]
    async with open_bench(tmp_path, *many) as bench:
        for query in ("search what was said", "background task", "agent", "files"):
            told = (await bench.call("tool_search", {"query": query})).content
            whole = told.count("\narguments: ")
            assert 1 <= whole <= TOLD and (whole == 1 or len(told) < ROOM + 300)
            assert len(told) < 3_500 and ("\n\nalso: " in told) is (query != "agent")


async def test_where_no_tool_fits_a_command_may_do_it(tmp_path: Path) -> None:
    async with open_bench(tmp_path, read, load(catalog.TOOLS["exec"], Tool), tool_search) as bench:
        told = (await bench.call("tool_search", {"query": "zymurgy"})).content
    assert told == "no tool fits; exec may do it by a command; there are: read, exec"


async def test_what_does_not_fit_names_what_there_is_and_nothing_that_is_not_ones_own(tmp_path: Path) -> None:
    async with open_bench(tmp_path, read, write, tool_search, tools={"disabled": ["write"]}) as bench:
        assert (await bench.call("tool_search", {"query": "zymurgy"})).content == "no tool fits; there are: read"
        assert "write" not in (await bench.call("tool_search", {"query": "write a file"})).content.split()


async def test_a_call_by_tool_call_is_one_of_the_tool_everywhere(tmp_path: Path) -> None:
    async with open_bench(tmp_path, glob, tool_call) as bench:
        (bench.folder / "tea.md").write_text("Green.")
        result = await bench.call("tool_call", {"name": "glob", "arguments": {"pattern": "*.md"}})
        started = [(event.name, event.input) for event in bench.events if isinstance(event, ToolStarted)]
    assert (result.name, result.is_error) == ("glob", False) and "tea.md" in result.content
    assert started == [("glob", {"pattern": "*.md"})]
    assert [(entry.object, entry.detail) for entry in bench.audited] == [("glob", "pattern=*.md")]


async def test_names_of_other_systems_and_arguments_as_text_are_understood(tmp_path: Path) -> None:
    async with open_bench(tmp_path, glob, tool_call) as bench:
        (bench.folder / "tea.md").write_text("Green.")
        result = await bench.call("tool_call", {"name": "Glob", "arguments": '{"pattern": "*.md"}'})
        nested = {"name": "tool_call", "arguments": {"name": "glob", "arguments": {"pattern": "*.md"}}}
        assert (await bench.call("tool_call", nested)).name == "glob"
    assert (result.name, result.is_error) == ("glob", False)


async def test_its_arguments_are_checked_as_those_of_a_direct_call(tmp_path: Path) -> None:
    async with open_bench(tmp_path, glob, tool_call) as bench:
        by_call = await bench.call("tool_call", {"name": "glob", "arguments": {"patern": "*"}})
        directly = await bench.call("glob", {"patern": "*"})
        no_object = await bench.call("tool_call", {"name": "glob", "arguments": "*.md"})
        no_name = await bench.call("tool_call", {"arguments": {}})
    assert by_call.content == directly.content and by_call.is_error
    assert "arguments" in no_object.content and "name" in no_name.content


async def test_what_is_not_there_and_what_is_not_allowed_read_alike(tmp_path: Path) -> None:
    wanted = {"name": "glob", "arguments": {"pattern": "*"}}
    async with open_bench(tmp_path / "a", tool_call) as bench:
        absent = await bench.call("tool_call", wanted)
    async with open_bench(tmp_path / "b", glob, tool_call, tools={"disabled": ["glob"]}) as bench:
        forbidden = await bench.call("tool_call", wanted)
    assert absent.content == forbidden.content == '{"error": "unknown tool: glob"}'
