"""Pictures and files that are still needed: those in a context, on their way to a chat, or kept by tools.

A picture stays as long as its message, an artifact as long as its row. Where they take more than
`media.max_megabytes`, the oldest go of the pictures that no context shows and of the copies of files that answers name;
the words that came with them stay, as all words do. (When conversations are forgotten, a file stays while any row of
another one refers to it: see `forgetting`.)
"""

import asyncio
import re
from collections.abc import Iterable

import orjson
from sqlalchemy import and_, func, select

from goclaw.common.core.messages import NAMED
from goclaw.durable.store.database import Database, Statement
from goclaw.durable.store.dialect import contains
from goclaw.durable.store.schema import compactions, deliveries, inbox, messages, sessions, steps

HAS_MEDIA = '"media":"'
"""Part of the body of a delivery with a file."""

HAS_UPLOAD = '"ref":"blob:'
"""Part of the body of a message with an uploaded file."""
_UPLOAD = re.compile(r'"ref":"blob:([0-9a-f]{64})"')

_start = func.coalesce(sessions.c.context_start, 0)
_first_kept = (
    select(compactions.c.first_kept)
    .where(compactions.c.session == messages.c.session, compactions.c.first_kept > _start)
    .order_by(compactions.c.id.desc())
    .limit(1)
    .scalar_subquery()
)
SHOWN = Statement(
    # As `Transcripts.context` reads it, for all conversations at once; the rows come from an index of their own.
    select(messages.c.images)
    .outerjoin(sessions, sessions.c.key == messages.c.session)
    .where(messages.c.images.is_not(None), messages.c.id >= func.coalesce(_first_kept, _start + 1))
)
PICTURES = Statement(select(messages.c.images).where(messages.c.images.is_not(None)))
ARTIFACTS = Statement(select(messages.c.artifacts).where(messages.c.artifacts.is_not(None)))
ON_THEIR_WAY = Statement(
    select(deliveries.c.body).where(
        deliveries.c.state != "sent", deliveries.c.state != "failed", contains(deliveries.c.body, HAS_MEDIA)
    )
)
ATTACHED = Statement(
    # Files that came with messages over the API: their bytes are media until a turn has opened the message.
    select(inbox.c.body).where(inbox.c.state != "done", contains(inbox.c.body, HAS_UPLOAD))
)
_is_processed = select(steps.c.turn).where(
    and_(steps.c.turn == inbox.c.id, steps.c.name == "user", steps.c.state == "done")
)
_OLDEST_UNPROCESSED = Statement(
    select(func.min(inbox.c.received_at)).where(inbox.c.state != "done", ~_is_processed.exists())
)


class NeededMedia:
    """The question, asked of the database that runs; a backup asks its copy with the same statements."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def referred(self) -> frozenset[str]:
        """Return keys of all pictures and artifacts of messages, also of those that may go when there are too many."""
        found = [*await self._database.read(PICTURES()), *await self._database.read(ARTIFACTS())]
        return await asyncio.to_thread(blobs_of, [row[0] for row in found])

    async def keys(self) -> frozenset[str]:
        """Return keys of what must stay."""
        shown = await self._database.read(SHOWN())
        kept = await self._database.read(ARTIFACTS())
        sent = await self._database.read(ON_THEIR_WAY())
        attached = await self._database.read(ATTACHED())
        known = blobs_of(row[0] for row in shown) | kept_artifacts(row[0] for row in kept)
        return known | media_of(row[0] for row in sent) | uploads_of(row[0] for row in attached)

    async def oldest_unprocessed(self) -> float | None:
        """Return the time of the oldest message with files possibly being fetched: no row refers to them yet."""
        found: float | None = (await self._database.read(_OLDEST_UNPROCESSED()))[0][0]
        return found


def media_of(bodies: Iterable[str]) -> frozenset[str]:
    """Return keys of the files that deliveries carry, from their bodies."""
    return frozenset(media for body in bodies if (media := orjson.loads(body).get("media")))


def uploads_of(bodies: Iterable[str]) -> frozenset[str]:
    """Return keys of the files that came with messages, from their bodies."""
    return frozenset(key for body in bodies for key in _UPLOAD.findall(body))


def kept_artifacts(columns: Iterable[str]) -> frozenset[str]:
    """Return keys of the artifacts that stay as long as their rows, from their columns `artifacts`."""
    return frozenset(blob for column in columns for blob, _, kind, *_ in orjson.loads(column) if kind != NAMED)


def blobs_of(columns: Iterable[str]) -> frozenset[str]:
    """Return keys of what rows of messages refer to, from their columns `images` and `artifacts`."""
    return frozenset(blob for column in columns for blob, *_ in orjson.loads(column))
