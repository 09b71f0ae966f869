"""Which command is whose."""

import pytest

from goclaw.tools.execution.compression import file_commands, git, unit_tests
from goclaw.tools.execution.compression import unit_tests as of_pytest
from goclaw.tools.execution.compression.base import Family
from goclaw.tools.execution.compression.shortening import family_of


@pytest.mark.parametrize(
    ("line", "family", "words"),
    [
        ("ls -la", file_commands.LS, "ls -la"),
        ("/bin/ls -la", file_commands.LS, "ls -la"),
        ("git log -3", git.GIT_LOG, "log -3"),
        ("git --no-pager -C sub -c a=b log", git.GIT_LOG, "log"),
        ("rg x", file_commands.GREP, "rg x"),
        ("pytest -q", of_pytest.PYTEST, "pytest -q"),
        (".venv/bin/python3.11 -m pytest -q", of_pytest.PYTEST, "pytest -q"),
        ("uv run pytest", of_pytest.PYTEST, "pytest"),
        ("go test ./...", unit_tests.GO_TEST, "test ./..."),
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
