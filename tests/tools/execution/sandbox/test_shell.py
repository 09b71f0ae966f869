"""Every command that bash would run is found, or the line is unclear. Bash itself is the judge."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from goclaw.tools.execution.sandbox.base import Unclear
from goclaw.tools.execution.sandbox.shell import commands_of
from tests.tables import table

HOSTILE = [
    "ls; evil",
    "ls && evil",
    "ls || evil",
    "ls | evil",
    "ls & evil",
    "ls\nevil",
    "ls |& evil",
    "! evil",
    "(evil)",
    "{ evil; }",
    "time evil",
    "echo $(evil)",
    "echo `evil`",
    'echo "$(evil)"',
    'echo "`evil`"',
    "echo $(echo $(evil))",
    "echo ${x:-$(evil)}",
    "echo ${x:=`evil`}",
    "echo ${x/$(evil)/}",
    "x=$(evil)",
    "x=$(evil) ls",
    "x=(a $(evil))",
    "x+=$(evil)",
    "export x=$(evil)",
    "local x=$(evil)",
    "readonly y=`evil`",
    "declare z=$(evil)",
    "ls <(evil)",
    "ls > >(evil)",
    "ls >$(evil)",
    "cat <<E\n$(evil)\nE",
    "cat <<-E\n\t`evil`\n\tE",
    'cat <<< "$(evil)"',
    "cat <<E | evil\nE",
    "cat <<E && evil\nE",
    "if evil; then ls; fi",
    "if ls; then evil; fi",
    "if ls; then :; elif evil; then :; else evil; fi",
    "while evil; do break; done",
    "until evil; do break; done",
    "for i in 1; do evil; done",
    "for i in $(evil); do :; done",
    "for ((i=0;i<1;i++)); do evil; done",
    "case x in x) evil;; esac",
    "case $(evil) in *) :;; esac",
    "select i in 1; do evil; break; done <<< 1",
    "f() { evil; }; f",
    "function f { evil; }; f",
    "ls() { evil; }; ls",
    "coproc evil",
    "[[ -n $(evil) ]]",
    "[[ x == $(evil) ]]",
    "[ -n $(evil) ]",
    "test $(evil)",
    "echo $((1 + $(evil)))",
    "echo $((`evil`))",
    "x='a[$(evil)]'; echo $((x))",
    "x='a[$(evil)]'; [[ $x -eq 1 ]]",
    "x='a[$(evil)]'; (( x ))",
    "x='a[$(evil)]'; let x",
    "x='a[$(evil)]'; test -v $x",
    "test -v 'a[$(evil)]'",
    "printf -v 'a[$(evil)]' x",
    "x='$(evil)'; echo ${x@P}",
    "x='a[$(evil)]'; echo ${!x}",
    "x='a[$(evil)]'; unset $x",
    "a=(1); x='$(evil)'; echo ${a[x]}",
    "eval evil",
    "eval 'ls; evil'",
    "eval ls ';' evil",
    "sh -c evil",
    "sh -c 'ls; evil'",
    "bash -lc 'evil'",
    "bash -x -c 'evil'",
    "bash -c -- 'evil'",
    "bash -c 'sh -c \"evil\"'",
    "echo evil | sh",
    "echo evil | bash -s",
    "sh <<< evil",
    "sh <<E\nevil\nE",
    "env evil",
    "env A=1 evil",
    "env -i A=1 evil",
    "env -u X evil",
    "env - ./script",
    "env - A=1 ./script",
    "env -S 'evil x'",
    "env sh -c evil",
    "xargs evil < /dev/null",
    "echo x | xargs -I{} evil {}",
    "echo x | xargs -n 1 evil",
    "echo evil | xargs -I{} {}",
    "echo evil | xargs -I{} sh -c {}",
    "nohup evil",
    "nice evil",
    "nice -n 5 evil",
    "timeout 5 evil",
    "timeout -k 1 5 evil",
    "setsid evil",
    "stdbuf -o0 evil",
    "command evil",
    "builtin eval evil",
    "exec evil",
    "exec -a ls evil",
    "find . -maxdepth 0 -exec evil {} ;",
    "find . -maxdepth 0 -exec evil {} \\;",
    "find . -maxdepth 0 -exec sh -c 'evil' \\;",
    "find . -maxdepth 0 -execdir evil {} +",
    "alias ls=evil\nls",
    "shopt -s expand_aliases\nalias zz=evil\nzz",
    ". ./script",
    "source ./script",
    "trap evil EXIT",
    "PATH=. ls",
    "PATH=.:$PATH; script",
    "export PATH=.; script",
    "export 'PATH=.'; script",
    'p=PATH; export "$p=."; script',
    "declare PATH=.; script",
    "read PATH <<< .; script",
    "printf -v PATH .; script",
    "BASH_ENV=./script bash -c :",
    "ENV=./script sh -i -c :",
    "PS4='$(evil)'; set -x; ls",
    "PROMPT_COMMAND=evil",
    "IFS=x; y=exvil; $y",
    "x=evil; $x",
    "x=ev; ${x}il",
    "e''vil",
    "e\\vil",
    '"evil"',
    "'e'\"vil\"",
    "$'evil'",
    "$'\\x65vil'",
    "ev$(echo il)",
    "{evil,x}",
    "$(echo evil)",
    "`echo evil`",
    "./script",
    "ls # comment\nevil",
    "ls \\\n; evil",
    "ls;evil;ls",
    "ls&&evil",
    "ls;;evil",
    "ls < /dev/null evil; evil",
    "2>/dev/null evil",
    "</dev/null evil",
    "A=1 B=2 evil",
    "echo 'x'; evil # it's",
    'echo "it\'s"; evil',
    "echo '\"'; evil; echo '\"'",
    "echo \\'; evil; echo \\'",
    "echo $'\\''; evil; echo $'\\''",
    "cat <<'E'\n'\nE\nevil",
    "cat <<E\n\\$(evil)\nE\nevil",
    "echo {a,b}; evil",
    "echo *; evil",
    "true;\tevil",
    "\tevil",
    "mapfile -C evil -c 1 x <<< y",
    "hash -p ./script ls; ls",
    "enable -n echo; evil",
    *(Path(__file__).parent / "hostile_lines.txt").read_text().split("\n%%\n"),
]
HONEST = {
    "git status": ["git"],
    "cd sub && git log --oneline -5 | head -n 3 > out.txt 2>&1": ["cd", "git", "head"],
    'for f in *.py; do wc -l "$f"; done': ["wc"],
    "grep -rn 'it is; not && a | command' . || true": ["grep", "true"],
    "cat <<'E' > file\n$(not run) `nor this`; rm\nE": ["cat"],
    'echo $((1 + 2)) "$HOME" ${x:-default}': ["echo"],
    "if [ -f a ]; then cat a; else echo none; fi": ["cat", "echo"],
    "timeout 5 git fetch": ["timeout", "git"],
    "find . -name '*.py' | xargs grep x": ["find", "xargs", "grep"],
    "/usr/bin/git status": ["/usr/bin/git"],
    'x=$(date +%F); echo "$x"': ["date", "echo"],
    "[[ -n $x && $y == z* ]] && ls": ["ls"],
    "make | tee log; exit ${PIPESTATUS[0]}": ["make", "tee", "exit"],
    'a=(x y); for f in "${a[@]}"; do ls "$f"; done; echo "${#a[@]}"': ["ls", "echo"],
    'while IFS= read -r line; do echo "$line"; done < file': ["read", "echo"],
    "bash -euo pipefail -c 'make test'": ["bash", "make"],
    "trap 'ls x' EXIT INT": ["trap", "ls"],
    "trap - EXIT": ["trap"],
    "test -f x && test a = b && printf '%s\\n' x": ["test", "test", "printf"],
    "": [],
    "# only a comment": [],
}


@pytest.fixture(scope="module")
def witness(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder where `evil` and `script` exist and tell when they run."""
    folder = tmp_path_factory.mktemp("witness")
    for name in ("evil", "script"):
        (folder / name).write_text(f'#!/bin/sh\n: > "{folder}/ran"\n')
        (folder / name).chmod(0o755)
    return folder


@pytest.fixture(scope="module")
def ran(witness: Path) -> Mapping[str, bool]:
    """For each hostile line whether bash ran something: most of them really do, or bash were no judge."""
    found = {line: runs(line, witness) for line in HOSTILE}
    assert sum(found.values()) > 0.8 * len(HOSTILE)
    return found


def runs(line: str, witness: Path) -> bool:
    """Run a line, and see whether `evil` or `script` ran."""
    (witness / "ran").unlink(missing_ok=True)
    subprocess.run(
        ["bash", "-c", line],
        cwd=witness,
        env={"PATH": f"{witness}:/usr/bin:/bin"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=20,
        check=False,
    )
    return (witness / "ran").exists()


@pytest.mark.promise("P-exec-rules")
@table("line", HOSTILE)
def test_what_bash_runs_is_found_or_the_line_is_unclear(line: str, ran: Mapping[str, bool]) -> None:
    try:
        names = [command.name.rpartition("/")[2] for command in commands_of(line)]
    except Unclear:
        return
    assert not ran[line] or {"evil", "script"} & set(names), names


@pytest.mark.parametrize(("line", "names"), HONEST.items())
def test_honest_lines_are_understood(line: str, names: list[str]) -> None:
    assert [command.name for command in commands_of(line)] == names


@pytest.mark.parametrize("line", ["ls 'unclosed", "if true", "a )", "\x00", "((((", "$(", "<<E", "x" * 90_000 + "'"])
def test_what_is_no_shell_line_is_unclear(line: str) -> None:
    with pytest.raises(Unclear):
        commands_of(line)


def test_nesting_without_end_is_unclear_and_quick() -> None:
    line = "evil"
    for _ in range(20):
        line = f"sh -c {line!r}" if "'" not in line else f"env {line}"
    try:
        assert commands_of(line)[-1].name == "evil"
    except Unclear:
        pass
    with pytest.raises(Unclear):
        commands_of("eval " * 50 + "evil")
