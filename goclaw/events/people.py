"""Who speaks, where, and what `authorize` says of it."""

from collections.abc import Mapping
from typing import Any

from goclaw.records import record

LOCAL = "local"
"""The channel name of clients on the socket: their sessions are read from the transcript, nothing is sent to them."""

AGENT_MARK = "/agent:"
"""In the key of an agent's session: before it stands the session that the agent was started from."""


AGENT_TURN = ":agent:"
"""The same in the id of a turn: before it stands the turn that the agent works for. What is delivered for a turn is
named after it with a colon, too."""


def turn_of_agent(turn: str, agent: str) -> str:
    """The turn of an agent that was started in `turn`."""
    return f"{turn}{AGENT_TURN}{agent}"


def session_of_agent(session: str, agent: str) -> str:
    """The session of an agent that was started from `session`."""
    return f"{session}{AGENT_MARK}{agent}"


def root_session(session: str) -> str:
    """The session of the person for whom an agent works, however deep; any other is its own."""
    return session.partition(AGENT_MARK)[0]


@record
class Actor:
    """Who acts. Only an identity: rights are looked up by `access.authorize` at every use, never carried along."""

    key: str
    """The name in users.json: `telegram:<numeric user id>` or `tui:<name>`; empty for nobody."""
    entry: str
    """The way in: a channel's name, `socket`, `http` (with a token), `cli`."""
    owner: bool = False
    """True only where the operating system vouched for it: same uid on the socket, or the CLI under the state lock."""
    name: str = ""
    """A display name. Never used for a decision."""
    behalf: "tuple[Actor, ...]" = ()
    """For whom else the actor acts (a sub-agent's parents); every one of them must be allowed, too."""


@record
class Address:
    """Where an answer goes."""

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
    """Which rule decided, in words for logs and audits: `users.json telegram:5 allowedTools`."""
    input: Mapping[str, Any] | None = None
    """Of a tool call: the arguments that take the place of those that were asked about; None: those stay."""
    ends_turn: bool = False
    """Of a tool: a call that is refused or denied, by this decision or by a person, ends the turn."""
