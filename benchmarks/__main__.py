"""`python -m benchmarks [--quick] [--only NAME]… [--all | --long] [--peer nanobot] [--keep NAME]`: run benchmarks.

Without `--only` or `--all` those beside the floor. The table is printed, the figures are kept as JSON.
"""

import argparse
import asyncio
import json
import os
import platform
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import (
    compacting,
    compressing,
    containment,
    dispatching,
    estimates,
    footprint,
    indexing,
    journal,
    mcp_calls,
    memory_speed,
    nanobot,
    opening,
    overhead,
    paths,
    reading,
    request_bytes,
    requests,
    responsiveness,
    scale,
    searching,
    small_windows,
    stopping,
    streaming,
)
from benchmarks.figures import Figure, Json, Options
from benchmarks.gateways import NANOBOT, PYTHON, ROOT

RESULTS = ROOT / "benchmarks" / "results"

VERSIONS = """
import importlib.metadata, json
print(json.dumps({name: importlib.metadata.version(name) for name in ("aiohttp", "python-telegram-bot", "uvloop")}))
"""
Measure = Callable[[Options], Awaitable[list[Figure]]]

BESIDE_THE_FLOOR: Mapping[str, Measure] = {
    "overhead": overhead.measure_short,
    "history": overhead.measure_long,
    "cpu": overhead.measure_cpu,
    "throughput": overhead.measure_throughput,
    "exec-turn": overhead.measure_exec_turn,
    "start": footprint.measure_start,
    "memory": footprint.measure_memory,
}
OTHERS: Mapping[str, Measure] = {
    "journal": journal.measure_journal,
    "dispatch": dispatching.measure_dispatch,
    "mcp": mcp_calls.measure_mcp_calls,
    "exec": containment.measure_exec,
    "paths": paths.measure_paths,
    "search": searching.measure_search,
    "search-large": searching.measure_large_search,
    "read-large": reading.measure_large_read,
    "indexing": indexing.measure_indexing,
    "memory-search": memory_speed.measure_memory_search,
    "memory-search-large": memory_speed.measure_large_memory_search,
    "lag": responsiveness.measure_lag,
    "tui": opening.measure_ready,
    "tui-history": opening.measure_long_session,
    "tui-stream": streaming.measure_stream,
    "tui-lag": streaming.measure_stream_lag,
    "commands": opening.measure_commands,
    "request": requests.measure_request,
    "request-bytes": request_bytes.measure_request_bytes,
    "loading": requests.measure_loading,
    "compaction": compacting.measure_compaction,
    "compression": compressing.measure_compression,
    "estimates": estimates.measure_estimates,
    "small-windows": small_windows.measure_small_windows,
    "stop": stopping.measure_stop,
    "begin": stopping.measure_beginning,
}
LONG: Mapping[str, Measure] = {
    "crowd": scale.measure_crowd,
    "sessions": scale.measure_sessions,
    "large-database": scale.measure_large_database,
}
BENCHMARKS = {**BESIDE_THE_FLOOR, **OTHERS, **LONG}


async def main(names: list[str], options: Options, kept_as: str) -> int:
    """Run the named benchmarks and keep what they found, where that is wanted; returns 1 when a target was missed."""
    begun = datetime.now(UTC)
    report: Json = {"begun": begun.isoformat(timespec="seconds"), "quick": options.quick, **machine(), "figures": []}
    reached = True
    for name in names:
        load = os.getloadavg()[0]
        for figure in await BENCHMARKS[name](options):
            print(line(figure), flush=True)
            report["figures"].append(figure.as_json() | {"benchmark": name, "load_before": round(load, 1)})
            reached = reached and figure.reached
    if kept_as:
        path = RESULTS / f"{begun:%Y-%m-%d}-{kept_as}.json"
        await asyncio.to_thread(keep, path, report)
        print(f"kept in {path.relative_to(ROOT)}")
    return 0 if reached else 1


def line(figure: Figure) -> str:
    """A row of the table."""
    relation = "<=" if figure.better == "lower" else ">="
    target = "" if figure.target is None else f"{relation} {figure.target:g} {figure.unit}"
    verdict = "" if figure.target is None else "ok" if figure.reached else "MISSED"
    aim = "" if figure.aim is None else f"aim {figure.aim:g}"
    row = f"{figure.name:58} {target:>16} {aim:>8} {figure.measured:9.2f} {figure.unit:9} {verdict:6} {figure.note}"
    return row.rstrip()


def machine() -> Json:
    """What the figures were measured on."""
    return {
        "commit": said_by("git", "rev-parse", "--short", "HEAD"),
        "host": platform.node(),
        "processor": platform.machine(),
        "python": said_by(PYTHON, "-c", "import platform; print(platform.python_version())"),
        "libraries": dict(json.loads(said_by(PYTHON, "-c", VERSIONS))),
        "kernel": platform.release(),
        "cores": os.cpu_count(),
        "load": [round(value, 1) for value in os.getloadavg()],
    }


def said_by(*command: str) -> str:
    """What a program prints."""
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def keep(path: Path, report: Json) -> None:
    """Write the JSON."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(report, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="benchmarks", description=str(__doc__).splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer repetitions; nothing is kept")
    parser.add_argument("--only", action="append", choices=list(BENCHMARKS), metavar="NAME", help=", ".join(BENCHMARKS))
    parser.add_argument("--all", action="store_true", help="every benchmark but the long ones")
    parser.add_argument("--long", action="store_true", help="how far it scales; takes minutes and gigabytes of disk")
    parser.add_argument("--peer", choices=["nanobot"], help="measured beside them; installed first where it is missing")
    parser.add_argument("--keep", metavar="NAME", help="keep the figures as <day>-NAME.json; whole runs have names")
    given = parser.parse_args()
    whole = "gateway" if given.all else "scale" if given.long else "overhead"
    group = {"gateway": {**BESIDE_THE_FLOOR, **OTHERS}, "scale": LONG, "overhead": BESIDE_THE_FLOOR}[whole]
    kept_as = given.keep or ("" if given.quick or given.only else whole)
    if given.peer:
        nanobot.installed()
    options = Options(given.quick, (NANOBOT,) if given.peer else ())
    sys.exit(asyncio.run(main(given.only or list(group), options, kept_as)))
