"""`python -m tests.common.workspace.races --swaps 1000000 --output FILE`: names that are exchanged while they are used.

Another process exchanges files and folders with links that lead outside, with hard links of the daemon's files, and
the folder of the notes with another one, as fast as the kernel does it. Meanwhile every operation of a workspace is
used with the eyes of one person. Whatever is found of the outside, of the daemon's files or of others' notes escaped.
"""

import argparse
import asyncio
import ctypes
import itertools
import json
import multiprocessing
import os
import platform
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from ctypes import c_long
from dataclasses import dataclass, field
from multiprocessing.sharedctypes import RawValue
from pathlib import Path

from goclaw.common.workspace import Workspace
from goclaw.errors import ToolError

SECRET = "secret"
ME, OTHER = "telegram:5", "telegram:6"
PAIRS = (
    ("door", "evil"),
    ("file", "link"),
    ("plain", "hard"),
    ("memory", "memory-2"),
    ("deep/door", "deep/evil"),
    ("chain", "mine"),
)
_EXCHANGE, _HERE = 2, -100  # RENAME_EXCHANGE, AT_FDCWD
SECONDS = 1_200


@dataclass
class Report:
    """What came of it."""

    swaps: int
    way: str
    seconds: float = 0
    escapes: list[str] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class Scene:
    """A workspace beside things that are none of its business."""

    folder: Path

    @property
    def root(self) -> Path:
        return self.folder / "work"

    @property
    def state(self) -> Path:
        return self.folder / "state"

    def lay(self) -> None:
        """Make it."""
        work, outside = self.root, self.folder / "outside"
        for path in ("work/door", "work/deep/door", "work/mine", "work/memory", "work/memory-2/users", "outside/users"):
            (self.folder / path).mkdir(parents=True)
        for name in (ME, OTHER):
            (self.state / "notes" / name).mkdir(parents=True)
            (self.state / "notes" / name / "n.md").write_text(SECRET if name == OTHER else "inside")
        for path in ("file", "door/file", "deep/door/file", "plain", "mine/n.md"):
            (work / path).write_text("inside")
        for path in ("file", "n.md", "escaped.md"):
            (outside / path).write_text(SECRET)
        (self.state / "goclaw.db").write_text(SECRET)
        (work / "hard").hardlink_to(self.state / "goclaw.db")
        (work / "evil").symlink_to("../outside")
        (work / "deep" / "evil").symlink_to(outside)
        (work / "link").symlink_to("../outside/file")
        (work / "chain").symlink_to(f"memory/users/{ME}/../{OTHER}")

    def protected(self) -> dict[str, str]:
        """What must be as it was."""
        theirs = f"state/notes/{OTHER}"
        found = [path for name in ("outside", "state", theirs) for path in (self.folder / name).iterdir()]
        found = [path for path in found if path.is_file()]
        return {f"{path.parent.name}/{path.name}": path.read_text() for path in found}


def swap(root: str, left: c_long) -> None:
    """Exchange one pair after the other, so many times."""
    renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    pairs = [tuple(os.fsencode(f"{root}/{name}") for name in pair) for pair in PAIRS]
    for one, other in itertools.cycle(pairs):
        if left.value <= 0:
            return
        if renameat2(_HERE, one, _HERE, other, _EXCHANGE) == 0:
            left.value -= 1


@contextmanager
def swapping(root: Path, swaps: int) -> Iterator[c_long]:
    """Another process at it; what is left to do."""
    context = multiprocessing.get_context("spawn")
    left: c_long = RawValue(c_long, swaps)
    process = context.Process(target=swap, args=(str(root), left), daemon=True)
    process.start()
    try:
        yield left
    finally:
        left.value = 0
        process.join(20)


async def race(folder: Path, swaps: int) -> Report:
    """Use everything while the names change; the report says what was found."""
    scene = Scene(folder)
    scene.lay()
    before = scene.protected()
    async with Workspace(scene.root, [scene.state], notes=scene.state / "notes") as whole:
        way = "walk" if whole._resolver.workspace_root.by_walk else "openat2"
        report, began = Report(swaps, way), time.monotonic()
        with swapping(scene.root, swaps) as left:
            for number in itertools.count():
                for name, use in _uses(whole.seen_by(ME), number):
                    await _try(name, use, report)
                if left.value <= 0:
                    break
                assert time.monotonic() - began < SECONDS, f"{left.value} exchanges are left"
    report.seconds = round(time.monotonic() - began, 1)
    if (after := scene.protected()) != before:
        report.escapes.append(f"{before} became {after}")
    return report


async def _try(name: str, use: Callable[[], Awaitable[object]], report: Report) -> None:
    try:
        found = str(await use())
    except ToolError as error:
        report.refused[name] += 1
        found = str(error).partition(": ")[0]  # behind it stands the name that was asked for
    else:
        report.done[name] += 1
    if SECRET in found or "escaped" in found or f"{OTHER}/" in found:
        report.escapes.append(f"{name}: {found[:200]}")


def _uses(workspace: Workspace, number: int) -> Iterator[tuple[str, Callable[[], Awaitable[object]]]]:
    """One use of each kind, of another name each time."""
    folders = ("door", "deep/door", "chain", "mine", f"memory/users/{OTHER}", f"memory-2/users/{OTHER}")
    files = ("file", "plain", "link", "hard", "door/file", "deep/door/file", "chain/n.md", "mine/n.md")
    notes = tuple(f"{memory}/users/{OTHER}/n.md" for memory in ("memory", "memory-2"))
    file, folder = (*files, *notes)[number % (len(files) + len(notes))], folders[number % len(folders)]
    for _ in range(4):
        yield "read", lambda: workspace.read_bytes(file)
        yield "stat", lambda: _answered(workspace.stat(file))
    yield "list", lambda: workspace.paths_in(folder)
    yield "folder", lambda: _answered(workspace.folder(folder))
    if number % 8 == 0:
        yield "walk", lambda: workspace.walk(["**/*.md", "memory*/**/*"])
        yield "paths", lambda: workspace.paths()
        yield "write", lambda: _answered(workspace.write_bytes(f"{folder}/new-{number % 7}", b"inside"))
        yield "overwrite", lambda: _answered(workspace.write_bytes(file, b"inside"))
        yield "edit", lambda: _answered(_edit(workspace, file))
        yield "keep", lambda: _answered(workspace.add_bytes(f"{folder}/kept-{number % 7}", b"inside"))


async def _answered(use: Awaitable[object]) -> str:
    await use
    return ""


async def _edit(workspace: Workspace, path: str) -> None:
    version = (await workspace.stat(path)).version
    await workspace.write_bytes(path, b"inside", unless_changed=version)


def main() -> int:
    """Run it once and keep what came of it."""
    parser = argparse.ArgumentParser(prog="races", description=__doc__)
    parser.add_argument("--swaps", type=int, default=1_000_000)
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="goclaw-races-") as folder:
        report = asyncio.run(race(Path(folder), given.swaps))
    machine = {"python": platform.python_version(), "kernel": platform.release(), "cores": os.cpu_count()}
    command = f"python -m tests.common.workspace.races --swaps {given.swaps}"
    text = json.dumps({"command": command, **machine, **vars(report)}, indent=2)
    sys.stdout.write(f"{text}\n")
    if given.output:
        given.output.write_text(f"{text}\n", "utf-8")
    return 1 if report.escapes else 0


if __name__ == "__main__":
    raise SystemExit(main())
