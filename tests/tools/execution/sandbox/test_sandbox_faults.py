"""Whatever fails at run time: the command is refused in words, and nothing of it has run. Never fails open."""

import asyncio
import errno
import gc
import os
import resource
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import psutil
import pytest

from goclaw.errors import SandboxUnavailable
from goclaw.tools.execution.sandbox import broker, bubblewrap, seccomp
from goclaw.tools.execution.sandbox.base import Policy, Sandbox, SandboxCommand, Tier
from goclaw.tools.execution.sandbox.broker import Broker, open_broker
from goclaw.tools.execution.sandbox.bubblewrap import Bubblewrap, open_bubblewrap
from goclaw.tools.execution.sandbox.configuration_copy import ConfigurationCopy, open_configuration_copy
from tests.descriptors import open_descriptors
from tests.lanes import repeats
from tests.tools.execution.sandbox.probes import INSIDE_PATH

pytestmark = [pytest.mark.sandbox, pytest.mark.promise("P-exec-never-open")]


async def attempt(sandbox: Sandbox, workspace: Path, line: str = "echo ran > ran") -> str:
    """Why the command was refused; `ran` when it was not."""
    command = SandboxCommand(("/bin/sh", "-c", line), workspace, {"PATH": INSIDE_PATH})
    try:
        async with asyncio.timeout(30), sandbox.run(command, Policy(workspace)) as process:
            async for _ in process.output:
                pass
            code = await process.wait()
    except SandboxUnavailable as error:
        if (workspace / "ran").exists():
            raise AssertionError("refused, and run nevertheless") from error
        return str(error) or "refused without a reason"
    assert (workspace / "ran").exists() == (code == 0)
    (workspace / "ran").unlink(missing_ok=True)
    return "ran"


async def refused(sandbox: Sandbox, workspace: Path) -> str:
    said = await attempt(sandbox, workspace)
    assert said != "ran"
    return said


def failing(number: int) -> Callable[..., NoReturn]:
    def fail(*_: Any, **__: Any) -> NoReturn:
        raise OSError(number, os.strerror(number))

    return fail


@contextmanager
def descriptors(more: int) -> Iterator[None]:
    """Only `more` descriptors can be opened from here on."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(0)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + more, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.deep
async def test_without_descriptors_nothing_runs_and_none_is_lost(sandbox: Sandbox, tmp_path: Path) -> None:
    assert await attempt(sandbox, tmp_path) == "ran"
    gc.collect()  # what earlier tests left open would be closed in the middle of this one
    before, children = open_descriptors(), len(psutil.Process().children())
    outcomes = []
    for more in (*range(0, 39, repeats(6, 1)), 39):
        with descriptors(more):
            outcomes.append(await attempt(sandbox, tmp_path))
        for _ in range(10):  # a loop closes what it was given in one of its next rounds
            await asyncio.sleep(0)
        assert open_descriptors() == before
    assert outcomes[0] != "ran"
    assert outcomes[-1] == "ran"
    assert "Too many open files" in outcomes[0]
    assert len(psutil.Process().children()) == children


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.ENOMEM, errno.ENOENT, errno.EACCES])
async def test_without_a_process_or_memory_nothing_runs(
    number: int, sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if isinstance(sandbox, Broker):
        sandbox.close()  # it must be started anew
    with monkeypatch.context() as patch:
        patch.setattr(subprocess, "Popen", failing(number))
        assert os.strerror(number) in await refused(sandbox, tmp_path)
    assert await attempt(sandbox, tmp_path) == "ran"


async def test_without_a_watch_on_bubblewrap_nothing_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bubblewrap of which we lose sight would go on by itself when our end of its pipe closes."""
    async with open_bubblewrap() as sandbox:
        if await attempt(sandbox, tmp_path) != "ran":
            pytest.skip("bubblewrap does not work here")
        real, calls = os.pidfd_open, 0
        for fatal in (1, 2):
            calls = 0

            def fail(pid: int, fatal: int = fatal) -> int:
                nonlocal calls
                calls += 1
                if calls == fatal:
                    raise OSError(errno.EMFILE, "too many")
                return real(pid)

            monkeypatch.setattr(os, "pidfd_open", fail)
            await refused(sandbox, tmp_path)
        assert not [child for child in psutil.Process().children() if child.name() == "bwrap"]


@pytest.fixture
async def configuration() -> AsyncIterator[ConfigurationCopy]:
    async with open_configuration_copy() as opened:
        yield opened


async def test_a_bubblewrap_that_vanishes_runs_nothing(tmp_path: Path, configuration: ConfigurationCopy) -> None:
    copy = tmp_path / "bwrap"
    found = shutil.which("bwrap", path="/usr/bin:/usr/local/bin")
    if not found:
        pytest.skip("bubblewrap is not installed")
    shutil.copy(found, copy)
    (tmp_path / "workspace").mkdir()
    sandbox = Bubblewrap(str(copy), (0, 8), configuration)
    if await attempt(sandbox, tmp_path / "workspace") != "ran":
        pytest.skip("bubblewrap does not work here")
    copy.unlink()
    assert "cannot be started: No such file" in await refused(sandbox, tmp_path / "workspace")


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("echo 'bwrap: No permissions to create new namespace' >&2; exit 1", "No permissions to create new namespace"),
        ("exit 0", "no reason given"),
        ("sleep 30", "did not start the command within"),
        ('echo \'{"child-pid": 999999}\' >&"$status"; echo gone >&2', "gone"),
        ('echo "not json" >&"$status"', "did not say what it started"),
        ('sleep 0.1 & echo "{\\"child-pid\\": $!}" >&"$status"; exec 1>&- 2>&-; wait', "without running the command"),
    ],
)
async def test_a_bubblewrap_that_fails_or_lies_is_not_trusted(
    program: str, words: str, tmp_path: Path, configuration: ConfigurationCopy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """User namespaces that are switched off at run time, and worse."""
    if program == "sleep 30":  # the others are heard, however long a busy machine takes to run them
        monkeypatch.setattr(bubblewrap, "_START", 0.5)
    fake, workspace = tmp_path / "fake", tmp_path / "workspace"
    workspace.mkdir()
    # The options come in a file; the status goes to the descriptor behind their `--json-status-fd`.
    find = "status=$(tr '\\0' '\\n' < /proc/self/fd/$2 | sed -n '/^--json-status-fd$/{n;p}')"
    fake.write_text(f"#!/bin/bash\nPATH=/usr/bin:/bin\n{find}\n{program}\n")
    fake.chmod(0o755)
    assert words in await refused(Bubblewrap(str(fake), (0, 8), configuration), workspace)


async def test_a_bubblewrap_that_has_ended_before_anybody_noticed_is_refused_like_any_other(
    tmp_path: Path, configuration: ConfigurationCopy, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace, killed, kill_unborn = tmp_path / "workspace", asyncio.Event(), bubblewrap._kill_unborn
    workspace.mkdir()

    async def noticed_late(process: int) -> None:
        await killed.wait()

    def kill(popen: subprocess.Popen[bytes]) -> None:
        os.waitid(os.P_PID, popen.pid, os.WEXITED | os.WNOWAIT)
        kill_unborn(popen)
        killed.set()

    monkeypatch.setattr(bubblewrap, "until_ended", noticed_late)
    monkeypatch.setattr(bubblewrap, "_kill_unborn", kill)
    assert "no reason given" in await refused(Bubblewrap("/bin/true", (0, 8), configuration), workspace)


@pytest.mark.parametrize("given", [bytes(16), bytes(15)])
async def test_a_filter_that_the_kernel_refuses_runs_nothing_in_bubblewrap(
    given: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_bubblewrap() as sandbox:
        monkeypatch.setattr(bubblewrap, "_filter", lambda network: given)
        assert "seccomp" in (await refused(sandbox, tmp_path)).lower()


def _breaks(target: str, why: str) -> str:
    """Code that makes a function of a module fail, `goclaw.tools.execution.sandbox.seccomp.load`."""
    module, _, name = target.rpartition(".")
    return f"import {module} as m\ndef f(*a, **b): raise OSError(1, '{why}')\nm.{name} = f\n"


def _breaks_once(name: str, why: str) -> str:
    """The same for `os.fork` and the like, the first time only."""
    return (
        f"import os, socket\nreal, n = {name}, [0]\ndef f(*a):\n    n[0] += 1\n"
        f"    if n[0] == 1: raise OSError(11, '{why}')\n    return real(*a)\n{name} = f\n"
    )


FAULTS = {
    "seccomp refused": _breaks("goclaw.tools.execution.sandbox.seccomp.load", "seccomp refused"),
    "landlock refused": _breaks("goclaw.tools.execution.sandbox.landlock.restrict", "landlock refused"),
    "grants refused": _breaks("goclaw.tools.execution.sandbox.landlock.ruleset", "grants refused"),
    "limits refused": _breaks("resource.setrlimit", "limits refused"),
    "no process": _breaks_once("os.fork", "no process"),
    "no socket": _breaks_once("socket.socketpair", "no socket"),
    "it dies": "import os\nos.fork = lambda: os._exit(1)\n",
    "it never begins": "raise SystemExit\n",
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_in_the_broker_runs_nothing(fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = "import sys; sys.path.insert(0, sys.argv[1])\n"
    monkeypatch.setattr(broker, "_BOOT", f"{path}{FAULTS[fault]}{broker._BOOT}")
    async with open_broker() as sandbox:
        said = await refused(sandbox, tmp_path)
        assert fault in said or fault.startswith("it ")
        if fault.startswith("no "):
            assert await attempt(sandbox, tmp_path) == "ran", "the broker goes on"


async def test_a_command_whose_broker_dies_ends(tmp_path: Path) -> None:
    async with open_broker() as sandbox:
        command = SandboxCommand(
            ("/bin/sh", "-c", "echo up; sleep 60; echo ran > ran"), tmp_path, {"PATH": INSIDE_PATH}
        )
        async with asyncio.timeout(20), sandbox.run(command, Policy(tmp_path)) as process:
            assert await anext(process.output) == b"up\n"
            [served] = [child for child in psutil.Process().children() if "broker_main" in " ".join(child.cmdline())]
            served.kill()
            assert b"its broker has ended" in b"".join([chunk async for chunk in process.output])
            assert await process.wait() == 137
    assert not (tmp_path / "ran").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming nicer cannot be taken back by a plain user")
async def test_a_daemon_that_is_nicer_than_its_commands_still_runs_them(tmp_path: Path) -> None:
    """A broker without root's powers cannot raise a priority: `Nice=15` in a unit must not end every command."""
    before = os.getpriority(os.PRIO_PROCESS, 0)
    os.setpriority(os.PRIO_PROCESS, 0, 15)
    try:
        async with open_broker() as sandbox:
            assert await attempt(sandbox, tmp_path) == "ran"
    finally:
        os.setpriority(os.PRIO_PROCESS, 0, before)


@pytest.mark.parametrize("name", ["bubblewrap", "broker"])
async def test_another_processor_is_refused_clearly(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    bubblewrap._filter.cache_clear()
    tiers: dict[str, Tier] = {"bubblewrap": bubblewrap.SANDBOX, "broker": broker.BROKER}
    with pytest.raises(SandboxUnavailable, match="riscv64: only x86-64 and aarch64 are supported"):
        async with tiers[name].open():
            raise AssertionError("opened")
    with pytest.raises(seccomp.UnsupportedArchitecture):
        seccomp.build((), among_strangers=True)


async def test_a_command_of_nothing_but_odd_characters_arrives_whole(sandbox: Sandbox, tmp_path: Path) -> None:
    line = f": '{'ä' * 48_000}'; echo ran > ran"
    assert await attempt(sandbox, tmp_path, line) == "ran"
    line = f": '{chr(1) * 98_000}'; echo ran > ran"
    assert await attempt(sandbox, tmp_path, line) == "ran"
