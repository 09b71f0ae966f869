"""Tools from the configuration alone: no shell, and for the rest what `exec` promises."""

from pathlib import Path
from typing import Any

import pytest

from goclaw.common.auth.access import Access, ChosenMode
from goclaw.common.auth.users import Users
from goclaw.common.config.schema import Config
from goclaw.common.config.tools import CliToolSettings
from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.events import Actor
from goclaw.common.specs import Annotations, Risk
from goclaw.errors import InvalidInput, ToolError
from goclaw.tools.approval.policy import decide
from goclaw.tools.builtin.cli_source import cli_tool
from goclaw.tools.builtin.exec import exec_
from goclaw.tools.execution.sandbox.base import Sandbox
from goclaw.tools.toolkit.arguments import validate
from goclaw.tools.toolkit.base import Tool
from goclaw.tools.toolkit.registry import Registry
from goclaw.tools.toolkit.sources import open_sources
from tests.parts import NoSandbox
from tests.tools.builtin.file_support import around
from tests.tools.builtin.memory_support import Surroundings
from tests.tools.execution.sandbox.conftest import sandbox

__all__ = ["around", "sandbox"]

OWNER = Actor("tui:me", "cli", owner=True)


@pytest.fixture
def ready(around: Surroundings, sandbox: Sandbox) -> Surroundings:
    around.sandbox = sandbox
    return around


def made(command: str = "printf", *args: str, **given: Any) -> Tool:
    return cli_tool("show", CliToolSettings(command=command, args=args, description="Show words.", **given))


def settings(around: Surroundings, **given: Any) -> None:
    around.config = Config.model_validate({"state_dir": around.config.state_dir, "tools": {"exec": given}})


@pytest.mark.sandbox
@pytest.mark.parametrize(
    ("args", "said"),
    [
        ("a b", "<a><b>"),
        ("'a b' \"c d\" e\\ f", "<a b><c d><e f>"),
        (
            "$HOME `id` $(id) ; rm -rf . && x | y > z * ~",
            "<$HOME><`id`><$(id)><;><rm><-rf><.><&&><x><|><y><>><z><*><~>",
        ),
        ("", "<>"),
    ],
)
async def test_arguments_are_words_and_never_shell(args: str, said: str, ready: Surroundings) -> None:
    assert await ready.call(made("printf", "<%s>"), {"args": args}) == f"{said}\nexit code: 0"


@pytest.mark.sandbox
async def test_it_runs_in_the_workspace_with_the_environment_of_exec(ready: Surroundings) -> None:
    settings(ready, env={"COLOUR": "blue"})
    assert f"{ready.the_workspace.root}\nexit code: 0" == await ready.call(made("pwd"), {})
    assert "COLOUR=blue\n" in await ready.call(made("env"), {})
    assert await ready.call(made("false"), {}) == "exit code: 1"


@pytest.mark.sandbox
async def test_a_script_of_the_workspace_is_run_by_its_path(ready: Surroundings) -> None:
    script = ready.write("tools/hello", "#!/bin/sh\necho hello $1\n")
    with pytest.raises(ToolError, match=r"tools/hello cannot be run: it is not executable"):
        await ready.call(made("tools/hello"), {})
    script.chmod(0o755)
    assert await ready.call(made("./tools/hello"), {"args": "you"}) == "hello you\nexit code: 0"


@pytest.mark.sandbox
@pytest.mark.promise("P-exec-timeout")
async def test_its_time_is_its_own_else_that_of_exec(ready: Surroundings) -> None:
    settings(ready, timeout=0.2)
    with pytest.raises(ToolError, match=r"^command timed out after 0\.2 s$"):
        await ready.call(made("sleep"), {"args": "60"})
    with pytest.raises(ToolError, match=r"^command timed out after 0\.1 s$"):
        await ready.call(made("sleep", timeout=0.1), {"args": "60"})


@pytest.mark.sandbox
async def test_a_long_output_is_cut_and_kept_as_with_exec(ready: Surroundings) -> None:
    settings(ready, output_limit=1000)
    said = await ready.call(made("seq"), {"args": "100000"})
    assert said.startswith("1\n2\n3\n") and ", of 588,895 bytes; the whole is kept as output:" in said
    assert said.endswith("\n100000\nexit code: 0")


async def test_a_command_that_is_not_there_is_told_in_words(around: Surroundings, tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"^command not found: no-such-linter; install it \(it is looked for in /usr"):
        await around.call(made("no-such-linter"), {})
    with pytest.raises(ToolError, match=r"^command not found: \./missing$"):
        await around.call(made("./missing"), {})
    outside = tmp_path / "tool"
    outside.write_text("#!/bin/sh\n")
    outside.chmod(0o755)
    with pytest.raises(ToolError, match="which the sandbox does not show: install it below /usr"):
        await around.call(made(str(outside)), {})


async def test_the_rules_of_exec_judge_it(around: Surroundings) -> None:
    settings(around, blocked=["git push"])
    with pytest.raises(ToolError, match=r"`git push --force` is blocked by the rule"):
        await around.call(made("git"), {"args": "push --force"})
    with pytest.raises(ToolError, match=r"`git -C \. push` is blocked by the rule"):
        await around.call(made("git"), {"args": "-C . push --force"})
    settings(around, blocked=["rm"])
    with pytest.raises(ToolError, match=r"`rm -rf x` is blocked by the rule"):
        await around.call(made("env"), {"args": "rm -rf x"})
    settings(around, allowed=["git status"])
    with pytest.raises(ToolError, match=r"`ls` is not among the allowed commands"):
        await around.call(made("ls"), {})


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        ("'open", "cannot be split into words: no closing quotation"),
        ("a\0b", "without NUL"),
        ("'' " * 40_000, "at most 100000"),
    ],
)
async def test_what_cannot_be_an_argument_is_bad_input(args: str, problem: str, around: Surroundings) -> None:
    with pytest.raises(InvalidInput, match=problem):
        await around.call(made("true"), {"args": args})


@pytest.mark.parametrize(
    ("tier", "network", "risk"),
    [("bubblewrap", "none", Risk.CONTAINED), ("broker", "host", Risk.HIGH), ("off", "none", Risk.CRITICAL)],
)
def test_its_risk_is_that_of_exec(tier: str, network: str, risk: Risk, around: Surroundings) -> None:
    around.sandbox = NoSandbox()
    around.sandbox.tier = tier
    settings(around, network=network)
    assert around.risk(made(), {}) == around.risk(exec_, {"command": "true"}) == risk
    assert not made().spec.idempotent and made().own_timeout


READS, DESTROYS = {"read_only": True}, {"destructive": True}


@pytest.mark.parametrize(
    ("said", "tier", "network", "risk", "in_plan"),
    [
        (READS, "bubblewrap", "none", Risk.LOW, "run"),
        (READS, "bubblewrap", "proxy", Risk.HIGH, "refuse"),
        (READS, "off", "none", Risk.CRITICAL, "refuse"),
        (DESTROYS, "bubblewrap", "none", Risk.CRITICAL, "refuse"),
        ({"destructive": False}, "bubblewrap", "none", Risk.CONTAINED, "refuse"),
        ({"destructive": False}, "off", "none", Risk.CRITICAL, "refuse"),
    ],
)
def test_what_is_said_of_it_decides_what_runs_and_nothing_lowers_what_is_uncontained(
    said: dict[str, Any], tier: str, network: str, risk: Risk, in_plan: str, around: Surroundings
) -> None:
    around.sandbox = NoSandbox()
    around.sandbox.tier = tier
    settings(around, network=network)
    shown = made(**said)
    assert around.risk(shown, {}) == risk
    access, plan = Access(Users(), around.config), ChosenMode("plan", "default")
    assert decide(access, OWNER, shown.spec, around.risk(shown, {}), chosen=plan) == in_plan


def test_clients_are_told_what_is_said_and_of_the_rest_the_worst() -> None:
    assert made().spec.annotations == Annotations("", False, True, False, True)
    assert made(read_only=True, title="Count").spec.annotations == Annotations("Count", True, None, True, True)
    told = made(destructive=False, idempotent=True, open_world=False).spec
    assert told.annotations == Annotations("", False, False, True, False) and told.idempotent
    assert made(read_only=True).spec.idempotent and not made(read_only=True, idempotent=False).spec.idempotent


@pytest.mark.sandbox
@pytest.mark.promise("P-modes")
async def test_what_only_reads_can_change_nothing_in_the_workspace(ready: Surroundings) -> None:
    ready.write("notes.txt", "old\n")
    assert await ready.call(made("cat", read_only=True), {"args": "notes.txt"}) == "old\nexit code: 0"
    for line in ("touch new.txt", "rm notes.txt", "mkdir folder", "truncate -s0 notes.txt"):
        command, _, args = line.partition(" ")
        said = await ready.call(made(command, read_only=True), {"args": args})
        assert said.endswith("exit code: 1"), said
    assert sorted(path.name for path in ready.the_workspace.root.iterdir() if path.is_file()) == ["notes.txt"]
    assert (ready.the_workspace.root / "notes.txt").read_text() == "old\n"
    assert await ready.call(made("touch"), {"args": "new.txt"}) == "exit code: 0"


async def test_who_approves_sees_what_is_run_and_the_script_that_it_names(around: Surroundings) -> None:
    around.write("check.sh", "echo 1")
    tool = made("./check.sh", "--all")
    assert tool.grounds
    before = await tool.grounds(validate(tool.arguments, {"args": "x"}), around.context())
    assert any("check.sh" in line for line in before.lines)
    around.write("check.sh", "echo 2")
    assert (await tool.grounds(validate(tool.arguments, {"args": "x"}), around.context())).facts != before.facts


def test_the_model_reads_what_the_operator_wrote_and_what_comes_before_its_words() -> None:
    spec = made("golangci-lint", "run", "--fast", tags=["go"]).spec
    assert spec.short == "Show words."
    assert "`golangci-lint run --fast`" in spec.description
    assert spec.tags == {"cli", "shell", "go"}
    assert spec.schema["properties"]["args"]["type"] == "string" and "required" not in spec.schema


async def test_the_configuration_alone_makes_tools(tmp_path: Path) -> None:
    entry = {"command": "wc", "args": ["-l"], "description": "Count lines."}
    gone = {"command": "no-such-linter", "description": "Lint."}
    config = Config.model_validate({"state_dir": tmp_path, "tools": {"cli": {"count": entry, "lint": gone}}})
    async with open_sources(config, SteppedClock()) as sources:
        registry = Registry([sources], Access(Users(), config))
        assert registry.find("count", OWNER) and registry.find("lint", OWNER)
        assert sources.origin("count") == "config tools.cli"
        assert list(sources.faults) == ["tools.cli.lint"]
        assert sources.faults["tools.cli.lint"].startswith("command not found: no-such-linter")
