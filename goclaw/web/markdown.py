"""HTML to Markdown in another process: whatever a page does to the parser, it can be killed without blocking."""

import asyncio
import json
import sys
from contextlib import suppress
from pathlib import Path

from goclaw.errors import ToolError
from goclaw.records import record

SECONDS = 30.0
"""How long it may take: an ordinary page needs half a second, the largest five, on a busy machine three times that."""
AT_ONCE = 2
"""Pages at the same time: each may take the worker's memory, and a processor."""
_WORKER = Path(__file__).with_name("markdown_worker.py")
_TOO_MUCH = "the page cannot be made into Markdown: it is too large or too intricate; `raw` gives its source"


@record
class MarkdownPage:
    """A page as Markdown."""

    title: str
    text: str
    cut: bool


class Converter:
    """Makes Markdown, some pages at a time."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._room = asyncio.Semaphore(AT_ONCE)

    async def convert(self, html: str, url: str) -> MarkdownPage:
        """Convert a page; `url` is the base of its links.

        Raises:
            ToolError: it takes too long or too much memory.
        """
        async with self._room:
            try:
                async with asyncio.timeout(self._seconds):
                    answer = await _answer(json.dumps([url]).encode() + b"\n" + html.encode(errors="replace"))
            except TimeoutError:
                raise ToolError(_TOO_MUCH) from None
        try:
            title, text, cut = await asyncio.to_thread(json.loads, answer)
        except ValueError:
            raise ToolError(_TOO_MUCH) from None
        return MarkdownPage(title, text, cut)


async def _answer(given: bytes) -> bytes:
    """Return the worker's answer. It gets nothing of the daemon's environment, and is dead when this returns."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", str(_WORKER)),
        cwd="/",
        env={},
        stdin=pipe,
        stdout=pipe,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        answer, _ = await process.communicate(given)
        return answer
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
