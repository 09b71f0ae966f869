"""Counts the work of the daemon and prints the table, then where the work is done.

    python -m tests.work                    the table, and the twelve places that have most of each count
    python -m tests.work --write            the same, and put the table where the test reads it (`counts.txt`)
    python -m tests.work --top 40 plain     forty places of each count, of one scenario (idle plain tool long exec all)
    python -m tests.work --idle 60          a whole idle minute
    WORK_TREE=FOLDER python -m tests.work   the work of another tree, such as one of an older commit

A place is a function of goclaw, the text of a statement, a system call, a function that went to a thread …
"""

import argparse
import asyncio
import sys

from tests.work.bounds import HEAD, TABLE, measured_rows, rows, top
from tests.work.measure import ALL, EXEC, IDLE, IDLE_SECONDS, START, TURNS, Work, measure
from tests.work.stage import tracer

UNTURNED = (START, IDLE, ALL)


def main() -> None:
    """Measure and print."""
    known = {**TURNS, **EXEC}
    parser = argparse.ArgumentParser(
        prog="python -m tests.work", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "scenarios", nargs="*", help="only these; `all` is those that are measured, with what they leave"
    )
    parser.add_argument("--top", type=int, default=12, help="how many places of each count")
    parser.add_argument("--idle", type=float, default=IDLE_SECONDS, help="seconds of the idle scenario")
    parser.add_argument("--write", action="store_true", help=f"set the bounds: write {TABLE.name}")
    options = parser.parse_args()
    if unknown := set(options.scenarios) - known.keys() - set(UNTURNED):
        parser.error(f"no such scenario: {', '.join(sorted(unknown))}; there are {', '.join([*known, *UNTURNED])}")
    if options.write and (options.scenarios or not tracer()):
        parser.error("the table is written whole: without names of scenarios, and where strace may trace")
    wanted = options.scenarios or [*known, *UNTURNED]
    counted = asyncio.run(measure({name: known[name] for name in known if name in wanted}, options.idle))
    found = {name: work for name, work in counted.items() if name in wanted}
    before = {(row.scenario, row.kind): row.before for row in rows()}
    held = {name: work for name, work in found.items() if name not in EXEC}
    table = "\n".join([HEAD, *map(str, measured_rows(held, before))])
    sys.stdout.write(f"{table}\n")
    if not tracer():
        sys.stdout.write("no strace, or no ptrace here: system calls and fsyncs are not counted\n")
    if options.write:
        comments = [line for line in TABLE.read_text("utf-8").splitlines() if line.startswith("#")]
        TABLE.write_text("\n".join([*comments, table, ""]), "utf-8")
    for name, work in found.items():
        write_places(name, work, options.top)


def write_places(name: str, work: Work, most: int) -> None:
    """Print where the work of a scenario is done."""
    for kind, places in work.places.items():
        if name != START:
            sys.stdout.write(f"\n== {name}: {kind} {sum(places.values())}\n")
            sys.stdout.writelines(f"{number:6}  {place}\n" for place, number in top(work, kind, most))


if __name__ == "__main__":
    main()
