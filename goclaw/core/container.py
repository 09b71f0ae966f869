"""Whether this process runs in a container, and what that changes in words for people."""

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path

MARKS = (".dockerenv", "run/.containerenv")
"""Files that Docker and Podman make in the root folder of each container."""
FIRST = Path("/proc/1/cmdline")
"""The command line of the program that the container runs."""
VARIABLE = "container"
"""Set by Podman, systemd-nspawn and our image (systemd's container interface); Kubernetes makes no file."""


def is_container(root: Path = Path("/"), env: Mapping[str, str] = os.environ) -> bool:
    """Tell whether a container engine has started this process.

    Args:
        root: where the marks are looked for.
        env: the environment.
    """
    return bool(env.get(VARIABLE)) or any((root / name).exists() for name in MARKS)


@cache
def restart_command() -> str:
    """Return the command, in backquotes, that restarts the daemon from where its operator is.

    A container ends with the daemon that is its program, so it is restarted from outside. In one that was made for
    something else, a machine for development for example, the daemon is restarted as anywhere.
    """
    return "`docker compose restart gateway`" if is_container() and runs_goclaw(FIRST) else "`goclaw restart`"


def runs_goclaw(command_line: Path) -> bool:
    """Tell whether a process runs GoClaw, also below an `init` that names it, by its file in /proc."""
    try:
        return b"goclaw" in command_line.read_bytes()
    except OSError:
        return False


def is_main_program(pid: int) -> bool:
    """Tell whether the process `pid` is what the container runs: unlike a daemon of `goclaw start`, it has no session
    of its own.
    """
    return is_container() and os.getsid(pid) == os.getsid(1)
