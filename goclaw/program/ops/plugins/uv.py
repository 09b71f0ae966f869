"""Runs uv: where it is found, what of our environment it gets, and its refusals in our words."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import Distribution
from pathlib import Path

import goclaw
from goclaw.common.core.redact import mask, printable
from goclaw.errors import StateError

NO_UV = (
    "GoClaw installs plugins with uv, which is missing; run `pip install uv` in GoClaw's environment, or install its "
    "extra `plugins` (`goclaw[plugins]`)"
)
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
_PASSED = re.compile(
    r"PATH|HOME|USER|LOGNAME|SHELL|LANG|LC_\w+|TZ|TMPDIR|XDG_\w+|SSH_AUTH_SOCK|GIT_\w+|SSL_CERT_\w+|UV_\w+|NETRC"
    r"|(?:https?|all|no)_proxy",
    re.IGNORECASE,
)
"""Variables that uv gets: builds of packages run foreign code, and need none of our keys."""
_WANTS = re.compile(
    r"(?P<who>[\w.-]+)(?:==(?P<version>[^\s,]+))? depends on (?P<name>[\w.-]+)(?P<wanted>(?:\[[^\]]*\])?[<>=!~][^\s]*)"
)
_PROGRESS = ("Using ", "Resolved ", "Prepared ", "warning: ", "   Building", "   Updating", "    Updated")
"""Beginnings of lines that are no reason."""
MAX_LINES = 6
"""Lines of a refusal that are repeated."""
MAX_LINE = 300


class InstallError(StateError):
    """A plugin cannot be installed; the message says why. Nothing was changed."""


def find_uv() -> Path:
    """Return uv: a checkout's own, that of the environment (the extra `plugins`), else the first on PATH.

    Raises:
        InstallError: uv is missing.
    """
    own = Path(goclaw.__file__).resolve().parent.parent / ".tools" / "uv" / "bin" / "uv"
    beside = Path(sys.executable).parent / "uv"
    for place in (own, beside):
        if os.access(place, os.X_OK):
            return place
    if found := shutil.which("uv"):
        return Path(found)
    raise InstallError(NO_UV)


def environment(cache: Path) -> dict[str, str]:
    """Return the environment for uv: no keys of ours, pip's index and certificates, no downloads of Python.

    `cache` is its cache where the home folder cannot be written to.
    """
    env = {name: value for name, value in os.environ.items() if _PASSED.fullmatch(name)}
    env |= {"UV_PYTHON_DOWNLOADS": "never", "UV_NO_PROGRESS": "1", "NO_COLOR": "1", "GIT_TERMINAL_PROMPT": "0"}
    # A company's certificate authority is known to the system, not to uv's own list.
    if CERTIFICATES.exists():
        env.setdefault("UV_SYSTEM_CERTS", "1")
    # uv does not read pip's settings; a mirror that is set for pip is meant for every installer.
    for pips, uvs in (("PIP_INDEX_URL", "UV_DEFAULT_INDEX"), ("PIP_CERT", "SSL_CERT_FILE")):
        if pips in os.environ:
            env.setdefault(uvs, os.environ[pips])
    if not os.access(env.get("HOME", ""), os.W_OK):
        env.setdefault("UV_CACHE_DIR", str(cache))
    return env


def run_uv(arguments: Sequence[str], folder: Path, seconds: float, ours: Mapping[str, Distribution]) -> None:
    """Run `uv pip install` with these arguments in a folder.

    Raises:
        InstallError: it failed or took too long; the message is its reason in short.
    """
    command = [str(find_uv()), "pip", "install", "--color", "never", *arguments]
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment(folder / "cache"),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise InstallError(f"uv did not finish within {seconds:g} s") from None
    except OSError as error:
        raise InstallError(f"{command[0]}: {error.strerror}") from None
    if done.returncode:
        raise InstallError(refusal(done.stderr, ours))


def refusal(output: str, ours: Mapping[str, Distribution]) -> str:
    """Return uv's reason: for a conflict with one of our packages the wanted and our version, else its own words.

    `ours`: our packages by their normalized names.
    """
    text = re.sub(r"\s+", " ", output)
    conflicts = []
    for found in _WANTS.finditer(text):
        name, wanted = found["name"], found["wanted"].rstrip(".,")
        has = ours.get(normalize(name))
        if has and f"{name}=={has.version}" in text and f"{name}{wanted}" != f"{name}=={has.version}":
            who = f"{found['who']} {found['version'] or ''}".strip()
            conflicts.append(f"{who} needs {name}{wanted}, but GoClaw has {name} {has.version}")
    if conflicts:
        return "; ".join(dict.fromkeys(conflicts))
    lines = [line.strip() for line in output.splitlines() if line.strip() and not line.startswith(_PROGRESS)]
    shown = [mask(printable(line))[:MAX_LINE] for line in lines[:MAX_LINES]]
    return "; ".join(shown).removeprefix("error: ") or "uv failed without a message"


def normalize(name: str) -> str:
    """Return the name of a package as indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()
