"""Without a sandbox the probes get out. That no tier lets them is shown on a daemon (`adversarial/test_attacks.py`)."""

import os
from pathlib import Path

import pytest

from goclaw.tools.execution.sandbox.base import Policy, SandboxCommand
from goclaw.tools.execution.sandbox.broker import open_off
from tests.together import together
from tests.tools.execution.sandbox.probes import PROBES, WEAKER, program, world

AT_ONCE = 4


def folder_of(probe: str) -> str:
    """A short name, which a path socket has room for."""
    return f"probe{list(PROBES).index(probe)}"


def test_every_tier_holds_more_probes_than_were_promised() -> None:
    """23 was the list of the first study; what a tier does not hold is named, and nothing else."""
    assert set(WEAKER) <= {"broker"}
    assert set(WEAKER["broker"]) < set(PROBES)
    assert len(PROBES) >= 60
    assert len(PROBES) - len(WEAKER["broker"]) >= 23


@pytest.mark.sandbox
@pytest.mark.skipif(os.geteuid() != 0, reason="some controls need root")
@pytest.mark.skipif(not program(), reason="no python3 in /usr to run probes with")
async def test_the_probe_would_get_out_of_no_sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOCLAW_TOKEN", "canary-secret")
    async with open_off() as off:

        async def gets_out(name: str) -> None:
            with world(tmp_path / folder_of(name)) as around:
                argv = (program(), "-I", "-S", "-c", PROBES[name].program)
                command = SandboxCommand(argv, around.workspace, around.env)
                async with off.run(command, Policy(around.workspace, hidden=(around.state,))) as process:
                    output = b"".join([chunk async for chunk in process.output]).decode()
                    await process.wait()
                assert "ESCAPED" in output and "finished" in output, output

        await together(gets_out, {name: name for name, probe in PROBES.items() if probe.control}, AT_ONCE)
