"""The answer of an MCP server as a result: texts, pictures, resources. All of it is foreign content."""

import asyncio
import json
import logging
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field

from goclaw.common.core.messages import Image
from goclaw.common.core.pictures import fault_of
from goclaw.durable.store.blobs import image_type
from goclaw.errors import ToolError
from goclaw.tools.builtin.read import MAX_PICTURE
from goclaw.tools.mcp.base import CallResult, Piece
from goclaw.tools.mcp.untrusted import shorten
from goclaw.tools.toolkit.base import ToolContext
from goclaw.tools.toolkit.pictures import keep_picture
from goclaw.tools.toolkit.results import Result

log = logging.getLogger(__name__)

MAX_PICTURES = 5
"""Pictures of one answer that the model looks at."""


class McpAnswer(Result):
    """What a server gave."""

    content: Annotated[str, Field(description="What it says, in text")]
    structured: Annotated[Any, Field(description="The same as data, where the server gives data")] = None
    images: tuple[Image, ...] = ()
    fault: Annotated[str, Field(description="What is off about it")] = ""

    def text(self) -> str:
        """Return the answer's text, its data where the text lacks them, and any problems with it."""
        return f"{self._answer()}\n[{self.fault}]" if self.fault else self._answer()

    def _answer(self) -> str:
        if self.structured is None or _says(self.content, self.structured):
            return self.content or "(the server answered with nothing)"
        data = json.dumps(self.structured, ensure_ascii=False)
        return f"{self.content}\n\nAs data:\n{data}" if self.content else data

    def pictures(self) -> tuple[Image, ...]:
        return self.images


def _says(text: str, data: Any) -> bool:
    """Whether a text is the data, as JSON or as their only value."""
    if isinstance(data, dict) and len(data) == 1 and text == next(iter(data.values())):
        return True
    if not text.lstrip().startswith(("{", "[")):
        return False
    try:
        said: object = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return bool(said == data)


async def answer_of(outcome: CallResult, ctx: ToolContext) -> McpAnswer:
    """Return the result of a call.

    Raises:
        ToolError: the server says that the call failed.
    """
    texts: list[str] = []
    images: list[Image] = []
    for piece in outcome.pieces:
        picture = await picture_of(piece, ctx) if len(images) < MAX_PICTURES else None
        if picture:
            images.append(picture)
        texts.append(_text(piece, seen=picture is not None))
    text = "\n\n".join(texts)
    if outcome.is_error:
        raise ToolError(text or "the server says that the call failed, and not why")
    return McpAnswer(content=text, structured=outcome.structured, images=tuple(images))


async def picture_of(piece: Piece, ctx: ToolContext) -> Image | None:
    """Return the kept picture of a piece; None: not a picture that a model can be shown."""
    mime = image_type(piece.data) if piece.data else None
    if mime is None or len(piece.data) > MAX_PICTURE:
        return None
    if fault := await asyncio.to_thread(fault_of, piece.data, mime):
        log.info("a picture of an MCP server is not shown: %s", fault)
        return None
    return (await keep_picture(ctx.environment, piece.data, mime))[0]


def _text(piece: Piece, *, seen: bool) -> str:
    """Return a piece as text; bytes by their kind and size."""
    mime, uri = shorten(piece.mime or "of no stated kind", 80), shorten(piece.uri, 500)
    size = f"{len(piece.data):,} bytes"
    match piece.kind:
        case "text":
            return piece.text
        case "image":
            return f"[picture, {mime}, {size}{'' if seen else ', not shown'}]"
        case "audio":
            return f"[sound, {mime}, {size}, not played]"
        case "link":
            return f"[resource {uri}: {shorten(piece.text)}]"
        case "resource" if piece.data or not piece.text:
            return f"[resource {uri}: {mime}, {size}{', the picture' if seen else ''}]"
    return f"[resource {uri}]\n{piece.text}"


def origin_of(server: str) -> str:
    """Return the name of a source for the model."""
    return f"the MCP server {server}"


def pieces_of(outcome: CallResult) -> Sequence[str]:
    """Return each piece as text, without checking pictures."""
    return [_text(piece, seen=False) for piece in outcome.pieces]
