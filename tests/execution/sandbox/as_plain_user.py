"""Run the probes that are named in every tier as the user of this process: one line for each unexpected end.

Started by `test_sandbox_containment.py` as a plain user,
with a Python that the user can reach: only the standard library and
those modules of GoClaw that need nothing else.
"""

import asyncio
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from goclaw.core.clock import RealClock
from goclaw.errors import SandboxUnavailable
from goclaw.execution.sandbox.base import Policy, Sandbox, SandboxCommand
from goclaw.execution.sandbox.broker import open_broker
from goclaw.execution.sandbox.bubblewrap import open_bubblewrap
from goclaw.execution.sandbox.self_test import prove
from tests.execution.sandbox.probes import PROBES, escapes, program, world


async def try_all(sandbox: Sandbox, names: Sequence[str]) -> None:
    await prove(sandbox, "none", RealClock())
    for name in names:
        probe = PROBES[name]
        with tempfile.TemporaryDirectory() as folder, world(Path(folder)) as around:
            command = SandboxCommand((program(), "-I", "-S", "-c", probe.program), around.workspace, around.env)
            async with sandbox.run(command, Policy(around.workspace, hidden=(around.state,))) as process:
                output = b"".join([chunk async for chunk in process.output]).decode()
            expected = escapes(name, sandbox.tier)
            if "finished" not in output or ("ESCAPED" in output) != expected or around.harm():
                sys.stdout.write(f"{sandbox.tier}: {name}: {output} {around.harm()}\n")
    sys.stdout.write(f"{sandbox.tier}: {len(names)} probes\n")


async def through_a_proxy() -> None:
    """The canary proves that the proxy's port answers, and nothing else."""
    try:
        async with open_bubblewrap() as sandbox:
            await prove(sandbox, "proxy", RealClock())
            sys.stdout.write(f"{sandbox.tier}: proxied\n")
    except SandboxUnavailable as error:
        sys.stdout.write(f"unavailable: {error}\n")


async def main(names: Sequence[str]) -> None:
    for open_tier in (open_bubblewrap, open_broker):
        try:
            async with open_tier() as sandbox:
                await try_all(sandbox, names)
        except SandboxUnavailable as error:
            sys.stdout.write(f"unavailable: {error}\n")


if __name__ == "__main__":
    sys.exit(asyncio.run(through_a_proxy() if sys.argv[1:] == ["proxy"] else main(sys.argv[1:])))
