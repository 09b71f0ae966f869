"""Which files a line may run: in whatever way it names them."""

import pytest

from goclaw.tools.builtin.command_approval import MAX_PATHS, TooManyPaths, folders_of, is_roundabout, paths_of
from tests.tables import table


@table(
    "line",
    [
        "./x.sh",
        "bash x.sh",
        "sh -eu ./x.sh arg",
        ". x.sh",
        "source ./x.sh",
        "cat x.sh | bash",
        "bash < x.sh",
        "bash <x.sh",
        "env A=1 ./x.sh",
        "nice -n 5 timeout 3 ./x.sh",
        "sh -c './x.sh'",
        "sh -c \"bash 'x.sh'\"",
        "true&&./x.sh",
        "(./x.sh)",
        "f() { ./x.sh; }; f",
        "echo $(./x.sh)",
        "echo `./x.sh`",
        "S=x.sh; bash $S",
        "bash $PWD/x.sh",
        "bash ${PWD}/x.sh",
        "bash --rcfile=x.sh",
        "xargs ./x.sh",
        "bash .//x.sh",
        "bash sub/../x.sh",
        "find . -exec ./x.sh {} \\;",
        "./x.sh 'half of a quotation",
    ],
)
def test_a_script_is_found(line: str) -> None:
    assert "x.sh" in paths_of(line)


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ('bash "my script.sh"', "my script.sh"),
        ("bash my\\ script.sh", "my script.sh"),
        ("python -m tool.run", "tool/run.py"),
        ("python -m tool", "tool/__main__.py"),
        ("python tool", "tool/__main__.py"),
        ("make -C . install", "Makefile"),
        ("npm run build", "package.json"),
    ],
)
def test_what_is_run_without_its_name_is_found(line: str, path: str) -> None:
    assert path in paths_of(line)


def test_where_a_line_goes_counts() -> None:
    assert "a/b/x.sh" in paths_of("cd a && cd b && ./x.sh", folders_of(["a", "b"]))


@pytest.mark.parametrize(("line", "is_so"), [("bash x.sh", False), ("bash $'\\x78'", True), ("bash *.sh", True)])
def test_what_is_only_known_when_it_runs_is_said(line: str, is_so: bool) -> None:
    assert is_roundabout(line) is is_so


def test_a_line_that_names_more_than_anybody_can_look_at_is_refused() -> None:
    with pytest.raises(TooManyPaths):
        paths_of(" ".join(str(number) for number in range(MAX_PATHS)))
