"""Documents in a search: their text, kept in memory by the hash of the file."""

import asyncio
import hashlib
from pathlib import PurePosixPath

from goclaw.common.core.records import BoundedDict
from goclaw.tools.toolkit.base import ToolContext
from goclaw.tools.toolkit.documents import Selection, SourceFile, read_document

MAX_SEARCHED = 50
"""Documents of one search; the first one of each takes a second."""
_MAX_CHARACTERS = 500_000
"""Of a document that are searched."""
_ENDINGS = frozenset((".pdf", ".docx", ".docm", ".pptx", ".xlsx", ".xlsm", ".odt", ".ods", ".odp", ".epub"))
_texts: BoundedDict[bytes, str] = BoundedDict(64)


def is_searched(path: str) -> bool:
    """Whether a search looks into the text of this file, by its name: archives and texts are left out."""
    return PurePosixPath(path).suffix.lower() in _ENDINGS


async def text_of(ctx: ToolContext, path: str) -> str:
    """Return the text of a document in the workspace.

    Raises:
        ToolError: it is gone, or cannot be read.
    """
    most = ctx.config.documents.max_file_mb << 20
    data = await ctx.workspace.use(path, lambda opened: opened.file.read(most + 1))
    key = await asyncio.to_thread(lambda: hashlib.sha256(data).digest())
    if (kept := _texts.get(key)) is not None:
        return kept
    wanted = Selection(characters=_MAX_CHARACTERS, scans=False)
    document = await read_document(ctx.environment, SourceFile(path, data), wanted)
    _texts[key] = document.content
    return document.content
