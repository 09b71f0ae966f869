"""What channels keep in a schema that several processes share: parts of messages, previews, facts, notices.

Implements `channels.sharing.ChannelSharing`.
"""

import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any

import orjson
from sqlalchemy import text

from goclaw.core.clock import Clock
from goclaw.core.supervise import see_through
from goclaw.errors import OwnershipLost
from goclaw.store.database import Database, Statement
from goclaw.store.fencing import fenced
from goclaw.store.ownership import Ownership
from goclaw.store.postgres.database import PostgresDatabase
from goclaw.store.postgres.replica_share import ReplicaShare
from goclaw.store.settings import Settings

log = logging.getLogger(__name__)

TOPIC = "channels"
"""Of the notices between the channels of all processes."""
CONTENT_SECONDS = 600.0
"""Seconds for which the messages of a group are kept that was handed over, so that an edit finds them."""
NAMES_SECONDS = 2 * 86_400.0
"""Seconds for which it is known which messages a group had: Telegram repeats an update for a day."""
PREVIEW_SECONDS = 7 * 86_400.0
"""Seconds for which a preview is found again by the answer that it shows."""

_GATHER = Statement(text("SELECT gather_part(:name, :chat, :sender, :part, :message) AS outcome"))
_END = Statement(text("SELECT end_group(:name, :quiet, :most) AS remaining"))
_CONTENT = Statement(
    text(
        "SELECT p.part, p.message FROM media_groups g JOIN media_parts p USING (name) "
        "WHERE g.name = :name AND g.members IS NOT NULL AND g.is_handed_over = :handed ORDER BY p.part"
    )
)
_HANDED_OVER = Statement(
    text("UPDATE media_groups SET is_handed_over = true, changed_at = clock_timestamp() WHERE name = :name")
)
_DROP_CONTENT = Statement(text("DELETE FROM media_parts WHERE name = :name"))
_AROUND = Statement(
    text(
        "SELECT g.name, g.sender, g.is_handed_over, g.members IS NOT NULL AS has_ended, "
        "(:part = ANY (g.members) OR EXISTS (SELECT 1 FROM media_parts p WHERE p.name = g.name AND p.part = :part)) "
        "IS TRUE AS has_part, "
        "(SELECT p.message FROM media_parts p WHERE p.name = g.name ORDER BY p.part LIMIT 1) AS first "
        "FROM media_groups g WHERE g.chat = :chat AND (NOT g.is_handed_over "
        "OR :part = ANY (g.members)) ORDER BY g.changed_at, g.name"
    )
)
_REPLACE = Statement(text("UPDATE media_parts SET message = :message WHERE name = :name AND part = :part"))
_LEFT = Statement(
    text(
        "SELECT name, chat FROM media_groups WHERE NOT is_handed_over "
        "AND changed_at < clock_timestamp() - make_interval(secs => :idle) ORDER BY changed_at, name"
    )
)
_FORGET = (
    Statement(
        text(
            "DELETE FROM media_parts p USING media_groups g WHERE g.name = p.name AND g.is_handed_over "
            "AND g.changed_at < clock_timestamp() - make_interval(secs => :content)"
        )
    ),
    Statement(
        text(
            "DELETE FROM media_groups WHERE is_handed_over "
            "AND changed_at < clock_timestamp() - make_interval(secs => :names)"
        )
    ),
    Statement(text("DELETE FROM previews WHERE noted_at < clock_timestamp() - make_interval(secs => :previews)")),
)
_NOTE = Statement(
    text(
        "INSERT INTO previews (channel, key, session, message) VALUES (:channel, :key, :session, :message) "
        "ON CONFLICT (channel, key) DO UPDATE SET message = excluded.message, noted_at = clock_timestamp()"
    )
)
_DROP_PREVIEW = Statement(text("DELETE FROM previews WHERE channel = :channel AND key = :key"))
_PREVIEWS = Statement(text("SELECT key, message FROM previews WHERE channel = :channel AND session = :session"))


class PostgresChannels:
    """The channels' part of one schema. All methods that wait raise `DiskError` as `Database` does."""

    def __init__(self, database: PostgresDatabase, ownership: Ownership, clock: Clock) -> None:
        self._database = database
        self._ownership = ownership
        self._settings = Settings(database)
        self._share = ReplicaShare(database, clock)
        self._heard: dict[str, Callable[[str], None]] = {}
        self.takes: list[Callable[[str], Awaitable[None]]] = []
        database.notices.hear(TOPIC, self._hear, _missed)

    def holds(self, session: str) -> bool:
        return self._ownership.is_sure_of(session)

    async def lead(self, duty: str, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        await self._ownership.lead(duty, run)

    def share(self) -> float:
        return self._share.part()

    async def follow(self) -> None:
        await self._share.follow()

    def hear(self, kind: str, heard: Callable[[str], None]) -> None:
        self._heard[kind] = heard

    async def tell(self, kind: str, words: str) -> None:
        await self._database.write(self._database.notices.told(TOPIC, f"{kind} {words}"))

    async def fact(self, name: str) -> Any:
        return await self._settings.fact(name)

    async def learn(self, facts: Mapping[str, Any]) -> None:
        await self._database.write(*(Settings.learning(name, value) for name, value in facts.items()), durable=True)

    async def gather(self, name: str, chat: int, sender: int, part: int, message: bytes) -> str:
        given = {"name": name, "chat": chat, "sender": sender, "part": part, "message": message.decode()}
        [result] = await self._database.write(_GATHER(**given), durable=True)
        return str(result.rows[0]["outcome"])

    async def around(self, chat: int, part: int) -> Sequence[Mapping[str, Any]]:
        rows = await self._database.read(_AROUND(chat=chat, part=part))
        return [{name: row[name] for name in row.keys()} for row in rows]  # noqa: SIM118  # a Row iterates over values

    async def end_group(self, name: str, quiet: float, most: int) -> float:
        [result] = await self._database.write(_END(name=name, quiet=quiet, most=most), durable=True)
        return float(result.rows[0]["remaining"])

    async def messages(self, name: str, *, handed_over: bool = False) -> Sequence[Any]:
        rows = await self._database.read(_CONTENT(name=name, handed=handed_over))
        return [orjson.loads(row["message"]) for row in rows]

    async def handed_over(self, name: str, *, keep: bool) -> None:
        drop = [] if keep else [_DROP_CONTENT(name=name)]
        await self._database.write(_HANDED_OVER(name=name), *drop)

    async def replace(self, name: str, part: int, message: bytes) -> bool:
        [result] = await self._database.write(_REPLACE(name=name, part=part, message=message.decode()), durable=True)
        return result.rowcount > 0

    async def left(self, idle: float) -> Sequence[tuple[str, int]]:
        return [(str(row["name"]), int(row["chat"])) for row in await self._database.read(_LEFT(idle=idle))]

    async def forget_old(self) -> None:
        ages = {"content": CONTENT_SECONDS}, {"names": NAMES_SECONDS}, {"previews": PREVIEW_SECONDS}
        await self._database.write(*(each(**age) for each, age in zip(_FORGET, ages, strict=True)))

    async def note_preview(self, channel: str, session: str, key: str, message: int, *, instead_of: str = "") -> None:
        moved = [_DROP_PREVIEW(channel=channel, key=instead_of)] if instead_of else []
        noted = _NOTE(channel=channel, key=key, session=session, message=message)
        if (fence := self._ownership.fence_of(session)) is None:
            raise OwnershipLost("this process does not work on the session")
        # One that was paused right before it would put it in place of what the next owner has noted.
        with fenced(fence):
            await see_through(_written(self._database, *moved, noted), f"noting a preview of {channel}")

    async def previews(self, channel: str, session: str) -> Mapping[str, int]:
        rows = await self._database.read(_PREVIEWS(channel=channel, session=session))
        return {str(row["key"]): int(row["message"]) for row in rows}

    def _hear(self, payload: str) -> None:
        kind, _, words = payload.partition(" ")
        if heard := self._heard.get(kind):
            heard(words)


async def _written(database: Database, *statements: Any) -> None:
    await database.write(*statements)


def _missed() -> None:
    """Do nothing: a notice that is lost is made up for by the service's own refusal."""
