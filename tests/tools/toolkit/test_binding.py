"""What a service can do already becomes a tool, with its own shapes or as it is."""

import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from goclaw.common.specs import SideEffect
from goclaw.tools.toolkit.base import Tool, ToolContext, tool
from goclaw.tools.toolkit.binding import bind, passthrough
from goclaw.tools.toolkit.json_schema import Injected, Takes
from goclaw.tools.toolkit.results import BoundedResult
from tests.tools.toolkit.test_dispatcher import Bench, bench, only


class TrackerError(Exception):
    """The service's own."""


@dataclass
class Query:
    text: str
    project: str


@dataclass
class Page:
    rows: list[str]
    count: int


@dataclass
class Tracker:
    """A service with shapes of its own."""

    issues: list[str] = field(default_factory=lambda: ["door sticks", "door squeaks", "roof leaks"])
    logged: list[str] = field(default_factory=list)
    threads: set[str] = field(default_factory=set)

    async def search(self, query: Query, limit: int) -> Page:
        """Search all projects. Internal."""
        if query.project == "gone":
            raise TrackerError("project gone is closed")
        found = [issue for issue in self.issues if query.text in issue]
        return Page(found[:limit], len(found))

    def append(self, message: Annotated[str, Field(description="What to log", min_length=1)], level: int = 1) -> bool:
        """Log a message."""
        self.threads.add(threading.current_thread().name)
        self.logged.append(f"{level}: {message}")
        return True

    async def clear(self) -> None:
        """Forget what was logged."""
        self.logged.clear()

    async def count(self, number: int, /) -> int:
        """Count on."""
        return number + 1


class FindIssues(BaseModel):
    """What the model is asked for."""

    words: Annotated[str, Field(description="Words of the title")]
    project: Annotated[str, Injected()] = "house"


class Issues(BoundedResult):
    titles: list[str]

    def text(self) -> str:
        return "\n".join((*self.titles, self.refinement_hint))


def _issues(page: Page) -> Issues:
    cut = page.count > len(page.rows)
    return Issues(
        returned=len(page.rows),
        total=page.count,
        truncated=cut,
        refinement_hint="use more words" if cut else "",
        titles=page.rows,
    )


def finding(tracker: Tracker, **changes: Any) -> Tool:
    parts: dict[str, Any] = {
        "name": "find_issues",
        "description": "Look for issues by words.",
        "takes": FindIssues,
        "gives": Issues,
        "to_call": lambda wanted: {"query": Query(wanted.words, wanted.project), "limit": 1},
        "to_result": _issues,
        "errors": (TrackerError,),
    }
    return tool(
        side_effect=SideEffect.READ_ONLY, bounded=True, foreign=False, result_hint="{{ returned }} of {{ total }}"
    )(bind(tracker.search, **(parts | changes)))


Called = Callable[[Tool, dict[str, Any]], Awaitable[str]]


async def call(at: Bench, of: Tool, given: dict[str, Any]) -> str:
    return (await only(at, of).call(of, given)).content


async def test_a_bound_method_has_other_shapes_than_its_tool(tmp_path: Path) -> None:
    find = finding(Tracker())
    assert (find.spec.name, find.spec.description, find.takes) == (
        "find_issues",
        "Look for issues by words.",
        Takes.MODEL,
    )
    assert set(find.spec.schema["properties"]) == {"words"} and find.spec.injected == {"project"}
    async with bench(tmp_path) as at:
        assert await call(at, find, {"words": "door"}) == "door sticks\nuse more words"
        assert (await at.call(find, {"words": "roof"})).hint == "1 of 1"
        assert "unknown field" in await at.error(find, {"words": "roof", "project": "other"})


async def test_an_error_of_the_service_is_the_models_to_read_where_that_is_wanted(tmp_path: Path) -> None:
    async with bench(tmp_path) as at:
        find = finding(Tracker(), to_call=lambda wanted: {"query": Query("", "gone"), "limit": 1})
        assert await only(at, find).error(find, {"words": "a"}) == "project gone is closed"
        other = finding(Tracker(), to_call=lambda wanted: {"query": Query("", "gone"), "limit": 1}, errors=())
        assert "failed unexpectedly" in await only(at, other).error(other, {"words": "a"})


async def test_a_service_may_be_found_when_the_tool_runs(tmp_path: Path) -> None:
    trackers = {"s": Tracker(["a window"])}

    def its_tracker(ctx: ToolContext) -> Tracker:
        return trackers[ctx.session]

    log = tool(side_effect=SideEffect.MUTATING)(passthrough(Tracker.append, service=its_tracker))
    assert set(log.spec.schema["properties"]) == {"message", "level"}
    async with bench(tmp_path) as at:
        assert await call(at, log, {"message": "hi", "level": 2}) == "true"
    assert trackers["s"].logged == ["2: hi"]


async def test_what_is_passed_through_keeps_its_shape(tmp_path: Path) -> None:
    tracker = Tracker()
    log = tool(side_effect=SideEffect.MUTATING, call_hint="Logging {{ message }}")(passthrough(tracker.append))
    assert (log.spec.name, log.spec.description) == ("append", "Log a message.")
    assert log.spec.schema["properties"] == {
        "message": {"type": "string", "minLength": 1, "description": "What to log"},
        "level": {"type": "integer", "default": 1},
    }
    assert log.spec.result_schema["properties"]["value"] == {"type": "boolean"}
    clear = tool(side_effect=SideEffect.MUTATING)(passthrough(tracker.clear, name="clear_log"))
    on = tool(side_effect=SideEffect.NONE)(passthrough(tracker.count))
    async with bench(tmp_path) as at:
        assert await call(at, log, {"message": "hi"}) == "true"
        assert tracker.logged == ["1: hi"] and threading.main_thread().name not in tracker.threads
        assert 'field "message": expected at least 1' in await at.error(log, {"message": ""})
        assert await call(at, clear, {}) == "done" and not tracker.logged
        assert await call(at, on, {"value": 4}) == "5"


def test_a_method_without_types_is_refused() -> None:
    def loose(what):  # type: ignore[no-untyped-def]  # that is what is refused
        return what

    with pytest.raises(ValueError, match="parameter what needs a type"):
        tool(side_effect=SideEffect.NONE)(passthrough(loose))
