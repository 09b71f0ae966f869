"""Files of a conversation: sent ahead of a message, and read back from the messages that have them.

Its bytes decide the kind of a file; no name and no header of its sender does. Read back, only pictures that models see
are shown by a browser; all else, an SVG above all, is a download.
"""

import asyncio
import mimetypes
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Annotated, ClassVar, Literal

from aiohttp import web
from pydantic import Field

from goclaw.common.core.events import UPLOADED, Attachment
from goclaw.common.core.pictures import fault_of
from goclaw.durable.store.blobs import image_type
from goclaw.durable.store.uploads import TooManyUploads
from goclaw.errors import ToolError
from goclaw.gateway.servers.api.operations import BYTES, Call, Key, Operations, Reply, Request, Response
from goclaw.gateway.servers.api.problems import RETRY_SECONDS, Problem, bad_request
from goclaw.gateway.servers.api.sessions import readable, writable
from goclaw.gateway.servers.connections import count_one
from goclaw.gateway.servers.downloads import UNKNOWN_TYPE, file_response, unchanged

MAX_FILE = 20 << 20
"""Bytes of one file: as much as Telegram's bots get."""
UPLOAD_SECONDS = 120.0
"""For the body of an upload: 20 MB over a slow line."""
AT_ONCE, AT_ONCE_IN_ALL = 2, 6
"""Uploads at the same time: of one person, and of all; each is held in memory."""
MAX_NAME = 200
_UPLOADS = Counter[str]()
"""Uploads at work, by person."""

Kind = Literal["image", "document", "audio", "video"]


class UploadAsked(Request):
    """The fields of `uploadFile`."""

    takes_bytes: ClassVar = True
    session: Key
    name: Annotated[str, Field(min_length=1, max_length=255, description="The file's name, for people and tools.")]


class Uploaded(Response):
    """A file that waits for its message, for a day."""

    file: str = Field(description="Its id, for `files` of `sendMessage`.")
    name: str
    type: str = Field(description="Its media type, detected from its content.")
    size: int = Field(description="Bytes.")


class MediaAsked(Request):
    """The fields of `getMedia`."""

    session: Key
    blob: Annotated[str, Field(pattern="^[0-9a-f]{64}$", description="The key of a picture or artifact of a message.")]


@contextmanager
def count_upload(owner: str) -> Iterator[None]:
    """Count an upload until the block ends; raises Problem (429) if there are too many."""
    if _UPLOADS[owner] >= AT_ONCE or _UPLOADS.total() >= AT_ONCE_IN_ALL:
        words = "other uploads are running; wait for them to end"
        raise Problem(HTTPStatus.TOO_MANY_REQUESTS, words, headers={"Retry-After": RETRY_SECONDS})
    with count_one(_UPLOADS, owner):
        yield


OPERATIONS = Operations()


@OPERATIONS.add("POST", "/sessions/{session}/files", "messages", refusals=(HTTPStatus.NOT_FOUND,))
async def upload_file(call: Call, asked: UploadAsked) -> Uploaded:
    """Upload a file before sending its message

    The body is the file, of any type, up to 20 MB. Put its id in `files` of the message.
    """
    session = await writable(call, asked.session)
    name = "".join(each for each in asked.name if each.isprintable()).strip()[:MAX_NAME]
    with count_upload(call.actor.key):
        data = await call.request.read()
        if not data:
            raise bad_request("the file is empty", "body")
        # Looks at each block of a picture: of 20 MB there may be millions.
        kind, mime = await asyncio.to_thread(kind_of, data, name)
        try:
            upload_id = await call.services.uploads.add(call.actor.key, session, data, name=name, mime=mime, kind=kind)
        except TooManyUploads as error:
            raise Problem(HTTPStatus.TOO_MANY_REQUESTS, str(error), headers={"Retry-After": "600"}) from None
    return Uploaded(file=upload_id, name=name, type=mime, size=len(data))


def kind_of(data: bytes, name: str) -> tuple[Kind, str]:
    """Return the kind of a file, and its media type. A damaged picture is a document: no model could open it."""
    mime = image_type(data)
    if mime is not None and not fault_of(data, mime):
        return "image", mime
    guessed = mimetypes.guess_type(name, strict=True)[0] or UNKNOWN_TYPE
    if guessed.startswith("audio/"):
        return "audio", guessed
    if guessed.startswith("video/"):
        return "video", guessed
    return "document", UNKNOWN_TYPE if guessed.startswith("image/") else guessed


async def attachments_of(call: Call, session: str, ids: tuple[str, ...]) -> tuple[Attachment, ...]:
    """Return files that were sent ahead, as a channel hands them over.

    Raises:
        Problem: 404, one is not there for this person and session (any more).
    """
    found: list[Attachment] = []
    for each in ids:
        known = await call.services.uploads.find(call.actor.key, session, each)
        if known is None:
            raise Problem(HTTPStatus.NOT_FOUND, f"you have no file {each[:40]!r}; upload it again", field="files")
        kind: Kind = known.kind  # type: ignore[assignment]  # as `kind_of` gave it
        found.append(Attachment(kind, f"{UPLOADED}{known.blob}", known.mime, known.name, known.size))
    return tuple(found)


@OPERATIONS.add(
    "GET",
    "/sessions/{session}/media/{blob}",
    "messages",
    Reply(body=bytes, media_type=BYTES),
    refusals=(HTTPStatus.NOT_FOUND,),
)
async def get_media(call: Call, asked: MediaAsked) -> web.Response:
    """Download a picture or file of a message"""
    session = await readable(call, asked.session)
    name = await call.ports.gateway.media_name(session, asked.blob)
    if name is None:
        raise _no_media()
    if known := unchanged(call.request, asked.blob):
        return known
    try:
        data = await call.ports.environment.blobs.get(asked.blob)
    except ToolError:
        raise _no_media() from None
    return await file_response(data, name, asked.blob)


def _no_media() -> Problem:
    return Problem(HTTPStatus.NOT_FOUND, "no message in this session has this picture or file", field="blob")
