"""The self-test of a tier: a command that attempts forbidden actions. An installed program alone proves nothing."""

import asyncio
import os
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from goclaw.common.core.clock import Clock
from goclaw.common.core.records import record
from goclaw.errors import SandboxUnavailable
from goclaw.tools.execution.sandbox.base import Network, Policy, Sandbox, SandboxCommand
from goclaw.tools.execution.sandbox.layout import shell
from goclaw.tools.execution.sandbox.scratch import lock_new_folder

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
        said = await _run(sandbox, (shell(), "-c", _SCRIPT), env, policy)
        if network == "host":
            said.discard("network-reached")
        breaches = [sentence for word, sentence in _BREACHES.items() if word in said]
        if breaches or "done" not in said:
            raise SandboxUnavailable(
                "; ".join(breaches) or f"the canary did not finish: {' '.join(sorted(said))[:300]}"
            )
        began = clock.monotonic()
        await _run(sandbox, (shell(), "-c", "true"), env, policy)
        isolates = ["files"]
        isolates += [] if "processes-visible" in said else ["pids"]
        isolates += {"host": [], "proxy": ["network but for a proxy"], "none": ["network"]}[network]
        return Proof(tuple(isolates), "metadata-fixed" in said, (clock.monotonic() - began) * 1000)


async def _run(sandbox: Sandbox, argv: tuple[str, ...], env: dict[str, str], policy: Policy) -> set[str]:
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
