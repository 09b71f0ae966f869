"""What containment adds to a command: `true` in the sandbox that this machine offers, in this process."""

import tempfile
import time
from pathlib import Path

from benchmarks.figures import Figure, Options, percentile
from goclaw.config.schema import ExecSettings
from goclaw.errors import SandboxUnavailable
from goclaw.sandbox.base import Command, Policy, Sandbox
from goclaw.sandbox.select import open_sandbox

COMMANDS = 60
WARM_UP = 3


async def measure_exec(options: Options) -> list[Figure]:
    """From the start of the command to its exit code; nothing where no tier works here."""
    with tempfile.TemporaryDirectory(prefix="goclaw-bench-") as folder:
        try:
            async with open_sandbox(ExecSettings(sandbox="auto")) as sandbox:
                times = [await run_true(sandbox, Path(folder)) for _ in range(WARM_UP + options.times(COMMANDS))]
                tier = sandbox.tier
        except SandboxUnavailable as error:
            print(f"left out, no sandbox works here: {error}")
            return []
    kept = times[WARM_UP:]
    detail = {"tier": tier, "repetitions": len(kept), "p95": round(percentile(kept, 95), 2)}
    return [Figure("sandboxed exec of `true`, p50", "ms", percentile(kept, 50), 10, detail=detail)]


async def run_true(sandbox: Sandbox, workspace: Path) -> float:
    """Milliseconds of one command."""
    began = time.perf_counter()
    async with sandbox.run(Command(("/bin/true",), workspace, {"PATH": "/usr/bin:/bin"}), Policy(workspace)) as process:
        if code := await process.wait():
            raise RuntimeError(f"true ended with {code}")
    return 1000 * (time.perf_counter() - began)
