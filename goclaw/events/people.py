"""Actors, addresses, and the decisions of `authorize`."""

from collections.abc import Mapping
from typing import Any

from goclaw.records import record

LOCAL = "local"
"""The channel name of clients on the socket: they read the transcript, and get no deliveries."""

AGENT_MARK = "/agent:"
"""In the key of an agent's session, follows the session that the agent was started from."""


AGENT_TURN = ":agent:"
"""The same in the id of a turn: follows the turn that the agent works for. Deliveries for a turn are named after it
with a colon, too."""


def turn_of_agent(turn: str, agent: str) -> str:
    """Return the turn of an agent that was started in `turn`."""
    return f"{turn}{AGENT_TURN}{agent}"


def session_of_agent(session: str, agent: str) -> str:
    """Return the session of an agent that was started from `session`."""
    return f"{session}{AGENT_MARK}{agent}"


def root_session(session: str) -> str:
    """Return the session of the person for whom an agent works, however deep; for other sessions, `session` itself."""
    return session.partition(AGENT_MARK)[0]


@record
class Actor:
    """The identity of an acting user. Rights are looked up by `access.authorize` at every use, never carried along."""

    key: str
    """The name in users.json: `telegram:<numeric user id>` or `tui:<name>`; empty for an unknown user."""
    entry: str
    """The way in: a channel's name, `socket`, `http` (with a token), `cli`."""
    owner: bool = False
    """True only where the operating system vouched for it: same uid on the socket, or the CLI under the state lock."""
    name: str = ""
    """A display name. Never used for a decision."""
    behalf: "tuple[Actor, ...]" = ()
    """Further actors for whom this one acts (a sub-agent's parents); every one of them must be allowed, too."""


@record
class Address:
    """The destination of an answer."""

    channel: str
    chat: str
    thread: str | None = None
    """A forum topic."""
    reply_to: str | None = None
    """The message that is answered; set in groups."""


@record
class Decision:
    """The answer of `authorize`."""

    allowed: bool
    rule: str
    """The deciding rule, in words for logs and audits: `users.json telegram:5 allowedTools`."""
    input: Mapping[str, Any] | None = None
    """For a tool call: arguments that replace the requested ones; None: those stay."""
    ends_turn: bool = False
    """For a tool: a call that is refused or denied, by this decision or by a person, ends the turn."""
