"""Comparison of two versions: their numbers, the lines of the changelog between them, the steps of the schema.

Everything is read of text, so that nothing of the new version has to run, or be installed, to be looked at.
"""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import goclaw
from goclaw.common.core.records import record
from goclaw.errors import StateError

CHANGELOG = Path(goclaw.__file__).with_name("CHANGELOG.md")
"""Ours. In a checkout a link to the file that people read."""
MAX_NEWS = 200
"""Characters of the line about a new version."""
_RELEASE = re.compile(r"## \[?v?(?P<version>\d+\.\d+\.\d+)\]?(\s.*)?")
_VERSION = re.compile(r"v?(\d+)\.(\d+)\.(\d+)")
LIST_RELEASES = ("ls-remote", "--symref")
"""Arguments of git, before a place: lists its tags, and which branch is its main one."""
_BRANCH = re.compile(r"^ref: refs/heads/(\S+)\tHEAD$", re.MULTILINE)
_SCHEMA = "MIGRATIONS"


@record
class Section:
    """One version in a changelog."""

    version: str
    """Empty: unreleased changes."""
    lines: tuple[str, ...]


@record
class Source:
    """Texts of a version that are looked at before it is installed; empty where it lacks one."""

    version: str
    changelog: str = ""
    schema: str = ""
    """The module `goclaw/durable/store/sqlite/migrations.py`."""


def numbers(version: str) -> tuple[int, int, int] | None:
    """Return the numbers of a version or tag, `v1.2.3`; None for another one (a pre-release, a branch)."""
    found = _VERSION.fullmatch(version)
    return (int(found[1]), int(found[2]), int(found[3])) if found else None


def newest_release(listing: str, place: str) -> str:
    """Return the tag of the newest release in what git printed for `LIST_RELEASES` and a place.

    Raises:
        StateError: none of them is one.
    """
    tags = [line.rpartition("refs/tags/")[2] for line in listing.splitlines()]
    found = [(known, tag) for tag in tags if tag.startswith("v") and (known := numbers(tag))]
    if not found:
        branch = _BRANCH.search(listing)
        raise StateError(
            f"{place}: has no release yet (no tag such as v1.2.3). For its newest commit: "
            f"`goclaw upgrade --ref {branch[1] if branch else 'main'}`"
        )
    return max(found)[1]


def sections(changelog: str) -> Iterator[Section]:
    """Yield the versions of a changelog (the form is Keep a Changelog 1.1.0), in its order."""
    version: str | None = None
    lines: list[str] = []
    for line in changelog.splitlines():
        if not line.startswith("## "):
            lines.append(line)
            continue
        if version is not None:
            yield Section(version, tuple(lines))
        found = _RELEASE.fullmatch(line)
        version, lines = (found["version"] if found else ""), []
    if version is not None:
        yield Section(version, tuple(lines))


def between(changelog: str, old: str, new: str) -> list[Section]:
    """Return the versions after `old` up to `new`, newest first; without a section for `new` the unreleased changes."""
    first, last = numbers(old), numbers(new)
    known = list(sections(changelog))
    found = [
        each
        for each in known
        if (n := numbers(each.version)) is not None and (first is None or n > first) and (last is None or n <= last)
    ]
    return found or [each for each in known if not each.version and any(each.lines) and old != new]


def changes(section: Section) -> list[str]:
    """Return the entries of a section, each as one line without its bullet."""
    found: list[str] = []
    for line in section.lines:
        if line.startswith(("- ", "* ")):
            found.append(line[2:].strip())
        elif found and line.startswith("  ") and line.strip():
            found[-1] += f" {line.strip()}"
    return found


def summary(section: Section) -> str:
    """Return one line about a version: the sentence under its heading, else its first entry and how many more.

    The first entry under `Added` goes before one under another heading.
    """
    before = next((i for i, line in enumerate(section.lines) if line.startswith(("#", "- ", "* "))), None)
    words = " ".join(" ".join(section.lines[:before]).split())
    if words:
        return _shorten(words)
    entries = changes(section)
    if not entries:
        return ""
    added = changes(Section("", tuple(_under(section, "Added"))))
    first, more = (added or entries)[0], len(entries) - 1
    return f"{_shorten(first)}{f' (and {more} more changes)' if more else ''}"


def news(old: str, new: str, changelog: str) -> str:
    """Return the line that an administrator reads when `new` runs for the first time."""
    text = f"GoClaw {new} is now running (before: {old})."
    first, last = numbers(old), numbers(new)
    if first and last and last < first:
        return text
    found = between(changelog, old, new)
    about = next((words for each in found if (words := summary(each))), "")
    return f"{text} New: {about}" if about else text


def our_news(old: str) -> str:
    """Return the line about the version that runs; without the changes where its changelog cannot be read."""
    try:
        changelog = CHANGELOG.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        changelog = ""
    return news(old, goclaw.__version__, changelog)


def schema_of(module: str) -> int | None:
    """Return the newest schema that the source of `store/sqlite/migrations.py` knows; None: it cannot be determined."""
    try:
        tree = ast.parse(module)
    except SyntaxError:
        return None
    for node in tree.body:
        target = node.target if isinstance(node, ast.AnnAssign) else None
        if isinstance(target, ast.Name) and target.id == _SCHEMA and isinstance(node, ast.AnnAssign):
            return 1 + len(node.value.elts) if isinstance(node.value, ast.Tuple) else None
    return None


def version_of(pyproject: str) -> str:
    """Return the version in a pyproject.toml; empty: it has none."""
    try:
        return str(tomllib.loads(pyproject)["project"]["version"])
    except (tomllib.TOMLDecodeError, KeyError):
        return ""


def _under(section: Section, heading: str) -> Iterator[str]:
    inside = False
    for line in section.lines:
        if line.startswith("### "):
            inside = line == f"### {heading}"
        elif inside:
            yield line


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_NEWS else f"{text[:MAX_NEWS].rsplit(' ', 1)[0]} …"
