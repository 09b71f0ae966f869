"""Hooks that packages bring: found by their entry points; one that cannot be loaded forbids what it may have judged."""

import sys
from pathlib import Path
from typing import Any

import pytest

from goclaw.common.core.plugin_folder import (
    FOLDER,
    InstalledPlugin,
    PluginRecord,
    activate,
    deactivate,
    stamp_of_host,
    write_record,
)
from goclaw.tools.hooks.base import HookAnswer
from goclaw.tools.hooks.open import of_packages
from tests.parts import NoSandbox
from tests.tools.hooks.support import event, opened

GOOD = """
import asyncio
from goclaw.hooks.base import HookAnswer, HookPart

async def look(event):
    if event.input.get("command") == "hang":
        await asyncio.Event().wait()
    if event.input.get("command") == "nothing":
        return None
    return HookAnswer(inject={"tenant": event.actor.key}, context=f"{event.point} {event.tool}")

HOOK = HookPart(["pre_tool"], look, match=["exec", "tag:shell"], seconds=0.05)
ELSEWHERE = HookPart(["pre_tol"], look, match=["read"])
NOWHERE = HookPart([], look)
OTHER = "no hook at all"
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Install a package with these entry points, as pip would leave it behind."""
    place = tmp_path / "site"

    def install(**points: str) -> None:
        info = place / "guards-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: guards\nVersion: 1.0\n")
        lines = "\n".join(f"hooks.{name} = {path}" for name, path in points.items())
        (info / "entry_points.txt").write_text(f"[goclaw.plugins]\n{lines}\n")
        (place / "guards.py").write_text(GOOD)
        (place / "broken_guards.py").write_text("raise RuntimeError('half-installed')\n")
        monkeypatch.syspath_prepend(str(place))

    yield install
    for name in ("guards", "broken_guards"):
        sys.modules.pop(name, None)


async def test_a_hook_of_a_package_is_called_behind_those_of_the_configuration(tmp_path: Path, package: Any) -> None:
    package(tenant="guards:HOOK")
    async with opened(tmp_path, NoSandbox()) as stage:
        assert stage.alerts.open == {}
        answer = await stage.hooks.fire(event())
        assert answer == HookAnswer(inject={"tenant": "telegram:1"}, context="pre_tool exec")
        assert await stage.hooks.fire(event(tool="read", tags=frozenset())) == HookAnswer()


@pytest.mark.parametrize(
    ("command", "why"), [("hang", "it took longer than 0.05 s"), ("nothing", "it returned a NoneType")]
)
async def test_it_fails_as_others_do(tmp_path: Path, package: Any, command: str, why: str) -> None:
    package(tenant="guards:HOOK")
    async with opened(tmp_path, NoSandbox()) as stage:
        assert (await stage.hooks.fire(event(input={"command": command}))).deny.startswith("the hook tenant failed")
        assert why in stage.alerts.open["hook:tenant"]


@pytest.mark.promise("P-hook-closed")
@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("broken_guards:HOOK", "RuntimeError: half-installed"),
        ("guards:NO_SUCH", "cannot be loaded"),
        ("no_such_package:HOOK", "cannot be loaded"),
        ("guards:OTHER", "guards:OTHER is a str, not a HookPart"),
        ("guards:NOWHERE", "it wants to be called at no point"),
    ],
)
async def test_one_that_cannot_be_loaded_forbids_every_tool_and_says_so(
    tmp_path: Path, package: Any, path: str, why: str
) -> None:
    package(guard=path)
    async with opened(tmp_path, NoSandbox()) as stage:
        answer = await stage.hooks.fire(event(tool="read", tags=frozenset()))
        assert "plugin hooks.guard (guards 1.0) cannot be loaded" in answer.deny and why in answer.deny
        assert answer.deny.endswith("every call of a tool is forbidden until you fix or uninstall it")
        assert stage.alerts.open == {"hook that is missing:guard": answer.deny}
        assert "message_in" not in stage.hooks.points


@pytest.mark.promise("P-hook-closed")
async def test_where_it_is_known_what_it_matches_only_that_is_forbidden(tmp_path: Path, package: Any) -> None:
    package(guard="guards:ELSEWHERE")
    async with opened(tmp_path, NoSandbox()) as stage:
        assert "pre_tol" in (await stage.hooks.fire(event(tool="read"))).deny
        assert await stage.hooks.fire(event()) == HookAnswer()


@pytest.mark.promise("P-hook-closed")
async def test_a_hook_of_a_plugin_that_is_left_out_forbids_every_call(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    guards = InstalledPlugin("guards", "guards", "1.0", parts=("tools.x", "hooks.tenant"), fault="is left out: no uv")
    write_record(tmp_path, PluginRecord("", stamp_of_host(), (guards,)))
    try:
        activate(tmp_path)
        ((name, registered, trouble),) = of_packages()
    finally:
        deactivate()
    assert (name, registered.points) == ("tenant", frozenset({"pre_tool"}))
    assert "is left out: no uv; every call of a tool is forbidden" in trouble
    answer = await registered.hook(event("pre_tool"))
    assert answer.deny == trouble
