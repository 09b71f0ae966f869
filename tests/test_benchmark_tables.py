"""The page on benchmarks tells the figures of the newest whole run, and the bounds that its benchmarks have."""

import json
import re
from collections.abc import Callable

import pytest

from benchmarks.figures import Figure, Json
from benchmarks.replicas.limit import Inputs, limits
from benchmarks.tables import (
    README,
    RESULTS,
    between_marks,
    described,
    generated,
    newest_of_replicas,
    newest_whole,
    table,
)

PAGE = README.read_text("utf-8")
LIST = README.with_name("__main__.py").read_text("utf-8")
BENCHMARKS = set(re.findall(r'^    "([a-z-]+)": \w+\.measure_', LIST, re.MULTILINE))
"""Read, because importing it takes seconds."""
OF_REPLICAS = {name for name in BENCHMARKS if name.startswith("replicas-")}
"""Kept apart from whole runs."""


BOUNDS_ELSEWHERE = {"request-bytes": "tests/acceptance/test_request_bytes.py holds each tool to its own"}


def report_of(*figures: Figure) -> Json:
    """A report as a run keeps it."""
    rows = [figure.as_json() | {"benchmark": "lag"} for figure in figures]
    return {"commit": "abc", "begun": "2026-11-23T10:00:00", "cores": 2, "python": "3.11.7", "figures": rows}


def parts_since(begun: str) -> list[Json]:
    """Return the reports of runs of single benchmarks that began after a whole one: of benchmarks that it lacks."""
    reports = [json.loads(path.read_text("utf-8")) for path in RESULTS.glob("20*.json")]
    return [each for each in reports if each.get("begun", "") > begun and not each.get("quick")]


def test_the_page_has_the_figures_of_the_newest_runs() -> None:
    for marks, lines in generated().items():
        assert between_marks(PAGE, marks) == lines, "run `python -m benchmarks.tables`"


def test_the_page_describes_every_benchmark_and_no_other() -> None:
    assert described(PAGE).keys() == BENCHMARKS


@pytest.mark.parametrize(
    ("newest", "benchmarks"), [(newest_whole, BENCHMARKS - OF_REPLICAS), (newest_of_replicas, OF_REPLICAS)]
)
def test_the_newest_run_has_every_benchmark_with_bounds_that_the_page_names(
    newest: Callable[[], Json | None], benchmarks: set[str]
) -> None:
    if report := newest():
        later = {name for part in parts_since(report["begun"]) for name in part.get("seconds", ())}
        assert {figure["benchmark"] for figure in report["figures"]} | (later & benchmarks) == benchmarks
        named = described(PAGE)
        bounds = [(each["benchmark"], each["target"]) for each in report["figures"] if each["target"] is not None]
        assert [
            (name, bound) for name, bound in bounds if bound not in named[name] and name not in BOUNDS_ELSEWHERE
        ] == []


def test_the_limit_is_the_lowest_wall_and_moves_with_what_makes_it() -> None:
    given = Inputs(
        gateway=10, postgres=2, idle=10, commits=4, most_commits=2_000, notified_commits=400, wal=5_000, connections=12
    )
    assert given.limit(1, 1) == ("CPU of the replicas", 100)
    assert given.limit(8, 1) == ("CPU of Postgres", 460)
    assert given.limit(8, 2) == ("commits", 500)
    assert given.most_replicas == 8


def test_a_run_without_an_input_of_the_limit_says_which() -> None:
    assert limits(report_of()) == "The newest run is without '1 replica: CPU of the gateways per turn'.\n"


def test_a_missed_bound_is_told_as_such() -> None:
    report = report_of(Figure("late", "ms", 70.25, 50), Figure("turns", "turns/s", 90, 80, "higher"))
    assert table(report).splitlines()[0].endswith("2 figures, 1 missed.")
    assert table(report).splitlines()[-2:] == [
        "| `lag` | late | <= 50 | 70.25 ms | **missed** |",
        "| `lag` | turns | >= 80 | 90 turns/s | ok |",
    ]
