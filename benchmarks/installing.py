"""`python -m benchmarks.installing [--write]`: what a fresh set-up takes, in seconds and megabytes, by package.

Three ways, each from a copy of what git tracks: `scripts/run` (its set-up), `pip install .` and `uv tool install .`,
each until the demo model has answered `goclaw send hello`. First with an empty cache of packages, then with the one
that this has filled. By hand: it needs the package index, and its seconds are those of the way there. Megabytes are
blocks on the disk, in the units of `du -m`.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.figures import Json
from benchmarks.gateways import ROOT
from benchmarks.tables import RESULTS

MB = 1 << 20
SHOWN = 14
"""Packages of the table; the others are one row."""
BY_PACKAGE = """
import json
from importlib.metadata import distributions
from importlib.util import cache_from_source
from pathlib import Path

def blocks(path):
    return path.stat().st_blocks * 512 if path.is_file() else 0

sizes = {}
for each in distributions():
    files = {Path(each.locate_file(file)).resolve() for file in each.files or ()}
    files |= {Path(cache_from_source(file)) for file in files if file.suffix == ".py"}
    compiled = sum(blocks(file) for file in files if file.suffix == ".pyc")
    sizes[each.metadata["Name"]] = [sum(map(blocks, files)), compiled]
print(json.dumps(sizes))
"""


def main(*, write: bool) -> int:
    """Measure, print the tables, keep the figures with `write`; return the exit code."""
    with tempfile.TemporaryDirectory(prefix="goclaw-installing-") as name:
        folder = Path(name)
        ways = {way: measure(way, folder / way) for way in ("run", "pip", "uv")}
    print(table(ways))
    if write:
        commit = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
        )
        kept = {"commit": commit.stdout.strip(), "python": sys.version.split()[0], "ways": ways}
        path = RESULTS / f"{datetime.now(UTC).date()}-installing.json"
        path.write_text(json.dumps(kept, indent=1) + "\n", "utf-8")
    return 0


def measure(way: str, folder: Path) -> Json:
    """Return the figures of one way to install, with a cold and a warm cache."""
    figures: Json = {"seconds": [], "answer": []}
    for _ in ("cold", "warm"):
        source = folder / "checkout"
        shutil.rmtree(source, ignore_errors=True)
        shutil.rmtree(folder / "installed", ignore_errors=True)
        copy_tracked(source)
        began = time.monotonic()
        program, places = install(way, source, folder)
        figures["seconds"].append(round(time.monotonic() - began, 1))
        began = time.monotonic()
        said = call([program, "send", "hello"], folder, **state(folder))
        figures["answer"].append(round(time.monotonic() - began, 1))
        assert "You said: hello" in said, said
        figures["megabytes"] = {place.name: megabytes(place) for place in places}
        figures["packages"] = json.loads(call([program.resolve().parent / "python", "-c", BY_PACKAGE], folder))
    return figures


def install(way: str, source: Path, folder: Path) -> tuple[Path, list[Path]]:
    """Install from a checkout; return the program, and the folders that this made."""
    into = folder / "installed"
    if way == "run":
        call([sys.executable, source / "scripts" / "_bootstrap.py", "run"], folder)
        return source / ".venv" / "bin" / "goclaw", [source / ".venv", source / ".tools"]
    if way == "pip":
        call([sys.executable, "-m", "venv", into], folder)
        call([into / "bin" / "python", "-m", "pip", "install", "--quiet", source], folder)
        return into / "bin" / "goclaw", [into]
    tools = {"UV_TOOL_DIR": str(into), "UV_TOOL_BIN_DIR": str(folder / "bin")}
    uv = ROOT / ".tools" / "uv" / "bin" / "uv"
    call([uv, "tool", "install", "--quiet", "--force", "--python", sys.executable, source], folder, **tools)
    return into / "goclaw" / "bin" / "goclaw", [into]


def copy_tracked(to: Path) -> None:
    """Copy the files that git tracks, as they are now."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, to / name)


def state(folder: Path) -> dict[str, str]:
    """Return the variables of a new installation without a model."""
    return {"GOCLAW_STATE_DIR": tempfile.mkdtemp(dir=folder), "OLLAMA_HOST": "http://127.0.0.1:9"}


def call(command: list[str | Path], folder: Path, **more: str) -> str:
    """Run a command with caches of its own; return what it printed."""
    caches = {"UV_CACHE_DIR": str(folder / "uv-cache"), "PIP_CACHE_DIR": str(folder / "pip-cache")}
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONDONTWRITEBYTECODE", "VIRTUAL_ENV")}
    home = {"HOME": str(folder), "UV_SYSTEM_CERTS": "1"}
    done = subprocess.run(
        command, cwd=folder, env={**kept, **home, **caches, **more}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{command[0]} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def megabytes(folder: Path) -> float:
    """Return the blocks of a folder on the disk."""
    files = {(file.stat().st_ino, file.stat().st_blocks) for file in folder.rglob("*") if not file.is_symlink()}
    return round(sum(blocks for _, blocks in files) * 512 / MB, 1)


def table(ways: Json) -> str:
    """Return both tables in Markdown."""
    names = {"run": "`scripts/run`", "pip": "`pip install .`", "uv": "`uv tool install .`"}
    lines = [
        "| way | seconds, empty cache | filled cache | first answer, after each | MB |",
        "|---|---|---|---|---|",
    ]
    for way, figures in ways.items():
        (cold, warm), answers = figures["seconds"], figures["answer"]
        parts = ", ".join(f"{place} {size:.0f}" for place, size in figures["megabytes"].items())
        total = sum(figures["megabytes"].values())
        lines.append(f"| {names[way]} | {cold} | {warm} | {answers[0]}, {answers[1]} | {total:.0f} ({parts}) |")
    sizes = sorted(ways["run"]["packages"].items(), key=lambda item: -item[1][0])
    lines += ["", "| package | MB | of it compiled |", "|---|---|---|"]
    rest = [sum(size[column] for _, size in sizes[SHOWN:]) for column in (0, 1)]
    for name, (size, compiled) in [*sizes[:SHOWN], (f"{len(sizes) - SHOWN} others", rest)]:
        lines.append(f"| {name} | {size / MB:.1f} | {compiled / MB:.1f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="benchmarks.installing", description=str(__doc__).splitlines()[0])
    parser.add_argument("--write", action="store_true", help="keep the figures in benchmarks/results/")
    sys.exit(main(write=parser.parse_args().write))
