"""A daemon reached over TCP with an access token, in place of the Unix socket of this machine."""

import os
from dataclasses import field
from pathlib import Path
from urllib.parse import urlsplit

from goclaw.config.files import read_text, readable_by_others, shown_path
from goclaw.config.listening import is_loopback
from goclaw.errors import ConfigError
from goclaw.records import record
from goclaw.redact import remember
from goclaw.users import login_name

VARIABLE = "GOCLAW_TOKEN"
"""The environment variable that may hold the token: command lines are visible to all users of the machine."""
MAX_TOKEN_FILE = 1_000


@record
class RemoteDaemon:
    """The address of a remote daemon, and the credentials for it."""

    url: str
    """`http://host:port` or `https://host`, perhaps with the path under which a proxy has it."""
    token: str = field(repr=False)
    person: str = ""
    """The user of the token, once the daemon has reported it."""

    def __str__(self) -> str:
        return self.url


Way = Path | RemoteDaemon
"""To a daemon: its socket, or an address."""


def person_at(way: Way, session: str) -> str:
    """Return the actor key of the person at this terminal, by the rules of `servers.socket` and
    `servers.remote_terminals`."""
    if isinstance(way, RemoteDaemon):
        return way.person
    return session if session.startswith("tui:") else f"tui:{login_name()}"


def remote_of(url: str, token_file: Path | None, *, insecure: bool = False) -> tuple[RemoteDaemon, list[str]]:
    """Return the daemon at `url`, with the token from the file, else from `GOCLAW_TOKEN`; and warnings."""
    scheme, host = _address(url)
    if scheme == "http" and not is_loopback(host) and not insecure:
        raise ConfigError(
            f"{url} would send the token, and everything that is said, readable to whoever is on the way: use https "
            "(a proxy before the daemon) or a tunnel (ssh -L); --insecure sends it all the same"
        )
    warnings = []
    if token_file is not None:
        shown = shown_path(token_file)
        token = read_text(token_file, shown, MAX_TOKEN_FILE).strip()
        if mode := readable_by_others(token_file):
            warnings.append(f"{shown}: others can read this token (mode {mode:o}); `chmod 600` it")
    else:
        token = os.environ.get(VARIABLE, "").strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        where = shown_path(token_file) if token_file else VARIABLE
        raise ConfigError(f"{where} holds no token; `goclaw token add` makes one where the daemon runs")
    remember(token)
    return RemoteDaemon(url.rstrip("/"), token), warnings


def _address(url: str) -> tuple[str, str]:
    """Scheme and host."""
    try:
        parts = urlsplit(url)
        holds_more = parts.username is not None or parts.query or parts.fragment
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0 and not holds_more:
            return parts.scheme, parts.hostname
    except ValueError:
        pass
    raise ConfigError("--url should be like http://127.0.0.1:8137 or https://claw.example.org, and hold no token")
