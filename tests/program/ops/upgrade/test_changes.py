"""Comparison of versions: by their numbers, the changelog and the schema, without running any of it."""

from pathlib import Path

import pytest

import goclaw
from goclaw import __version__
from goclaw.durable.store.sqlite import migrations
from goclaw.durable.store.sqlite.backup import NEWEST
from goclaw.errors import StateError
from goclaw.program.ops.upgrade.changes import (
    CHANGELOG,
    MAX_NEWS,
    between,
    changes,
    newest_release,
    news,
    numbers,
    schema_of,
    sections,
    version_of,
)
from tests.tables import table

LOG = """\
# Changelog

The form is Keep a Changelog.

## Unreleased

- Not yet.

## [0.3.0] - 2026-12-03

Winter is here.

### Added

- Leeks.

## 0.2.0 - 2026-12-01

### Changed

- Beets are red,
  and round.

### Added

- Turnips.
- Swedes.

## 0.1.0 - 2026-11-01

- The first.
"""


@table(
    "tags, newest",
    [
        (["v0.2.0", "v0.10.0", "v0.9.9"], "v0.10.0"),
        (["v1.0.0-rc1", "v0.1.0", "v0.1.0^{}", "nightly"], "v0.1.0"),
    ],
)
def test_the_newest_tag_is_the_highest_release(tags: list[str], newest: str) -> None:
    assert newest_release("".join(f"{'0' * 40}\trefs/tags/{tag}\n" for tag in tags), "here") == newest


@pytest.mark.parametrize(
    ("listing", "branch"),
    [
        (f"ref: refs/heads/trunk\tHEAD\n{'0' * 40}\tHEAD\n{'0' * 40}\trefs/tags/0.4.0\n", "trunk"),
        ("", "main"),
    ],
)
def test_without_a_release_among_the_tags_the_command_for_the_newest_commit_is_said(listing: str, branch: str) -> None:
    with pytest.raises(StateError) as refused:
        newest_release(listing, "here")
    assert str(refused.value) == (
        f"here: has no release yet (no tag such as v1.2.3). For its newest commit: `goclaw upgrade --ref {branch}`"
    )


def test_a_version_is_three_numbers() -> None:
    assert numbers("v1.22.3") == (1, 22, 3) and numbers("1.2") is None and numbers("1.2.3rc1") is None


def test_the_changes_between_two_versions_are_those_after_the_old_one() -> None:
    assert [each.version for each in between(LOG, "0.1.0", "0.3.0")] == ["0.3.0", "0.2.0"]
    assert [each.version for each in between(LOG, "0.1.0", "0.2.0")] == ["0.2.0"]
    assert between(LOG, "0.3.0", "0.3.0") == []
    assert changes(between(LOG, "0.1.0", "0.2.0")[0]) == ["Beets are red, and round.", "Turnips.", "Swedes."]


def test_a_version_that_has_no_section_brings_what_is_not_released() -> None:
    assert changes(between(LOG, "0.3.0", "0.4.0")[0]) == ["Not yet."]


@table(
    "old, new, line",
    [
        ("0.2.0", "0.3.0", "GoClaw 0.3.0 is now running (before: 0.2.0). New: Winter is here."),
        ("0.1.0", "0.2.0", "GoClaw 0.2.0 is now running (before: 0.1.0). New: Turnips. (and 2 more changes)"),
        ("0.3.0", "0.1.0", "GoClaw 0.1.0 is now running (before: 0.3.0)."),
    ],
)
def test_the_news_are_one_line(old: str, new: str, line: str) -> None:
    assert news(old, new, LOG) == line


def test_a_long_entry_is_cut_between_words() -> None:
    line = news("0.1.0", "0.2.0", f"## 0.2.0\n\n- {'turnip ' * 100}\n")
    assert len(line) < MAX_NEWS + 60 and line.endswith("turnip …")


def test_news_without_a_changelog_still_name_the_version() -> None:
    assert news("0.1.0", "0.2.0", "") == "GoClaw 0.2.0 is now running (before: 0.1.0)."


def test_our_own_changelog_comes_with_the_package_and_can_be_read() -> None:
    assert CHANGELOG.read_text("utf-8").startswith("# Changelog")
    assert [each for each in sections(CHANGELOG.read_text("utf-8")) if changes(each)]


def test_the_schema_of_a_version_is_read_of_its_source() -> None:
    assert schema_of(Path(migrations.__file__).read_text("utf-8")) == NEWEST
    assert schema_of("MIGRATIONS: Sequence[str] = (a, b, c)") == 4
    assert schema_of("MIGRATIONS = []") is None and schema_of("def (") is None


def test_the_version_is_read_of_the_project_file() -> None:
    project = Path(goclaw.__file__).parents[1] / "pyproject.toml"
    assert version_of(project.read_text("utf-8")) == __version__
    assert version_of("[project]\nname = 'a'") == "" and version_of("[") == ""
