"""Hooks of the configuration: what is refused, and where the error says it is."""

from pathlib import Path

import pytest

from goclaw.common.config.load import Loaded, load_config
from goclaw.errors import ConfigError


def loaded(folder: Path, text: str) -> Loaded:
    file = folder / "config.yaml"
    file.write_text(text)
    return load_config(file, environ={"GOCLAW_STATE_DIR": str(folder / "state")})


def test_a_command_is_split_as_a_shell_would_and_a_point_may_stand_alone(tmp_path: Path) -> None:
    text = "hooks:\n  - on: pre_tool\n    match: exec, tag:write\n    command: guard.py --root '/a b' $HOME ~/x\n"
    (hook,) = loaded(tmp_path, text).config.hooks
    assert (hook.on, hook.match) == (("pre_tool",), ("exec", "tag:write"))
    assert hook.command == ("guard.py", "--root", "/a b", "$HOME", str(Path("~/x").expanduser()))
    assert (hook.timeout, hook.sandbox, hook.label) == (
        10.0,
        True,
        f"guard.py --root '/a b' '$HOME' {hook.command[-1]}",
    )


def test_a_command_may_be_a_list_and_hooks_may_come_from_the_environment(tmp_path: Path) -> None:
    (hook,) = loaded(tmp_path, "hooks: [{name: a, on: [message_in, message_out], command: [x, 'y z']}]").config.hooks
    assert (hook.command, hook.label) == (("x", "y z"), "a")
    environ = {"GOCLAW_STATE_DIR": str(tmp_path), "GOCLAW_HOOKS": '[{"on": "post_tool", "command": "a b"}]'}
    assert load_config(environ=environ).config.hooks[0].command == ("a", "b")


@pytest.mark.parametrize(
    ("line", "place", "message"),
    [
        ("{on: pre_tol, command: x}", "2:6: hooks[0].on[0]", "did you mean `pre_tool`?"),
        ("{on: [pre_tool, talk], command: x}", "2:21: hooks[0].on[1]", "should be one of pre_tool, post_tool"),
        ("{on: [], command: x}", "2:6: hooks[0].on", "should name at least one point"),
        ("{on: pre_tool}", "2:5: hooks[0].command", "is missing"),
        ("{on: pre_tool, command: ''}", "2:20: hooks[0].command", "should name a program"),
        ('{on: pre_tool, command: "x \'y"}', "2:20: hooks[0].command", "a quotation mark without its partner"),
        ("{on: pre_tool, command: x, timeout: 301}", "2:32: hooks[0].timeout", "should be at most 300"),
        ("{on: pre_tool, command: x, timeout: 0}", "2:32: hooks[0].timeout", "should be more than 0"),
        ("{on: pre_tool, command: x, sandbox: maybe}", "2:32: hooks[0].sandbox", "should be true or false"),
        ("{on: pre_tool, comand: x}", "hooks[0].comand", "unknown key; did you mean `command`?"),
        (
            "{on: message_in, command: x, match: exec}",
            "2:34: hooks[0].match",
            ("is only for tools, but message_in is not"),
        ),
        ('{on: pre_tool, command: x, match: "exec, set:shell"}', "hooks[0].match", "`set:shell`: should contain names"),
        ('{on: pre_tool, command: x, match: "-exec"}', "hooks[0].match", "hooks do not support sets"),
        ("{on: [pre_tool, session_start], command: x, match: a}", "hooks[0].match", "session_start is not"),
    ],
)
def test_what_cannot_be_used_is_told_with_its_place(tmp_path: Path, line: str, place: str, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        loaded(tmp_path, f"hooks:\n  - {line}\n")
    assert any(place in problem and message in problem for problem in refused.value.problems), refused.value.problems


def test_two_hooks_have_two_names(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"3:6: hooks\[1\].name: is also the name of another hook"):
        loaded(tmp_path, "hooks:\n  - {name: a, on: pre_tool, command: x}\n  - {name: a, on: post_tool, command: y}\n")
