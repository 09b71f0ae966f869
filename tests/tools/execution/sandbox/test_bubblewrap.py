"""What bubblewrap is asked for, seen from inside: each flag by what it does."""

import os
from pathlib import Path

import pytest

from goclaw.common.core.clock import RealClock
from goclaw.errors import SandboxUnavailable
from goclaw.tools.execution.sandbox.base import Policy, Sandbox, SandboxCommand
from goclaw.tools.execution.sandbox.bubblewrap import open_bubblewrap
from goclaw.tools.execution.sandbox.select import prove
from tests.tools.execution.sandbox.probes import INSIDE_PATH, program

pytestmark = [pytest.mark.sandbox, pytest.mark.skipif(not program(), reason="no python3 in /usr")]

NAMESPACES = ("user", "mnt", "pid", "ipc", "net", "uts", "cgroup")
LOOK = """
import os, sys
status = dict(line.split(":", 1) for line in open("/proc/self/status").read().splitlines())
for name in ("NoNewPrivs", "Seccomp", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
    print(name, status[name].strip())
for name in %r:
    print("namespace", name, os.readlink(f"/proc/self/ns/{name}"))
print("session", os.getsid(0) > 0, os.getpgid(0) == os.getsid(0) or os.getsid(0) == 1)
print("map", *open("/proc/self/uid_map").read().split())
print("mounts", *sorted(line.split()[4] + "=" + line.split()[5].split(",")[0] for line in open("/proc/self/mountinfo")))
print("interfaces", *[line.split(":")[0].strip() for line in open("/proc/net/dev").read().splitlines()[2:]])
print("first", open("/proc/1/comm").read().strip())
for path in ("/", "/usr", "/etc", "/proc", "/dev", "/dev/shm", "/tmp", os.getcwd()):
    try:
        os.mkdir(os.path.join(path, "made")); print("writable", path)
    except OSError: pass
""" % (NAMESPACES,)  # noqa: UP031 -- the program is full of braces


@pytest.fixture
async def seen(tmp_path: Path) -> dict[str, list[str]]:
    """The words of every line that the program prints, by the first one."""
    try:
        async with open_bubblewrap() as sandbox:
            await prove(sandbox, "none", RealClock())
            output = await look(sandbox, tmp_path)
    except SandboxUnavailable as error:
        pytest.skip(f"bubblewrap does not work here: {error}")
    found: dict[str, list[str]] = {}
    for line in output.splitlines():
        name, _, rest = line.partition(" ")
        found[name] = found.get(name, []) + rest.split()
    return found


async def look(sandbox: Sandbox, workspace: Path) -> str:
    command = SandboxCommand((program(), "-I", "-S", "-c", LOOK), workspace, {"PATH": INSIDE_PATH})
    async with sandbox.run(command, Policy(workspace)) as process:
        return b"".join([chunk async for chunk in process.output]).decode()


@pytest.mark.promise("P-exec-contained")
async def test_every_namespace_is_the_command_s_own(seen: dict[str, list[str]]) -> None:
    pairs = dict(zip(seen["namespace"][::2], seen["namespace"][1::2], strict=True))
    ours = {name: os.readlink(f"/proc/self/ns/{name}") for name in NAMESPACES}  # noqa: PTH115 -- no file has this name
    assert sorted(pairs) == sorted(NAMESPACES)
    assert {name for name in NAMESPACES if pairs[name] == ours[name]} == set()


async def test_no_power_is_left_and_none_can_be_gained(seen: dict[str, list[str]]) -> None:
    assert seen["NoNewPrivs"] == ["1"]
    assert seen["Seccomp"] == ["2"]
    assert {seen[name][0] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
    # One id and no other: what its owner may not read of the workspace, nobody inside may.
    assert (seen["map"][0], seen["map"][2]) == (str(os.geteuid()), "1")
    assert seen["session"] == ["True", "True"]


async def test_only_the_workspace_and_tmp_are_writable(seen: dict[str, list[str]], tmp_path: Path) -> None:
    assert seen["writable"] == ["/dev/shm", "/tmp", str(tmp_path)]
    mounts = dict(entry.split("=") for entry in seen["mounts"])
    assert mounts["/"] == mounts["/usr"] == mounts["/etc"] == mounts["/proc"] == mounts["/dev"] == "ro"
    assert mounts["/tmp"] == mounts[str(tmp_path)] == "rw"
    assert not {"/sys", "/run", "/var", "/home", "/root"} & set(mounts)


async def test_there_is_no_interface_but_loopback_and_no_process_but_its_own(seen: dict[str, list[str]]) -> None:
    assert seen["interfaces"] == ["lo"]
    assert seen["first"] == ["bwrap"]
