"""Small values that outlive a restart: of a session (its model, its todos), and of the daemon itself.

Several processes may share them. A value that more than one of them changes is a row for each of its parts (`facts`),
changed by a statement that names the change: none is read, changed and written as a whole.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from sqlalchemy import and_, bindparam, delete, or_, select

from goclaw.common.config.state import Locality
from goclaw.durable.store.database import BoundStatement, Database, Statement, insert_into, upsert_into
from goclaw.durable.store.schema import daemon_facts, session_settings

FACTS = {
    "alerts": Locality.SHARED,
    "audit head": Locality.SHARED,
    "forgotten": Locality.SHARED,
    "holder": Locality.LOCAL,
    "invitation tries": Locality.SHARED,
    "invitations": Locality.SHARED,
    "material_key": Locality.SHARED,
    "mcp questions": Locality.SHARED,
    "messages between people": Locality.SHARED,
    "owed deletions": Locality.SHARED,
    "pairing": Locality.SHARED,
    "pairing tries": Locality.SHARED,
    "pauses": Locality.SHARED,
    "procrastinate_migration": Locality.SHARED,
    "published": Locality.SHARED,
    "schedules.zone": Locality.SHARED,
    "schedules.zone_hint": Locality.SHARED,
    "served_models": Locality.DERIVED,
    "schema_version": Locality.SHARED,
    "schema_writer": Locality.SHARED,
    "summary_health": Locality.DERIVED,
    "telegram menu": Locality.SHARED,
    "telegram moved from": Locality.SHARED,
    "text_calls": Locality.SHARED,
    "token_scales": Locality.DERIVED,
    "version": Locality.SHARED,
    "web links": Locality.SHARED,
    "web login tries": Locality.SHARED,
    "web logins": Locality.SHARED,
    "written": Locality.LOCAL,
}
"""Every fact of the daemon, up to a ":" in its name; docs/shared-store.md says which process changes it.

`alerts`, `invitations`, `pairing`, the tries of both, `owed deletions`, `text_calls`, `token_scales`, `served_models`,
`audit head`, `forgotten`, `mcp questions`, `messages between people`, `telegram menu` and those of the web page have a
row for each of their parts. `published` and `version` are changed by the process that has the duty, `holder` and
`written` mean something to the process that wrote them last. `summary_health` is read at a start: of a model that all
of them ask, the latest try of any says most.
`text_calls` is set by `goclaw setup` and `goclaw model`, too.
"""

_SET = upsert_into(session_settings, ("session", "name"), "value")
_UNSET = Statement(
    delete(session_settings).where(
        session_settings.c.session == bindparam("of"), session_settings.c.name == bindparam("named")
    )
)
_UNSET_AS_IS = Statement(
    delete(session_settings).where(
        session_settings.c.session == bindparam("of"),
        session_settings.c.name == bindparam("named"),
        session_settings.c.value == bindparam("known"),
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
FACT = Statement(select(daemon_facts.c.value).where(daemon_facts.c.name == bindparam("name")))
_LEARN = upsert_into(daemon_facts, ("name",), "value")
_ADD = insert_into(daemon_facts, "name", "value")
_LEARN_NEW = insert_into(daemon_facts, "name", "value", ignore_conflict=True)
_named = daemon_facts.c.name == bindparam("named")
_UNLEARN = Statement(delete(daemon_facts).where(_named))
_UNLEARN_AS_IS = Statement(delete(daemon_facts).where(_named, daemon_facts.c.value == bindparam("known")))
_PARTS = Statement(
    select(daemon_facts.c.name, daemon_facts.c.value)
    .where(or_(_named, and_(daemon_facts.c.name >= bindparam("first"), daemon_facts.c.name < bindparam("end"))))
    .order_by(daemon_facts.c.name)
)


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

    async def unset(self, session: str, name: str, known: Any) -> bool:
        """Forget a value that is still the known one. False: it is another one, or gone."""
        done = await self._database.write(_UNSET_AS_IS(of=session, named=name, known=_json(known)))
        return done[0].rowcount == 1

    @staticmethod
    def setting(session: str, name: str, value: Any) -> BoundStatement:
        """Return the statement of `set`, for a transaction that does more."""
        if value is None:
            return _UNSET(of=session, named=name)
        return _SET(session=session, name=name, value=_json(value))

    async def fact(self, name: str) -> Any:
        """Return the fact stored under `name`; None for no fact."""
        rows = await self._database.read(FACT(name=name))
        return orjson.loads(rows[0]["value"]) if rows else None

    async def facts(self, name: str) -> dict[str, Any]:
        """Return the facts `name:PART` by their part, and that called `name` itself as the part ""."""
        # ";" is the character after ":".
        rows = await self._database.read(_PARTS(named=name, first=f"{name}:", end=f"{name};"))
        return {row["name"][len(name) + 1 :]: orjson.loads(row["value"]) for row in rows}

    async def learn(self, name: str, value: Any) -> None:
        """Remember a value over restarts."""
        await self._database.write(self.learning(name, value))

    async def learn_all(self, values: Mapping[str, Any]) -> None:
        """Remember values by name, all or none."""
        await self._database.write(*(self.learning(name, value) for name, value in values.items()))

    async def learn_new(self, name: str, value: Any) -> bool:
        """Remember a value, unless one of this name is known. False: one is."""
        done = await self._database.write(_LEARN_NEW(name=_check_fact(name), value=_json(value)))
        return done[0].rowcount == 1

    async def unlearn(self, name: str, known: Any = None) -> bool:
        """Forget a fact; with `known` only while that is its value. False: there was none, or another one."""
        gone = _UNLEARN(named=name) if known is None else _UNLEARN_AS_IS(named=name, known=_json(known))
        return (await self._database.write(gone))[0].rowcount == 1

    @staticmethod
    def exchanging(name: str, known: Any, value: Any) -> Sequence[BoundStatement]:
        """Return the statements that put a value in the place of the known one; None for no fact.

        Their transaction ends with `ConstraintViolated` where another process has put one there meanwhile.
        """
        gone = [_UNLEARN_AS_IS(named=name, known=_json(known))] if known is not None else []
        return [*gone, _ADD(name=_check_fact(name), value=_json(value))]

    async def commit(self, *statements: BoundStatement) -> None:
        """Commit statements of this object together.

        Raises:
            ConstraintViolated: one of them was refused, so that none is kept.
        """
        await self._database.write(*statements)

    @staticmethod
    def learning(name: str, value: Any) -> BoundStatement:
        """Return the statement of `learn`, for a transaction that does more; None forgets the fact.

        Raises:
            TypeError: `FACTS` does not list the name.
        """
        if value is None:
            return _UNLEARN(named=_check_fact(name))
        return _LEARN(name=_check_fact(name), value=_json(value))


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()


def _check_fact(name: str) -> str:
    if name.split(":", 1)[0] not in FACTS:
        raise TypeError(f"the fact {name!r} is not in store.settings.FACTS: say which processes need it")
    return name
