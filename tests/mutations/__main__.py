"""Plants each bug of the list in a copy of the tree, runs the tests that should notice it, and says which did.

    python -m tests.mutations                    every bug, in a copy of the working tree
    python -m tests.mutations --revision HEAD    in a copy of what is committed
    python -m tests.mutations symbolic audit     those whose name has one of these words
    … --write FILE                               keep the result (benchmarks/results/mutations-<day>.json)

A bug counts as caught when a test fails with it and passes without it.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from queue import SimpleQueue

from goclaw.common.core.clock import RealClock
from tests import house
from tests.mutations.bug import Bug
from tests.mutations.every import BUGS

FAILED = 1
"""Exit code of pytest when tests ran and some failed. Any other one proves nothing."""
FAILURE = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)
HANGS = re.compile(r"\+ Timeout \+|^Timeout \(", re.MULTILINE)
"""What pytest-timeout prints of a test that hangs, and what the stacks of one begin with whose process was ended."""
SECONDS = 300
"""For the tests of one bug; one test has less (`timeout` in pyproject.toml)."""


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one bug."""

    name: str
    origin: str
    files: list[str]
    caught: bool
    by: str
    """The first test that failed; or why that is not known."""
    seconds: float


def main() -> int:
    """The exit code: 0 when every bug was caught."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*", help="only bugs whose name has one of them")
    parser.add_argument("--revision", help="a revision of git in place of the working tree")
    parser.add_argument("--jobs", type=int, default=1, help="how many bugs are tried at once")
    parser.add_argument("--write", type=Path, help="where to keep the result, as JSON")
    given = parser.parse_args()
    if given.revision:
        given.revision = commit_of(given.revision)  # it may move on meanwhile
    bugs = [bug for bug in BUGS if not given.words or any(word in bug.name for word in given.words)]
    with tempfile.TemporaryDirectory(prefix="goclaw-mutations-") as folder:
        results = tried_all(bugs, Path(folder), given.revision, given.jobs, given.write)
    missed = [result for result in results if not result.caught]
    say(
        f"\n{len(results) - len(missed)} of {len(results)} caught"
        + "".join(f"\n  missed: {one.name}" for one in missed)
    )
    if given.write:
        given.write.write_text(
            json.dumps(report(results, given.revision), indent=1, ensure_ascii=False) + "\n", "utf-8"
        )
    return 1 if missed else 0


def tried_all(bugs: Sequence[Bug], folder: Path, revision: str | None, jobs: int, write: Path | None) -> list[Result]:
    """Try every bug, each in a copy of its own meanwhile."""
    free: SimpleQueue[Path] = SimpleQueue()
    for number in range(jobs):
        copied(revision, folder / str(number))
        check_copy(folder / str(number))
        free.put(folder / str(number))
    broken: set[str] = set()

    def one(bug: Bug) -> Result:
        copy = free.get()
        try:
            return tried(bug, copy, broken)
        finally:
            free.put(copy)

    results: dict[str, Result] = {}
    left = list(bugs)
    while left:
        with ThreadPoolExecutor(jobs) as pool:
            for result in pool.map(one, left):
                results[result.name] = result
                if write:
                    keep(write, list(results.values()), revision)
        found = {result.by for result in results.values() if result.caught} - broken
        news = failing(folder / "0", sorted(found))
        broken |= news
        left = [bug for bug in bugs if results[bug.name].by in news]
    return [results[bug.name] for bug in bugs]


def failing(copy: Path, tests: Sequence[str]) -> set[str]:
    """Those of the tests that fail in a copy without any bug: they prove nothing."""
    if not tests:
        return set()
    found = set(FAILURE.findall(run(copy, tests).stdout))
    for test in sorted(found):
        say(f"fails without any bug: {test}")
    return found & set(tests)


def commit_of(revision: str) -> str:
    """The short name of a commit."""
    command = ["git", "rev-parse", "--short", revision]
    return subprocess.run(command, cwd=house.ROOT, capture_output=True, text=True, check=True).stdout.strip()


def say(line: str) -> None:
    """Show a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def copied(revision: str | None, to: Path) -> None:
    """Put the tree of a revision, or the files of the working tree that git knows or does not ignore, at `to`."""
    to.mkdir()
    if revision:
        archive = subprocess.run(["git", "archive", revision], cwd=house.ROOT, capture_output=True, check=True).stdout
        subprocess.run(["tar", "-x"], cwd=to, input=archive, check=True)
        return
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=house.ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, names.split("\0")):
        if (house.ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(house.ROOT / name, to / name)


def check_copy(copy: Path) -> None:
    """End here if the tests would not run what is in the copy."""
    command = [sys.executable, "-c", "import goclaw; print(goclaw.__file__)"]
    found = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=True).stdout.strip()
    if not Path(found).is_relative_to(copy.resolve()):
        raise SystemExit(f"the tests would import {found}, not the copy")


def tried(bug: Bug, copy: Path, broken: set[str]) -> Result:
    """Plant the bug, run its tests but those in `broken` until one fails, take the bug out again."""
    began, by = time.monotonic(), "it does not fit into this tree"
    if all(patch.places(copy) == 1 for patch in bug.patches):
        with planted(bug, copy):
            by = first_failure(bug, copy, broken)
    seconds = round(time.monotonic() - began, 1)
    caught = by.startswith("tests/") and ": exit code" not in by
    say(f"{'caught' if caught else 'MISSED':7} {seconds:5.1f} s  {bug.name}  ({by})")
    return Result(bug.name, bug.origin, sorted({patch.path for patch in bug.patches}), caught, by, seconds)


def first_failure(bug: Bug, copy: Path, broken: set[str]) -> str:
    """The id of the first test that fails; else words."""
    reasons = []
    for test in bug.tests:
        if not (copy / test.partition("::")[0]).is_file():
            continue
        try:
            done = run(copy, ["-x", test, *(f"--deselect={one}" for one in sorted(broken))])
        except subprocess.TimeoutExpired:
            return f"no result within {SECONDS} s"
        failed = FAILURE.search(done.stdout)
        if done.returncode == FAILED and failed:
            return failed[1]
        if done.returncode == FAILED and HANGS.search(f"{done.stdout}\n{done.stderr}"):
            return f"{test} (it hangs)"
        if not re.search(r"\d+ (passed|failed|skipped|deselected|error)", done.stdout):
            raise SystemExit(f"pytest does not run: {done.stdout[-500:]}{done.stderr[-500:]}")
        reasons.append(f"{test}: exit code {done.returncode}")
    return "; ".join(reasons) or "none of its tests is there"


def run(copy: Path, arguments: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    """Run tests in the copy."""
    command = [sys.executable, "-m", "pytest", "-q", "--tb=no", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=copy, capture_output=True, text=True, timeout=SECONDS, check=False)


@contextmanager
def planted(bug: Bug, copy: Path) -> Iterator[None]:
    """The bug is in the copy while the block runs."""
    before = {patch.path: (copy / patch.path).read_bytes() for patch in bug.patches}
    for patch in bug.patches:
        patch.apply(copy)
    try:
        forget_compiled(copy, before)
        yield
    finally:
        for path, content in before.items():
            (copy / path).write_bytes(content)
        forget_compiled(copy, before)


def forget_compiled(copy: Path, paths: "dict[str, bytes]") -> None:
    """A change within the same second and of the same length would not be noticed."""
    for path in paths:
        for compiled in (copy / path).parent.glob(f"__pycache__/{Path(path).stem}.*"):
            compiled.unlink()


def keep(path: Path, results: Sequence[Result], revision: str | None) -> None:
    """Write what is known so far."""
    path.write_text(json.dumps(report(results, revision), indent=1, ensure_ascii=False) + "\n", "utf-8")


def report(results: Sequence[Result], revision: str | None) -> dict[str, object]:
    """What is kept."""
    found = commit_of(revision or "HEAD")
    caught = sum(result.caught for result in results)
    return {
        "made": datetime.fromtimestamp(RealClock().now(), UTC).date().isoformat(),
        "revision": found if revision else f"{found} and the working tree",
        "planted": len(results),
        "caught": caught,
        "share": round(caught / len(results), 3) if results else 0,
        "bugs": [asdict(result) for result in results],
    }


if __name__ == "__main__":
    sys.exit(main())
