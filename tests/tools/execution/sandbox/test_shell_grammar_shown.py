"""Whose output a line shows."""

import pytest

from goclaw.tools.execution.sandbox.base import Unclear
from goclaw.tools.execution.sandbox.shell_grammar import shown_by
from tests.tables import table


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("ls -la", "ls -la"),
        ("cd sub && ls -la", "ls -la"),
        ("cd sub && pytest -q 2>&1 | tail -20", "pytest -q"),
        ("git log | cat", "git log"),
        ("pytest 2>&1 | head -n 50", "pytest"),
        ("ls -l | grep x", "grep x"),
        ("cat a | sort | head", "sort"),
        ("head -n 5 a.txt", "head -n 5 a.txt"),
        ("cat a | head b", "head b"),
        ("cd a && cd b && ls -l 2>&1", "ls -l"),
        ("grep -n a *.py", "grep -n a *.py"),
        ("ls ~/x", "ls ~/x"),
        ("CI=1 pytest", "pytest"),
        ("PYTHONPATH=$PWD:src CI=1 pytest", "pytest"),
        ("cd sub && CI=1 pytest -q | tail -5", "pytest -q"),
        ("export CI=1 A=$B && pytest", "pytest"),
        ("CI=1 && pytest", "pytest"),
        ("A=1 B=2; pytest", "pytest"),
        ("cd x; ls", "ls"),
        ("# look\nls", "ls"),
        ("cd x\nexport A=1\nls | tail -n 3", "ls"),
        ("cat a | tail -3", "tail -3"),
        ("head -9 a | tail -n 3 | head -2", "tail -n 3"),
        ("git log | tail -3", "git log"),
        ("timeout 60 pytest -q", "pytest -q"),
        ("env CI=1 nice -n 5 pytest", "pytest"),
        ("ls -l 2>/dev/null", "ls -l"),
    ],
)
def test_the_last_command_counts(line: str, words: str) -> None:
    assert list(shown_by(line)) == words.split()


def test_words_are_as_the_shell_makes_them() -> None:
    assert shown_by("grep -n 'a b' c\\ d") == ("grep", "-n", "a b", "c d")


def test_what_a_wrapped_shell_runs_is_not_looked_at() -> None:
    assert shown_by("timeout 5 sh -c 'ls; pwd'")[0] == "sh"


@table(
    "line",
    [
        "",
        "ls; pwd",
        "ls && pwd",
        "cd x || ls",
        "export A=$(b) && ls",
        "export -p && ls",
        "export && ls",
        "A=`b`; ls",
        "A=$(b)\nls",
        "ls; cd x",
        "cd x & ls",
        "ls &",
        "ls > file",
        "ls &> file",
        "cat <<E\nx\nE",
        "cat < x",
        "cat <<< x",
        "(ls)",
        "if true; then ls; fi",
        "for a in b; do ls $a; done",
        "ls $FLAGS",
        'ls "$x"',
        "ls $(flags)",
        "ls -*",
        "ls {a,-l}",
        "cd $(x) && (ls)",
        "a | (b; ls)",
        "$LS -l",
        "A=$(b) ls",
        "ls |& cat",
        "ls | tee file | (cat)",
        "! ls",
        "env",
        "ls 'unfinished",
    ],
)
def test_what_is_unclear_is_said_to_be(line: str) -> None:
    with pytest.raises(Unclear):
        shown_by(line)
