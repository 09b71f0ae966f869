"""Set up what scripts/run and scripts/test need, inside this folder only; nothing but the standard library.

    _bootstrap.py uv    install the pinned uv into .tools/uv and print its path
    _bootstrap.py run   also make .venv from requirements.lock (and from the locks of EXTRAS, where they are asked for)
    _bootstrap.py dev   also make .venv-dev from requirements-dev.lock

Exits 0 when everything is there, else 1 with one message that says what helps. Fast when nothing changed: each
environment keeps a stamp of what it was made from. Plugins live elsewhere (`goclaw plugin add`), and the start of
GoClaw restores them for a new environment. GOCLAW_INSTALL_FOR names the folder that an environment made here is going
to be moved into: `goclaw upgrade` makes it beside the one that runs.
"""

import fcntl
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).resolve().parent.parent
EXTRAS = {"WITH_PROVIDERS": "requirements-providers.lock", "WITH_POSTGRES": "requirements-postgres.lock"}
"""Variables that ask for an extra of pyproject.toml, and the lock that has it and everything else."""
PLUGINS = "goclaw.plugins"
"""The entry-point group of plugins."""
NO_PIP = """\
GoClaw's set-up needs pip, the venv module or uv. This Python has neither of the first two, and uv is not on PATH:
    {python}
On Debian and Ubuntu this helps:  apt-get install python3-venv
If you may not install packages, put the program uv into a folder that is on PATH."""
FIRST_USED = (
    "import goclaw.program.cli.frame, goclaw.program.cli.offline, goclaw.program.cli.serving, "
    "goclaw.clients.tui.app, goclaw.channels.telegram.channel"
)
"""Imports what the daemon, its Telegram, the command line and the terminal client begin with."""


class SetUpError(Exception):
    """The set-up cannot go on; the message says why and what helps."""


def main(arguments: list[str]) -> int:
    """Do what the one argument says; return the exit code."""
    if arguments not in (["uv"], ["run"], ["dev"]):
        print(__doc__, file=sys.stderr)
        return 2
    try:
        with alone(ROOT / ".tools"):
            uv = ensure_uv(ROOT)
            if arguments == ["uv"]:
                print(uv)
            elif arguments == ["run"]:
                chosen = [lock for variable, lock in EXTRAS.items() if os.environ.get(variable)]
                ensure_venv(uv, ROOT, ".venv", *(chosen or ["requirements.lock"]))
            else:
                ensure_venv(uv, ROOT, ".venv-dev", "requirements-dev.lock")
    except SetUpError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Let one set-up at a time work in `folder`; a second one waits for the first."""
    try:
        folder.mkdir(exist_ok=True)
        handle = (folder / "lock").open("w")
    except OSError as error:
        raise SetUpError(f"GoClaw's set-up must be able to write to {folder.parent}: {error}") from error
    with handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def ensure_uv(root: Path) -> Path:
    """Return the pinned uv, installed into a folder of its own; raise SetUpError when no way leads there."""
    folder, lock = root / ".tools" / "uv", root / "requirements-uv.lock"
    binary, stamp = folder / "bin" / "uv", folder / ".stamp"
    wanted = digest(lock.read_bytes(), sys.base_prefix, str(root))
    if binary.exists() and is_stamped(stamp, wanted):
        return binary
    shutil.rmtree(folder, ignore_errors=True)
    say("installing uv")
    requirements = ["--quiet", "--require-hashes", "--only-binary=:all:", "-r", str(lock)]
    if importlib.util.find_spec("ensurepip") and attempt([sys.executable, "-m", "venv", str(folder)]):
        call([str(folder / "bin" / "python"), "-m", "pip", "install", *requirements])
    elif importlib.util.find_spec("pip"):
        shutil.rmtree(folder, ignore_errors=True)
        call([sys.executable, "-m", "pip", "install", "--target", str(folder), *requirements])
    elif found := shutil.which("uv"):
        return Path(found)
    else:
        raise SetUpError(NO_PIP.format(python=sys.executable))
    # The program needs no Python: pip and setuptools are two fifths of the folder.
    shutil.rmtree(folder / "lib", ignore_errors=True)
    stamp.write_text(wanted)
    return binary


def ensure_venv(uv: Path, root: Path, name: str, *locks: str) -> None:
    """Make the virtual environment `name` hold exactly what `locks` list, and GoClaw itself as an editable."""
    venv, python = root / name, root / name / "bin" / "python"
    project = tomllib.loads((root / "pyproject.toml").read_text())
    # An environment knows its own path and its interpreter; when they change it is made anew.
    origin = digest(sys.version, sys.base_prefix, os.environ.get("GOCLAW_INSTALL_FOR") or str(root))
    files = [root / lock for lock in locks]
    content = digest(
        *(file.read_bytes() for file in files), repr(project["project"]), repr(project["build-system"]), origin
    )
    if python.exists() and is_stamped(venv / ".stamp", content):
        return
    say(f"installing {' and '.join(locks)} into {name}")
    warn_of_plugins(venv, "\n".join(file.read_text() for file in files))
    if not (python.exists() and is_stamped(venv / ".origin", origin)):
        call([str(uv), "venv", "--quiet", "--clear", "--python", sys.executable, str(venv)])
        (venv / ".origin").write_text(origin)
    (venv / ".stamp").unlink(missing_ok=True)
    pip = [str(uv), "pip"]
    # Compiled now, so that the first start is as quick as the next: of what people run only what they begin with, a
    # quarter of it all, unless their Python may not compile the rest when it is used.
    compiles_all = name != ".venv" or "PYTHONDONTWRITEBYTECODE" in os.environ
    compiling = ["--compile-bytecode"] if compiles_all else []
    call([*pip, "sync", "--quiet", "--require-hashes", *compiling, "--python", str(python), *map(str, files)])
    call([*pip, "install", "--quiet", "--no-deps", "--python", str(python), "--editable", str(root)])
    if not compiles_all:
        attempt([str(python), "-c", FIRST_USED])
    (venv / ".stamp").write_text(content)


def warn_of_plugins(venv: Path, lock: str) -> None:
    """Name the plugins that people installed into the environment by pip, which is about to hold the lock alone."""
    locked = {re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0] for line in lock.splitlines() if line[:1].isalnum()}
    ours = {normalized(name) for name in locked} | {"goclaw"}
    for folder in sorted(venv.glob("lib/python*/site-packages/*.dist-info")):
        points = folder / "entry_points.txt"
        name = folder.name.partition("-")[0]
        if (
            normalized(name) in ours
            or not points.is_file()
            or f"[{PLUGINS}]" not in points.read_text("utf-8", "replace")
        ):
            continue
        source = origin_of(folder) or normalized(name)
        print(
            f"goclaw set-up: the plugin {name} was installed into {venv.name}, which is made anew now and holds only "
            f"what GoClaw needs: it is gone. To have it stay: `goclaw plugin add {source}`",
            file=sys.stderr,
            flush=True,
        )


def origin_of(folder: Path) -> str:
    """Return where an installed package came from (PEP 610): a path, or `git+` and an address; empty: an index."""
    try:
        said = json.loads((folder / "direct_url.json").read_text("utf-8"))
        url = str(said["url"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    return f"git+{url}" if "vcs_info" in said else unquote(url.removeprefix("file://"))


def normalized(name: str) -> str:
    """Return the name of a package as indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def digest(*parts: bytes | str) -> str:
    """Return one hash over all parts."""
    joined = b"\0".join(part.encode() if isinstance(part, str) else part for part in parts)
    return hashlib.sha256(joined).hexdigest()


def is_stamped(stamp: Path, wanted: str) -> bool:
    """Tell whether `stamp` exists and says `wanted`."""
    return stamp.exists() and stamp.read_text() == wanted


def environment() -> dict[str, str]:
    """Return the environment for pip and uv: no questions, no downloads of Python, the user's own index and CAs."""
    env = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME")}
    env |= {"UV_PYTHON_DOWNLOADS": "never", "PIP_NO_INPUT": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    env.setdefault("PIP_ROOT_USER_ACTION", "ignore")
    # Compiled without columns, which only the marks below a traceback's lines need: 0.7 MB of the daemon's memory.
    env.setdefault("PYTHONNODEBUGRANGES", "1")
    # A company's certificate authority is usually known to the system, not to uv's built-in list.
    if Path("/etc/ssl/certs/ca-certificates.crt").exists():
        env.setdefault("UV_SYSTEM_CERTS", "1")
    # uv does not read pip's settings; a mirror set for pip is meant for every installer.
    if "PIP_INDEX_URL" in env:
        env.setdefault("UV_DEFAULT_INDEX", env["PIP_INDEX_URL"])
    if "PIP_CERT" in env:
        env.setdefault("SSL_CERT_FILE", env["PIP_CERT"])
    home = env.get("HOME", "")
    if not (home and os.access(home, os.W_OK)):
        env.setdefault("UV_CACHE_DIR", str(ROOT / ".tools" / "uv-cache"))
    return env


def attempt(command: list[str]) -> bool:
    """Run a command in silence; tell whether it succeeded."""
    done = subprocess.run(command, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, check=False)
    return done.returncode == 0


def call(command: list[str]) -> None:
    """Run a command with its output on stderr; raise SetUpError when it fails."""
    done = subprocess.run(command, env=environment(), stdin=subprocess.DEVNULL, stdout=sys.stderr, check=False)
    if done.returncode:
        raise SetUpError(f"GoClaw's set-up failed (exit code {done.returncode}): {' '.join(command)}")


def say(text: str) -> None:
    """Tell the person what takes time now; stdout belongs to the program that follows."""
    print(f"goclaw set-up: {text} ...", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
