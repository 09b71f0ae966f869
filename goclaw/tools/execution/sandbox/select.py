"""The choice of the tier on this machine: the first of the configured ones that passes the self-test.

The test is a command that attempts forbidden actions: an installed program alone proves nothing. Nothing is proven
while the daemon starts: that happens in parallel, and the first command waits for it. When nothing contains commands
here, every `run` is refused with the cause and the remedy; it never runs uncontained instead.
"""

import asyncio
import errno
import os
import secrets
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path

from goclaw.common.config.tools import ExecSettings
from goclaw.common.core.catalog import SANDBOXES
from goclaw.common.core.clock import Clock, RealClock
from goclaw.common.core.plugins import load
from goclaw.common.core.records import record
from goclaw.errors import SandboxUnavailable
from goclaw.tools.execution.sandbox.base import NONE, Network, Policy, Process, Sandbox, SandboxCommand, Tier
from goclaw.tools.execution.sandbox.layout import shell
from goclaw.tools.execution.sandbox.scratch import lock_new_folder

OFF, UNPROVEN = "off", "unproven"

_PATIENCE = 15.0
"""Seconds that a canary may take on a loaded machine before the tier counts as broken."""

# Every line that a breach prints is named in _BREACHES; "done" tells that the script came to its end.
_SCRIPT = """
echo alive > canary-inside || echo no-workspace
cat "$HIDDEN/secret" 2>/dev/null && echo hidden-read
(: > "$HIDDEN/written") 2>/dev/null && echo hidden-written
chmod 700 "$HIDDEN" 2>/dev/null && echo hidden-changed
chmod 600 canary-inside 2>/dev/null || echo metadata-fixed
(: > "/usr/goclaw-canary-$NONCE") 2>/dev/null && echo system-written
kill -0 "$DAEMON" 2>/dev/null && echo processes-reached
[ -n "$BASH_VERSION" ] && (exec 3<>"/dev/tcp/127.0.0.1/$PORT") 2>/dev/null && echo network-reached
[ -d "/proc/$DAEMON" ] && echo processes-visible
if [ -n "$BASH_VERSION" ] && [ -n "$HTTP_PROXY" ]; then
    (exec 3<>"/dev/tcp/127.0.0.1/${HTTP_PROXY##*:}" && read -ru 3 said && [ "$said" = hello ]) 2>/dev/null ||
        echo no-proxy
fi
echo done
"""
_BREACHES = {
    "no-workspace": "the workspace cannot be written (it must belong to the daemon's user)",
    "hidden-read": "a hidden file could be read",
    "hidden-written": "a hidden folder could be written",
    "hidden-changed": "the mode of a hidden folder could be changed",
    "system-written": "system folders could be written",
    "processes-reached": "other processes could be signalled",
    "network-reached": "the network could be reached",
    "no-proxy": "the proxy could not be reached",
}


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


@record
class Proof:
    """The protections that a tier proved when it was tried."""

    isolates: tuple[str, ...]
    """Of `files`, `pids`, `network`: what the command could not reach or see."""
    metadata_fixed: bool
    """Whether modes could not even be changed in the workspace."""
    milliseconds: float
    """From asking for `true` to its end."""


async def prove(sandbox: Sandbox, network: Network, clock: Clock) -> Proof:
    """Run the canary.

    Raises:
        SandboxUnavailable: the tier does not run commands here, or does not contain them; the message says which.
    """
    with _stage() as (workspace, hidden, port):
        policy = Policy(workspace, hidden=(hidden,), network=network, proxy=_greet if network == "proxy" else None)
        env = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HIDDEN": str(hidden),
            "NONCE": secrets.token_hex(4),
            "DAEMON": str(os.getpid()),
            "PORT": str(port),
        }
        said = await _run_canary(sandbox, (shell(), "-c", _SCRIPT), env, policy)
        if network == "host":
            said.discard("network-reached")
        breaches = [sentence for word, sentence in _BREACHES.items() if word in said]
        if breaches or "done" not in said:
            raise SandboxUnavailable(
                "; ".join(breaches) or f"the canary did not finish: {' '.join(sorted(said))[:300]}"
            )
        began = clock.monotonic()
        await _run_canary(sandbox, (shell(), "-c", "true"), env, policy)
        isolates = ["files"]
        isolates += [] if "processes-visible" in said else ["pids"]
        isolates += {"host": [], "proxy": ["network but for a proxy"], "none": ["network"]}[network]
        return Proof(tuple(isolates), "metadata-fixed" in said, (clock.monotonic() - began) * 1000)


async def _run_canary(sandbox: Sandbox, argv: tuple[str, ...], env: dict[str, str], policy: Policy) -> set[str]:
    try:
        async with asyncio.timeout(_PATIENCE):
            async with sandbox.run(SandboxCommand(argv, policy.workspace, env), policy) as process:
                output = b"".join([chunk async for chunk in process.output])
                await process.wait()
    except TimeoutError:
        raise SandboxUnavailable(f"the canary did not end within {_PATIENCE:g} s") from None
    return set(output.decode(errors="replace").splitlines())


async def _greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Stand in for the proxy."""
    writer.write(b"hello\n")
    writer.close()


@contextmanager
def _stage() -> Iterator[tuple[Path, Path, int]]:
    """Make a workspace, a sibling folder to hide, and a port on loopback that would answer."""
    with lock_new_folder() as folder, socket.socket() as listener:
        workspace, hidden = folder / "workspace", folder / "hidden"
        workspace.mkdir()
        hidden.mkdir()
        (hidden / "secret").write_text("canary\n")
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield workspace, hidden, listener.getsockname()[1]
