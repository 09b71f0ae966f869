"""The choice of the tier on this machine: the first of the configured ones that passes the self-test.

Nothing is proven while the daemon starts: that happens in parallel, and the first command waits for it. When nothing
contains commands here, every `run` is refused with the cause and the remedy; it never runs uncontained instead.
"""

import asyncio
import errno
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

from goclaw.common.config.tools import ExecSettings
from goclaw.common.core.catalog import SANDBOXES
from goclaw.common.core.clock import Clock, RealClock
from goclaw.common.core.plugins import load
from goclaw.common.core.records import record
from goclaw.errors import SandboxUnavailable
from goclaw.tools.execution.sandbox.base import NONE, Policy, Process, Sandbox, SandboxCommand, Tier
from goclaw.tools.execution.sandbox.self_test import prove

OFF, UNPROVEN = "off", "unproven"


@record
class TierReport:
    """Doctor's report on one tier."""

    tier: str
    works: bool
    text: str
    """`bubblewrap 0.8.0 OK (files, pids, network isolated; 6 ms)`."""
    remedy: str = ""


class SelectedSandbox:
    """The sandbox of the configuration; finds its tier when it is first needed."""

    def __init__(self, settings: ExecSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._tier: Sandbox | None = None
        self._found_nothing = False
        self.metadata_note = ""
        """Why commands cannot change modes, owners and times here, and the remedy; empty where they can."""
        self._looking = asyncio.Lock()
        self._stack = AsyncExitStack()

    @property
    def tier(self) -> str:
        """`bubblewrap`, `broker` or `off`; `unproven` until a canary ran, `none` when nothing works here."""
        if self._settings.sandbox == OFF:
            return OFF
        if self._tier is None:
            return NONE if self._found_nothing else UNPROVEN
        return self._tier.tier

    async def ready(self) -> Sandbox:
        """Return the proven tier.

        Raises:
            SandboxUnavailable: none works here. The next call tries again: the operator may have repaired it.
        """
        async with self._looking:
            if self._tier is None:
                self._tier = await self._find()
        return self._tier

    @asynccontextmanager
    async def run(self, command: SandboxCommand, policy: Policy) -> AsyncIterator[Process]:
        sandbox = await self.ready()
        async with sandbox.run(command, policy) as process:
            yield process

    async def _find(self) -> Sandbox:
        refusals = []
        for tier in _tiers(self._settings):
            async with AsyncExitStack() as attempt:
                try:
                    sandbox = await attempt.enter_async_context(tier.open())
                    if tier.name != OFF:
                        proof = await prove(sandbox, self._settings.network, self._clock)
                        self.metadata_note = metadata_note() if proof.metadata_fixed else ""
                except SandboxUnavailable as error:
                    refusals.append(f"{tier.name}: {error}. To fix this, {tier.remedy}.")
                    continue
                self._stack.push_async_exit(attempt.pop_all())
                return sandbox
        self._found_nothing = True
        raise SandboxUnavailable(
            "exec is disabled: nothing on this machine can contain commands. " + " ".join(refusals)
            + " `goclaw doctor` shows the details; only `tools.exec.sandbox: off` runs commands without containment."
        )  # fmt: skip

    async def close(self) -> None:
        """End the processes that the tier keeps running."""
        await self._stack.aclose()


def explain_refusal(sandbox: Sandbox, code: int, output: str) -> str:
    """Return a line for a command that failed because nothing changes modes here; empty for all others."""
    note = sandbox.metadata_note if code and isinstance(sandbox, SelectedSandbox) else ""
    # Programs have the C library's words for the error, with a capital or not.
    return f"[{note}]\n" if note and os.strerror(errno.EPERM).lower() in output.lower() else ""


async def wait_for_tier(sandbox: Sandbox) -> None:
    """Wait until a sandbox knows its tier, so that its name in an approval request stays the same."""
    if isinstance(sandbox, SelectedSandbox):
        with suppress(SandboxUnavailable):
            await sandbox.ready()


@asynccontextmanager
async def open_sandbox(settings: ExecSettings, clock: Clock | None = None) -> AsyncIterator[SelectedSandbox]:
    """Open the sandbox for `settings`, immediately; its tier is determined in the background."""
    sandbox = SelectedSandbox(settings, clock or RealClock())
    # Where none works, the caller of a command gets the error, and doctor.
    looking = asyncio.create_task(wait_for_tier(sandbox), name="exec sandbox")
    try:
        yield sandbox
    finally:
        looking.cancel()
        await asyncio.wait([looking])
        await sandbox.close()


async def probe(settings: ExecSettings, clock: Clock | None = None) -> list[TierReport]:
    """Try every tier that `settings` allow, best first. Takes some ten milliseconds a tier."""
    return [await _try(tier, settings, clock or RealClock()) for tier in _tiers(settings)]


async def _try(tier: Tier, settings: ExecSettings, clock: Clock) -> TierReport:
    if tier.name == OFF:
        text = "OFF (commands run with all rights of the daemon's user)"
        return TierReport(OFF, True, text, "remove `tools.exec.sandbox: off`")
    try:
        async with tier.open() as sandbox:
            proof = await prove(sandbox, settings.network, clock)
    except SandboxUnavailable as error:
        return TierReport(tier.name, False, f"{tier.name} does not work: {error}", tier.remedy)
    version, _, weaknesses = tier.describe().partition("; ")
    more = "".join(f"; {one}" for one in (weaknesses, metadata_note() if proof.metadata_fixed else "") if one)
    evidence = f"({', '.join(proof.isolates)} isolated{more}; {proof.milliseconds:.0f} ms)"
    return TierReport(tier.name, True, f"{tier.name} {version} OK {evidence}")


def metadata_note(ptrace_scope: Path = Path("/proc/sys/kernel/yama/ptrace_scope")) -> str:
    """Return why no call is made for commands here, and the remedy.

    Args:
        ptrace_scope: from 2 on, a process without CAP_SYS_PTRACE may not read its children's memory (ptrace(2)).
    """
    fixed = "modes, owners and times of files cannot be changed, not even in the workspace:"
    try:
        value = int(ptrace_scope.read_text())
    except (OSError, ValueError):
        value = 0
    if value > 1:
        return (
            f"{fixed} kernel.yama.ptrace_scope is {value}; to fix this, run `sysctl kernel.yama.ptrace_scope=1` "
            "on the host"
        )
    return (
        f"{fixed} another sandbox around GoClaw answers such calls, or Linux is older than 5.0; to fix this, run "
        "GoClaw outside of that sandbox, or on a newer kernel"
    )


def _tiers(settings: ExecSettings) -> list[Tier]:
    names = [name for name in SANDBOXES if name != OFF] if settings.sandbox == "auto" else [settings.sandbox]
    return [load(SANDBOXES[name], Tier) for name in names]
