"""Documents in a search: their text, kept in memory by the version of the file."""

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import PurePosixPath

from goclaw.common.core.records import BoundedDict, record
from goclaw.common.workspace import FileStamp, Opened
from goclaw.errors import ToolError
from goclaw.tools.toolkit.base import ToolContext
from goclaw.tools.toolkit.documents import MAX_CHARACTERS, text_for_search

MAX_SEARCHED = 50
"""Documents of one search; the first one of each takes a second."""
SECONDS = 2.0
"""For a document of a folder, so that a slow one leaves time for others."""
_OFTEN_TEXTS = frozenset((".rtf", ".eml"))
"""Endings of documents that are searched as they are where their reader refuses them."""


@record
class _Key:
    """A state of a file, and the ending that helps to decide how it is read."""

    version: FileStamp
    ending: str


@record
class _Failure:
    """A document that could not be read."""

    reason: str
    seconds: float
    """The time that it had: a caller with more tries again."""
    until: float
    """On the clock that never goes back: the reason may have been the machine's."""


class _Texts:
    """Texts of the documents that were last read, up to a number of bytes."""

    def __init__(self, most: int) -> None:
        self._left = most
        self._kept: dict[_Key, str] = {}

    def find(self, key: _Key) -> str | None:
        """Return a text; None: it is not kept. Any thread may ask."""
        return self._kept.get(key)

    def add(self, key: _Key, text: str) -> None:
        """Keep a text in place of the oldest ones; on the event loop."""
        if key in self._kept:
            self._left += sys.getsizeof(self._kept.pop(key))
        self._kept[key] = text
        self._left -= sys.getsizeof(text)
        while self._left < 0:
            self._left += sys.getsizeof(self._kept.pop(next(iter(self._kept))))


_FORGET = 300
"""Seconds after which a document that failed is tried again."""
_texts = _Texts(16 << 20)
_failures: BoundedDict[_Key, _Failure] = BoundedDict(1_000)


def select_searched(paths: Sequence[str]) -> Sequence[str]:
    """Return the documents that one search reads; mails and RTF come last, because they can be searched as they are."""
    return sorted(paths, key=lambda path: PurePosixPath(path).suffix.lower() in _OFTEN_TEXTS)[:MAX_SEARCHED]


async def text_of(ctx: ToolContext, path: str, seconds: float) -> str:
    """Return the text of a document in the workspace, which is read in at most so many seconds, once it is its turn.

    Raises:
        ToolError: it is gone, or cannot be read in this time.
    """
    clock, most = ctx.environment.clock, ctx.config.documents.max_file_mb << 20
    reader = partial(_read_unknown, path, most, seconds, clock.monotonic())
    key, failure, found = await ctx.workspace.use(path, reader)
    if isinstance(found, str):
        return found
    if failure is None:
        try:
            text = await text_for_search(ctx.environment, path, found, seconds=seconds)
        except ToolError as error:
            failure = _failures[key] = _Failure(str(error), seconds, clock.monotonic() + _FORGET)
        else:
            _texts.add(key, text)
            return text
    if key.ending in _OFTEN_TEXTS and b"\0" not in (beginning := found[:MAX_CHARACTERS]):
        return beginning.decode(errors="replace")
    raise ToolError(failure.reason)


def _read_unknown(
    path: str, most: int, seconds: float, now: float, opened: Opened
) -> tuple[_Key, _Failure | None, str | bytes]:
    """Return the text of a document that is known, else its bytes, and why it could not be read a short time ago.

    Raises:
        ToolError: it could not be read, and its bytes are of no use.
    """
    key = _Key(opened.stat.version, PurePosixPath(path).suffix.lower())
    if (text := _texts.find(key)) is not None:
        return key, None, text
    failure = _failures.get(key)
    if failure and (failure.seconds < seconds or failure.until < now):
        failure = None
    if failure and key.ending not in _OFTEN_TEXTS:
        raise ToolError(failure.reason)
    return key, failure, opened.file.read(most + 1)
