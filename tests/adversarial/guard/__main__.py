"""Plays ordinary tasks and attacks, each on a gateway of its own, and prints how they ended.

python -m tests.adversarial.guard                     all of it, on SQLite
python -m tests.adversarial.guard --store postgres    the same, on a Postgres from a wheel
python -m tests.adversarial.guard --part attacks      a part of it; may be repeated
python -m tests.adversarial.guard --only WORD         only what has the word in its name; may be repeated
python -m tests.adversarial.guard --output FILE       the results as JSON, too
"""

import argparse
import asyncio
import json
import logging
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from tests.adversarial.guard import ordinary, report, sinks
from tests.adversarial.guard.playing import Result, play_sink, play_task
from tests.adversarial.guard.stage import ROLES
from tests.postgres import running


class Stores:
    """Where the gateways keep what they know: a fresh place for each."""

    def __init__(self, address: str = "") -> None:
        self._address = address
        self._numbers = count(1)

    def fresh(self) -> str:
        """The setting `store` of the next gateway; empty: SQLite."""
        return f"{self._address}?schema=guard_{next(self._numbers)}" if self._address else ""


@contextmanager
def open_stores(kind: str) -> Iterator[Stores]:
    """Start what the stores need."""
    if kind == "sqlite":
        yield Stores()
    else:
        with running() as server:
            yield Stores(server.url)


def main() -> None:
    """Play and print."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.adversarial.guard",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--store", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--part", action="append", choices=report.PARTS)
    parser.add_argument("--only", action="append", default=[], metavar="WORD")
    parser.add_argument("--output", type=Path, metavar="FILE")
    options = parser.parse_args()
    logging.disable(logging.ERROR)  # what gateways say of turns that wait while they end
    with open_stores(options.store) as stores:
        results = asyncio.run(play(stores, options.part or report.PARTS, options.only))
    write(report.table(results))
    if options.output:
        found = report.as_json(results, store=options.store)
        options.output.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


async def play(stores: Stores, parts: Sequence[str], words: Sequence[str]) -> report.Results:
    """Play these parts, of them what has one of the words in its name; without words all."""
    results: dict[str, list[Result]] = {part: [] for part in report.PARTS}
    for part in parts:
        async for result in _played(part, stores, words):
            results[part].append(result)
            write(report.line(result))
    return results


async def _played(part: str, stores: Stores, words: Sequence[str]) -> AsyncIterator[Result]:
    if part == report.TASKS:
        for task in ordinary.LISTED:
            if _is_wanted(task.name, words):
                yield await play_task(task, stores.fresh())
        return
    for sink in sinks.COUNTED if part == report.SINKS else sinks.OTHERS:
        for role in ROLES if _is_wanted(sink.name, words) else ():
            yield await play_sink(sink, role, stores.fresh())


def _is_wanted(name: str, words: Sequence[str]) -> bool:
    return not words or any(word in name for word in words)


def write(line: str) -> None:
    """Print a line."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
