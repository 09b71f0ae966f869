"""systemd, of this user or of the machine: the text and place of our unit, and calls of `systemctl` about it."""

import os
import pwd
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

from goclaw.common.config.load import Loaded
from goclaw.errors import StateError
from goclaw.program.cli.process import STOP_SECONDS

UNIT_NAME = "goclaw.service"
MARK = "# Made by `goclaw service install`"
"""First line of our units. One that begins otherwise is never touched."""
SYSTEM_UNITS = Path("/etc/systemd/system")
RUNTIME_DIR = "XDG_RUNTIME_DIR"
WATCHDOG_SECONDS = 60
"""Longer than any machine swaps or any disk stalls: a daemon that is silent for so long does not come back."""

_UNIT_TEXT = """\
{mark}; `goclaw service remove` takes it away. Installing again writes it anew:
# changes of your own belong into `{edit} goclaw`.

[Unit]
Description=GoClaw, a chat-bot gateway
{unit}
[Service]
{service}# The journal shows the lines under this name.
SyslogIdentifier=goclaw
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
WantedBy={wanted_by}
"""


_SYSTEM_UNIT = """\
# Without a network each channel tries again; with one the first try succeeds.
Wants=network-online.target
After=network-online.target
"""
_USER_LINE = """\
# The owner of the state folder.
User={user}
"""
CALL_SECONDS = 120.0
"""Longer than systemd itself waits for a daemon to start (90 s) or to end."""


class Manager(StrEnum):
    """Which systemd runs the daemon: the user's own, or the machine's."""

    USER = "user"
    SYSTEM = "system"

    @property
    def command(self) -> tuple[str, ...]:
        """The words with which commands for this systemd begin."""
        return ("systemctl", "--user") if self is Manager.USER else ("systemctl",)

    @property
    def journal(self) -> tuple[str, ...]:
        """The command that shows the journal of our unit."""
        return ("journalctl", "--user-unit" if self is Manager.USER else "--unit", UNIT_NAME)

    @property
    def unit_path(self) -> Path:
        """The place of our unit; the user's is in `XDG_CONFIG_HOME`, else `~/.config`."""
        if self is Manager.SYSTEM:
            return SYSTEM_UNITS / UNIT_NAME
        folder = os.environ.get("XDG_CONFIG_HOME", "")
        # The base directory specification: a relative path is to be ignored.
        base = Path(folder) if folder.startswith("/") else Path("~/.config").expanduser()
        return base / "systemd" / "user" / UNIT_NAME

    @property
    def target(self) -> str:
        """The target that starts the unit."""
        return "default.target" if self is Manager.USER else "multi-user.target"

    def unit_text(self, loaded: Loaded) -> str:
        """Return the unit that runs a daemon with this configuration. It holds no secrets and no environment variables.

        Raises:
            StateError: a path cannot be written into a unit.
        """
        command = [str(Path(sys.executable).absolute()), "-P", "-m", "goclaw"]
        state_dir = loaded.config.state_dir
        if loaded.path is not None and loaded.path.absolute() != state_dir / "config.yaml":
            command += ["--config", str(loaded.path.absolute())]
        is_system = self is Manager.SYSTEM
        return _UNIT_TEXT.format(
            mark=MARK,
            edit=" ".join((*self.command, "edit")),
            unit=_SYSTEM_UNIT if is_system else "",
            service=_USER_LINE.format(user=_quote(owner_name(state_dir), dollar="$")) if is_system else "",
            watchdog=WATCHDOG_SECONDS,
            command=" ".join(_quote(word, dollar="$$") for word in [*command, "gateway"]),
            state=_quote(f"GOCLAW_STATE_DIR={state_dir}", dollar="$"),
            stop=STOP_SECONDS,
            wanted_by=self.target,
        )

    def installed_unit(self) -> str | None:
        """Return the text of our installed unit; None when no unit or one of another origin is installed."""
        try:
            text = self.unit_path.read_text("utf-8")
        except (OSError, UnicodeDecodeError):
            return None
        return text if text.startswith(MARK) else None

    def answers(self) -> bool:
        """Whether it can be reached: a user's cannot without a login session, none can in a container."""
        return exists() and _run(*self.command, "show", "--property=Version").returncode == 0

    def control(self, *arguments: str) -> None:
        """Run `systemctl …`.

        Raises:
            StateError: it failed; the message has its words.
        """
        command = (*self.command, *arguments)
        done = _run(*command)
        if done.returncode != 0:
            words = (done.stderr or done.stdout).strip() or f"exit code {done.returncode}"
            remedy = (
                f"\nonly root may do that: sudo {' '.join(command)}" if self is Manager.SYSTEM and os.geteuid() else ""
            )
            raise StateError(f"`{' '.join(command)}` failed: {words}{remedy}")

    def forget(self) -> None:
        """Let systemd forget that our unit failed once, if it did."""
        _run(*self.command, "reset-failed", UNIT_NAME)

    def properties(self, *names: str) -> Mapping[str, str]:
        """Return properties of our unit from systemd; empty texts where it knows none or cannot be asked."""
        found = dict.fromkeys(names, "")
        if exists():
            done = _run(*self.command, "show", UNIT_NAME, f"--property={','.join(names)}")
            pairs = (line.partition("=") for line in done.stdout.splitlines())
            found |= {name: value for name, _, value in pairs if name in found}
        return found

    def main_pid(self) -> int | None:
        """Return the pid of the daemon that systemd runs for our unit; None when it runs none."""
        pid = self.properties("MainPID")["MainPID"]
        return int(pid) if pid.isdigit() and pid != "0" else None

    def variables(self) -> frozenset[str]:
        """Return the names of the environment variables that services get."""
        done = _run(*self.command, "show-environment")
        return frozenset(line.partition("=")[0] for line in done.stdout.splitlines())


def manager_of(pid: int | None) -> Manager | None:
    """Return the systemd that runs this process for our unit; None where none does."""
    return next((each for each in list_managers() if pid and each.main_pid() == pid), None)


def manager_for(loaded: Loaded) -> Manager | None:
    """Return the systemd with a unit of ours that runs a daemon with this configuration; None where none has one."""
    return next((each for each in list_managers() if each.installed_unit() == each.unit_text(loaded)), None)


def list_managers() -> list[Manager]:
    """Return each systemd that has a unit of ours."""
    return [each for each in Manager if each.installed_unit() is not None]


def owner_name(folder: Path) -> str:
    """Return the name of the user who owns a folder, or would, if it does not exist yet."""
    return user_name(folder.stat().st_uid if folder.exists() else os.geteuid())


def user_name(uid: int) -> str:
    """Return the name of a user, or the number of one without a name."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def exists() -> bool:
    """Whether this machine has systemd at all."""
    return shutil.which("systemctl") is not None


def lingers() -> bool:
    """Whether this user's systemd runs without a login session, too."""
    if shutil.which("loginctl") is None:
        return False
    done = _run("loginctl", "show-user", str(os.getuid()), "--property=Linger", "--value")
    return done.stdout.strip() == "yes"


def _quote(word: str, *, dollar: str) -> str:
    """Quote a word by systemd.syntax(7); `$` starts a variable in commands only."""
    if re.search(r"[\x00-\x1f\x7f]", word):
        raise StateError(
            f"{word!r} contains control characters, which a systemd unit cannot express: choose another path"
        )
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", dollar)
    return f'"{escaped}"' if re.search(r"[^\w@%+=:,./-]", escaped) else escaped


def _run(*command: str) -> "subprocess.CompletedProcess[str]":
    try:
        return subprocess.run(
            command, env=environment(), capture_output=True, text=True, timeout=CALL_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise StateError(f"`{' '.join(command)}` did not answer within {CALL_SECONDS:g} s") from None


def environment() -> dict[str, str]:
    """Return the environment for `systemctl`: `su` and cron lack the variable that leads to the user's systemd."""
    folder = Path("/run/user", str(os.geteuid()))
    found = {RUNTIME_DIR: str(folder)} if folder.is_dir() else {}
    return {**found, **os.environ}
