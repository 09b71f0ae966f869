"""A client's end of the connection: attach to a session, send, and follow what happens.

The daemon is reached through the Unix socket of this machine, or over TCP with an access token (`RemoteDaemon`).
"""

import os
import stat
import uuid
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import field
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import aiohttp
from pydantic import ValidationError

from goclaw.common.auth.users import login_name
from goclaw.common.config.listening import is_loopback
from goclaw.common.core.container import daemon_command
from goclaw.common.core.events import Acceptance, TurnEvent
from goclaw.common.core.files import read_text, readable_by_others, shown_path
from goclaw.common.core.records import record
from goclaw.common.core.redact import remember, storable
from goclaw.common.core.replay_buffer import NOWHERE, Position
from goclaw.common.core.wire import (
    CLIENT_FRAME,
    PATH,
    PROTOCOL,
    Accepted,
    ArtifactFrame,
    AskStatus,
    Attach,
    Attached,
    ClientFrame,
    FilesReply,
    Happened,
    Older,
    Refused,
    Send,
    ServerFrame,
    SessionsReply,
    Status,
    event_of,
    frame_of,
)
from goclaw.common.net import check_reachable
from goclaw.errors import ConfigError, StateError

VARIABLE = "GOCLAW_TOKEN"
"""The environment variable that may hold the token: command lines are visible to all users of the machine."""
MAX_TOKEN_FILE = 1_000

REDIRECTS = frozenset({301, 302, 303, 307, 308})

_SHUT = {
    HTTPStatus.UNAUTHORIZED: "the access token is invalid or has expired",
    HTTPStatus.FORBIDDEN: "the daemon does not admit this program",
    HTTPStatus.MISDIRECTED_REQUEST: "the daemon does not answer to this host name (see `http.hosts`)",
    HTTPStatus.NOT_FOUND: "the daemon accepts no terminals (see `http.clients`)",
    HTTPStatus.TOO_MANY_REQUESTS: "too many attempts from here without a valid token",
    HTTPStatus.SERVICE_UNAVAILABLE: "too many open connections with this token, or from here",
}


@record
class RemoteDaemon:
    """The address of a remote daemon, and the credentials for it."""

    url: str
    """`http://host:port` or `https://host`, perhaps with the path under which a proxy has it."""
    token: str = field(repr=False)
    person: str = ""
    """The user of the token, once the daemon has reported it."""

    def __str__(self) -> str:
        return self.url


Way = Path | RemoteDaemon
"""To a daemon: its socket, or an address."""


def person_at(way: Way, session: str) -> str:
    """Return the actor key of the person at this terminal, by the rules of `servers.terminals` and
    `servers.terminals`."""
    if isinstance(way, RemoteDaemon):
        return way.person
    return session if session.startswith("tui:") else f"tui:{login_name()}"


def remote_of(url: str, token_file: Path | None, *, insecure: bool = False) -> tuple[RemoteDaemon, list[str]]:
    """Return the daemon at `url`, with the token from the file, else from `GOCLAW_TOKEN`; and warnings."""
    scheme, host = _address(url)
    if scheme == "http" and not is_loopback(host) and not insecure:
        raise ConfigError(
            f"{url} would send the token and the whole conversation unencrypted: use https (a proxy in front of the "
            "daemon) or a tunnel (ssh -L); --insecure sends them anyway"
        )
    warnings = []
    if token_file is not None:
        shown = shown_path(token_file)
        token = read_text(token_file, shown, MAX_TOKEN_FILE).strip()
        if mode := readable_by_others(token_file):
            warnings.append(f"{shown}: others can read this token (mode {mode:o}); `chmod 600` it")
    else:
        token = os.environ.get(VARIABLE, "").strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        where = shown_path(token_file) if token_file else VARIABLE
        raise ConfigError(f"{where} holds no token; `goclaw token add` creates one on the machine of the daemon")
    remember(token)
    return RemoteDaemon(url.rstrip("/"), token), warnings


def _address(url: str) -> tuple[str, str]:
    """Scheme and host."""
    try:
        parts = urlsplit(url)
        holds_more = parts.username is not None or parts.query or parts.fragment
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0 and not holds_more:
            return parts.scheme, parts.hostname
    except ValueError:
        pass
    raise ConfigError("--url should look like http://127.0.0.1:8137 or https://claw.example.org, without a token in it")


FrameT = TypeVar("FrameT")

Received = TurnEvent | Accepted | Status | Older | SessionsReply | FilesReply | ArtifactFrame | Refused
"""The frames that the daemon sends after `Attached`."""


class DaemonRefusal(StateError):
    """The daemon refuses a request."""

    def __init__(self, reason: str, rule: str = "") -> None:
        super().__init__(f"the daemon refused: {reason}")
        self.rule = rule
        """The rule that denies it; empty: something else is wrong."""


class NotOpen(DaemonRefusal):
    """The session is not open to this person."""

    def __init__(self, session: str, rule: str) -> None:
        super().__init__(rule, rule)
        self.args = (f"you have no access to the session {session} ({rule}); `goclaw tui --pick` lists yours",)


class Client:
    """One attached connection. Made by `attach`. One task at a time may read from it."""

    def __init__(self, connection: aiohttp.ClientWebSocketResponse) -> None:
        self._connection = connection
        self._early: list[ServerFrame] = []
        """Frames that came while an answer of another kind was awaited."""
        self.attached: Attached
        self.seen = 0
        """The number of the last event that was `received`."""
        self.at = 0.0
        """When that event happened, on the daemon's clock (`Attached.clock`); 0: not known."""

    async def open(self, session: str, after: int, limit: int, name: str, position: Position) -> None:
        """Say which session; `attached` holds the answer.

        Raises:
            NotOpen: the session is not open to this person.
            Refusal: the daemon does not understand us.
        """
        key = storable(session)
        await self._send(Attach(key, after, limit, PROTOCOL, name, position.epoch, position.number))
        try:
            self.attached = await self._expect(Attached)
        except DaemonRefusal as refusal:
            if refusal.rule:
                raise NotOpen(session, refusal.rule) from None
            raise
        self.seen = self.attached.seen

    async def submit(self, text: str, message_id: str = "") -> str:
        """Send a message or a command without waiting; returns its id."""
        # Bytes of a command line that are no text stand for themselves as halves of characters.
        frame = Send(message_id or uuid.uuid4().hex, storable(text))
        await self._send(frame)
        return frame.id

    async def send(self, text: str) -> Acceptance:
        """Send a message or a command and wait until it is on disk, or answered."""
        await self.submit(text)
        return (await self._expect(Accepted)).acceptance

    async def answer(self, frame: ClientFrame, kind: type[FrameT]) -> FrameT:
        """Send a frame and wait for the answer, a frame of that kind."""
        await self._send(frame)
        return await self._expect(kind)

    async def status(self) -> dict[str, Any]:
        """The numbers of `/status`, with its text under `text`."""
        await self._send(AskStatus())
        return (await self._expect(Status)).numbers

    async def ask(self, frame: ClientFrame) -> None:
        """Send any frame without waiting; its answer comes among what is `received`."""
        await self._send(frame)

    async def receive(self) -> AsyncGenerator[Received, None]:
        """Everything that comes from now on, as it came; ends when the daemon closes the connection."""
        while self._early or not self._connection.closed:
            frame = self._early.pop(0) if self._early else await self._receive()
            match frame:
                case Happened():
                    event, self.seen, self.at = event_of(frame), frame.number, frame.at
                    if event is not None:
                        yield event
                case Accepted() | Status() | Older() | SessionsReply() | FilesReply() | ArtifactFrame() | Refused():
                    yield frame
                case None:
                    return
                case Attached():
                    pass

    async def frames(self) -> AsyncGenerator[TurnEvent | Acceptance, None]:
        """Events and receipts from now on; ends when the daemon closes the connection.

        Raises:
            StateError: the daemon refused something.
        """
        async with aclosing(self.receive()) as all_received:
            async for received in all_received:
                match received:
                    case Accepted():
                        yield received.acceptance
                    case Refused():
                        raise StateError(f"the daemon refused: {received.reason}")
                    case Status() | Older() | SessionsReply() | FilesReply() | ArtifactFrame():
                        pass
                    case _:
                        yield received

    async def _send(self, frame: ClientFrame) -> None:
        try:
            await self._connection.send_str(CLIENT_FRAME.to_json(frame))
        except (ConnectionError, aiohttp.ClientError) as error:
            raise StateError("the daemon closed the connection") from error

    async def _receive(self) -> ServerFrame | None:
        async for message in self._connection:
            if message.type is aiohttp.WSMsgType.TEXT and (frame := _frame(message.data)) is not None:
                return frame
        return None

    async def _expect(self, kind: type[FrameT]) -> FrameT:
        while (frame := await self._receive()) is not None:
            if isinstance(frame, kind):
                return frame
            if isinstance(frame, Refused):
                raise DaemonRefusal(frame.reason, frame.rule)
            self._early.append(frame)
        raise StateError("the daemon closed the connection")


def _frame(text: str) -> ServerFrame | None:
    try:
        return frame_of(text)
    except ValidationError as error:
        raise StateError(
            f"the daemon runs another version; {daemon_command('restart')} starts the installed version"
        ) from error


@asynccontextmanager
async def attach(
    way: Way, session: str, *, after: int = 0, limit: int = 50, name: str = "", position: Position = NOWHERE
) -> AsyncIterator[Client]:
    """Attach to `session` (empty: the person's own) at the daemon with the socket or address `way`.

    Args:
        after: the last row of the transcript that is known here.
        limit: how many of the rows after it are wanted, the last ones.
        name: under which the client comes back after a break.
        position: where it was in the events then.

    Raises:
        NotOpen: the session is not open to this person.
        Refusal: the daemon does not understand us.
        StateError: no daemon answers there.
    """
    connector, url, headers = _route(way)
    async with aiohttp.ClientSession(connector=connector, middlewares=(_no_detour,)) as http:
        try:
            connection = await http.ws_connect(
                url,
                headers=headers,
                heartbeat=20.0,
                max_msg_size=0,  # our own daemon: fifty long results at once are more than it would take from us
                timeout=aiohttp.ClientWSTimeout(ws_close=5.0),
            )
        except aiohttp.WSServerHandshakeError as error:
            raise _shut(way, error) from error
        except (aiohttp.ClientError, OSError) as error:
            remedy = "" if isinstance(way, RemoteDaemon) else " Start one with `goclaw gateway`."
            raise StateError(f"no GoClaw daemon answers at {way}.{remedy}") from error
        async with connection:
            client = Client(connection)
            await client.open(session, after, limit, name, position)
            yield client


def _route(way: Way) -> tuple[aiohttp.BaseConnector, str, dict[str, str]]:
    """Return the connector, address and headers for the daemon. The token goes into the header, which no log has."""
    if isinstance(way, RemoteDaemon):
        check_reachable(urlsplit(way.url).hostname or "")
        return aiohttp.TCPConnector(), f"{way.url}{PATH}", {"Authorization": f"Bearer {way.token}"}
    return own_socket(way), f"http://goclaw{PATH}", {}


def own_socket(path: Path) -> aiohttp.BaseConnector:
    """Return the connector to the daemon's socket.

    Raises:
        StateError: it is another user's.
    """
    _check_owner(path)
    return aiohttp.UnixConnector(str(path))


async def _no_detour(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Refuse redirects: a daemon sends none, and the token is for it alone."""
    response = await handler(request)
    if response.status in REDIRECTS:
        response.release()
        raise StateError("the server there is not a GoClaw daemon: it redirects elsewhere")
    return response


def _check_owner(path: Path) -> None:
    """Check that the socket belongs to this user, before sending anything to another user's socket."""
    try:
        found = path.lstat()
    except OSError:
        return  # then no daemon answers there
    if not stat.S_ISSOCK(found.st_mode) or found.st_uid not in (0, os.geteuid()):
        raise StateError(f"{path} is not the socket of your own daemon; find out who created it")


def _shut(way: Way, error: aiohttp.WSServerHandshakeError) -> StateError:
    """Why the door stays shut."""
    if reason := next((words for status, words in _SHUT.items() if status == error.status), ""):
        return DaemonRefusal(reason)
    # A proxy before a daemon that is being restarted, say: it may come back.
    return StateError(f"no GoClaw daemon answers at {way} (status {error.status})")
