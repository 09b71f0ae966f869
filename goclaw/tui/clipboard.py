"""The clipboard of the person's own terminal, also from a distant machine and from inside tmux."""

import asyncio
import os
from collections.abc import Mapping

MAX_COPY = 74_994
"""Bytes that are copied at most: in base64 they are 100,000, and terminals pass over sequences that are longer."""
TMUX_SECONDS = 2.0
_PASSED_ON = ("PATH", "TMUX", "TMUX_TMPDIR", "LANG", "LC_ALL", "LC_CTYPE")


def fits(text: str) -> bool:
    """Whether terminals take so long a text."""
    return len(text.encode(errors="replace")) <= MAX_COPY


def in_tmux() -> bool:
    """Whether this program runs in a tmux of this machine."""
    return bool(os.environ.get("TMUX"))


async def copy_through_tmux(text: str, environment: Mapping[str, str] = os.environ) -> bool:
    """Let tmux copy `text`; False when it cannot (no program, no server, older than 3.2)."""
    passed_on = {name: environment[name] for name in _PASSED_ON if name in environment}
    try:
        process = await asyncio.create_subprocess_exec(
            *("tmux", "load-buffer", "-w", "-"),
            env=passed_on,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError:
        return False
    try:
        async with asyncio.timeout(TMUX_SECONDS):
            await process.communicate(text.encode(errors="replace"))
    except TimeoutError:
        process.kill()
        await process.wait()
    return process.returncode == 0
