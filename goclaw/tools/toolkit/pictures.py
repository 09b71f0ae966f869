"""Pictures on their way to a model: upright, and without place, camera and time."""

import asyncio

from goclaw.common.core.messages import Image
from goclaw.common.core.picture_details import without_details
from goclaw.errors import ToolError
from goclaw.tools.toolkit.base import ToolEnvironment
from goclaw.tools.toolkit.documents import Selection, SourceFile, read_document


async def keep_picture(environment: ToolEnvironment, data: bytes, mime: str) -> tuple[Image, bool]:
    """Keep a picture for models; also returns whether something was left out of it.

    One that lies on its side is turned by the reader of documents, which packs it anew; where that cannot be, it keeps
    the mark that says which way is up.
    """
    clean, orientation = await asyncio.to_thread(without_details, data)
    shown = clean
    if orientation != 1:
        try:
            turned = await read_document(environment, SourceFile("picture", clean, mime), Selection())
            mime, shown = next(iter(turned.pictures), (mime, clean))
        except (ToolError, OSError):
            pass  # there is no Pillow, no sandbox, or no room for a copy
    return Image(await environment.blobs.put(shown, mime), mime), clean != data
