"""What a contained command cannot do, in every tier."""

import os
import subprocess
from pathlib import Path

import pytest

from goclaw.execution.sandbox.base import Policy, Sandbox, SandboxCommand
from goclaw.execution.sandbox.broker import open_off
from tests.execution.sandbox.probes import PROBES, WEAKER, Probe, World, escapes, program, table, world
from tests.lanes import repeats
from tests.together import together

AS_A_PLAIN_USER = repeats(
    [
        "write a file outside",
        "read the state folder",
        "hard-link a file from outside",
        "read the daemon's environment",
        "connect to loopback",
        "connect to a path socket",
        "new user namespace by clone",
        "trace the daemon",
        "kill the daemon",
        "set the set-user-id bit",
        "change a file's mode outside",
        "change a file's times outside",
        "change a mode while its path changes",
    ],
    list(PROBES),
)
AT_ONCE = 4

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.skipif(not program(), reason="no python3 in /usr to run probes with"),
]


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """Something to be found in this process's environment."""
    monkeypatch.setenv("GOCLAW_TOKEN", "canary-secret")


def folder_of(probe: str) -> str:
    """A short name, which a path socket has room for."""
    return f"probe{list(PROBES).index(probe)}"


async def attempt(sandbox: Sandbox, probe: Probe, around: World) -> str:
    command = SandboxCommand((program(), "-I", "-S", "-c", probe.program), around.workspace, around.env)
    async with sandbox.run(command, Policy(around.workspace, hidden=(around.state,))) as process:
        output = b"".join([chunk async for chunk in process.output]).decode()
        await process.wait()
    assert "finished" in output, output
    return output


@pytest.mark.promise("P-exec-contained")
async def test_a_hostile_command_gets_nowhere(sandbox: Sandbox, tmp_path: Path) -> None:
    """Each in a world of its own, some at the same time."""

    async def gets_nowhere(name: str) -> None:
        with world(tmp_path / folder_of(name)) as around:
            output = await attempt(sandbox, PROBES[name], around)
            assert ("ESCAPED" in output) == escapes(name, sandbox.tier), output
            assert around.harm() == []

    await together(gets_nowhere, {name: name for name in PROBES}, AT_ONCE)


def test_every_tier_holds_more_probes_than_were_promised() -> None:
    """23 was the list of the first study; what a tier does not hold is named, and nothing else."""
    assert set(WEAKER) <= {"broker"}
    assert set(WEAKER["broker"]) < set(PROBES)
    assert len(PROBES) >= 60
    assert len(PROBES) - len(WEAKER["broker"]) >= 23
    lines = table().splitlines()
    assert [line.split(" | ")[0].removeprefix("| ") for line in lines[2:]] == list(PROBES)
    assert sum("no, documented" in line for line in lines) == len(WEAKER["broker"])
    page = (Path(__file__).parents[3] / "docs" / "security.md").read_text()
    assert [line for line in lines if line not in page.splitlines()] == [], (
        "run `python -m tests.execution.sandbox.probes`"
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="some controls need root")
async def test_the_probe_would_get_out_of_no_sandbox(tmp_path: Path) -> None:
    async with open_off() as off:

        async def gets_out(name: str) -> None:
            with world(tmp_path / folder_of(name)) as around:
                assert "ESCAPED" in await attempt(off, PROBES[name], around)

        await together(gets_out, {name: name for name, probe in PROBES.items() if probe.control}, AT_ONCE)


@pytest.mark.deep
@pytest.mark.skipif(os.geteuid() != 0, reason="already a plain user: the other tests prove it")
def test_the_containment_is_the_same_for_a_plain_user() -> None:
    nobody = 65534
    version = [program(), "-c", "import sys; assert sys.version_info >= (3, 11)"]
    if subprocess.run(version, check=False, stderr=subprocess.DEVNULL).returncode:
        pytest.skip("the system's python3 is older than 3.11")

    told = subprocess.run(
        [program(), "-m", "tests.execution.sandbox.as_plain_user", *AS_A_PLAIN_USER],
        cwd=Path(__file__).parents[3],
        env={"PATH": "/usr/bin:/bin", "GOCLAW_TOKEN": "canary-secret", "PYTHONDONTWRITEBYTECODE": "1"},
        user=nobody,
        group=nobody,
        extra_groups=[],
        capture_output=True,
        text=True,
        timeout=repeats(55, 600),
        check=True,
    )

    lines = told.stdout.splitlines()
    assert lines, told.stderr
    assert [
        line for line in lines if not line.endswith(f"{len(AS_A_PLAIN_USER)} probes") and "unavailable" not in line
    ] == []
