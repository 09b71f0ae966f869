"""The rows that channels keep: messages that are parts of one, previews, and facts. Implements `channels.state`.

Several processes may gather one group, also a gateway of a former version with the functions of
`postgres.channel_schema`. Every decision is a condition of the statement that acts on it. The one that adds a part and
the one that fixes the members both hold the row of the group, so that no part comes between.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson
from sqlalchemy import (
    BigInteger,
    Boolean,
    Float,
    String,
    and_,
    bindparam,
    case,
    delete,
    exists,
    func,
    insert,
    not_,
    or_,
    select,
    update,
)

from goclaw.channels.state import Gathered
from goclaw.common.core.fencing import Fence, under_fence
from goclaw.durable.store.database import BoundStatement, Database, Statement, insert_into
from goclaw.durable.store.dialect import OnConflict, age_of, has_number, numbers_of, store_time
from goclaw.durable.store.schema import media_groups, media_parts, previews
from goclaw.durable.store.settings import Settings
from goclaw.errors import OwnershipLost

KEPT_SECONDS = 2 * 86_400.0
"""Seconds for which a group is kept that was handed over: Telegram repeats an update for a day, and people may edit a
message for two."""
PREVIEW_SECONDS = 7 * 86_400.0
"""Seconds for which a preview is found again by the answer that it shows."""
MAX_PREVIEWS = 200
"""Previews that are read at a start: of far more turns than run at once."""
MAX_GROUPS = 1_000
"""Groups that are read at a start, the latest: Telegram can repeat far fewer."""

_KEPT = Gathered.KEPT.value
_part = bindparam("part", type_=BigInteger)
_named = media_groups.c.name == bindparam("name")
_is_undecided = and_(_named, media_groups.c.members.is_(None))
_has_row = exists().where(media_parts.c.name == media_groups.c.name, media_parts.c.part == _part)
_is_member = has_number(media_groups.c.members, _part)
_parts_of = media_parts.c.name == bindparam("name")
_count = select(func.count()).select_from(media_parts).where(_parts_of).scalar_subquery()
_all_parts = select(numbers_of(media_parts.c.part)).where(_parts_of).scalar_subquery()

_OPEN = insert_into(media_groups, "name", "chat", "sender", ignore_conflict=True)
_TOUCH = Statement(update(media_groups).where(_is_undecided, not_(_has_row)).values(changed_at=store_time()))
_ADD = Statement(
    insert(media_parts)
    .from_select(
        ["name", "part", "message"],
        select(bindparam("name", type_=String), _part, bindparam("message", type_=String)).where(
            exists().where(_is_undecided)
        ),
    )
    .ext(OnConflict())
)
_OUTCOME = Statement(
    select(
        case(
            (or_(media_groups.c.members.is_(None), and_(_is_member, not_(media_groups.c.is_handed_over))), _KEPT),
            (_is_member, Gathered.HANDED_OVER.value),
            else_=Gathered.APART.value,
        ).label("outcome"),
        _count.label("parts"),
    ).where(_named)
)
_LOCK = Statement(select(media_groups.c.name).where(_named).with_for_update())
_END = Statement(
    update(media_groups)
    .where(
        _is_undecided,
        or_(
            age_of(media_groups.c.changed_at) >= bindparam("quiet", type_=Float),
            _count >= bindparam("most", type_=BigInteger),
        ),
    )
    .values(members=_all_parts)
)
_REMAINING = Statement(
    select((bindparam("quiet", type_=Float) - age_of(media_groups.c.changed_at)).label("remaining")).where(
        _is_undecided
    )
)
_CONTENT = Statement(
    select(media_parts.c.message)
    .join(media_groups, media_groups.c.name == media_parts.c.name)
    .where(
        _named,
        media_groups.c.members.is_not(None),
        media_groups.c.is_handed_over == bindparam("handed", type_=Boolean),
    )
    .order_by(media_parts.c.part)
)
_HAND_OVER = Statement(update(media_groups).where(_named).values(is_handed_over=True, changed_at=store_time()))
_DROP_CONTENT = Statement(delete(media_parts).where(_parts_of))
_first = (
    select(media_parts.c.message)
    .where(media_parts.c.name == media_groups.c.name)
    .order_by(media_parts.c.part)
    .limit(1)
    .scalar_subquery()
)
_AROUND = Statement(
    select(
        media_groups.c.name,
        media_groups.c.sender,
        media_groups.c.is_handed_over,
        media_groups.c.members.is_not(None).label("has_ended"),
        or_(_is_member, _has_row).label("has_part"),
        _first.label("first"),
    )
    .where(
        media_groups.c.chat == bindparam("chat", type_=BigInteger),
        or_(not_(media_groups.c.is_handed_over), _is_member),
    )
    .order_by(media_groups.c.changed_at, media_groups.c.name)
)
_REPLACE = Statement(
    update(media_parts).where(_parts_of, media_parts.c.part == _part).values(message=bindparam("new_message"))
)
_LEFT = Statement(
    select(media_groups.c.name, media_groups.c.chat)
    .where(not_(media_groups.c.is_handed_over), age_of(media_groups.c.changed_at) > bindparam("idle", type_=Float))
    .order_by(media_groups.c.changed_at, media_groups.c.name)
)
_RECENT = Statement(
    select(
        media_groups.c.name,
        media_groups.c.chat,
        media_groups.c.is_handed_over,
        func.coalesce(
            media_groups.c.members,
            select(numbers_of(media_parts.c.part)).where(media_parts.c.name == media_groups.c.name).scalar_subquery(),
        ).label("parts"),
    )
    .order_by(media_groups.c.changed_at.desc())
    .limit(MAX_GROUPS)
)
_OPEN_AS_HANDED_OVER = insert_into(media_groups, "name", "chat", "sender", "is_handed_over", ignore_conflict=True)
_END_HANDED_OVER = Statement(
    update(media_groups).where(_is_undecided, media_groups.c.is_handed_over).values(members=_all_parts)
)
_DROP_EMPTY = Statement(delete(media_parts).where(_parts_of, media_parts.c.message == ""))
_NOTE = Statement(
    insert(previews)
    .values({name: bindparam(name) for name in ("channel", "key", "session", "message")} | {"noted_at": store_time()})
    .ext(OnConflict(("channel", "key"), ("session", "message", "noted_at")))
)
_ADD_PREVIEW = insert_into(previews, "channel", "key", "session", "message", ignore_conflict=True)
_of_channel = previews.c.channel == bindparam("channel")
_DROP_PREVIEW = Statement(delete(previews).where(_of_channel, previews.c.key == bindparam("key")))
_PREVIEWS = Statement(
    select(previews.c.key, previews.c.message).where(_of_channel, previews.c.session == bindparam("session"))
)
_LATEST_PREVIEWS = Statement(
    select(previews.c.key, previews.c.message)
    .where(_of_channel)
    .order_by(previews.c.noted_at.desc())
    .limit(MAX_PREVIEWS)
)
_PRUNE = (
    Statement(
        delete(media_groups).where(media_groups.c.is_handed_over, age_of(media_groups.c.changed_at) > KEPT_SECONDS)
    ),
    # SQLite deletes no parts with their group.
    Statement(delete(media_parts).where(media_parts.c.name.not_in(select(media_groups.c.name)))),
    Statement(delete(previews).where(age_of(previews.c.noted_at) > PREVIEW_SECONDS)),
)


class ChannelRows:
    """The rows of all channels. All methods raise `DiskError` as `Database` does."""

    def __init__(self, database: Database, fence_of: Callable[[str], Fence | None] | None = None) -> None:
        """`fence_of`: the fence under which this process works on a session; None: every session is its own."""
        self._database = database
        self._fence_of = fence_of
        self._settings = Settings(database)

    async def fact(self, name: str) -> Any:
        return await self._settings.fact(name)

    async def facts(self, name: str) -> Mapping[str, Any]:
        return await self._settings.facts(name)

    async def learn(self, facts: Mapping[str, Any]) -> None:
        await self._database.write(*(Settings.learning(name, value) for name, value in facts.items()), durable=True)

    async def gather(self, name: str, chat: int, sender: int, part: int, message: bytes) -> tuple[Gathered, int]:
        [*_, result] = await self._database.write(
            _OPEN(name=name, chat=chat, sender=sender),
            _TOUCH(name=name, part=part),
            _ADD(name=name, part=part, message=message.decode()),
            _OUTCOME(name=name, part=part),
            durable=True,
        )
        return Gathered(result.rows[0]["outcome"]), int(result.rows[0]["parts"])

    async def around(self, chat: int, part: int) -> Sequence[Mapping[str, Any]]:
        rows = await self._database.read(_AROUND(chat=chat, part=part))
        return [{name: row[name] for name in row.keys()} for row in rows]  # noqa: SIM118  # a Row iterates over values

    async def recent(self) -> Sequence[tuple[str, int, bool, Sequence[int]]]:
        rows = await self._database.read(_RECENT())
        return [
            (str(row["name"]), int(row["chat"]), bool(row["is_handed_over"]), _numbers(row["parts"])) for row in rows
        ]

    async def end_group(self, name: str, quiet: float, most: int) -> float:
        [*_, result] = await self._database.write(
            _LOCK(name=name),  # the parts that are counted and fixed behind it are all there are
            _END(name=name, quiet=quiet, most=most),
            _REMAINING(name=name, quiet=quiet),
            durable=True,
        )
        return max((float(row["remaining"]) for row in result.rows), default=0.0)

    async def messages(self, name: str, *, handed_over: bool = False) -> Sequence[Any]:
        rows = await self._database.read(_CONTENT(name=name, handed=handed_over))
        return [orjson.loads(row["message"]) for row in rows]

    async def hand_over(self, name: str, *, keep: bool) -> None:
        drop = [] if keep else [_DROP_CONTENT(name=name)]
        await self._database.write(_HAND_OVER(name=name), *drop)

    async def add_handed_over(self, groups: Mapping[str, tuple[int, Sequence[int]]]) -> None:
        statements: list[BoundStatement] = []
        for name, (chat, parts) in groups.items():
            statements.append(_OPEN_AS_HANDED_OVER(name=name, chat=chat, sender=0, is_handed_over=True))
            statements += [_ADD(name=name, part=part, message="") for part in parts]
            statements += [_END_HANDED_OVER(name=name), _DROP_EMPTY(name=name)]
        await self._database.write(*statements, durable=True)

    async def replace(self, name: str, part: int, message: bytes) -> bool:
        given = {"name": name, "part": part, "new_message": message.decode()}
        return (await self._database.write(_REPLACE(**given), durable=True))[0].rowcount > 0

    async def list_idle(self, idle: float) -> Sequence[tuple[str, int]]:
        return [(str(row["name"]), int(row["chat"])) for row in await self._database.read(_LEFT(idle=idle))]

    async def note_preview(self, channel: str, session: str, key: str, message: int, *, instead_of: str = "") -> None:
        moved = [_DROP_PREVIEW(channel=channel, key=instead_of)] if instead_of else []
        noted = _NOTE(channel=channel, key=key, session=session, message=message)
        fence = self._fence_of(session) if self._fence_of else None
        if self._fence_of and fence is None:
            raise OwnershipLost("this process does not work on the session")
        # A process that was paused right before it would put its note in place of the next owner's.
        with under_fence(fence):
            writing = self._database.write(*moved, noted, durable=bool(moved))
        await writing

    async def add_previews(self, channel: str, previews: Mapping[str, int]) -> None:
        added = (_ADD_PREVIEW(channel=channel, key=key, session="", message=number) for key, number in previews.items())
        await self._database.write(*added, durable=True)

    async def previews(self, channel: str, session: str | None) -> Mapping[str, int]:
        asked = _LATEST_PREVIEWS(channel=channel) if session is None else _PREVIEWS(channel=channel, session=session)
        return {str(row["key"]): int(row["message"]) for row in await self._database.read(asked)}

    async def prune(self) -> None:
        """Delete rows too old to be asked for."""
        await self._database.write(*(each() for each in _PRUNE))


def _numbers(value: Any) -> Sequence[int]:
    """Return a value of `NUMBERS`."""
    return orjson.loads(value) if isinstance(value, str) else value or ()
