"""`python -m benchmarks [--quick] [--only NAME]… [--all] [--long] [--peer nanobot] [--keep NAME] [--resume]`.

`--only replicas`: those of several gateways on one Postgres, which are kept as a report of their own.

Runs benchmarks: those beside the floor, unless told otherwise. The table is printed, the figures are kept as JSON,
which is written after each benchmark, so that a run which was cut can be resumed. One that fails does not end the run.
"""

import argparse
import asyncio
import json
import os
import platform
import subprocess
import sys
import time
import traceback
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import (
    backlog,
    compacting,
    compressing,
    containment,
    dispatching,
    documents,
    estimates,
    event_readers,
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
    web_page,
)
from benchmarks.figures import Figure, Json, Options
from benchmarks.gateways import NANOBOT, PYTHON, ROOT
from benchmarks.replicas import attached, gap, orders, takeover, throughput, work
from benchmarks.tables import REPLICAS, RESULTS, WHOLE

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
    "documents": documents.measure_documents,
    "read-large": reading.measure_large_read,
    "indexing": indexing.measure_indexing,
    "memory-search": memory_speed.measure_memory_search,
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
    "event-readers": event_readers.measure_event_readers,
    "web-page": web_page.measure_web_page,
}
LONG: Mapping[str, Measure] = {
    "crowd": scale.measure_crowd,
    "sessions": scale.measure_sessions,
    "large-database": scale.measure_large_database,
    "memory-search-large": memory_speed.measure_large_memory_search,
    "index-backlog": backlog.measure_backlog,
}
OF_REPLICAS: Mapping[str, Measure] = {
    "replicas-takeover": takeover.measure_takeover,
    "replicas-orders": orders.measure_orders,
    "replicas-streams": attached.measure_attached,
    "replicas-gap": gap.measure_gap,
    "replicas-turns": throughput.measure_throughput,
    "replicas-work": work.measure_work,
    "replicas-commits": work.measure_commits,
}
"""Not of a whole run: they need a Postgres, and are kept apart."""
OF_ONE_GATEWAY = {**BESIDE_THE_FLOOR, **OTHERS, **LONG}
BENCHMARKS = {**OF_ONE_GATEWAY, **OF_REPLICAS}


async def main(names: list[str], options: Options, path: Path | None, report: Json) -> int:
    """Run the named benchmarks that the report does not have yet; returns 1 when a target was missed, or one failed.

    Args:
        names: of benchmarks.
        path: where the report is kept; None: nowhere.
        report: what a run of before found, or `new_report`.
    """
    for name in names:
        if name in report["seconds"]:
            continue
        load, began = os.getloadavg()[0], time.monotonic()
        try:
            figures = await BENCHMARKS[name](options)
        except Exception as error:  # the others are measured all the same
            traceback.print_exc()
            report["failed"][name] = f"{type(error).__name__}: {error}"
        else:
            for figure in figures:
                print(line(figure), flush=True)
                report["figures"].append(figure.as_json() | {"benchmark": name, "load_before": round(load, 1)})
            report["failed"].pop(name, None)
            report["seconds"][name] = round(time.monotonic() - began)
        if path:
            await asyncio.to_thread(keep, path, report)
    print(f"{sum(report['seconds'].values()) / 60:.0f} minutes{f', kept in {path.relative_to(ROOT)}' if path else ''}")
    for name, why in report["failed"].items():
        print(f"{name} FAILED: {why}")
    return 0 if not report["failed"] and all(figure["reached"] for figure in report["figures"]) else 1


def new_report(options: Options) -> Json:
    """A report without figures."""
    begun = datetime.now(UTC).isoformat(timespec="seconds")
    return {"begun": begun, "quick": options.quick, **machine(), "seconds": {}, "failed": {}, "figures": []}


def resumed(kept_as: str, options: Options) -> tuple[Path, Json]:
    """Return the newest report of this name; it must be of the same commit, and as quick."""
    path = max(RESULTS.glob(f"*-{kept_as}.json"), default=None)
    report: Json = json.loads(path.read_text("utf-8")) if path else {}
    commit = said_by("git", "rev-parse", "--short", "HEAD")
    if path is None or (report["commit"], report["quick"]) != (commit, options.quick):
        raise SystemExit(f"there is no benchmarks/results/*-{kept_as}.json of {commit} to go on with")
    return path, report


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
    names = [*BENCHMARKS, REPLICAS]
    parser.add_argument("--only", action="append", choices=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--all", action="store_true", help="the other benchmarks of the daemon, too")
    parser.add_argument("--long", action="store_true", help="how far it scales; takes minutes and gigabytes of disk")
    parser.add_argument("--peer", choices=["nanobot"], help="measured beside them; installed first where it is missing")
    parser.add_argument("--keep", metavar="NAME", help="keep the figures as <day>-NAME.json; whole runs have names")
    parser.add_argument("--resume", action="store_true", help="only what the newest kept file of this name is without")
    given = parser.parse_args()
    whole, group = {
        (False, False): ("overhead", BESIDE_THE_FLOOR),
        (False, True): ("scale", LONG),
        (True, False): ("gateway", {**BESIDE_THE_FLOOR, **OTHERS}),
        (True, True): (WHOLE, OF_ONE_GATEWAY),
    }[given.all, given.long]
    if given.only == [REPLICAS]:
        whole, group, given.only = REPLICAS, OF_REPLICAS, None
    kept_as = given.keep or ("" if given.quick or given.only else whole)
    if given.resume and not kept_as:
        parser.error("--resume needs --keep NAME here: these figures are not kept")
    if given.peer:
        nanobot.installed()
    options = Options(given.quick, (NANOBOT,) if given.peer else ())
    kept: Path | None
    if given.resume:
        kept, report = resumed(kept_as, options)
    else:
        report = new_report(options)
        kept = RESULTS / f"{report['begun'][:10]}-{kept_as}.json" if kept_as else None
    sys.exit(asyncio.run(main(given.only or list(group), options, kept, report)))
