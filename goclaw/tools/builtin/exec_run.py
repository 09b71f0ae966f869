"""Run a tool's command in the sandbox: its policy, the bounds on its time and environment, and its output.

The output is kept as a terminal would show it (`execution.terminal`). Its head and tail are kept in memory and the
whole in a spill; for models with little room it is compressed.
"""

import asyncio
import logging
import os
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from pydantic import Field

from goclaw.common.auth.audit import AuditEntry
from goclaw.common.config.tools import ExecSettings
from goclaw.common.core import catalog
from goclaw.common.core.plugins import load
from goclaw.common.core.redact import mask
from goclaw.durable.store.blobs import Blobs, Spill
from goclaw.errors import DiskError, ToolError
from goclaw.tools.builtin.text import first_lines, last_lines
from goclaw.tools.execution.compression.shortening import NOTICE, Short, Shorten, shorten
from goclaw.tools.execution.sandbox import layout
from goclaw.tools.execution.sandbox.base import Grammar, Policy, Process, SandboxCommand, Unclear
from goclaw.tools.execution.sandbox.policy import policy_for
from goclaw.tools.execution.sandbox.select import explain_refusal
from goclaw.tools.execution.terminal import Screen
from goclaw.tools.toolkit.base import ToolContext
from goclaw.tools.toolkit.results import Result

log = logging.getLogger(__name__)


MAX_COMMAND = 100_000  # Linux takes at most 128 KiB in one argument
HEAD = 3
"""The head of a long output is this part of the limit; errors tend to stand at its end."""


class Ran(Result):
    """A command that ended by itself."""

    output: Annotated[
        str, Field(description="stdout and stderr merged; of a long one head and tail, and where the whole is")
    ]
    code: Annotated[int, Field(description="Exit code")]

    def text(self) -> str:
        return f"{self.output}exit code: {self.code}"


async def run_command(
    ctx: ToolContext,
    argv: Sequence[str],
    folder: Path,
    seconds: float,
    env: Mapping[str, str] | None = None,
    shorten: Shorten | None = None,
    *,
    writes: bool = True,
) -> Ran:
    """Run `argv` in `folder` of the workspace, contained; `env` adds to its variables, `shorten` compresses its output.

    Without `writes` the workspace is read-only to it, where anything contains it.

    Raises:
        ToolError: it took longer than `seconds`; the message has its output until then.
        SandboxUnavailable: nothing contains it here.
    """
    what = SandboxCommand(tuple(argv), folder, {**environment(ctx.config.tools.exec), **(env or {})}, repeats=not env)
    policy = replace(await policy_of(ctx), writes=writes)
    ran = await collect_output(ctx, ctx.sandbox.run(what, policy), seconds, shorten)
    return Ran(output=ran.output + explain_refusal(ctx.sandbox, ran.code, ran.output), code=ran.code)


async def collect_output(
    ctx: ToolContext, running: AbstractAsyncContextManager[Process], seconds: float, shorten: Shorten | None = None
) -> Ran:
    """Return the output of a command after its end; raises as `run_command` does."""
    async with AsyncExitStack() as stack:
        capture = Capture(stack, ctx.blobs, ctx.actor.key, ctx.config.tools.exec.output_limit)
        code = await _run(await stack.enter_async_context(running), capture, seconds)
        await capture.end()
        if code is not None and shorten is not None:
            await capture.compress(shorten, code)
    # Outside of the block: what was kept of the output must survive the error.
    if code is None:
        raise ToolError(f"command timed out after {seconds:g} s\n{capture.text()}".rstrip())
    return Ran(output=capture.text(), code=code)


def environment(settings: ExecSettings, own: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the variables that commands see; `own` are the daemon's."""
    return {**layout.environment(own), **settings.env}


async def _run(process: Process, capture: "Capture", seconds: float) -> int | None:
    """Return the exit code; None when the time was up, and then the whole process tree is dead."""
    try:
        async with asyncio.timeout(seconds):
            async for chunk in process.output:
                await capture.add(chunk)
            return await process.wait()
    except TimeoutError:
        await process.kill()
        return None


class Capture:
    """The output of a command: head and tail in memory, and all of it in a spill once it is longer than the limit."""

    def __init__(self, stack: AsyncExitStack, blobs: Blobs, owner: str, limit: int) -> None:
        self._stack = stack
        self._blobs = blobs
        self._owner = owner
        self._limit = limit
        self._screen = Screen()
        self._head = b""
        self._tail: deque[bytes] = deque()
        self._in_tail = 0
        """Bytes of the tail."""
        self._total = 0
        self._spill: Spill | None = None
        self._short: Short | None = None
        """The shortened output that replaces it."""

    async def add(self, chunk: bytes) -> None:
        """Add output of the command."""
        await self._append(await self._screen.write(chunk))

    async def end(self) -> None:
        """Take in the rows that the command could still have drawn again."""
        await self._append(self._screen.rest())

    async def _append(self, text: bytes) -> None:
        if not text:
            return
        # A character has up to four bytes.
        most = 4 * self._limit
        self._head += text[: most - len(self._head)]
        self._tail.append(text)
        self._in_tail += len(text)
        self._total += len(text)
        if self._spill is not None:
            await self._spill.write(text)
        elif self._total > self._limit:
            self._spill = await self._spill_tail()
        while self._in_tail - len(self._tail[0]) > most:
            self._in_tail -= len(self._tail.popleft())

    async def compress(self, shorten: Shorten, code: int) -> None:
        """Show less of it, where that can be done. The omitted part then stays in a spill.

        Of an output that memory does not hold, the tail is compressed.
        """
        if self._total <= NOTICE:
            return  # a token has a character at least: the line about it would take more than it saves
        text = b"".join(self._tail).decode(errors="replace")
        if self._in_tail < self._total:
            text = text.partition("\n")[2]
        # Masked first: half a secret would not be known as one.
        short = await asyncio.to_thread(lambda: shorten(mask(text), code))
        if short is None:
            return
        try:
            if short.left_out and self._spill is None:
                self._spill = await self._spill_tail()
        except DiskError as error:
            log.warning("an output is not compressed, because its whole cannot be kept: %s", error)
            return
        if short.left_out and self._spill and self._spill.truncated:
            return
        self._short = short

    async def _spill_tail(self) -> Spill:
        """Return a spill with all that memory holds."""
        spill = await self._stack.enter_async_context(self._blobs.open_spill(self._owner))
        for earlier in self._tail:
            await spill.write(earlier)
        return spill

    def text(self) -> str:
        """Return the whole output, or its head and tail, with a note on the cut and the place of the whole."""
        tail = b"".join(self._tail).decode(errors="replace")
        if self._short:
            spill = self._spill if self._short.left_out else None
            whole = spill.name if spill and not spill.is_binary else ""
            return f"{self._short.note(whole)}\n{self._cut(self._short.text, self._short.text)}"
        if self._in_tail == self._total:
            return self._cut(tail, tail)
        return self._cut(self._head.decode(errors="replace"), tail)

    def _cut(self, head: str, tail: str) -> str:
        """Return a text from its beginning and its end (one text, if that is all of it), within the limit."""
        if not tail:
            return ""
        text = tail
        if self._spill is not None and (head is not tail or len(tail) > self._limit):
            # Masked first: half a secret would not be known as one.
            first = first_lines(mask(head), self._limit // HEAD)
            last = last_lines(mask(tail), self._limit - len(first), from_a_line=False)
            shown = f"{len(first):,} characters before this and {len(last):,} after it, of {self._total:,} bytes"
            gap = "" if first.endswith("\n") else "\n"
            text = f"{first}{gap}[output cut: {shown}; {self._spill.note}]\n{last}"
        return text if text.endswith("\n") else f"{text}\n"


async def policy_of(ctx: ToolContext) -> Policy:
    """Return the policy of one call; raises as `policy_for` does."""

    def explain(place: str, reached: bool, why: str) -> None:
        rule = "tools.network"
        ctx.environment.audit(
            AuditEntry("exec.connect", place, ctx.actor, ctx.session, reached, rule, why, turn=ctx.turn)
        )

    return await policy_for(ctx.config, ctx.home.root, explain, shared=ctx.home.shared)


def shorten_line(line: str) -> Shorten:
    """Return the compression for a line of shell; none where it is unclear which command's output it shows."""

    def shortened(text: str, code: int) -> Short | None:
        with suppress(Unclear):
            return shorten(text, load(catalog.GRAMMARS["bash"], Grammar).shown_by(line), code)
        return None

    return shortened


def shorten_words(words: Sequence[str]) -> Shorten:
    """Return the compression for a command without a shell."""
    return lambda text, code: shorten(text, words, code)
