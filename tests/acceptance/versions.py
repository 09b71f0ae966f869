"""Versions of GoClaw made for tests: a git repository with tags, and checkouts of it that are ready to run.

A made version is this tree with another number, a section in its changelog and, if wanted, one more step of the schema
or a fault. Its `_bootstrap.py` is a short one, which makes an environment that shares the packages of the environment
that runs the tests: a second instead of minutes. What uses the real one says so.
"""

import re
import shutil
import site
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.acceptance.daemon import ROOT

OLD, NEW, NEWER = "0.1.0", "0.2.0", "0.3.0"
NEWS = "Turnips are watered by themselves."
TREE = ("goclaw", "scripts", "pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", ".gitignore")
STEP = """\
_TO_NEXT = "CREATE TABLE turnips (id INTEGER NOT NULL PRIMARY KEY, name TEXT NOT NULL DEFAULT 'turnip')"
"""
BOOTSTRAP = '''\
"""Make .venv that shares the packages of another environment."""
import os, subprocess, sys
from pathlib import Path
root = Path(__file__).resolve().parent.parent
venv = root / ".venv"
if not (venv / "done").exists():
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    packages = next(venv.glob("lib/python3*/site-packages"))
    (packages / "goclaw.pth").write_text(f"{{root}}\\n{packages}\\n")
    script = venv / "bin" / "goclaw"
    script.write_text(f"#!{{venv}}/bin/python\\nfrom goclaw.__main__ import main\\nmain()\\n")
    script.chmod(0o755)
    (root / ".tools").mkdir(exist_ok=True)
    (root / ".tools" / "lock").touch()
    (venv / ".origin").write_text("")
    (venv / "done").write_text(os.environ.get("GOCLAW_INSTALL_FOR", str(root)))
'''


def git(folder: Path, *arguments: str) -> str:
    """Run git there, as nobody in particular."""
    who = ["-c", "user.name=Test", "-c", "user.email=test@example.org", "-c", "init.defaultBranch=main"]
    who += ["-c", "protocol.file.allow=always", "-c", "gc.auto=0"]
    done = subprocess.run(["git", "-C", folder, *who, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@dataclass(frozen=True)
class Fault:
    """A text of a file of a version that is replaced by another one."""

    path: str
    before: str
    after: str


@dataclass(frozen=True)
class Repository:
    """The repository that checkouts fetch from."""

    folder: Path
    faults: Mapping[str, Fault] = field(default_factory=dict)

    @classmethod
    def make(cls, folder: Path, *, bootstrap: bool = True) -> "Repository":
        """Make one with the version that the tests run with; `bootstrap`: with the short way to an environment."""
        folder.mkdir(parents=True)
        for name in TREE:
            place = ROOT / name
            if place.is_dir():
                shutil.copytree(place, folder / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(place, folder)
        for lock in ROOT.glob("requirements*.lock"):
            if not bootstrap and "dev" not in lock.name:
                shutil.copy(lock, folder)
        if bootstrap:
            packages = site.getsitepackages()[0]
            (folder / "scripts" / "_bootstrap.py").write_text(BOOTSTRAP.format(packages=packages))
        git(folder, "init", "--quiet")
        made = cls(folder)
        made.commit(OLD)
        return made

    def release(self, version: str, *faults: Fault, step: bool = True, news: str = NEWS) -> str:
        """Add a version, with a step of the schema; returns its tag."""
        self._bump(version, news)
        if step:
            self._add_step()
        for fault in faults:
            path = self.folder / fault.path
            text = path.read_text()
            assert fault.before in text, f"{fault.path} has no {fault.before!r} any more"
            path.write_text(text.replace(fault.before, fault.after, 1))
        return self.commit(version)

    def commit(self, version: str) -> str:
        """Commit what is there under a tag."""
        git(self.folder, "add", "--all")
        git(self.folder, "commit", "--quiet", "-m", version)
        git(self.folder, "tag", f"v{version}")
        return f"v{version}"

    def wheel(self, folder: Path) -> Path:
        """Build the wheel of what is there now, without a network; returns it."""
        uv = ROOT / ".tools" / "uv" / "bin" / "uv"
        options = ["--quiet", "--wheel", "--offline"]
        subprocess.run([uv, "build", *options, "--out-dir", folder, self.folder], check=True, timeout=120)
        return max(folder.glob("goclaw-*.whl"), key=lambda path: path.stat().st_mtime_ns)

    def withdraw(self, version: str) -> None:
        """Take a version back, so that the next one begins where it did."""
        git(self.folder, "reset", "--quiet", "--hard", f"v{version}~1")
        git(self.folder, "tag", "--delete", f"v{version}")

    def checkout(self, folder: Path, version: str = OLD) -> Path:
        """Make a checkout as a person does it, with its environment; returns the Python of that."""
        git(self.folder, "clone", "--quiet", "--branch", f"v{version}", str(self.folder), str(folder))
        subprocess.run([sys.executable, folder / "scripts" / "_bootstrap.py", "run"], check=True, timeout=600)
        return folder / ".venv" / "bin" / "python"

    @staticmethod
    def environment(folder: Path) -> Path:
        """Make an environment with pip that shares the packages of the tests; returns its Python."""
        subprocess.run([sys.executable, "-m", "venv", folder], check=True, timeout=120)
        packages = next(folder.glob("lib/python3*/site-packages"))
        (packages / "shared.pth").write_text(f"{site.getsitepackages()[0]}\n")
        return folder / "bin" / "python"

    def _bump(self, version: str, news: str) -> None:
        for path, pattern in (
            ("goclaw/__init__.py", r'__version__ = "[^"]+"'),
            ("pyproject.toml", r'^version = "[^"]+"'),
        ):
            place = self.folder / path
            found = re.search(pattern, place.read_text(), re.MULTILINE)
            assert found
            words = re.sub(r'"[^"]+"', f'"{version}"', found[0])
            place.write_text(place.read_text().replace(found[0], words, 1))
        changelog = self.folder / "CHANGELOG.md"
        section = f"## {version} - 2026-12-01\n\n### Changed\n\n- Beets are red.\n\n### Added\n\n- {news}\n\n"
        changelog.write_text(changelog.read_text().replace("## ", f"{section}## ", 1))

    def _add_step(self) -> None:
        path = self.folder / "goclaw" / "durable" / "store" / "sqlite" / "migrations.py"
        text = path.read_text()
        found = re.search(r"^MIGRATIONS: Sequence\[str\] = \((?P<steps>[^)]*)\)", text, re.MULTILINE)
        assert found
        steps = f"{STEP}MIGRATIONS: Sequence[str] = ({found['steps']}, _TO_NEXT)"
        path.write_text(text.replace(found[0], steps, 1))
