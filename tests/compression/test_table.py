"""Which command is whose."""

import pytest

from goclaw.compression import git_log, go_test, grep, ls
from goclaw.compression import pytest as of_pytest
from goclaw.compression.base import Family
from goclaw.compression.table import family_of


@pytest.mark.parametrize(
    ("line", "family", "words"),
    [
        ("ls -la", ls.FAMILY, "ls -la"),
        ("/bin/ls -la", ls.FAMILY, "ls -la"),
        ("git log -3", git_log.FAMILY, "log -3"),
        ("git --no-pager -C sub -c a=b log", git_log.FAMILY, "log"),
        ("rg x", grep.FAMILY, "rg x"),
        ("pytest -q", of_pytest.FAMILY, "pytest -q"),
        (".venv/bin/python3.11 -m pytest -q", of_pytest.FAMILY, "pytest -q"),
        ("uv run pytest", of_pytest.FAMILY, "pytest"),
        ("go test ./...", go_test.FAMILY, "test ./..."),
    ],
)
def test_commands_have_their_family(line: str, family: Family, words: str) -> None:
    found = family_of(line.split())

    assert found is not None
    assert found[0] is family
    assert list(found[1]) == words.split()


@pytest.mark.parametrize(
    "line", ["", "git", "git show", "go build", "python x.py", "python -m http.server", "make", "uv"]
)
def test_other_commands_have_none(line: str) -> None:
    assert family_of(line.split()) is None
