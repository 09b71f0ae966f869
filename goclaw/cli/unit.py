"""The text of the systemd user unit that `goclaw service install` writes, and where it lies. Starts nothing."""

import os
import re
import sys
from pathlib import Path

from goclaw.cli.process import STOP_SECONDS
from goclaw.config.load import Loaded
from goclaw.errors import StateError

NAME = "goclaw.service"
MARK = "# Made by `goclaw service install`"
"""First line of our units. One that begins otherwise is never touched."""
WATCHDOG_SECONDS = 60
"""Longer than any machine swaps or any disk stalls: a daemon that is silent for so long does not come back."""

_TEXT = """\
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
    return base / "systemd" / "user" / NAME


def unit_text(loaded: Loaded) -> str:
    """Return the unit that runs a daemon with this configuration. It holds no secrets and no environment variables.

    Raises:
        StateError: a path cannot be written into a unit.
    """
    command = [str(Path(sys.executable).absolute()), "-P", "-m", "goclaw"]
    state_dir = loaded.config.state_dir
    if loaded.path is not None and loaded.path.absolute() != state_dir / "config.yaml":
        command += ["--config", str(loaded.path.absolute())]
    return _TEXT.format(
        mark=MARK,
        watchdog=WATCHDOG_SECONDS,
        command=" ".join(_quoted(word, dollar="$$") for word in [*command, "gateway"]),
        state=_quoted(f"GOCLAW_STATE_DIR={state_dir}", dollar="$"),
        stop=STOP_SECONDS,
    )


def installed() -> str | None:
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
