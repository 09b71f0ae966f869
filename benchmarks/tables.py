"""The figures in README.md: tables of the newest runs, and what the other tables there must agree with.

`python -m benchmarks.tables` writes them anew. `tests/test_benchmark_tables.py` holds README.md to them.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path

from benchmarks.figures import Json
from benchmarks.gateways import ROOT
from benchmarks.replicas.limit import limits

README = ROOT / "benchmarks" / "README.md"
RESULTS = ROOT / "benchmarks" / "results"
WHOLE = "whole"
"""The name of a run of all benchmarks."""
REPLICAS = "replicas"
"""The name of a run of the benchmarks of several gateways on one Postgres."""
Marks = tuple[str, str]
FIGURES: Marks = ("<!-- figures: python -m benchmarks.tables -->\n", "<!-- end of the figures -->\n")
OF_REPLICAS: Marks = (
    "<!-- figures of replicas: python -m benchmarks.tables -->\n",
    "<!-- end of the figures of replicas -->\n",
)
LIMITS: Marks = ("<!-- limits: python -m benchmarks.tables -->\n", "<!-- end of the limits -->\n")
NONE_YET = "No whole run is kept yet.\n"
_ROW = re.compile(r"^\|(?P<names>[^|]*)\|(?P<rest>.*)\|$")
_NAME = re.compile(r"`([a-z-]+)`")
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


def newest_whole() -> Json | None:
    """Return the newest report of a whole run; None: none is kept."""
    return _newest(WHOLE)


def newest_of_replicas() -> Json | None:
    """Return the newest report of the benchmarks of replicas; None: none is kept."""
    return _newest(REPLICAS)


def _newest(name: str) -> Json | None:
    path = max(RESULTS.glob(f"*-{name}.json"), default=None)
    return json.loads(path.read_text("utf-8")) if path else None


def table(report: Json | None) -> str:
    """Return the lines between the marks in README.md."""
    if report is None:
        return NONE_YET
    missed = sum(not figure["reached"] for figure in report["figures"])
    lines = [
        f"Commit {report['commit']}, {report['begun'][:10]}, {report['cores']} cores, Python {report['python']}; "
        f"{len(report['figures'])} figures, {missed} missed.",
        "",
        "| benchmark | figure | bound | measured | |",
        "|---|---|---|---|---|",
        *map(_line, report["figures"]),
    ]
    return "\n".join(lines) + "\n"


def _line(figure: Json) -> str:
    relation = "<=" if figure["better"] == "lower" else ">="
    bound = "" if figure["target"] is None else f"{relation} {figure['target']:g}"
    verdict = "" if figure["target"] is None else "ok" if figure["reached"] else "**missed**"
    measured = f"{figure['measured']:.4g} {figure['unit']}"
    return f"| `{figure['benchmark']}` | {figure['figure']} | {bound} | {measured} | {verdict} |"


def between_marks(readme: str, marks: Marks = FIGURES) -> str:
    """Return what README.md says between two marks."""
    return readme.partition(marks[0])[2].partition(marks[1])[0]


def generated() -> Mapping[Marks, str]:
    """Return what belongs between which marks in README.md."""
    of_replicas = newest_of_replicas()
    return {
        FIGURES: table(newest_whole()),
        OF_REPLICAS: table(of_replicas),
        LIMITS: limits(of_replicas) if of_replicas else NONE_YET,
    }


def described(readme: str) -> Mapping[str, set[float]]:
    """Return the benchmarks that README.md describes, each with the numbers of its rows: its bounds are among them."""
    found: dict[str, set[float]] = {}
    name = ""
    for marks in (FIGURES, OF_REPLICAS, LIMITS):
        readme = readme.replace(between_marks(readme, marks), "")
    for line in readme.splitlines():
        row = _ROW.match(line)
        name = "" if row is None else name if not row["names"].strip() else _named(row["names"])
        if row and name:
            numbers = {float(number.replace(",", "")) for number in _NUMBER.findall(row["rest"])}
            found[name] = found.get(name, set()) | numbers
    return found


def _named(cell: str) -> str:
    found = _NAME.fullmatch(cell.strip())
    return found[1] if found else ""


def write(readme: Path = README) -> None:
    """Write the tables of the newest runs into README.md."""
    text = readme.read_text("utf-8")
    for marks, lines in generated().items():
        before, begin, rest = text.partition(marks[0])
        _, end, after = rest.partition(marks[1])
        text = before + begin + lines + end + after
    readme.write_text(text, "utf-8")


if __name__ == "__main__":
    write()
