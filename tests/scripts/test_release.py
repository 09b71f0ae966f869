"""scripts/release on checkouts of a tiny package: built and installed for real, without any download."""

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests import house
from tests.acceptance.image import find_uv

pytestmark = [pytest.mark.timeout(180)]

PROJECT = """\
[build-system]
requires = ["uv_build>=0.9,<0.15"]
build-backend = "uv_build"

[project]
name = "goclaw"
version = "1.2.0"
description = "A tiny one."
requires-python = ">=3.11"
readme = "README.md"
license = "MIT"
license-files = ["LICENSE"]

[project.scripts]
goclaw = "goclaw.__main__:main"

[tool.uv.build-backend]
module-root = ""
source-exclude = ["**/__pycache__"]
"""
PROGRAM = """\
from goclaw import __version__


def main() -> None:
    print(f"goclaw {__version__}")
"""
CHANGELOG = """\
# Changelog

## Unreleased

- Not yet.

## [1.2.0] - 2026-12-01

### Added

- Everything.

## 1.1.0

- Less.
"""
NOTES = "### Added\n\n- Everything.\n"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A clean checkout of version 1.2.0 with the pinned uv in it."""
    folder = tmp_path / "a checkout"
    shutil.copytree(house.ROOT / "scripts", folder / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
    files = {
        ".gitignore": "/.tools/\n/dist/\n__pycache__/\n",
        "pyproject.toml": PROJECT,
        "CHANGELOG.md": CHANGELOG,
        "README.md": "# GoClaw\n",
        "LICENSE": "MIT\n",
        "goclaw/__init__.py": '"""A tiny one."""\n\n__version__ = "1.2.0"\n',
        "goclaw/__main__.py": PROGRAM,
        "goclaw/page/index.html": "<p>hello\n",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    shutil.copy(house.ROOT / "requirements-uv.lock", folder)
    lend_uv(folder)
    git(folder, "init", "--quiet")
    commit(folder)
    return folder


def lend_uv(folder: Path) -> None:
    """Put this machine's uv where the set-up looks for its own."""
    spec = importlib.util.spec_from_file_location("bootstrap", folder / "scripts" / "_bootstrap.py")
    assert spec and spec.loader
    bootstrap = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bootstrap)
    place = folder / ".tools" / "uv"
    (place / "bin").mkdir(parents=True)
    (place / "bin" / "uv").symlink_to(find_uv())
    lock = (folder / "requirements-uv.lock").read_bytes()
    (place / ".stamp").write_text(bootstrap.digest(lock, sys.base_prefix, str(folder)))


def git(folder: Path, *arguments: str) -> str:
    """Run git as somebody without settings."""
    person = ["-c", "user.name=Ann", "-c", "user.email=ann@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(
        ["git", *person, *arguments], cwd=folder, capture_output=True, text=True, timeout=30, check=True
    )
    return done.stdout


def commit(folder: Path) -> None:
    """Commit everything."""
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "A step")


def release(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run scripts/release from elsewhere."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "GIT_CONFIG_GLOBAL": os.devnull, "UV_OFFLINE": "1"}
    return subprocess.run(
        [folder / "scripts" / "release", *arguments],
        cwd=folder.parent,
        env=environment,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )


def refused(folder: Path) -> str:
    """Return why a release is refused; dist/ must be as it was, and nothing tagged."""
    before = sorted(path.name for path in (folder / "dist").glob("*"))
    done = release(folder)
    assert done.returncode == 1 and done.stdout == "" and "_release.py" not in done.stderr, done.stdout + done.stderr
    assert sorted(path.name for path in (folder / "dist").glob("*")) == before
    return done.stderr


def test_a_release_is_built_checked_and_described_and_neither_tagged_nor_sent(checkout: Path) -> None:
    done = release(checkout)
    assert done.returncode == 0, done.stderr
    dist = checkout / "dist"
    archives = ["goclaw-1.2.0-py3-none-any.whl", "goclaw-1.2.0.tar.gz"]
    assert sorted(path.name for path in dist.iterdir()) == sorted([*archives, "SHA256SUMS-1.2.0", "notes-1.2.0.md"])
    assert (dist / "notes-1.2.0.md").read_text() == NOTES
    sums: dict[str, str] = {}
    for line in (dist / "SHA256SUMS-1.2.0").read_text().splitlines():
        digest, _, name = line.partition("  ")
        sums[name] = digest
    assert sums == {name: hashlib.sha256((dist / name).read_bytes()).hexdigest() for name in archives}
    with zipfile.ZipFile(dist / archives[0]) as wheel, tarfile.open(dist / archives[1]) as source:
        assert wheel.read("goclaw/page/index.html") == b"<p>hello\n"
        assert "goclaw-1.2.0/goclaw/page/index.html" in source.getnames()
    assert git(checkout, "tag") == "" and git(checkout, "status", "--porcelain") == ""


def test_the_printed_command_tags_with_the_notes_as_they_are(checkout: Path) -> None:
    """Git would take the headings of Markdown for comments."""
    printed = release(checkout).stdout
    (tagging,) = re.findall(r"^ +git (tag .*)$", printed, re.MULTILINE)
    assert re.findall(r"^ +git (push .*)$", printed, re.MULTILINE) == ["push origin v1.2.0"]
    git(checkout, *tagging.split())
    assert git(checkout, "for-each-ref", "--format=%(contents)", "refs/tags/v1.2.0").strip() == NOTES.strip()
    assert "the tag v1.2.0 exists: raise the version" in refused(checkout)


def test_with_the_option_the_commit_is_tagged_with_the_notes(checkout: Path) -> None:
    git(checkout, "config", "user.name", "Ann")
    git(checkout, "config", "user.email", "ann@example.org")
    done = release(checkout, "--tag")
    assert done.returncode == 0 and done.stdout.endswith("Tagged. To publish it:\n  git push origin v1.2.0\n"), done
    assert git(checkout, "for-each-ref", "--format=%(contents)", "refs/tags/v1.2.0").strip() == NOTES.strip()
    assert git(checkout, "rev-parse", "v1.2.0^{commit}") == git(checkout, "rev-parse", "HEAD")


def test_the_same_commit_makes_the_same_archives(checkout: Path) -> None:
    sums = checkout / "dist" / "SHA256SUMS-1.2.0"
    assert release(checkout).returncode == 0
    first = sums.read_text()
    for path in checkout.rglob("*.py"):
        os.utime(path, (0, 1_700_000_000))
    git(checkout, "update-index", "--refresh")
    assert release(checkout).returncode == 0
    assert sums.read_text() == first


def test_a_tree_with_changes_is_refused(checkout: Path) -> None:
    (checkout / "goclaw" / "new.py").write_text("")
    assert "the tree has changes (?? goclaw/new.py, 1 in all): commit or remove them" in refused(checkout)


@pytest.mark.parametrize(
    ("changelog", "reason"),
    [
        (CHANGELOG.replace("[1.2.0]", "[1.2.1]"), "has no section `## 1.2.0`: rename `## Unreleased`"),
        (CHANGELOG.replace("1.2.0", "1.2.0rc1"), "has no section `## 1.2.0`"),
        (CHANGELOG.replace(NOTES, "\n"), "says nothing below `## [1.2.0] - 2026-12-01`"),
    ],
)
def test_a_version_without_its_notes_is_refused(checkout: Path, changelog: str, reason: str) -> None:
    (checkout / "CHANGELOG.md").write_text(changelog)
    commit(checkout)
    assert f"CHANGELOG.md {reason}" in refused(checkout)


def test_two_versions_in_one_checkout_are_refused(checkout: Path) -> None:
    (checkout / "goclaw" / "__init__.py").write_text('__version__ = "1.1.0"\n')
    commit(checkout)
    assert "pyproject.toml says 1.2.0, goclaw/__init__.py 1.1.0" in refused(checkout)


def test_a_wheel_that_lacks_a_file_is_refused_and_an_earlier_dist_stays(checkout: Path) -> None:
    (checkout / "dist").mkdir()
    (checkout / "dist" / "goclaw-1.1.0.tar.gz").write_text("the one before")
    (checkout / "pyproject.toml").write_text(f'{PROJECT}wheel-exclude = ["*.html"]\n')
    commit(checkout)
    assert "goclaw-1.2.0-py3-none-any.whl lacks goclaw/page/index.html (1 in all)" in refused(checkout)
    assert (checkout / "dist" / "goclaw-1.1.0.tar.gz").read_text() == "the one before"


def test_a_file_that_git_does_not_know_is_refused(checkout: Path) -> None:
    """Ignored, so the tree is clean, and yet it would be published."""
    with (checkout / ".gitignore").open("a") as ignored:
        ignored.write("*.env\n")
    commit(checkout)
    (checkout / "goclaw" / "secret.env").write_text("TOKEN=1\n")
    assert "has files that git does not know: goclaw-1.2.0/goclaw/secret.env (1 in all)" in refused(checkout)


def test_a_program_that_does_not_start_is_refused(checkout: Path) -> None:
    (checkout / "goclaw" / "__main__.py").write_text("import no_such_package_anywhere\n")
    commit(checkout)
    reason = refused(checkout)
    assert "goclaw --version failed (exit code 1)" in reason and "no_such_package_anywhere" in reason
