"""The broker tier makes calls that change metadata as the kernel would, in the command's own folders alone."""

import asyncio
import errno
import json
import os
import platform
import select
import shutil
import socket
import struct
import subprocess
import sys
import threading
import zipfile
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from goclaw.tools.execution.sandbox import broker, landlock, metadata_calls, seccomp
from goclaw.tools.execution.sandbox.base import Limits, Policy, Sandbox, SandboxCommand
from goclaw.tools.execution.sandbox.broker import open_broker, open_off
from goclaw.tools.execution.sandbox.metadata_calls import MetadataCalls
from tests.tools.execution.sandbox.probes import INSIDE_PATH, metadata, program

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.promise("P-exec-contained"),
    pytest.mark.skipif(not program(), reason="no python3 in /usr to run calls with"),
    pytest.mark.skipif(not landlock.abi(), reason="no Landlock: the broker does not work here"),
]
EVERY_CALL = Path(__file__).with_name("every_metadata_call.py").read_text()
COLUMN = 0 if platform.machine() == "x86_64" else 1
NUMBERS = {name: found[COLUMN] for name, found in (seccomp.METADATA | {"ioctl": seccomp.IOCTL}).items()}
BEFORE_SCOPES = f"import goclaw.tools.execution.sandbox.landlock as l\nl.abi = lambda: {landlock.SCOPES_SINCE - 1}\n"
"""A kernel whose Landlock has no scopes: the supervisor is not confined itself."""
OLDER_DOCKER = (
    "import goclaw.tools.execution.sandbox.seccomp as s\n"
    + "s.load(b''.join("
    + repr(
        [
            struct.pack("=HBBI", *step)
            for step in (
                (0x20, 0, 0, 0),  # the number of the call
                (0x15, 0, 1, (310, 270)[COLUMN]),  # process_vm_readv
                (0x06, 0, 0, 0x50000 | errno.EPERM),
                (0x15, 0, 1, NUMBERS["fchmodat2"]),
                (0x06, 0, 0, 0x50000 | errno.ENOSYS),
                (0x06, 0, 0, 0x7FFF0000),
            )
        ]
    )
    + "))\n"
)
"""The default profile of Docker 20.10: it refuses the two calls to a container without CAP_SYS_PTRACE."""
BOOTS = pytest.mark.parametrize(
    "boot",
    ["", BEFORE_SCOPES, OLDER_DOCKER],
    ids=["confined supervisor", "free supervisor", "container of an older Docker"],
)
NO_LISTENER = {
    "a filter around it has the listener": (
        "import goclaw.tools.execution.sandbox.seccomp as s\n"
        f"s.load({struct.pack('=HBBI', 6, 0, 0, 0x7FFF0000)!r}, listens=True)\n"
    ),
    "the kernel has none": (
        "import goclaw.tools.execution.sandbox.seccomp as s\nreal = s.load\n"
        "def load(program, *, listens=False):\n    if listens: raise OSError(22, 'invalid')\n    return real(program)\n"
        "s.load = load\n"
    ),
}

Answers = dict[str, list[str]]


async def said(sandbox: Sandbox, policy: Policy, *argv: str) -> str:
    command = SandboxCommand(argv, policy.workspace, {"PATH": INSIDE_PATH})
    async with asyncio.timeout(60), sandbox.run(command, policy) as process:
        output = b"".join([chunk async for chunk in process.output]).decode()
        code = await process.wait()
    assert code == 0, output
    return output


async def every_call(sandbox: Sandbox, policy: Policy, path: Path, *more: str) -> Answers:
    """What became of each call, and what the file looked like behind it; without calls that this kernel lacks."""
    script = (program(), "-I", "-S", "-c", EVERY_CALL, json.dumps(NUMBERS), str(path), *more)
    answers: Answers = json.loads(await said(sandbox, policy, *script))
    return answers


def stage(folder: Path) -> Path:
    """A workspace with a file, a folder and links; the file."""
    (folder / "sub").mkdir(parents=True)
    file = folder / "file"
    file.write_text("content")
    os.utime(file, (1, 1))
    for name, target in {"link": "file", "links": "sub/../link", "dangling": "none", "loop": "loop", "to": "."}.items():
        (folder / name).symlink_to(target)
    return file


@asynccontextmanager
async def booted(boot: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Sandbox]:
    """A broker that runs these lines first."""
    path = "import sys; sys.path.insert(0, sys.argv[1])\n"
    monkeypatch.setattr(broker, "_BOOT", f"{path}{boot}{broker._BOOT}")
    async with open_broker() as sandbox:
        yield sandbox


@BOOTS
async def test_in_the_workspace_each_call_does_what_the_kernel_does(
    boot: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_off() as off:
        policy = Policy(tmp_path / "expected")
        expected = await every_call(off, policy, stage(policy.workspace), "readable", "odd")
    policy = Policy(tmp_path / "workspace")
    async with booted(boot, monkeypatch) as sandbox:
        answers = await every_call(sandbox, policy, stage(policy.workspace), "readable", "odd")
    assert sum(answer == "made" for answer, _ in answers.values()) > 20
    missing = {row for row, (answer, _) in [*expected.items(), *answers.items()] if answer == "ENOSYS"}
    assert {row: answers[row] for row in answers.keys() - missing} == {
        row: expected[row] for row in expected.keys() - missing
    }
    assert all(
        row.startswith("fchmodat2") for row in missing - {row for row, found in expected.items() if "ENOSYS" in found}
    )


@pytest.mark.parametrize("how", ["O_PATH", "readable"])
@BOOTS
async def test_outside_of_it_each_call_is_refused(
    how: str, boot: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, workspace = stage(tmp_path / "outside"), tmp_path / "workspace"
    workspace.mkdir()
    before = metadata(file)
    async with booted(boot, monkeypatch) as sandbox:
        policy = Policy(workspace, readable=(file,) if how == "readable" else ())
        answers = await every_call(sandbox, policy, file, how)
    assert {answer for answer, _ in answers.values()} <= {"EPERM", "ENOSYS", "no such call here"}
    assert metadata(file) == before
    assert len({looks for _, looks in answers.values()}) == 1


@pytest.mark.parametrize("reason", NO_LISTENER)
async def test_where_no_listener_can_be_had_all_of_them_are_refused_everywhere(
    reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with booted(NO_LISTENER[reason], monkeypatch) as sandbox:
        policy = Policy(tmp_path / "workspace")
        file = stage(policy.workspace)
        before = metadata(file)
        answers = await every_call(sandbox, policy, file, "readable")
        assert await said(sandbox, policy, "/bin/cat", "file") == "content", "everything else goes on"
    assert {answer for answer, _ in answers.values()} <= {"EPERM", "no such call here"}
    assert metadata(file) == before


async def test_a_command_that_may_not_write_changes_its_temporary_folder_only(tmp_path: Path) -> None:
    file = stage(tmp_path / "workspace")
    before = metadata(file)
    line = "touch $TMPDIR/x && chmod 704 $TMPDIR/x $TMPDIR && stat -c %a $TMPDIR/x $TMPDIR; chmod 604 file"
    async with open_broker() as sandbox:
        policy = Policy(tmp_path / "workspace", writes=False)
        output = await said(sandbox, policy, "/bin/sh", "-c", f"{line} || true")
    assert output.startswith("704\n704\n") and "Operation not permitted" in output
    assert metadata(file) == before


async def test_neighbours_with_a_longer_name_are_outside(tmp_path: Path) -> None:
    file = stage(tmp_path / "workspace2")
    (tmp_path / "workspace").mkdir()
    before = metadata(file)
    async with open_broker() as sandbox:
        output = await said(
            sandbox, Policy(tmp_path / "workspace"), "/bin/sh", "-c", "chmod 604 ../workspace2/file . || true"
        )
    assert "Operation not permitted" in output
    assert metadata(file) == before
    assert (tmp_path / "workspace").stat().st_mode & 0o777 == 0o604


CALLER = """
import os, socket, sys
sys.path.insert(0, sys.argv[1])
from goclaw.tools.execution.sandbox import seccomp
told = socket.socket(fileno=int(sys.argv[2]))
listener = seccomp.load(seccomp.build((), among_strangers=True, listened=True), listens=True)
socket.send_fds(told, [b"x"], [listener])
os.close(listener)
exec(sys.argv[4])
"""
BY_PATH = "os.chmod(sys.argv[3], 0o604)"
BY_DESCRIPTOR = "fd = os.open(sys.argv[3], os.O_RDONLY)\nfor mode in range(0o600, 0o605): os.fchmod(fd, mode)"


@contextmanager
def a_waiting_call(file: Path, lines: str = BY_PATH) -> Iterator[tuple[subprocess.Popen[bytes], MetadataCalls]]:
    """A process whose last change makes the file's mode 0604; the first one waits for its answer."""
    mine, theirs = socket.socketpair()
    argv = (sys.executable, "-c", CALLER, str(Path(__file__).parents[4]), str(theirs.fileno()), str(file), lines)
    with mine, theirs, subprocess.Popen(argv, pass_fds=(theirs.fileno(),)) as caller:
        mine.settimeout(20)
        _, [listener], _, _ = socket.recv_fds(mine, 1, 1)
        assert select.select([listener], [], [], 20)[0]
        yield caller, MetadataCalls(listener, [str(file.parent)])
        os.close(listener)


def test_a_call_costs_five_steps(tmp_path: Path) -> None:
    """Beside the reading of memory, the search of the file and the change: an archive holds thousands of files."""
    steps = Counter[str]()

    def count(frame: object, event: str, called: Any) -> None:
        if event == "c_call" and called.__module__ in ("posix", "fcntl"):
            steps[called.__name__] += 1

    file = stage(tmp_path)
    with a_waiting_call(file) as (_, calls):
        metadata_calls._own_descriptors()
        sys.setprofile(count)
        calls.answer()
        sys.setprofile(None)
    assert file.stat().st_mode & 0o777 == 0o604
    steps.pop("chmod", None)  # before Linux 6.6
    assert steps == {"ioctl": 3, "readlink": 1, "close": 1}


def test_the_folder_of_a_thread_s_descriptors_is_kept_from_its_second_one_on(tmp_path: Path) -> None:
    file = stage(tmp_path)
    with a_waiting_call(file, BY_DESCRIPTOR) as (caller, calls):
        assert calls.answer()
        assert calls._caller._descriptors is None, "most threads change one file, and end"
        for _ in range(4):
            assert calls.answer()
        assert Path(f"/proc/self/fd/{calls._caller._descriptors}").readlink() == Path(f"/proc/{caller.pid}/fd")
    assert file.stat().st_mode & 0o777 == 0o604


def test_the_folder_of_an_ended_thread_is_not_that_of_another_one_with_its_number(tmp_path: Path) -> None:
    file = stage(tmp_path)
    with a_waiting_call(file, BY_DESCRIPTOR) as (caller, calls):
        with subprocess.Popen(("/bin/cat",), stdin=subprocess.PIPE) as ended:
            calls._caller = metadata_calls._Caller(caller.pid)
            calls._caller._descriptors = os.open(f"/proc/{ended.pid}/fd", os.O_PATH)
        for _ in range(5):
            assert calls.answer()
    assert file.stat().st_mode & 0o777 == 0o604


def test_calls_are_served_until_their_last_caller_has_ended(tmp_path: Path) -> None:
    file = stage(tmp_path)
    with a_waiting_call(file, BY_DESCRIPTOR) as (caller, calls):
        server = threading.Thread(target=calls.serve, daemon=True)
        server.start()
        assert caller.wait(20) == 0
        server.join(20)
        assert not server.is_alive()
    assert file.stat().st_mode & 0o777 == 0o604


NO_THREAD = """
import _thread
def none(*given): raise RuntimeError("can't start new thread")
_thread.start_new_thread = none
"""
BROKEN = """
import goclaw.tools.execution.sandbox.metadata_calls as m
def broken(self): raise MemoryError
m.MetadataCalls.answer = broken
"""


async def test_calls_are_made_where_no_thread_can_be_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = "touch x && for mode in 600 601 602; do chmod $mode x; done && stat -c %a x"
    async with booted(NO_THREAD, monkeypatch) as sandbox:
        assert await said(sandbox, Policy(tmp_path), "/bin/sh", "-c", line) == "602\n"


async def test_a_command_whose_calls_nothing_answers_any_more_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with booted(BROKEN, monkeypatch) as sandbox, asyncio.timeout(20):
        command = SandboxCommand(("/bin/chmod", "600", "."), tmp_path, {"PATH": INSIDE_PATH})
        async with sandbox.run(command, Policy(tmp_path)) as process:
            assert await process.wait() == 137


def test_nothing_is_changed_for_a_caller_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its number may be another thread's by now, and what was read that one's memory and descriptors."""
    file = stage(tmp_path)
    before = metadata(file)
    with a_waiting_call(file) as (caller, calls):
        opened = metadata_calls._file_of

        def gone_meanwhile(*given: Any) -> int:
            found = opened(*given)
            caller.kill()
            caller.wait(20)
            return found

        monkeypatch.setattr(metadata_calls, "_file_of", gone_meanwhile)
        calls.answer()
    assert metadata(file) == before


HOSTILE = """
import os, sys, threading
libc = __import__("ctypes").CDLL(None)
open("file", "w"); print("ready", flush=True); sys.stdin.readline()
def work():
    for turn in range(400):
        for name in (b"file", b"none", b"loop", b"/etc/passwd", b"file/x", None):
            libc.chmod(name, 0o600 + turn % 64)
        libc.fchmod(turn, 0o600); libc.fchown(77777, 0, 0); libc.utimensat(0, None, None, 0)
        libc.setxattr(b"file", None, None, 1 << 20, 0)
workers = [threading.Thread(target=work) for _ in range(4)]
[worker.start() for worker in workers]; [worker.join() for worker in workers]
print("done", flush=True); sys.stdin.readline()
"""


async def test_thousands_of_calls_cost_the_supervisor_no_descriptor(tmp_path: Path) -> None:
    async with open_broker() as sandbox:
        command = SandboxCommand(
            (program(), "-I", "-S", "-c", HOSTILE), tmp_path, {"PATH": INSIDE_PATH}, keeps_input=True
        )
        async with asyncio.timeout(60), sandbox.run(command, Policy(tmp_path)) as process:
            assert await anext(process.output) == b"ready\n"
            [served] = [child for child in psutil.Process().children() if "broker_main" in " ".join(child.cmdline())]
            [supervisor] = served.children()
            await process.write(b"\n")
            assert await anext(process.output) == b"done\n"
            after_ten_thousand = supervisor.num_fds()
            await process.write(b"\n")
            assert await process.wait() == 0
    # Its own three, the daemon's socket, the alarm, the command, the listener, the rules, its descriptors' folder.
    assert after_ten_thousand <= 12


async def test_a_command_that_never_stops_calling_is_killed_at_once(tmp_path: Path) -> None:
    flood = (
        "import os\nopen('f', 'w'); [os.fork() for _ in range(4)]; print('ready', flush=True)\n"
        "while True: os.chmod('f', 0o600)"
    )
    async with open_broker() as sandbox:
        command = SandboxCommand((program(), "-I", "-S", "-c", flood), tmp_path, {"PATH": INSIDE_PATH})
        async with asyncio.timeout(20), sandbox.run(command, Policy(tmp_path)) as process:
            assert b"ready" in await anext(process.output)
            children = psutil.Process().children(recursive=True)
            await process.kill()
        left = [child for child in children if child.is_running() and "os.fork" in " ".join(_words(child))]
    assert left == []


LONG_WAYS = """
import os
os.mkdir('d'); open('l0', 'w')
for number in range(1, 20): os.symlink('d/../' * 800 + f'l{number - 1}', f'l{number}')
print('ready', flush=True)
while True: os.chmod('l19', 0o600)
"""
"""The kernel follows 40 links for a path. It begins again, and counts on, where anything is mounted meanwhile."""


async def test_time_that_the_supervisor_spends_for_a_command_counts_as_the_command_s(tmp_path: Path) -> None:
    policy = Policy(tmp_path, limits=Limits(cpu_seconds=1))
    command = SandboxCommand((program(), "-c", LONG_WAYS), tmp_path, {"PATH": INSIDE_PATH})
    async with asyncio.timeout(60), open_broker() as sandbox, sandbox.run(command, policy) as process:
        output = b"".join([chunk async for chunk in process.output]).decode()
        assert await process.wait() == 137, output
    assert output.startswith("ready\n") and "more than 1 s of processor time for calls that are made for it" in output


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


PROGRAMS = {
    "tar": (
        "mkdir a && touch -d 2001-02-03 a/x && chmod 751 a/x && tar cf a.tar a && rm -r a && tar xpf a.tar"
        " && stat -c '%a %y' a/x | cut -c 1-14",
        "751 2001-02-03\n",
    ),
    "cp -p": (
        "touch -d 2001-02-03 x && chmod 640 x && cp -p x y && mkdir d && cp -a x d"
        " && stat -c '%a %y' y d/x | cut -c 1-14",
        "640 2001-02-03\n640 2001-02-03\n",
    ),
    "git": (
        "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b\n"
        "git init -q r && cd r && echo x > x && chmod 755 x && git add x && git commit -qm x && git clone -q . ../s"
        " && cd ../s && git status --porcelain && stat -c %A x | cut -c 4",
        "x\n",
    ),
    "install": ("echo x > x && install -m 711 x y && stat -c %a y && mkdir -m 701 m && stat -c %a m", "711\n701\n"),
}


@pytest.mark.parametrize("name", PROGRAMS)
async def test_programs_that_set_modes_and_times_work(name: str, tmp_path: Path) -> None:
    line, expected = PROGRAMS[name]
    if not shutil.which(name.split()[0], path=INSIDE_PATH):
        pytest.skip(f"no {name} here")
    async with open_broker() as sandbox:
        assert await said(sandbox, Policy(tmp_path), "/bin/bash", "-ec", line) == expected


def wheel(path: Path) -> None:
    """Write a package of one program."""
    info = "demo-1.0.dist-info"
    files = {
        "demo.py": "def main(): pass\n",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": "[console_scripts]\ndemo = demo:main\n",
    }
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
        archive.writestr(f"{info}/RECORD", "".join(f"{name},,\n" for name in (*files, f"{info}/RECORD")))


async def test_pip_installs_a_package_with_a_program(tmp_path: Path) -> None:
    wheel(tmp_path / "demo-1.0-py3-none-any.whl")
    line = f"{program()} -m pip install --no-index --no-warn-script-location --target t ./demo-1.0-py3-none-any.whl"
    async with open_broker() as sandbox:
        output = await said(
            sandbox, Policy(tmp_path), "/bin/bash", "-c", f"({line} && test -x t/bin/demo) 2>&1 || true"
        )
    if "No module named pip" in output:
        pytest.skip("no pip in the system's Python")
    assert "Successfully installed demo-1.0" in output
    assert (tmp_path / "t/bin/demo").stat().st_mode & 0o111 == 0o111
