"""`tools.cli`: tools from the configuration alone, and what is refused of them."""

import re
from pathlib import Path

import pytest

from goclaw.common.config.load import load_config
from goclaw.common.config.tools import CliToolSettings
from goclaw.errors import ConfigError


def refused(tmp_path: Path, tool: str) -> str:
    file = tmp_path / "config.yaml"
    file.write_text(f"tools:\n  cli:\n    {tool}\n")
    with pytest.raises(ConfigError) as caught:
        load_config(file, environ={"GOCLAW_STATE_DIR": str(tmp_path / "state")})
    return str(caught.value).replace(f"{file}:", "")


@pytest.mark.parametrize(
    ("tool", "problem"),
    [
        ("Lint: {command: ruff, description: D}", "3:5: tools.cli.Lint: should be a name in snake_case"),
        ("2lint: {command: ruff, description: D}", "3:5: tools.cli.2lint: should be a name in snake_case"),
        ("exec: {command: ruff, description: D}", "3:5: tools.cli.exec: is the name of a built-in tool"),
        ("lint: {description: D}", "3:5: tools.cli.lint.command: is missing"),
        ("lint: {command: ruff}", "3:5: tools.cli.lint.description: is missing"),
        ("lint: {command: ruff check, description: D}", "3:12: tools.cli.lint.command: should be one program"),
        ("lint: {command: '', description: D}", "3:12: tools.cli.lint.command: should be the name or the path"),
        ("lint: {command: ruff, arg: [x], description: D}", "3:27: tools.cli.lint.arg: unknown key; did you mean"),
        ("lint: {command: ruff, timeout: 0, description: D}", "3:27: tools.cli.lint.timeout: should be more than 0"),
        (
            "lint: {command: ruff, description: D, read_only: true, destructive: true}",
            "3:5: tools.cli.lint: `read_only` and `destructive` exclude each other",
        ),
        ('lint: {command: ruff, args: ["a\\0"], description: D}', "3:27: tools.cli.lint.args: should contain no NUL"),
    ],
)
def test_a_tool_that_cannot_be_is_refused_with_its_place(tool: str, problem: str, tmp_path: Path) -> None:
    assert re.match(re.escape(problem), refused(tmp_path, tool)), refused(tmp_path, tool)


def test_arguments_are_split_as_a_shell_would_and_come_behind_the_first_ones() -> None:
    lint = CliToolSettings(command="lint", args=("run", "--fast"), description="D")
    assert lint.words("--fix 'a b' $HOME; x") == ("lint", "run", "--fast", "--fix", "a b", "$HOME;", "x")
    assert lint.line("--fix 'a b' $(id)") == "lint run --fast --fix 'a b' '$(id)'"
    with pytest.raises(ValueError, match="No closing quotation"):
        lint.words("'a")
