"""The lane with a real model (`scripts/test --model`): a real llama-server, two small models, the whole product.

    python -m tests.real_model --output FILE                     everything, about an hour on two idle cores
    python -m tests.real_model --only talk --window 8192         one part; several times for several
    python -m tests.real_model --only streams                    records `tests/llm/streams/llamacpp_*` anew

Needs the folder that `scripts/_real_model.py` makes, in `REAL_MODEL`. Every exchange with the server is kept below
`--keep` (the answers' bytes as they came). Exits 0 when nothing failed, else 1.
"""

import argparse
import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.acceptance.waiting import clock
from tests.real_model import blows, streams, talk, working

PARTS = ("tasks", "tasks-structured", "blows", "talk")
"""Without a word of the caller; `streams` writes files of the repository and runs only when it is named."""


async def run(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Run the parts, one after the other: each has both cores for itself. The report is written after each."""
    report: dict[str, Any] = {}
    began = clock.monotonic()
    if "streams" in options.only:
        await streams.record(folder / "streams.log")
        report["streams"] = streams.sizes()
    if "talk" in options.only:
        report["talk"] = []
        for window in options.window:
            place = folder / f"talk-{window}"
            place.mkdir(parents=True)
            report["talk"].append(await talk.talk(place, window, options.turns))
            write(report, options.output)
    for part, structured in (("tasks", False), ("tasks-structured", True)):
        if part in options.only:
            place = folder / part
            place.mkdir(parents=True)
            report[part] = await working.work(place, structured=structured, names=options.task)
            write(report, options.output)
    if "blows" in options.only:
        place = folder / "blows"
        place.mkdir(parents=True)
        report["blows"] = await blows.strike(place)
    report["seconds"] = round(clock.monotonic() - began)
    write(report, options.output)
    return report


def write(report: dict[str, Any], output: Path | None) -> None:
    """Write what is reported by now: a part that fails later costs no other one its figures."""
    if output:
        output.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", "utf-8")


def problems_of(report: dict[str, Any]) -> list[str]:
    """Return what failed, one line each."""
    talks = {f"talk at {each['window']}": each for each in report.get("talk", ())}
    parts = talks | {part: report[part] for part in PARTS if part in report and part != "talk"}
    return [f"{name}: {line}" for name, part in parts.items() for line in part["problems"]]


def main() -> int:
    """Run, write, print; return the exit code."""
    parser = argparse.ArgumentParser(prog="tests.real_model", description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path)
    parser.add_argument("--keep", type=Path, help="an empty folder for homes, logs and exchanges")
    parser.add_argument("--only", action="append", choices=[*PARTS, "streams"])
    parser.add_argument("--task", action="append", help="only these of the tasks")
    parser.add_argument("--window", action="append", type=int)
    parser.add_argument("--turns", type=int, default=talk.TURNS)
    options = parser.parse_args()
    options.only, options.window = options.only or list(PARTS), options.window or list(talk.WINDOWS)
    with tempfile.TemporaryDirectory() as scratch:
        report = asyncio.run(run(options, options.keep or Path(scratch)))
    problems = problems_of(report)
    sys.stdout.write("\n".join([json.dumps(report, indent=1, ensure_ascii=False), *problems]) + "\n")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
