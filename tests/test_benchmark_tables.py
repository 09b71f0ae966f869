"""The page on benchmarks tells the figures of the newest whole run, and the bounds that its benchmarks have."""

import re

from benchmarks.figures import Figure, Json
from benchmarks.tables import README, between_marks, described, newest_whole, table

PAGE = README.read_text("utf-8")
LIST = README.with_name("__main__.py").read_text("utf-8")
BENCHMARKS = set(re.findall(r'^    "([a-z-]+)": \w+\.measure_', LIST, re.MULTILINE))
"""Read, because importing it takes seconds."""


BOUNDS_ELSEWHERE = {"request-bytes": "tests/acceptance/test_request_bytes.py holds each tool to its own"}


def report_of(*figures: Figure) -> Json:
    """A report as a run keeps it."""
    rows = [figure.as_json() | {"benchmark": "lag"} for figure in figures]
    return {"commit": "abc", "begun": "2026-11-23T10:00:00", "cores": 2, "python": "3.11.7", "figures": rows}


def test_the_page_has_the_figures_of_the_newest_whole_run() -> None:
    assert between_marks(PAGE) == table(newest_whole()), "run `python -m benchmarks.tables`"


def test_the_page_describes_every_benchmark_and_no_other() -> None:
    assert described(PAGE).keys() == BENCHMARKS


def test_the_newest_whole_run_has_every_benchmark_with_bounds_that_the_page_names() -> None:
    if report := newest_whole():
        assert {figure["benchmark"] for figure in report["figures"]} == BENCHMARKS
        named = described(PAGE)
        bounds = [(each["benchmark"], each["target"]) for each in report["figures"] if each["target"] is not None]
        assert [
            (name, bound) for name, bound in bounds if bound not in named[name] and name not in BOUNDS_ELSEWHERE
        ] == []


def test_a_missed_bound_is_told_as_such() -> None:
    report = report_of(Figure("late", "ms", 70.25, 50), Figure("turns", "turns/s", 90, 80, "higher"))
    assert table(report).splitlines()[0].endswith("2 figures, 1 missed.")
    assert table(report).splitlines()[-2:] == [
        "| `lag` | late | <= 50 | 70.25 ms | **missed** |",
        "| `lag` | turns | >= 80 | 90 turns/s | ok |",
    ]
