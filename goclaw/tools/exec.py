"""The `exec` tool: a shell command in the sandbox."""

import asyncio
import os
from collections import deque
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Annotated

from pydantic import BaseModel, Field

from goclaw.blobs import Blobs, Spill
from goclaw.config.tools import ExecSettings
from goclaw.errors import InvalidInput, ToolError
from goclaw.redact import mask
from goclaw.sandbox.base import Command, Process
from goclaw.sandbox.layout import shell
from goclaw.sandbox.rules import Rules
from goclaw.specs import Risk, SideEffect
from goclaw.toolkit.base import ToolContext, tool
from goclaw.tools.exec_grounds import exec_grounds
from goclaw.tools.exec_policy import policy_of
from goclaw.tools.text import encoded

_SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PASSED_ON = ("LANG", "LC_ALL", "LC_CTYPE", "TZ")
"""Variables of the daemon's environment that commands see. Nothing else is: tokens are in there."""
_LONGEST_COMMAND = 100_000  # Linux takes at most 128 KiB in one argument


def _risk(arguments: BaseModel, ctx: ToolContext) -> Risk:
    """Uncontained is critical, with network high, else contained."""
    if ctx.sandbox.tier == "off":
        return Risk.CRITICAL
    return Risk.CONTAINED if ctx.config.tools.exec.network == "none" else Risk.HIGH


_DENIED = (
    '{"summary": "Cancelled, nothing was run", "command": $command, "advice": "Do not try the same in another way. Go '
    'on without it, or say what you wanted and why."}'
)


@tool(
    side_effect=SideEffect.SPAWNS,
    risk=_risk,
    idempotent=False,
    name="exec",
    own_timeout=True,
    grounds=exec_grounds,
    denied=_DENIED,
)
async def exec_(
    ctx: ToolContext,
    command: Annotated[str, Field(min_length=1, max_length=_LONGEST_COMMAND, description="Command to execute.")],
    timeout: Annotated[int | None, Field(ge=1, le=300, description="Timeout in seconds (default: 30).")] = None,
    working_dir: Annotated[str | None, Field(description="Working directory, inside the workspace.")] = None,
) -> str:
    """Execute a shell command in the workspace. Returns its output (stdout and stderr merged) and its exit code.

    Processes that the command leaves behind end with it. Standard input is closed.
    """
    settings = ctx.config.tools.exec
    Rules(settings.allowed, settings.blocked).judge(command)
    folder = await ctx.workspace.folder(working_dir or ".")
    what = Command(_argv(command), folder, _environment(settings, os.environ))
    seconds = timeout or settings.timeout
    async with AsyncExitStack() as stack:
        capture = Capture(stack, ctx.blobs, ctx.actor.key, settings.output_limit)
        process = await stack.enter_async_context(ctx.sandbox.run(what, await policy_of(ctx)))
        code = await _run(process, capture, seconds)
    # Outside of the block: what was kept of the output must survive the error.
    if code is None:
        raise ToolError(f"command timed out after {seconds:g} s\n{capture.text()}".rstrip())
    return f"{capture.text()}exit code: {code}"


async def _run(process: Process, capture: "Capture", seconds: float) -> int | None:
    """The exit code; None when the time was up, and then the whole tree is dead."""
    try:
        async with asyncio.timeout(seconds):
            async for chunk in process.output:
                await capture.add(chunk)
            return await process.wait()
    except TimeoutError:
        await process.kill()
        return None


class Capture:
    """The output of a command: its tail in memory, and all of it in a spill once it is longer than the limit."""

    def __init__(self, stack: AsyncExitStack, blobs: Blobs, owner: str, limit: int) -> None:
        self._stack = stack
        self._blobs = blobs
        self._owner = owner
        self._limit = limit
        self._tail: deque[bytes] = deque()
        self._held = 0
        self._total = 0
        self._spill: Spill | None = None

    async def add(self, chunk: bytes) -> None:
        """Take in what the command wrote."""
        self._tail.append(chunk)
        self._held += len(chunk)
        self._total += len(chunk)
        if self._spill is not None:
            await self._spill.write(chunk)
        elif self._total > self._limit:
            self._spill = await self._stack.enter_async_context(self._blobs.open_spill(self._owner))
            for earlier in self._tail:
                await self._spill.write(earlier)
        # A character has up to four bytes.
        while self._held - len(self._tail[0]) > 4 * self._limit:
            self._held -= len(self._tail.popleft())

    def text(self) -> str:
        """Whole lines: all of the output, or a line that says where the whole is and the tail."""
        text = b"".join(self._tail).decode(errors="replace")
        if not text:
            return ""
        if self._spill is not None and (len(text) > self._limit or self._held < self._total):
            text = f"{self._notice(self._spill)}\n{mask(text)[-self._limit :]}"
        return text if text.endswith("\n") else f"{text}\n"

    def _notice(self, spill: Spill) -> str:
        part = f"the first {spill.kept:,} bytes are" if spill.truncated else "the whole is"
        return (
            f"[output cut: the last {self._limit:,} characters of {self._total:,} bytes; {part} kept as {spill.name}, "
            f'open it with read {{"path": "{spill.name}"}}]'
        )


def _argv(command: str) -> tuple[str, ...]:
    if "\0" in command:
        raise InvalidInput('field "command": expected text without NUL characters, got one')
    if len(encoded(command, "command")) > _LONGEST_COMMAND:
        raise InvalidInput(f'field "command": expected at most {_LONGEST_COMMAND} bytes; write a script and run that')
    return (shell(), "-c", command)


def _environment(settings: ExecSettings, own: Mapping[str, str]) -> dict[str, str]:
    passed_on = {name: own[name] for name in _PASSED_ON if name in own}
    return {"PATH": _SEARCH_PATH, "LANG": "C.UTF-8", "TERM": "dumb", **passed_on, **settings.env}
