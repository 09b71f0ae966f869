"""`python cut_upgrade.py ARGUMENTS`: the command line of GoClaw, which notes each point of an upgrade, or dies at one.

Run by the environment of a made version (`versions`), so it imports nothing of the tests. A point is the beginning or
the end of a step (`engine.STEPS`) or of a function that changes something on disk. UPGRADE_POINTS names the file to
note them in; UPGRADE_KILL the number of the one to die at.
"""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from goclaw.program.cli import process
from goclaw.program.ops.upgrade import checkout, engine, journal, recovery, snapshot, trial

POINTS = Path(os.environ["UPGRADE_POINTS"])
KILL = int(os.environ.get("UPGRADE_KILL", "0"))
WRAPPED: dict[Any, tuple[str, ...]] = {
    journal: ("write", "remove", "mark_uncommitted", "unmark"),
    snapshot: ("create", "put_back", "drop"),
    checkout: ("guard", "unguard", "git", "rewrite_paths"),
    trial: ("copy_state", "run_trial"),
    engine: ("exchange", "back_up", "remove"),
    recovery: ("exchange", "remove"),
    process: ("_spawn",),
}
passed = 0


def pass_by(name: str) -> None:
    """Note a point, or die there."""
    global passed
    passed += 1
    with POINTS.open("a") as file:
        file.write(f"{passed} {name}\n")
    if passed == KILL:
        os.kill(os.getpid(), signal.SIGKILL)


def wrapped(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function with a point before and one after it."""

    def call(*arguments: Any, **named: Any) -> Any:
        pass_by(f"before {name}")
        result = function(*arguments, **named)
        pass_by(f"after {name}")
        return result

    return call


def main() -> None:
    """Run the command line."""
    engine.STEPS = tuple((words, wrapped(words, step)) for words, step in engine.STEPS)
    for module, names in WRAPPED.items():
        for name in names:
            setattr(module, name, wrapped(f"{module.__name__.rpartition('.')[2]}.{name}", getattr(module, name)))
    from goclaw.__main__ import main as run

    run()


if __name__ == "__main__":
    sys.argv[0] = "goclaw"
    main()
