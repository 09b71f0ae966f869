"""What `tools.exec.allowed` and `blocked` let through."""

import re

import pytest

from goclaw.errors import ToolError
from goclaw.tools.execution.sandbox.rules import Rules

pytestmark = [pytest.mark.promise("P-exec-rules")]
ALLOWED = Rules(allowed=("git status", "git log", "ls", "wc", "xargs", "grep", "find"))
BLOCKED = Rules(blocked=("rm", "git push", "curl"))


@pytest.mark.parametrize(
    "line",
    [
        "git status",
        "git status --short && git log -3 | wc -l",
        "cd sub && ls -la > out.txt",
        "'git' st''atus",
        "find . -name x | xargs grep y",
        "echo done",
        "true",
        "",
    ],
)
def test_what_is_allowed_runs(line: str) -> None:
    ALLOWED.judge(line)


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("git push", "git push"),
        ("git", "git"),
        ("git -c a=b status", "git -c a=b"),
        ("git $what", "git …"),
        ("git sta*", "git …"),
        ("./ls", "./ls"),
        ("/tmp/ls", "/tmp/ls"),
        ("/bin/ls", "/bin/ls"),
        ("ls; rm x", "rm x"),
        ("ls $(rm x)", "rm x"),
        ("env ls", "env ls"),
        ("echo status | xargs git", "git"),
        ("LS", "LS"),
        ("sh -c ls", "sh -c ls"),
        ("find . -exec rm {} +", "rm"),
        ("python -c 'import os'", "python"),
    ],
)
def test_what_is_not_allowed_is_refused_by_its_name(line: str, named: str) -> None:
    with pytest.raises(ToolError, match="not among") as refusal:
        ALLOWED.judge(line)
    assert f"permission denied: `{named}" in str(refusal.value)


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("rm x", "rm"),
        ("/bin/rm x", "rm"),
        ("./rm", "rm"),
        ("\\rm x", "rm"),
        ("ls && sudo rm -rf /", "rm"),
        ("echo x | xargs rm", "rm"),
        ("git push", "git push"),
        ("git push origin main", "git push"),
        ("git $what", "git push"),
        ("git p*", "git push"),
        ("echo push | xargs git", "git push"),
        ("find . -exec curl {} \\;", "curl"),
        ("timeout 5 curl x", "curl"),
        ("sh -c 'curl x'", "curl"),
    ],
)
def test_what_is_blocked_is_refused_wherever_it_stands(line: str, rule: str) -> None:
    with pytest.raises(ToolError) as refusal:
        BLOCKED.judge(line)
    assert str(refusal.value).endswith(f"is blocked by the rule `{rule}`")


@pytest.mark.parametrize(
    ("line", "rule", "shown"),
    [
        ("git push --force", "git push", "git push --force"),
        ("git -C . push origin", "git push", "git -C . push"),
        ("/usr/bin/git -C . -c a=b --no-pager push x", "git push", "/usr/bin/git -C . -c a=b --no-pager push"),
        ("python3 -m pip --quiet install x", "pip install", "python3 -m pip --quiet install"),
        ("rm a b c -r d e -f g", "rm -rf", "rm a b c -r d e -f"),
        (f"rm {'a' * 100} {'b ' * 99}-rf", "rm -rf", f"rm {'a' * 47} … {'b ' * 21}-rf"),
        ("find . -name x -delete", "find -delete", "find . -name x -delete"),
        ("git -C . $what x", "git push", "git -C . …"),
        ("git $what now", "git push", "git … now"),
    ],
)
def test_what_is_refused_is_shown_with_the_words_that_match_the_rule(line: str, rule: str, shown: str) -> None:
    with pytest.raises(ToolError, match=rf"`{re.escape(shown)}` is blocked by the rule `{rule}`"):
        Rules(blocked=[rule]).judge(line)


@pytest.mark.parametrize("line", ["git status", "git log push", "ls rm", "echo curl", "grep 'rm x' file", "rmdir x"])
def test_what_is_not_blocked_runs(line: str) -> None:
    BLOCKED.judge(line)


@pytest.mark.parametrize("rules", [ALLOWED, BLOCKED])
@pytest.mark.parametrize(
    "line", ["$x", "e{v,i}l", "PATH=. ls", "ls 'open", ". ./script", "trap $x EXIT", "let a[$(rm)]"]
)
def test_what_cannot_be_judged_is_refused(line: str, rules: Rules) -> None:
    with pytest.raises(ToolError, match="cannot judge it"):
        rules.judge(line)


def test_without_rules_nothing_is_judged() -> None:
    Rules().judge("anything 'at all")


def test_an_empty_list_allows_nothing_but_the_shell_itself() -> None:
    Rules(allowed=()).judge("cd x && echo y")
    with pytest.raises(ToolError):
        Rules(allowed=()).judge("ls")
