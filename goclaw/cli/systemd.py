"""The user's systemd: the text and place of our unit, and calls of `systemctl --user` about it."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from goclaw.cli.process import STOP_SECONDS
from goclaw.config.load import Loaded
from goclaw.errors import StateError

UNIT_NAME = "goclaw.service"
MARK = "# Made by `goclaw service install`"
"""First line of our units. One that begins otherwise is never touched."""
WATCHDOG_SECONDS = 60
"""Longer than any machine swaps or any disk stalls: a daemon that is silent for so long does not come back."""

_UNIT_TEXT = """\
{mark}; `goclaw service remove` takes it away. Installing again writes it anew:
# changes of your own belong into `systemctl --user edit goclaw`.

[Unit]
Description=GoClaw, a chat-bot gateway

[Service]
# The daemon says when it answers, and from then on that its event loop lives; one that falls silent is ended.
Type=notify
WatchdogSec={watchdog}
ExecStart={command}
Environment={state}
# However it ends, but for a stop: it takes up what was unfinished. 78 says that the configuration must be mended first.
Restart=on-failure
RestartSec=5
RestartPreventExitStatus=78
# Only the daemon is asked to end: commands that it runs may finish in the time that it gives them. Then all are killed.
KillMode=mixed
TimeoutStopSec={stop:g}
# A command that takes all memory is killed alone; the default would stop the daemon with it.
OOMPolicy=continue
# Neither the daemon nor anything that it runs gains rights through sudo and the like.
NoNewPrivileges=yes
# A core file would hold every key in plain text.
LimitCORE=0
# Left out on purpose: ProtectSystem=, PrivateTmp=, RestrictNamespaces=, SystemCallFilter= and their kind. bubblewrap
# must make namespaces and mounts of its own, which contain each command of the agent far more narrowly.

[Install]
WantedBy=default.target
"""


def unit_path() -> Path:
    """Return the folder of this user's units: `XDG_CONFIG_HOME`, else `~/.config`."""
    folder = os.environ.get("XDG_CONFIG_HOME", "")
    # The base directory specification: a relative path is to be ignored.
    base = Path(folder) if folder.startswith("/") else Path("~/.config").expanduser()
    return base / "systemd" / "user" / UNIT_NAME


def unit_text(loaded: Loaded) -> str:
    """Return the unit that runs a daemon with this configuration. It holds no secrets and no environment variables.

    Raises:
        StateError: a path cannot be written into a unit.
    """
    command = [str(Path(sys.executable).absolute()), "-P", "-m", "goclaw"]
    state_dir = loaded.config.state_dir
    if loaded.path is not None and loaded.path.absolute() != state_dir / "config.yaml":
        command += ["--config", str(loaded.path.absolute())]
    return _UNIT_TEXT.format(
        mark=MARK,
        watchdog=WATCHDOG_SECONDS,
        command=" ".join(_quoted(word, dollar="$$") for word in [*command, "gateway"]),
        state=_quoted(f"GOCLAW_STATE_DIR={state_dir}", dollar="$"),
        stop=STOP_SECONDS,
    )


def installed_unit() -> str | None:
    """Return the text of our installed unit; None when no unit or one of another origin is installed."""
    try:
        text = unit_path().read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    return text if text.startswith(MARK) else None


def _quoted(word: str, *, dollar: str) -> str:
    """Quote a word by systemd.syntax(7); `$` starts a variable in commands only."""
    if re.search(r"[\x00-\x1f\x7f]", word):
        raise StateError(f"{word!r} holds control characters, which a systemd unit cannot: choose another path")
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", dollar)
    return f'"{escaped}"' if re.search(r"[^\w@%+=:,./-]", escaped) else escaped


CALL_SECONDS = 120.0
"""Longer than systemd itself waits for a daemon to start (90 s) or to end."""


def exists() -> bool:
    """Whether this machine has systemd at all."""
    return shutil.which("systemctl") is not None


def answers() -> bool:
    """Whether this user's systemd can be reached: it cannot without a login session, nor in a container."""
    return exists() and _run("systemctl", "--user", "show", "--property=Version").returncode == 0


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
    _run("systemctl", "--user", "reset-failed", UNIT_NAME)


def properties(*names: str) -> Mapping[str, str]:
    """Return properties of our unit from systemd; empty texts where it knows none or cannot be asked."""
    found = dict.fromkeys(names, "")
    if exists():
        done = _run("systemctl", "--user", "show", UNIT_NAME, f"--property={','.join(names)}")
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
        return subprocess.run(command, capture_output=True, text=True, timeout=CALL_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise StateError(f"`{' '.join(command)}` did not answer within {CALL_SECONDS:g} s") from None
