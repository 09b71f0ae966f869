"""What a request is about, with the rights to it: its session, its turn, and the agent that it names as a model.

A request without a session has one of its own. The turn's id is made of the user, the session and the
`Idempotency-Key`, so that the journal knows a request that is sent again, also after a restart.
"""

import re
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

from goclaw.common.auth.access import Access
from goclaw.common.config.schema import Config
from goclaw.common.core.events import AGENT_MARK, PROGRAM_MARK, Actor, root_session, session_of_program
from goclaw.common.core.records import record
from goclaw.errors import AccessDenied
from goclaw.gateway.servers.openai.errors import ApiError
from goclaw.gateway.servers.programs import Program, Programs, digits_of
from goclaw.gateway.servers.routes import RoutePorts

TURN = "openai:"
"""Begins the ids of turns that programs asked for; 32 hex digits follow."""
DEFAULT = "goclaw"
"""The agent that answers the user, whichever that is."""
_DIGITS = 12
_OWN = re.compile(rf"(?P<root>.+?){re.escape(PROGRAM_MARK)}[0-9a-f]{{{_DIGITS}}}")


@record
class Place:
    """The session of a request."""

    session: str
    is_kept: bool
    """Whether its conversation goes on, and people may be asked."""

    @property
    def is_of_program(self) -> bool:
        """Whether only requests write there: it is no session of a person."""
        return PROGRAM_MARK in self.session


class Places:
    """Finds sessions for programs."""

    def __init__(self, ports: RoutePorts, programs: Programs) -> None:
        self._ports = ports
        self._programs = programs

    def fresh(self, program: Program, key: str) -> tuple[Place, str]:
        """Return the session and the turn of a request without a session. `key`: its `Idempotency-Key`, or empty."""
        digits = digits_of(program.actor.key, "", key)
        session = session_of_program(self._programs.home(program.actor), digits[:_DIGITS])
        return Place(session, is_kept=False), f"{TURN}{digits}"

    async def find_place(self, program: Program, session: str, key: str, param: str | None = None) -> tuple[Place, str]:
        """Return the session that a request names, and its turn.

        Raises:
            ApiError: there is no such session, or it is another user's: one answer for both.
        """
        unknown = ApiError(
            HTTPStatus.NOT_FOUND,
            f"you have no session {session[:200]!r} to write to",
            param=param,
            code="session_not_found",
        )
        found = _OWN.fullmatch(session)
        if not session.isprintable() or (AGENT_MARK in session and not found):
            raise unknown
        try:
            name = session if found else self._ports.gateway.session_for(program.actor, session)
        except AccessDenied:
            raise unknown from None
        if not self._ports.access.authorize(program.actor, "session.write", root_session(name)).allowed:
            raise unknown
        if found and not await self.last_turn(name):
            raise unknown
        return Place(name, is_kept=True), f"{TURN}{digits_of(program.actor.key, name, key)}"

    def may_read(self, program: Program, session: str) -> bool:
        """Whether a program may read a session: one of a person, or of a request for that person."""
        if not session.isprintable() or (AGENT_MARK in session and not _OWN.fullmatch(session)):
            return False
        return self._ports.access.authorize(program.actor, "session.read", root_session(session)).allowed

    async def last_turn(self, session: str) -> str:
        """Return the turn of a session's last row; empty: it has none."""
        rows = await self._ports.gateway.history(session)  # the last row alone may be a call without its answer
        return rows[-1].turn if rows else ""


class Models:
    """The agents that a program may use."""

    def __init__(self, config: Config, access: Access, since: float) -> None:
        """`since`: epoch seconds, given as the time when they were made."""
        self._config = config
        self._access = access
        self._since = int(since)

    def list_entries(self, actor: Actor) -> list[dict[str, Any]]:
        """Return the entries of GET /v1/models."""
        return [self._entry(name) for name in self._names(actor)]

    def one(self, actor: Actor, name: str) -> dict[str, Any]:
        """Return the entry of one. Raises ApiError: 404, also for one that the actor may not use."""
        if name not in self._names(actor):
            raise ApiError(
                HTTPStatus.NOT_FOUND,
                f"you have no model {name[:100]!r}; GET /v1/models lists yours",
                param="model",
                code="model_not_found",
            )
        return self._entry(name)

    def agent(self, actor: Actor, name: str) -> str:
        """Return the agent's name for a model; empty: the one that answers the actor. Raises ApiError as `one`."""
        self.one(actor, name)
        return "" if name == DEFAULT else name

    def _names(self, actor: Actor) -> Iterator[str]:
        yield DEFAULT
        kinds = (name for name in self._config.agents.kinds if name != DEFAULT)
        yield from (name for name in kinds if self._access.authorize(actor, "agent.use", name).allowed)

    def _entry(self, name: str) -> dict[str, Any]:
        return {"id": name, "object": "model", "created": self._since, "owned_by": "goclaw"}
