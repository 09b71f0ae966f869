"""Options, other names and wrappers before the words of a rule: git itself and a table are the judges."""

import os
import subprocess
from pathlib import Path

import pytest

from goclaw.errors import ToolError
from goclaw.tools.execution.sandbox.rules import Rules
from tests.tables import table

pytestmark = [pytest.mark.promise("P-exec-rules")]
PUSH = Rules(blocked=("git push",))
PUSHES = [
    "git push",
    "git -C . push",
    "git -C . -C . push",
    "git --no-pager push",
    "git -P push",
    "git -c a.b=c push",
    "git -c 'a.b=c d' push",
    "git --git-dir=.git push",
    "git --git-dir .git push",
    "git --work-tree . push",
    "git --namespace x push",
    "git --config-env=a.b=HOME push",
    "git --config-env a.b=HOME push",
    "git --exec-path=/usr/lib/git-core push",
    "git --no-optional-locks --literal-pathspecs push",
    "git -c alias.x=push x",
    "git -c 'alias.x=!git push' x",
    "git -c alias.log=push log; git push",
    "git p",
    "git -C . p",
    "git shelled",
    "git config alias.y push; git y",
    "/usr/bin/git -C . push",
    "'git' \"-C\" . 'push'",
    "gi''t -C . pu\\sh",
    "env git -C . push",
    'env - PATH="$PATH" git push',
    "env -i PATH=/usr/bin:/bin git -C . push",
    "env -u X -- git -C . push",
    "env -S 'git push'",
    "nice -n 5 git -C . push",
    "nice -n5 git push",
    "timeout 5 git --no-pager push",
    "timeout -k1 -s9 5 git push",
    "nohup git -C . push",
    "command git -C . push",
    "command -p git push",
    "exec git -C . push",
    "stdbuf -o0 git push",
    "setsid -w git -C . push",
    "sh -c 'git -C . push'",
    "sh -c 'sh -c \"git -C . push\"'",
    "(git -C . push)",
    "x=$(git -C . push 2>&1)",
    "echo push | xargs git -C .",
    "echo . push | xargs git -C",
    "echo x | xargs -I{} git -C . push",
    "find . -maxdepth 0 -exec git -C {} push \\;",
    "bash <<E\ngit -C . push\nE",
    "cat <<E\n$(git -C . push)\nE",
    "d='. push'; git -C $d",
    "d='. push'; git -C $d log",
    "w=push; git -C . $w",
    "w=push; git ${w}",
    "git pu$(echo sh)",
    "git -C . {push,x}",
    "git rebase -x 'git push' HEAD~1",
    "git rebase --exec='git push' HEAD~1",
    "git rebase --exe 'git push' HEAD~1",
    "git bisect start HEAD HEAD~1 && git bisect run git push",
    "git submodule foreach 'git push'",
    "git submodule foreach --recursive git -C . push",
    "HOME=$PWD git p",
    "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=alias.x GIT_CONFIG_VALUE_0=push git x",
    "git difftool -y -x 'git push' HEAD~1",
    "git -c core.fsmonitor='git push' status",
    "git -c core.pager='git push' -p log",
    "git -c diff.external='git push' diff HEAD~1",
    "git -c core.hooksPath=. commit --allow-empty -m x",
    "git -c core.pager='git push' -p rebase HEAD~1",
    "git -c help.autocorrect=immediate pusj",
    "git grep --open-files-in-pager='git push' x",
    "git push --dry-run",
    "git -C . push -- x",
]
HARMLESS = [
    "git status",
    "git -C . status",
    "git --no-pager log -3 --oneline",
    "git -c user.name=x commit --allow-empty -m push",
    "git log push",
    "git -C . log -- push",
    "git stash list",
    "git --version",
    "git",
    "git checkout -b push",
    "git commit --allow-empty -m 'git push'",
    "git commit --allow-empty -m 'alias.x=push'",
    "echo git push",
    "timeout 5 git -C . status",
    "git submodule foreach 'git status'",
    "git rebase -x true HEAD~1",
]


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with two commits and aliases of its own."""
    folder = tmp_path_factory.mktemp("repository")
    setup = (
        "git init -q . && git config user.name a && git config user.email a@b && git config alias.p push"
        " && git config alias.shelled '!git push'"
        " && git commit -q --allow-empty -m 1 && git commit -q --allow-empty -m 2"
        " && printf '#!/bin/sh\\ngit push\\n' > pre-commit && chmod +x pre-commit"
        " && git init -q ../inner && git -C ../inner -c user.name=a -c user.email=a@b commit -q --allow-empty -m 1"
        " && git -c protocol.file.allow=always submodule --quiet add ../inner inner && git commit -q -m 3"
    )
    subprocess.run(["bash", "-c", setup], cwd=folder, env=_plain(), check=True, capture_output=True, timeout=60)
    return folder


def _plain() -> dict[str, str]:
    return {"PATH": os.defpath, "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0"}


def pushes(line: str, folder: Path) -> bool:
    """Whether git says that it pushes while the line runs."""
    trace = folder / ".git" / "trace"
    trace.unlink(missing_ok=True)
    environment = {**_plain(), "GIT_TRACE": str(trace), "GIT_PAGER_IN_USE": "1"}
    subprocess.run(
        ["bash", "-c", line],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=20,
        check=False,
    )
    subprocess.run(["git", "bisect", "reset"], cwd=folder, env=_plain(), capture_output=True, timeout=20, check=False)
    return trace.exists() and "built-in: git push" in trace.read_text(errors="replace")


def refused(line: str, rules: Rules) -> str:
    """Why a line may not run; nothing when it may."""
    try:
        rules.judge(line)
    except ToolError as error:
        return str(error)
    return ""


@table("line", PUSHES)
def test_whatever_stands_before_its_words_a_blocked_command_is_refused(line: str) -> None:
    assert refused(line, PUSH).startswith("permission denied: ")


@pytest.mark.long
def test_git_itself_pushes_in_most_of_these_lines(repository: Path) -> None:
    """Or else the table would prove nothing."""
    silent = [line for line in PUSHES if not pushes(line, repository)]
    assert len(silent) < len(PUSHES) // 5, silent


@table("line", HARMLESS)
def test_what_only_looks_like_a_blocked_command_runs(line: str) -> None:
    assert refused(line, PUSH) == ""


@table(
    "rule, line",
    [
        ("docker run", "docker -H tcp://x:1 run y"),
        ("docker run", "docker --context=a -l debug run y"),
        ("docker run", "docker container run y"),
        ("docker run", "docker -Dl debug container run y"),
        ("docker compose up", "docker compose -f x.yml up"),
        ("kubectl delete", "kubectl -n x delete pod y"),
        ("kubectl delete", "kubectl --context=a --v=3 delete pod y"),
        ("kubectl delete", "kubectl my-plugin"),
        ("kubectl delete pod", "kubectl delete -n x pod y"),
        ("npm publish", "npm --silent publish"),
        ("npm publish", "npm publ"),
        ("npm publish", "npm --prefix x publish"),
        ("npm publish", "npm --odd x publish"),
        ("npm install", "npm i x"),
        ("npm install", "npm --loglevel error add x"),
        ("npm run deploy", "npm run -s deploy"),
        ("npm run deploy", "npm run-script deploy"),
        ("pip install", "pip -v install x"),
        ("pip install", "pip --timeout 5 install x"),
        ("pip install", "pip3.12 -q install x"),
        ("pip install", "python3 -m pip install x"),
        ("pip install", "python -Im pip --no-input install x"),
        ("pip install", "python -mpip install x"),
        ("apt install", "apt -y install x"),
        ("apt install", "apt -o A=b -qq install x"),
        ("apt install", "sudo -u root apt -y install x"),
        ("systemctl stop", "systemctl --user stop x"),
        ("systemctl stop", "systemctl -H y stop x"),
        ("systemctl stop", "sudo -n systemctl --no-block stop x"),
        ("sudo reboot", "sudo -u root reboot"),
        ("sudo reboot", "sudo -nu root -- reboot"),
        ("sudo reboot", "sudo A=1 reboot"),
        ("reboot", "sudo --user=root reboot"),
        ("reboot", "sudo -s <<< reboot"),
        ("reboot", "sudo -i reboot"),
        ("reboot", "ssh -p 22 host reboot"),
        ("reboot", "ssh -i key -l me host -- 'ls; sudo reboot'"),
        ("reboot", "ssh -o ProxyCommand=reboot host ls"),
        ("reboot", "ssh host"),
        ("ssh prod", "ssh -p 22 prod ls"),
        ("ssh prod", "ssh -4p22 prod ls"),
        ("reboot", "timeout --signal KILL 5 nice -n 5 env - reboot"),
        ("reboot", "busybox env reboot"),
        ("reboot", "builtin command reboot"),
        ("rm -rf", "rm -fr x"),
        ("rm -rf", "rm -r -f x"),
        ("rm -rf", "rm x -rvf"),
        ("rm -rf", "rm -rf x"),
        ("rm -rf", "rm $x"),
        ("rm -rf", "rm --recursive --force x"),
        ("rm -rf", "rm -R --forc x"),
        ("rm --force", "rm -f x"),
        ("docker run", "find run -exec docker {} x \\;"),
        ("systemctl stop", "systemctl --message x stop y"),
        ("git push", "git subtree push --prefix x"),
        ("reboot", "doas -a passwd reboot"),
        ("reboot", "trap 'sudo reboot' EXIT"),
        ("git push --force", "git push origin --force"),
        ("git push --force", "git -C . push origin main --for"),
        ("git push -f", "git push -uf origin"),
        ("git push", "git-push"),
        ("git push", "/usr/lib/git-core/git-push origin"),
        ("own deploy", "own --odd deploy"),
        ("own deploy", "own --odd x deploy"),
        ("own deploy", "own $x"),
        ("own deploy", "own -- deploy"),
    ],
)
def test_options_are_looked_past_or_the_line_is_refused(rule: str, line: str) -> None:
    assert refused(line, Rules(blocked=(rule,))).startswith("permission denied: ")


@table(
    "rule, line",
    [
        ("docker run", "docker -H tcp://x:1 ps"),
        ("docker compose up", "docker compose -f x.yml ps"),
        ("kubectl delete", "kubectl -n x get pods"),
        ("npm publish", "npm --silent run build"),
        ("npm run deploy", "npm run -s build"),
        ("pip install", "pip -v list"),
        ("apt install", "apt -y update"),
        ("systemctl stop", "systemctl --user status x"),
        ("sudo reboot", "sudo -u root ls"),
        ("reboot", "ssh -p 22 host uptime"),
        ("rm -rf", "rm -r x"),
        ("rm -rf", "rm --recursive x"),
        ("rm -rf", "git rm -rf x"),
        ("git log", "git -c core.pager=cat diff"),
        ("rm -rf", "rm x"),
        ("git push --force", "git push origin"),
        ("own deploy", "own --odd build"),
        ("own deploy", "own build deploy"),
        ("find -delete", "find . -type d -maxdepth 1 -empty -print"),
    ],
)
def test_other_commands_of_the_same_program_run(rule: str, line: str) -> None:
    assert refused(line, Rules(blocked=(rule,))) == ""


ALLOWED = Rules(allowed=("git log", "git grep", "git fetch", "docker ps", "npm run test", "own show", "xargs"))


@pytest.mark.parametrize(
    "line",
    [
        "git log",
        "git -C sub log -3 --text",
        "git --no-pager -C sub log --oneline -- $file",
        "git grep -n x",
        "docker -l debug ps -a",
        "npm -s run test",
        "npm run -s test",
        "own show --odd",
    ],
)
def test_an_allowed_command_may_have_harmless_options_before_its_words(line: str) -> None:
    assert refused(line, ALLOWED) == ""


@table(
    "line",
    [
        "git log --ext-diff -p",
        "git log --ext -p",
        "git log -p --textconv",
        "git log --textc",
        "git log --show-signature",
        "git grep -Oevil x",
        "git grep -lOevil x",
        "git grep --open-files-in-pager=evil x",
        "git fetch --upload-pack=evil .",
        "git fetch --upl evil .",
        "git fetch 'ext::sh -c evil'",
        "git -c alias.log=evil log",
        "git -c core.pager=evil log",
        "git -c a=b log",
        "git -ccore.pager=evil log",
        "git --config-env=core.pager=X log",
        "git --exec-path=. log",
        "git --git-dir=x log",
        "git --git-dir x log",
        "git --work-tree=x log",
        "git -p log",
        "git --odd log",
        "git -C $x log",
        "git lg",
        "git log $x",
        "git log --ext{-,}diff",
        "echo --ext-diff | xargs git log",
        "HOME=x git log",
        "XDG_CONFIG_HOME=x git log",
        "for PATH in /x; do git log; done",
        "printf -v PATH /x; git log",
        "printf -vPATH /x; git log",
        "unset PATH; : ${PATH:=/x}; git log",
        "BASH_CMDS[git]=/x/evil; git log",
        "GCONV_PATH=/x git log",
        "TAR_OPTIONS=--to-command=evil git log",
        "export HOME=x; git log",
        "GIT_EXTERNAL_DIFF=evil git log",
        "git-log",
        "/usr/bin/git log",
        "docker -H tcp://x ps",
        "docker --config x ps",
        "docker container ps",
        "npm --script-shell=evil run test",
        "npm --prefix x run test",
        "npm run te",
        "npm rum test",
        "own --odd show",
        "own --odd=1 show",
        "sudo git log",
        "env - git log",
        "ssh host git log",
    ],
)
def test_what_makes_an_allowed_command_another_one_is_refused(line: str) -> None:
    assert refused(line, ALLOWED).startswith("permission denied: ")


def test_a_rule_may_name_the_option_that_others_are_refused_for() -> None:
    assert refused("git log --ext-diff -p", Rules(allowed=("git log --ext-diff",))) == ""
    assert refused("git log --ext-diff -p", Rules(allowed=("git log", "git"))) == "", "any arguments"


def test_the_refusal_names_the_option_that_is_not_known_and_the_rule() -> None:
    assert refused("own --odd x deploy", Rules(blocked=("own deploy",))) == (
        "permission denied: the option --odd of own is not followed (`own --odd x`), so the rule "
        "`own deploy` cannot judge it"
    )
    assert refused("git log --ext-diff", ALLOWED) == (
        "permission denied: `--ext-diff` may have `git log` run another program, so the rules for "
        "commands cannot judge it"
    )
