"""The session of a request, its turn, and the rights to both.

A request without a session has one of its own. The turn's id is made of the user, the session and the
`Idempotency-Key`, so that the journal knows a request that is sent again, also after a restart.
"""

import re
from http import HTTPStatus

from goclaw.common.core.events import AGENT_MARK, PROGRAM_MARK, root_session, session_of_program
from goclaw.common.core.records import record
from goclaw.errors import AccessDenied
from goclaw.gateway.servers.openai.errors import ApiError
from goclaw.gateway.servers.programs import Program, Programs, digits_of
from goclaw.gateway.servers.routes import RoutePorts

TURN = "openai:"
"""Begins the ids of turns that programs asked for; 32 hex digits follow."""
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

    def objection(self, program: Program) -> str:
        """Return why a program may not stay; empty: it may."""
        return self._programs.objection(program)

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

    async def last_turn(self, session: str) -> str:
        """Return the turn of a session's last row; empty: it has none."""
        rows = await self._ports.gateway.history(session)  # the last row alone may be a call without its answer
        return rows[-1].turn if rows else ""
