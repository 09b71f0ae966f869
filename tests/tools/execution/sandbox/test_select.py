"""Which tier is chosen, what doctor says, and that nothing ever runs uncontained instead."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from goclaw.common.config.tools import ExecSettings
from goclaw.common.core.catalog import SANDBOXES
from goclaw.common.core.clock import RealClock
from goclaw.common.core.plugins import load
from goclaw.errors import SandboxUnavailable
from goclaw.tools.execution.sandbox import landlock
from goclaw.tools.execution.sandbox.base import Policy, Sandbox, SandboxCommand, Tier
from goclaw.tools.execution.sandbox.broker import OFF, Broker, open_broker
from goclaw.tools.execution.sandbox.select import metadata_note, open_sandbox, probe, prove
from tests.tools.execution.sandbox.filters import filters_without

pytestmark = pytest.mark.sandbox


@asynccontextmanager
async def _missing(installed: bool = False) -> AsyncIterator[Sandbox]:
    if not installed:
        raise SandboxUnavailable("it is not installed")
    yield Broker()


MISSING = Tier("missing", _missing, lambda: "", "install it")
# Runs everything and contains nothing: the canary has to notice.
LEAKY = Tier("leaky", OFF.open, lambda: "1.0", "buy another")


def only(monkeypatch: pytest.MonkeyPatch, **tiers: str) -> None:
    """Make these the whole catalogue."""
    monkeypatch.setattr("goclaw.tools.execution.sandbox.select.SANDBOXES", tiers)


def here(name: str) -> str:
    """The catalogue's path of a tier of this file."""
    return f"{__name__}:{name}"


async def run(sandbox: Sandbox, workspace: Path) -> bytes:
    command = SandboxCommand(("/bin/sh", "-c", "echo ran; echo ran > ran"), workspace, {})
    async with sandbox.run(command, Policy(workspace)) as process:
        return b"".join([chunk async for chunk in process.output])


@pytest.mark.parametrize("name", SANDBOXES)
def test_every_line_of_the_catalogue_is_a_tier_of_that_name(name: str) -> None:
    assert load(SANDBOXES[name], Tier).name == name


async def test_the_sandbox_is_there_at_once_and_proven_when_it_is_used(tmp_path: Path) -> None:
    async with asyncio.timeout(30), open_sandbox(ExecSettings()) as sandbox:
        assert sandbox.tier == "unproven"
        try:
            assert await run(sandbox, tmp_path) == b"ran\n"
        except SandboxUnavailable as error:
            pytest.skip(str(error))
        assert sandbox.tier in ("bubblewrap", "broker")


@pytest.mark.promise("P-exec-never-open")
async def test_the_canary_notices_modes_that_can_be_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    if not landlock.abi():
        pytest.skip("no Landlock: the broker does not work here")
    filters_without("among_strangers", monkeypatch)
    async with open_broker() as sandbox:
        with pytest.raises(SandboxUnavailable, match="the mode of a hidden folder could be changed"):
            await prove(sandbox, "none", RealClock())


async def test_the_doctor_says_that_modes_are_fixed(monkeypatch: pytest.MonkeyPatch) -> None:
    if not landlock.abi():
        pytest.skip("no Landlock: the broker does not work here")
    [before] = await probe(ExecSettings(sandbox="broker"))
    filters_without("listened", monkeypatch)
    [report] = await probe(ExecSettings(sandbox="broker"))
    words = "modes, owners and times of files cannot be changed, not even in the workspace"
    assert report.works and words in report.text and words not in before.text
    assert "to fix this, run GoClaw outside of that sandbox" in report.text


@pytest.mark.parametrize(("value", "named"), [("2", True), ("3", True), ("1", False), ("0", False)])
def test_the_setting_of_the_host_that_keeps_modes_fixed_is_named(value: str, named: bool, tmp_path: Path) -> None:
    (tmp_path / "ptrace_scope").write_text(f"{value}\n")
    note = metadata_note(tmp_path / "ptrace_scope")
    assert (
        (f"ptrace_scope is {value}; to fix this, run `sysctl kernel.yama.ptrace_scope=1` on the host") in note
    ) == named


@pytest.mark.promise("P-exec-never-open")
@pytest.mark.parametrize("tier", ["MISSING", "LEAKY"])
async def test_without_containment_nothing_runs(tier: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, bubblewrap=here(tier))

    async with asyncio.timeout(30), open_sandbox(ExecSettings()) as sandbox:
        with pytest.raises(SandboxUnavailable, match="exec is disabled"):
            await run(sandbox, tmp_path)
        with pytest.raises(SandboxUnavailable) as caught:
            await run(sandbox, tmp_path)
        assert sandbox.tier == "none"

    assert not (tmp_path / "ran").exists()
    told = "install it" if tier == "MISSING" else "a hidden file could be read"
    assert told in str(caught.value)


async def test_the_next_tier_is_taken_when_the_first_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, bubblewrap=here("MISSING"), broker=SANDBOXES["broker"])

    async with asyncio.timeout(30), open_sandbox(ExecSettings()) as sandbox:
        try:
            assert await run(sandbox, tmp_path) == b"ran\n"
        except SandboxUnavailable as error:
            pytest.skip(str(error))
        assert sandbox.tier == "broker"


async def test_off_runs_only_because_the_configuration_says_so(tmp_path: Path) -> None:
    async with asyncio.timeout(30), open_sandbox(ExecSettings(sandbox="off")) as sandbox:
        assert sandbox.tier == "off"
        assert await run(sandbox, tmp_path) == b"ran\n"
    assert [report.text for report in await probe(ExecSettings(sandbox="off"))] == [
        "OFF (commands run with all rights of the daemon's user)"
    ]


async def test_doctor_hears_of_every_tier(monkeypatch: pytest.MonkeyPatch) -> None:
    reports = await probe(ExecSettings())

    assert [report.tier for report in reports] == ["bubblewrap", "broker"]
    for report in reports:
        assert report.text.startswith(f"{report.tier} ")
        assert (" OK (files" in report.text) == report.works
        assert report.works or report.remedy

    only(monkeypatch, bubblewrap=here("MISSING"), broker=here("LEAKY"))
    missing, leaky = await probe(ExecSettings())
    assert (missing.works, missing.text) == (False, "missing does not work: it is not installed")
    assert not leaky.works
    assert "other processes could be signalled" in leaky.text
