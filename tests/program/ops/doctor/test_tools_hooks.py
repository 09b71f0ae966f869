"""The doctor says which hooks cannot be called."""

from pathlib import Path

import pytest

from goclaw.common.config.load import load_config
from goclaw.program.ops.doctor.tools import check_hooks
from tests.tools.hooks.support import script


def flat_script(folder: Path) -> str:
    place = script(folder, "true", "flat.sh")
    Path(place).chmod(0o644)
    return place


async def test_hooks_that_cannot_be_called_are_named_with_their_place(tmp_path: Path) -> None:
    good, flat = script(tmp_path, "true"), flat_script(tmp_path)
    file = tmp_path / "config.yaml"
    file.write_text(
        f"hooks:\n  - {{name: guard, on: pre_tool, command: {good}}}\n"
        "  - {on: message_in, command: no-such-guard -x}\n"
        f"  - {{on: post_tool, command: {flat}}}\n"
    )
    lost, closed, works = await check_hooks(load_config(file, environ={"GOCLAW_STATE_DIR": str(tmp_path / "state")}))
    assert lost.verdict == "problem" and "no-such-guard -x: there is no executable program no-such-guard" in lost.text
    assert lost.remedy == f"fix `hooks[1].command` ({file}:3:22)"
    assert closed.verdict == "problem" and "make it executable" in closed.text
    assert (works.verdict, works.text) == ("ok", "guard (pre_tool)")


async def test_a_script_that_is_not_there_is_named_and_other_words_are_not(tmp_path: Path) -> None:
    there = script(tmp_path, "true")
    file = tmp_path / "config.yaml"
    file.write_text(
        f"hooks:\n  - {{name: lost, on: pre_tool, command: sh {tmp_path}/guard.sh}}\n"
        f"  - {{name: there, on: pre_tool, command: sh {there} {tmp_path}/later.log}}\n"
        "  - {name: inline, on: pre_tool, command: sh -c true}\n"
    )
    lost, works = await check_hooks(load_config(file, environ={"GOCLAW_STATE_DIR": str(tmp_path / "state")}))
    assert (lost.verdict, lost.text) == ("warning", f"lost: {tmp_path}/guard.sh does not exist")
    assert lost.remedy == f"create it, or fix `hooks[0].command` ({file}:2:32)"
    assert works.text == "lost (pre_tool); there (pre_tool); inline (pre_tool)"


async def test_without_hooks_nothing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert await check_hooks(load_config(environ={"GOCLAW_STATE_DIR": str(tmp_path / "state")})) == []
