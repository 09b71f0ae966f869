"""A command's standard input as a pipe that is written to while the command runs, in every tier."""

import asyncio
from pathlib import Path

import pytest

from goclaw.tools.execution.sandbox.base import Policy, Sandbox, SandboxCommand
from tests.tools.execution.sandbox.conftest import sandbox

__all__ = ["sandbox"]

pytestmark = pytest.mark.sandbox


def asking(script: str, folder: Path) -> SandboxCommand:
    return SandboxCommand(("/bin/bash", "-c", script), folder, {"PATH": "/usr/bin:/bin"}, keeps_input=True)


async def test_a_command_answers_what_it_is_told_until_the_input_ends(sandbox: Sandbox, tmp_path: Path) -> None:
    command = asking('while read -r line; do echo "heard $line"; done; echo end', tmp_path)
    async with asyncio.timeout(10), sandbox.run(command, Policy(tmp_path)) as process:
        said = aiter(process.output)
        await process.write(b"one\n")
        assert await anext(said) == b"heard one\n"
        await process.write(b"two\n")
        assert await anext(said) == b"heard two\n"
        process.close_input()
        assert await anext(said) == b"end\n"
        assert await process.wait() == 0
        with pytest.raises(BrokenPipeError):
            await process.write(b"three\n")


async def test_a_command_that_does_not_read_ends_the_write(sandbox: Sandbox, tmp_path: Path) -> None:
    async with asyncio.timeout(10), sandbox.run(asking("exec <&-; echo gone", tmp_path), Policy(tmp_path)) as process:
        with pytest.raises(BrokenPipeError):
            await process.write(b"x" * 1_000_000)
        assert b"".join([chunk async for chunk in process.output]) == b"gone\n"


async def test_without_a_pipe_nothing_can_be_written(sandbox: Sandbox, tmp_path: Path) -> None:
    command = SandboxCommand(("/bin/cat",), tmp_path, {})
    async with asyncio.timeout(10), sandbox.run(command, Policy(tmp_path)) as process:
        process.close_input()
        with pytest.raises(BrokenPipeError):
            await process.write(b"x")
        assert await process.wait() == 0
