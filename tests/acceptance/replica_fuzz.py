"""Three daemons on one Postgres, killed, paused, cut off and restarted at random; then the books are checked.

    python -m tests.acceptance.replica_fuzz --kills 1000 --seed 1 --output benchmarks/results/replicas-<date>.json
    python -m tests.acceptance.replica_fuzz … --resume       # goes on where an earlier run was ended
    python -m tests.acceptance.replica_fuzz --seed 1 --only 7   # one batch once more
    python -m tests.acceptance.replica_fuzz --unfenced --batches 1    # the negative control: it must fail

A run is many batches, each a world of its own from the seed and its number. The report is written after each one, with
the commit that was tried, and says the sums. What comes of a seed depends on the machine's clock, as in life.
"""

import argparse
import asyncio
import json
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from scripts._long import revision
from tests.acceptance.blows import HOLE, PAUSE, RESET, RESTART
from tests.acceptance.people import Habits
from tests.acceptance.replica_ledger import ReplicaOutcome
from tests.acceptance.replica_world import ALL_CHATS, SIMPLE_CHATS, STALL_SECONDS, lives_of, replica_world
from tests.acceptance.waiting import clock

KILLS_AT_ONCE = 60
"""In a batch: two to four minutes on two cores."""
WANTED = {"kills": 1_000, "pauses": 200, "restarts": 20, "cuts": 50}
"""Of a whole run; `--kills` scales the others."""
SUMMED = (
    *("kills", "messages", "answered_once", "stopped", "marked", "marked_twice_shown", "effects", "unknown"),
    *("previews_left", "takeovers", "refused_starts", "outage_notices", "approvals_repeated"),
    *("presses", "paused_edits"),
)
COUNTED = ("lost", "unmarked_duplicates", "effects_twice", "out_of_order", "transcript_order", "old_epochs", "stuck")
"""What must not happen, in numbers beside the words."""


@dataclass
class Report:
    """The file: every batch so far, and the sums."""

    path: Path | None
    batches: list[dict[str, Any]] = field(default_factory=list)

    def load(self) -> None:
        """Read what earlier runs did."""
        if self.path and self.path.exists():
            self.batches = json.loads(self.path.read_text())["batches"]

    def next_of(self, seed: str) -> int:
        """The number of the next batch of a seed."""
        return max((batch["batch"] for batch in self.batches if batch["seed"] == seed), default=-1) + 1

    def add(self, seed: str, number: int, seconds: float, found: ReplicaOutcome, **known: float) -> None:
        """Take a batch in, and write everything."""
        kept = {name: value for name, value in asdict(found).items() if value not in ([], {}, "", 0)}
        named = {"commit": revision(), "seed": seed, "batch": number, "seconds": round(seconds)}
        self.batches.append({**named, **known, **kept, "faults": found.faults})
        if self.path:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_text(f"{json.dumps(self.written(), indent=1)}\n")

    def written(self) -> dict[str, Any]:
        """What the file says."""
        commits = dict.fromkeys(batch["commit"] for batch in self.batches)
        return {
            "total": totals(self.batches),
            "by_commit": {
                commit: totals([batch for batch in self.batches if batch["commit"] == commit]) for commit in commits
            },
            "batches": self.batches,
        }


def totals(batches: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The sums of batches."""
    troubles = sum((Counter(batch.get("troubles", {})) for batch in batches), Counter[str]())
    at = sum((Counter(batch.get("kills_at", {})) for batch in batches), Counter[str]())
    return {
        "batches": len(batches),
        "seconds": sum(batch["seconds"] for batch in batches),
        **{name: sum(batch.get(name, 0) for batch in batches) for name in SUMMED},
        "pauses": troubles[PAUSE],
        "restarts": troubles[RESTART],
        "cuts": troubles[RESET] + troubles[HOLE],
        "troubles": dict(troubles),
        **{name: sum(len(batch.get(name, ())) for batch in batches) for name in COUNTED},
        "faults": [f"{batch['seed']}.{batch['batch']}: {fault}" for batch in batches for fault in batch["faults"]],
        "kills_at": dict(at.most_common()),
    }


def is_enough(sums: Mapping[str, Any], kills: int) -> bool:
    """Whether as much was tried as is wanted, for so many kills."""
    return all(sums[name] >= count * kills / WANTED["kills"] for name, count in WANTED.items())


async def batch(
    folder: Path, seed: str, number: int, kills: int, stall: float, *, chats: Mapping[int, Habits], fenced: bool
) -> ReplicaOutcome:
    """One world; in every other one Telegram calls the daemons. Its folder stays, with tables if that failed."""
    own = f"{seed}.{number}"
    made = replica_world(folder, own, chats=chats, stall=stall, fenced=fenced, called=number % 2 == 1)
    async with made as world:
        found = await world.run(lives_of(own, kills))
        if found.faults:
            await world.dump("books")
    return found


def run(options: argparse.Namespace) -> int:
    """Run batches until enough was tried; return the exit code."""
    report = Report(options.output)
    if options.resume:
        report.load()
    chats = SIMPLE_CHATS if options.simple else ALL_CHATS
    began, failed, done = clock.monotonic(), False, 0
    while not is_enough(totals(report.batches), options.kills):
        number = report.next_of(options.seed) if options.only is None else options.only
        folder, since = Path(tempfile.mkdtemp(prefix="replicas-")), clock.monotonic()
        found = asyncio.run(
            batch(
                folder, options.seed, number, options.at_once, options.stall, chats=chats, fenced=not options.unfenced
            )
        )
        report.add(options.seed, number, clock.monotonic() - since, found, stall_seconds=options.stall)
        tell(f"batch {options.seed}.{number}: {found.kills} kills, {found.troubles}, {found.messages} messages")
        if found.faults:
            failed = True
            again = f"python -m {__spec__.name} --seed {options.seed} --only {number} --at-once {options.at_once}"
            tell("\n".join(found.faults), f"see {folder}; again: {again}")
        else:
            shutil.rmtree(folder)
        done += 1
        if options.only is not None or done == options.batches:
            break
        if options.minutes and clock.monotonic() - began > 60 * options.minutes:
            break
    tell(json.dumps(totals(report.batches), indent=1))
    return int(failed)


def tell(*lines: str) -> None:
    """Print lines at once."""
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


def main() -> int:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=WANTED["kills"], help="until so many, and other things in scale")
    parser.add_argument("--at-once", type=int, default=KILLS_AT_ONCE, help="kills of a batch")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--batches", type=int, help="so many now")
    parser.add_argument("--minutes", type=float, help="begin no batch after so many")
    parser.add_argument(
        "--stall", type=float, default=STALL_SECONDS, help="`replica.stall_seconds`; longer where it is busy"
    )
    parser.add_argument("--only", type=int, help="this batch alone")
    parser.add_argument("--simple", action="store_true", help="people who want answers only: no commands, questions")
    parser.add_argument("--unfenced", action="store_true", help="the negative control: no epoch is checked")
    parser.add_argument("--resume", action="store_true", help="go on with the file")
    parser.add_argument("--output", type=Path)
    return run(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
