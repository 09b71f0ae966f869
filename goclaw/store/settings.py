"""Small values that outlive a restart: of a session (its model, its todos), and of the daemon itself."""

from typing import Any

import orjson
from sqlalchemy import bindparam, delete, select

from goclaw.config.state import Locality
from goclaw.store.database import BoundStatement, Database, Statement, upsert_into
from goclaw.store.schema import daemon_facts, session_settings

FACTS = {
    "alerts": Locality.SHARED,
    "audit head": Locality.SHARED,
    "holder": Locality.LOCAL,
    "material_key": Locality.SHARED,
    "owed deletions": Locality.SHARED,
    "pairing": Locality.SHARED,
    "pauses": Locality.SHARED,
    "procrastinate_migration": Locality.SHARED,
    "published": Locality.SHARED,
    "schedules.zone_hint": Locality.SHARED,
    "schema_version": Locality.SHARED,
    "summary_health": Locality.LOCAL,
    "telegram moved from": Locality.SHARED,
    "token_scales": Locality.DERIVED,
    "version": Locality.SHARED,
    "written": Locality.LOCAL,
}
"""Every fact of the daemon, up to a ":" in its name. Most shared ones are read once and written whole today: with
several processes on one database they need rows of their own, as `owed deletions` have, or a lock first."""

_SET = upsert_into(session_settings, ("session", "name"), "value")
_UNSET = Statement(
    delete(session_settings).where(
        session_settings.c.session == bindparam("of"), session_settings.c.name == bindparam("named")
    )
)
_ALL = Statement(
    select(session_settings.c.name, session_settings.c.value).where(session_settings.c.session == bindparam("session"))
)
_WITH = Statement(
    select(session_settings.c.session)
    .where(session_settings.c.name == bindparam("named"))
    .order_by(session_settings.c.session)
)
_LEARN = upsert_into(daemon_facts, ("name",), "value")
FACT = Statement(select(daemon_facts.c.value).where(daemon_facts.c.name == bindparam("name")))


class Settings:
    """Values by name, as JSON."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def of_session(self, session: str) -> dict[str, Any]:
        """Return everything that is set for a session."""
        rows = await self._database.read(_ALL(session=session))
        return {row["name"]: orjson.loads(row["value"]) for row in rows}

    async def sessions_with(self, name: str) -> list[str]:
        """Return the sessions for which a value is set."""
        return [row["session"] for row in await self._database.read(_WITH(named=name))]

    async def set(self, session: str, name: str, value: Any, *others: BoundStatement) -> None:
        """Keep a value for a session, together with other statements; None forgets it."""
        await self._database.write(self.setting(session, name, value), *others)

    @staticmethod
    def setting(session: str, name: str, value: Any) -> BoundStatement:
        """Return the statement of `set`, for a transaction that does more."""
        if value is None:
            return _UNSET(of=session, named=name)
        return _SET(session=session, name=name, value=orjson.dumps(value).decode())

    async def fact(self, name: str) -> Any:
        """Return the fact stored under `name`; None for no fact."""
        rows = await self._database.read(FACT(name=name))
        return orjson.loads(rows[0]["value"]) if rows else None

    async def learn(self, name: str, value: Any) -> None:
        """Remember a value over restarts."""
        await self._database.write(self.learning(name, value))

    @staticmethod
    def learning(name: str, value: Any) -> BoundStatement:
        """Return the statement of `learn`, for a transaction that does more.

        Raises:
            TypeError: `FACTS` does not list the name.
        """
        if name.split(":", 1)[0] not in FACTS:
            raise TypeError(f"the fact {name!r} is not in store.settings.FACTS: say which processes need it")
        return _LEARN(name=name, value=orjson.dumps(value).decode())
