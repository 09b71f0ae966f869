"""Restores again and again, each time killed some changes of the disk later, and says what state each kill left.

Started by `test_swap.py` with a folder and the number of changes from one kill to the next. Prints one line for each
kill: `old`, `new`, or what is wrong. A process of its own, because it forks: what it loaded is loaded once.
"""

import contextlib
import io
import os
import shutil
import signal
import sys
from pathlib import Path

from goclaw.program.cli.program import run
from goclaw.program.ops.backup.swap import pending
from tests.program.ops.backup.support import Home, tree

CHANGES = {"os.rename", "os.link", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "os.symlink", "os.utime"}
MOST = 1_000


def prepared(folder: Path) -> Home:
    """A small home that has gone on since its backup."""
    home = Home(folder)
    home.configure(log_level="INFO")
    home.say("old times", picture=b"a picture")
    home.workspace.mkdir()
    (home.workspace / "note.md").write_text("INFO")
    home.back_up()
    home.configure(log_level="DEBUG")
    home.say("new times")
    (home.workspace / "note.md").write_text("DEBUG")
    return home


def die_at(change: int) -> None:
    """Kill this process at its change number `change` of the disk."""
    seen = 0

    def count(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal seen
        writes = event == "open" and isinstance(flags := arguments[2], int) and flags & (os.O_WRONLY | os.O_RDWR)
        if event in CHANGES or writes:
            seen += 1
            if seen == change:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)


def restored_until(home: Home, change: int) -> bool:
    """Restore in a child that dies at `change`; returns whether it came to its end."""
    child = os.fork()
    if child == 0:
        die_at(change)
        home.restore()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return not os.WIFSIGNALED(status) and os.waitstatus_to_exitcode(status) == 0


def state_of(home: Home) -> str:
    """What a command finds."""
    os.environ["GOCLAW_STATE_DIR"] = str(home.state)
    was_pending = pending(home.state)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as errors:
        code = run(["config", "show"])
    level, note = home.loaded().config.log_level, (home.workspace / "note.md").read_text()
    found = (code, level, note, "new times" in home.texts(), "finished" in errors.getvalue(), pending(home.state))
    pictures = len(tree(home.state / "blobs" / "media"))
    if found == (0, "DEBUG", "DEBUG", True, False, False) and pictures == 2:
        return "old"
    if found == (0, "INFO", "INFO", False, was_pending, False) and pictures == 2:
        return "new"
    return f"wrong: {found} {pictures} {errors.getvalue()}"


def main(folder: Path, step: int) -> None:
    prepared(folder / "first")
    for change in range(1, MOST, step):
        home = Home(folder / "trial")
        shutil.copytree(folder / "first", home.folder)
        ended = restored_until(home, change)
        sys.stdout.write(f"{state_of(home)}{' ended' if ended else ''}\n")
        shutil.rmtree(home.folder)
        if ended:
            return


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
