"""Build the release of pyproject.toml's version into dist/, check it, and tag it on request (see scripts/release).

    scripts/release          dist/ gets the source distribution, the wheel, SHA256SUMS and the notes of CHANGELOG.md
    scripts/release --tag    then the commit gets the tag (v0.1.0), with these notes

Nothing leaves this machine; a fresh environment gets packages so that the wheel is tried in it. Refused: a tree with
changes, a version without its section in CHANGELOG.md, one that is tagged. What fails leaves dist/ as it was. Only the
standard library and the pinned uv; exits 0, or 1 with the reason.
"""

import email
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from scripts._bootstrap import SetUpError, alone, ensure_uv, environment, say

ROOT = Path(__file__).resolve().parent.parent
METADATA_FILES = ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE")
BESIDE_THE_PACKAGE = ("LICENSE", "PKG-INFO", "README.md", "pyproject.toml")
"""Files of the source distribution outside the package."""
COPY_OF_UV = "pyproject.toml.orig"
"""uv writes `pyproject.toml` anew for some versions of its build backend, and then keeps ours under this name."""
SECONDS = 600


class ReleaseError(Exception):
    """The release cannot be made; the message says why and what helps."""


@dataclass(frozen=True)
class Release:
    """Facts of the checkout that a release is made of."""

    version: str
    notes: str
    """Section of CHANGELOG.md, in Markdown."""
    package: tuple[str, ...]
    """Files of the package that git knows, sorted."""
    moment: str
    """Time of the commit in seconds since 1970, which archives give to their files."""

    @property
    def tag(self) -> str:
        """Return the tag's name."""
        return f"v{self.version}"


def main(arguments: list[str]) -> int:
    """Build and check; return the exit code."""
    if arguments not in ([], ["--tag"]):
        print(__doc__, file=sys.stderr)
        return 2
    try:
        release = judge(ROOT)
        with alone(ROOT / ".tools"):
            uv = ensure_uv(ROOT)
        with tempfile.TemporaryDirectory(prefix="goclaw-release-") as folder:
            built = build(uv, release, Path(folder))
            check(release, *built)
            try_out(uv, release, built[1], Path(folder))
            files = publish(release, built, ROOT / "dist")
        if arguments:
            git(ROOT, *tagging(release))
    except (ReleaseError, SetUpError) as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    print("Built and checked:", *(f"  {file.relative_to(ROOT)}" for file in files), "", sep="\n")
    by_hand = () if arguments else (f"  git {' '.join(tagging(release))}",)
    print(
        "Tagged. To publish it:" if arguments else "To release it:",
        *by_hand,
        f"  git push origin {release.tag}",
        sep="\n",
    )
    return 0


def judge(root: Path) -> Release:
    """Return what is to be released, or raise ReleaseError where the checkout is not ready."""
    version = str(tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]["version"])
    said = re.search(r'^__version__ = "(.*)"$', (root / "goclaw" / "__init__.py").read_text("utf-8"), re.MULTILINE)
    if not said or said[1] != version:
        raise ReleaseError(
            f"pyproject.toml says {version}, goclaw/__init__.py {said[1] if said else 'nothing'}: make them one version"
        )
    if changed := git(root, "status", "--porcelain").splitlines():
        raise ReleaseError(f"the tree has changes ({changed[0].strip()}, {len(changed)} in all): commit or remove them")
    if git(root, "tag", "--list", f"v{version}"):
        raise ReleaseError(f"the tag v{version} exists: raise the version in pyproject.toml and goclaw/__init__.py")
    notes = section((root / "CHANGELOG.md").read_text("utf-8"), version)
    package = git(root, "ls-files", "-z", "--", "goclaw").split("\0")
    moment = git(root, "log", "-1", "--format=%ct")
    return Release(version, notes, tuple(sorted(filter(None, package))), moment)


def section(changelog: str, version: str) -> str:
    """Return what CHANGELOG.md says of a version, without its heading.

    The heading is that of Keep a Changelog: `## [1.2.0] - 2026-12-01`; brackets and date may be missing.
    """
    for part in re.split(r"^## ", changelog, flags=re.MULTILINE)[1:]:
        heading, _, text = part.partition("\n")
        if (heading.split() or [""])[0].strip("[]") == version:
            if not text.strip():
                raise ReleaseError(f"CHANGELOG.md says nothing below `## {heading}`: write what is new for users")
            return text.strip() + "\n"
    raise ReleaseError(f"CHANGELOG.md has no section `## {version}`: rename `## Unreleased` to `## {version} - <date>`")


def build(uv: Path, release: Release, folder: Path) -> tuple[Path, Path]:
    """Return the source distribution and the wheel, which is made from it: so the former is complete."""
    say("building")
    out = folder / "dist"
    done([uv, "build", "--quiet", "--offline", "--out-dir", out, ROOT], ROOT, "build", SOURCE_DATE_EPOCH=release.moment)
    source, wheel = sorted(out.glob("*.tar.gz")), sorted(out.glob("*.whl"))
    if len(source) != 1 or len(wheel) != 1:
        raise ReleaseError(f"the build made {len(source)} source distributions and {len(wheel)} wheels, not one each")
    return source[0], wheel[0]


def check(release: Release, source: Path, wheel: Path) -> None:
    """Compare the contents of both archives with what git knows, and their metadata; raise ReleaseError."""
    project = f"goclaw-{release.version}"
    with tarfile.open(source) as archive:
        names = [member.name for member in archive.getmembers() if member.isfile()]
    names = [name for name in names if name != f"{project}/{COPY_OF_UV}"]
    same(source.name, names, [f"{project}/{name}" for name in (*release.package, *BESIDE_THE_PACKAGE)])
    information = f"{project}.dist-info"
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/")]
        same(wheel.name, names, [*release.package, *(f"{information}/{name}" for name in METADATA_FILES)])
        metadata = email.message_from_bytes(archive.read(f"{information}/METADATA"))
        programs = archive.read(f"{information}/entry_points.txt").decode()
    expected = {"Name": "goclaw", "Version": release.version, "License-File": "LICENSE"}
    for name, value in expected.items():
        if metadata[name] != value:
            raise ReleaseError(f"{wheel.name}: its metadata says {name}: {metadata[name]}, not {value}")
    for name in ("Requires-Python", "Summary", "Description-Content-Type"):
        if not metadata[name]:
            raise ReleaseError(f"{wheel.name}: its metadata has no {name}: see [project] in pyproject.toml")
    if not re.search(r"^goclaw *= *goclaw\.__main__:main$", programs, re.MULTILINE):
        raise ReleaseError(f"{wheel.name}: it installs no program `goclaw`: see [project.scripts] in pyproject.toml")


def same(archive: str, there: Iterable[str], wanted: Iterable[str]) -> None:
    """Raise ReleaseError where an archive lacks a file or has one too many."""
    if missing := sorted({*wanted} - {*there}):
        raise ReleaseError(f"{archive} lacks {', '.join(missing[:5])} ({len(missing)} in all)")
    if foreign := sorted({*there} - {*wanted}):
        raise ReleaseError(
            f"{archive} has files that git does not know: {', '.join(foreign[:5])} ({len(foreign)} in all)"
        )


def try_out(uv: Path, release: Release, wheel: Path, folder: Path) -> None:
    """Install the wheel into a fresh environment and let its program tell the version; raise ReleaseError."""
    say("installing the wheel into a fresh environment")
    venv = folder / "venv"
    python = venv / "bin" / "python"
    done([uv, "venv", "--quiet", "--python", sys.executable, venv], folder, "making an environment")
    done([uv, "pip", "install", "--quiet", "--python", python, wheel], folder, "installing")
    done([uv, "pip", "check", "--quiet", "--python", python], folder, "checking the dependencies")
    said = done([venv / "bin" / "goclaw", "--version"], folder, "goclaw --version").strip()
    if said != f"goclaw {release.version}":
        raise ReleaseError(f"the installed program says `{said}`, not `goclaw {release.version}`")


def publish(release: Release, built: tuple[Path, Path], dist: Path) -> list[Path]:
    """Move the archives into dist/, with their checksums and the notes; return the files there."""
    folder = built[0].parent
    sums, notes = folder / f"SHA256SUMS-{release.version}", folder / f"notes-{release.version}.md"
    lines = (f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in built)
    sums.write_text("".join(lines), "utf-8")
    notes.write_text(release.notes, "utf-8")
    dist.mkdir(exist_ok=True)
    return [Path(shutil.move(path, dist / path.name)) for path in (*built, sums, notes)]


def tagging(release: Release) -> tuple[str, ...]:
    """Return git's arguments that tag the commit."""
    # Git takes lines that begin with # for comments, unless it is told to remove only white space.
    notes = f"dist/notes-{release.version}.md"
    return ("tag", "--annotate", release.tag, "--cleanup=whitespace", f"--file={notes}")


def git(root: Path, *arguments: str) -> str:
    """Return what git prints; raise ReleaseError where it fails or is missing."""
    return done(["git", *arguments], root, f"git {arguments[0]}").strip()


def done(command: list[str | Path], folder: Path, step: str, **more: str) -> str:
    """Run a command and return what it prints; raise ReleaseError with its own words when it fails."""
    try:
        ended = subprocess.run(
            command,
            cwd=folder,
            env=environment() | more,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ReleaseError(f"{step} failed: {error}") from error
    if ended.returncode:
        raise ReleaseError(
            f"{step} failed (exit code {ended.returncode}):{os.linesep}{(ended.stderr or ended.stdout).strip()}"
        )
    return ended.stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
