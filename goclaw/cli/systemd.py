"""Talking to the user's systemd, where there is one, about our unit."""

import os
import shutil
import subprocess
from collections.abc import Mapping

from goclaw.cli.unit import NAME
from goclaw.errors import StateError

SECONDS = 120.0
"""Longer than systemd itself waits for a daemon to start (90 s) or to end."""


def is_installed() -> bool:
    """Whether this machine has systemd at all."""
    return shutil.which("systemctl") is not None


def answers() -> bool:
    """Whether this user's systemd can be reached: it cannot without a login session, nor in a container."""
    return is_installed() and _run("systemctl", "--user", "show", "--property=Version").returncode == 0


def control(*arguments: str) -> None:
    """Run `systemctl --user …`.

    Raises:
        StateError: it failed; the message has its words.
    """
    done = _run("systemctl", "--user", *arguments)
    if done.returncode != 0:
        words = (done.stderr or done.stdout).strip() or f"exit code {done.returncode}"
        raise StateError(f"`systemctl --user {' '.join(arguments)}` failed: {words}")


def forget() -> None:
    """Let systemd forget that our unit failed once, if it did."""
    _run("systemctl", "--user", "reset-failed", NAME)


def properties(*names: str) -> Mapping[str, str]:
    """Return properties of our unit from systemd; empty texts where it knows none or cannot be asked."""
    found = dict.fromkeys(names, "")
    if is_installed():
        done = _run("systemctl", "--user", "show", NAME, f"--property={','.join(names)}")
        pairs = (line.partition("=") for line in done.stdout.splitlines())
        found |= {name: value for name, _, value in pairs if name in found}
    return found


def main_pid() -> int | None:
    """Return the pid of the daemon that systemd runs for our unit; None when it runs none."""
    pid = properties("MainPID")["MainPID"]
    return int(pid) if pid.isdigit() and pid != "0" else None


def variables() -> frozenset[str]:
    """Return the names of the environment variables that this user's services get."""
    done = _run("systemctl", "--user", "show-environment")
    return frozenset(line.partition("=")[0] for line in done.stdout.splitlines())


def lingers() -> bool:
    """Whether this user's systemd runs without a login session, too."""
    if shutil.which("loginctl") is None:
        return False
    done = _run("loginctl", "show-user", str(os.getuid()), "--property=Linger", "--value")
    return done.stdout.strip() == "yes"


def _run(*command: str) -> "subprocess.CompletedProcess[str]":
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise StateError(f"`{' '.join(command)}` did not answer within {SECONDS:g} s") from None
