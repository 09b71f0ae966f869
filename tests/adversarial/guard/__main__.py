"""Plays ordinary tasks, each on a gateway of its own, and prints how they ended.

python -m tests.adversarial.guard                     all of it, on SQLite
python -m tests.adversarial.guard --store postgres    the same, on a Postgres from a wheel
python -m tests.adversarial.guard --only WORD         only what has the word in its name; may be repeated
python -m tests.adversarial.guard --output FILE       the results as JSON, too
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from tests.adversarial.guard.ordinary import LISTED
from tests.adversarial.guard.playing import Ended, Result, play_task
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
    parser.add_argument("--only", action="append", default=[], metavar="WORD")
    parser.add_argument("--output", type=Path, metavar="FILE")
    options = parser.parse_args()
    with open_stores(options.store) as stores:
        results = asyncio.run(play(stores, options.only))
    write(f"\n{sum(result.ended is not Ended.DONE for result in results)} of {len(results)} tasks asked or failed")
    if options.output:
        shown = [{"name": each.name, "role": each.role, "ended": each.ended, "why": each.why} for each in results]
        options.output.write_text(json.dumps({"store": options.store, "tasks": shown}, indent=1) + "\n")


async def play(stores: Stores, words: Sequence[str]) -> list[Result]:
    """Play the tasks whose names have one of the words; without words all of them."""
    results = []
    for task in LISTED:
        if not words or any(word in task.name for word in words):
            results.append(await play_task(task, stores.fresh()))
            write(f"{results[-1].ended:9} {results[-1].role:6} {results[-1].name}  {results[-1].why[:200]}")
    return results


def write(line: str) -> None:
    """Print a line."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
