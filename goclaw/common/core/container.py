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

CONTROLS = ("start", "stop", "restart")
"""Commands that GoClaw and Docker Compose name alike."""


def is_container(root: Path = Path("/"), env: Mapping[str, str] = os.environ) -> bool:
    """Tell whether a container engine has started this process.

    Args:
        root: where the marks are looked for.
        env: the environment.
    """
    return bool(env.get(VARIABLE)) or any((root / name).exists() for name in MARKS)


@cache
def daemon_command(words: str) -> str:
    """Return, in backquotes, the command that does something to the daemon from where its operator is.

    A container ends with the daemon that is its program, so it is started, stopped and restarted from outside. In one
    that was made for something else, a machine for development for example, that is done as anywhere.

    Args:
        words: `start`, `stop` or `restart`; or a command for which no daemon may run, with its arguments.
    """
    if not is_gateway_container():
        return f"`goclaw {words}`"
    compose = f"{words} gateway" if words in CONTROLS else f"run --rm gateway {words}"
    return f"`docker compose {compose}`"


def is_gateway_container() -> bool:
    """Tell whether GoClaw is the program that this container runs, also below an `init`."""
    try:
        return is_container() and b"goclaw" in FIRST.read_bytes()
    except OSError:
        return False


def is_main_program(pid: int) -> bool:
    """Whether the process `pid` is the container's main program, which has no own session, unlike `goclaw start`."""
    return is_container() and os.getsid(pid) == os.getsid(1)
