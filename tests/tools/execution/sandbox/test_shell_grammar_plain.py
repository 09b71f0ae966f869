"""Of which lines "always" can be said."""

import pytest

from goclaw.tools.execution.sandbox.base import Unclear
from goclaw.tools.execution.sandbox.shell_grammar import parts_of
from tests.tables import table


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("git status", [(("git", "status"),)]),
        ("git add 'a b' && git commit -m x", [(("git", "add", "a b"),), (("git", "commit", "-m", "x"),)]),
        ("ls -l | wc -l; pwd", [(("ls", "-l"), ("wc", "-l")), (("pwd",),)]),
        ("curl -s https://example.org 2>&1", [(("curl", "-s", "https://example.org"),)]),
        ("pip install x >/dev/null 2>&1 || true", [(("pip", "install", "x"),), (("true",),)]),
        ("python run.py --fast", [(("python", "run.py", "--fast"),)]),
    ],
)
def test_plain_lines_have_parts(line: str, parts: list[tuple[tuple[str, ...], ...]]) -> None:
    assert parts_of(line) == parts


@table(
    "line",
    [
        "",
        "# nothing",
        "sh x.sh",
        "bash -c 'rm -rf .'",
        "sudo ls",
        "env ls",
        "xargs rm",
        "eval ls",
        "find . -name x",
        "python",
        "python -c 'print(1)'",
        "python3.12 -m http.server",
        "/usr/bin/python3 -",
        "node -e 1",
        "perl -e 1",
        "awk",
        "rm *",
        "rm x",
        "ls | xargs",
        "ls ?",
        "echo $HOME",
        "echo $(id)",
        "echo `id`",
        "A=1 make",
        "A=1",
        "make > log",
        "make >> log",
        "cat < x",
        "ls & ",
        "(ls)",
        "{ ls; }",
        "! ls",
        "if true; then ls; fi",
        "for a in b; do ls; done",
        "f() { ls; }",
        "cd sub && make",
        "cat <<E\nx\nE",
        "diff <(ls) b",
        "ls ~",
        "ls {a,b}",
        "ssh host ls",
        "$X ls",
        "ls 'half",
        "coproc ls",
        "time ls",
        "[[ -f x ]]",
    ],
)
def test_what_could_be_anything_has_none(line: str) -> None:
    with pytest.raises(Unclear):
        parts_of(line)
