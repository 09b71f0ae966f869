"""The short form of `trees.py`: every shape of tree, in every tier; and attacks on the supervisor in the broker."""

import asyncio
from pathlib import Path

import psutil
import pytest

from goclaw.tools.execution.sandbox import landlock
from goclaw.tools.execution.sandbox.base import Limits, Policy, Sandbox, SandboxCommand
from goclaw.tools.execution.sandbox.broker import open_broker
from goclaw.tools.execution.sandbox.broker_main import children_of
from tests.acceptance.waiting import PATIENCE, eventually
from tests.lanes import repeats
from tests.tools.execution.sandbox.probes import INSIDE_PATH, program
from tests.tools.execution.sandbox.trees import SHAPES, kill_one

pytestmark = [pytest.mark.sandbox, pytest.mark.skipif(not program(), reason="no python3 in /usr")]


@pytest.mark.deep
@pytest.mark.promise("P-exec-timeout")
@pytest.mark.parametrize("shape", SHAPES)
async def test_nothing_of_a_hostile_tree_outlives_its_kill_which_is_over_soon(
    shape: str, sandbox: Sandbox, tmp_path: Path
) -> None:
    """It takes hundredths of a second (`trees` measures them); a machine that pauses adds its pause."""
    for _ in range(repeats(1, 3)):
        seconds, left = await kill_one(sandbox, tmp_path, shape)
        assert left == 0
        assert seconds < 5


OPEN_ITS_PIPES = """
import os
for number in range(64):
    path = f'/proc/{os.getppid()}/fd/{number}'
    for how in (os.O_RDONLY, os.O_WRONLY):
        try: os.readlink(path).startswith(('pipe:', 'socket:')) and print('opened', os.open(path, how | os.O_NONBLOCK))
        except OSError: pass
print('done')
"""
"""With the reading end of the alarm a command that kept its supervisor busy had more processes than its limit."""

END_IT_BY_A_DESCRIPTOR = """
import fcntl, os, signal, socket, struct, time
supervisor, mine = os.getppid(), os.getpid()
left, right = socket.socketpair()
fcntl.fcntl(left, 10, int(signal.SIGKILL))  # F_SETSIG
for name, set_owner in {
    'F_SETOWN': lambda: fcntl.fcntl(left, fcntl.F_SETOWN, supervisor),
    'its group': lambda: fcntl.fcntl(left, fcntl.F_SETOWN, -supervisor),
    'F_SETOWN_EX': lambda: fcntl.fcntl(left, 15, struct.pack('=ii', 1, supervisor)),
    'FIOSETOWN': lambda: fcntl.ioctl(left, 0x8901, struct.pack('=i', supervisor)),
    'SIOCSPGRP': lambda: fcntl.ioctl(left, 0x8902, struct.pack('=i', supervisor)),
}.items():
    try: set_owner()
    except PermissionError: print(name, 'refused', flush=True)
    fcntl.fcntl(left, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    right.send(b'x'); time.sleep(0.05)
    fcntl.fcntl(left, fcntl.F_SETFL, os.O_NONBLOCK)
fcntl.fcntl(left, fcntl.F_SETOWN, mine)
print('ended in order')
"""
"""A tree whose supervisor was killed lived on."""

in_the_broker = pytest.mark.skipif(not landlock.abi(), reason="no Landlock: the broker does not work here")


async def said(script: str, workspace: Path) -> list[str]:
    command = SandboxCommand((program(), "-I", "-S", "-c", script), workspace, {"PATH": INSIDE_PATH})
    async with open_broker() as broker, asyncio.timeout(20), broker.run(command, Policy(workspace)) as process:
        return b"".join([chunk async for chunk in process.output]).decode().splitlines()


@in_the_broker
@pytest.mark.promise("P-exec-contained")
async def test_a_command_opens_no_pipe_of_its_supervisor(tmp_path: Path) -> None:
    assert await said(OPEN_ITS_PIPES, tmp_path) == ["done"]


@in_the_broker
@pytest.mark.promise("P-exec-timeout")
async def test_a_command_has_its_supervisor_ended_by_no_descriptor(tmp_path: Path) -> None:
    *refused, last = await said(END_IT_BY_A_DESCRIPTOR, tmp_path)
    assert last == "ended in order"
    assert len([line for line in refused if line.endswith("refused")]) == 5


HANDED_ON = """
import os, time
for _ in range(8):
    if os.fork() == 0:
        os.setsid()
        while True:
            if os.fork(): os._exit(0)
            time.sleep(0.001)
print(os.getppid(), flush=True)
time.sleep(1000)
"""
"""Processes that are never where somebody looked: each goes on as its child."""


@pytest.mark.promise("P-exec-timeout")
async def test_what_a_supervisor_that_was_killed_leaves_behind_is_ended_and_collected(tmp_path: Path) -> None:
    """As the kernel kills it where memory is short: its tree is handed to the broker, and no more requests come."""
    policy = Policy(tmp_path, limits=Limits(processes=1000))
    command = SandboxCommand((program(), "-c", HANDED_ON), tmp_path, {"PATH": INSIDE_PATH})
    async with asyncio.timeout(PATIENCE), open_broker() as sandbox:
        async with sandbox.run(command, policy) as process:
            supervisor = psutil.Process(int(await anext(process.output)))
            broker = supervisor.parent()
            assert broker
            supervisor.kill()
            await eventually(lambda: not children_of(broker.pid))
