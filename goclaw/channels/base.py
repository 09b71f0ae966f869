"""The interface between the gateway and chat channels."""

from collections.abc import Awaitable, Callable, Collection
from contextlib import AbstractAsyncContextManager
from dataclasses import field
from enum import Enum
from typing import TYPE_CHECKING, Protocol, TypeAlias

import aiohttp

from goclaw.channels.processes import Processes, SoleProcess
from goclaw.channels.state import ChannelState
from goclaw.common.config.schema import Config
from goclaw.common.core.clock import Clock
from goclaw.common.core.events import Actor, Alerts, Attachment, Delivery, GatewayPort, NoAlerts, Receipt
from goclaw.common.core.files import Writer, lock_folder
from goclaw.common.core.records import record

if TYPE_CHECKING:  # imported before the first poll, which needs no HTTP server
    from aiohttp import web


def waits_first(delivery: Delivery) -> bool:
    """Return False, for a channel that cannot foresee when it asks its service."""
    return False


async def knows_no_admins(chat: str) -> Collection[str]:
    """The `admins_of` of a channel without groups."""
    return ()


@record
class Capabilities:
    """The capabilities of a channel; the gateway checks them before it sends."""

    actions: frozenset[str] = frozenset({"send"})
    """Of `send`, `react`, `edit`, `delete`."""
    media: bool = False
    artifacts: bool = False
    """Whether artifacts that tools keep for people are sent there as files."""
    bursts: bool = False
    """Whether people there send one thought in several messages, one right behind the other."""
    diffs: bool = True
    """Whether diffs of files are among them; otherwise only the line about the tool is shown."""
    interim: bool = True
    """Whether what the agent says before a tool call comes as a message of its own, not with the next one."""
    sends_at_once: Callable[[Delivery], bool] = waits_first
    """Whether a message that is handed over now would go to the service at once: nothing has to be waited for, and
    nothing is edited instead. Then the first `Handover.sending` is on disk before the delivery is handed over."""
    admins_of: Callable[[str], Awaitable[Collection[str]]] = knows_no_admins
    """Returns the keys of the people who administer a group at the service, by its chat; none where it cannot say."""

    def missing_for(self, delivery: Delivery) -> str:
        """Name the needs of a delivery that the channel cannot meet (`edit messages`); empty if it can do all."""
        if delivery.action not in self.actions:
            return "react to messages" if delivery.action == "react" else f"{delivery.action} messages"
        return "send files" if delivery.media is not None and not self.media else ""


class Doubt(Enum):
    """Whether the next part may have arrived unrecorded; then the channel marks it as a possible repetition."""

    NONE = 0
    RESTART = 1
    """The daemon ended while the part was being sent."""
    SILENCE = 2
    """The service did not answer when the part was sent."""


class Handover(Protocol):
    """The progress of one delivery, of one or several messages, between a channel and the outbox.

    A channel sends its parts in order, begins after those that arrived, and calls `sending` right before each part that
    must not come twice: not while it still waits for a rate limit. What may be repeated unseen (an edit, a reaction)
    needs no `sending`.
    """

    @property
    def parts(self) -> tuple[str, ...]:
        """Message ids of the parts that have arrived, also from earlier tries and earlier runs of the daemon."""
        ...

    @property
    def doubt(self) -> Doubt:
        """About the part after those."""
        ...

    @property
    def others_wait(self) -> bool:
        """Whether further deliveries to the chat wait for this one."""
        ...

    async def sending(self) -> None:
        """The service is about to be asked to take the next part. On disk when this returns."""
        ...

    async def arrived(self, message_id: str, *, last: bool = False) -> None:
        """Record that the next part arrived. After the `last` one return immediately: the receipt records it."""
        ...


class Unrecorded:
    """A `Handover` that is not recorded: for a message that has to go out although the disk takes nothing."""

    def __init__(self) -> None:
        self.parts: tuple[str, ...] = ()
        self.doubt = Doubt.NONE
        self.others_wait = False

    async def sending(self) -> None:
        pass

    async def arrived(self, message_id: str, *, last: bool = False) -> None:
        self.parts, self.doubt = (*self.parts, message_id), Doubt.NONE


class Channel(Protocol):
    """One way in and out."""

    @property
    def name(self) -> str:
        """As in `Address.channel` and session keys."""
        ...

    @property
    def capabilities(self) -> Capabilities: ...

    async def run(self, gateway: GatewayPort) -> None:
        """Take messages in until cancelled. Acknowledge a message to the outside only after `gateway.accept` returned.

        Trouble that waiting may mend (network, conflicts) is handled inside; trouble that only the operator can mend
        is logged, shown by `health`, and ends this method without ending the daemon.
        """
        ...

    async def deliver(self, delivery: Delivery, handover: Handover) -> Receipt:
        """Send one message, or the rest of it. Called for one chat at a time, in order.

        Raises:
            DeliveryError: says whether and when to try again.
        """
        ...

    async def fetch(self, attachment: Attachment) -> bytes:
        """Return the bytes of a file that came with a message.

        Raises:
            DeliveryError: it cannot be had (too large, gone, network).
        """
        ...

    def health(self) -> str:
        """Return one line for `/status` and `goclaw status`: `polling, last answer 2 s ago`."""
        ...


Handler: TypeAlias = "Callable[[web.Request], Awaitable[web.StreamResponse]]"


@record
class PathRule:
    """The special rules of the listener for the paths that begin alike."""

    prefix: str
    body_bytes: int
    """Maximum size of a request's body."""
    refused: "Callable[[web.HTTPException], web.StreamResponse]"
    """Makes the answers to requests that the listener refuses."""
    suffix: str = ""
    """The end of those paths."""
    body_seconds: float | None = None
    """Seconds until a body must be there; None: as for all other paths."""


@record
class Routes:
    """Routes of the daemon's HTTP listener, which opens only when it has one (see `servers.http`).

    Add while the channel opens; a request may come before `Channel.run` does. The listener has checked Host and Origin
    and bounds header, body and time; the handler authenticates the caller before it reads the body.
    """

    added: list[tuple[str, str, Handler]] = field(default_factory=list)
    rules: list[PathRule] = field(default_factory=list)

    def add(self, method: str, path: str, handler: Handler) -> None:
        """Serve `path` (as it is, no patterns) with `handler`."""
        self.added.append((method, path, handler))


def no_admin(actor: Actor) -> bool:
    """Whether an actor is an admin, where there is no admin."""
    return False


class People(Protocol):
    """The people who are listed (`common.auth.users.Users`)."""

    changes: list[Callable[[], None]]
    """Called after any of their entries has changed."""

    @property
    def in_force(self) -> Collection[str]:
        """The keys of all of them."""
        ...


class NobodyListed:
    """Implements `People` where there is no list."""

    def __init__(self) -> None:
        self.changes: list[Callable[[], None]] = []
        self.in_force: Collection[str] = ()


@record
class ChannelPorts:
    """The services that a channel may use."""

    http: aiohttp.ClientSession
    clock: Clock
    load_blob: Callable[[str], Awaitable[bytes]]
    """Bytes of a blob by its key, for files that go out."""
    state: ChannelState
    """The state that the channel keeps over restarts."""
    alerts: Alerts = field(default_factory=NoAlerts)
    """For faults that only the operator can mend."""
    routes: Routes = field(default_factory=Routes)
    is_admin: Callable[[Actor], bool] = no_admin
    """Whether to show an actor how the channel is set up. Not for rights: those are checked by the gateway."""
    begun: object = None
    """What the channel's `begin` yielded."""
    processes: Processes = field(default_factory=SoleProcess)
    """The processes that use the store."""
    writer: Writer = lock_folder
    """Changes files of the state folder."""
    people: People = field(default_factory=NobodyListed)


@record
class ChannelPart:
    """An entry of the catalogue: whether the configuration enables this channel, and how to open it."""

    name: str
    enabled: Callable[[Config], bool]
    open: Callable[[Config, ChannelPorts], AbstractAsyncContextManager[Channel]]
    begin: "Callable[[Config], AbstractAsyncContextManager[object]] | None" = None
    """Begins what takes the service long to answer, before the other modules of the daemon are imported.

    It must acknowledge nothing: no message can be taken in yet. What it yields is handed to `open`.
    """


class Account(Protocol):
    """The bot at its service while no daemon runs: `goclaw setup` tries it out and meets its owner."""

    async def name(self) -> str:
        """Return the name that people find it by, `@claw_bot`: the service's own answer.

        Raises:
            ChannelError: the token is refused, or the service cannot be reached.
        """
        ...

    async def meet(self, code: str) -> Actor:
        """Wait until a person sends the bot exactly `code`, alone with it; returns who that is.

        Waits forever: the caller sets the bound. What others wrote stays unacknowledged, for the daemon.

        Raises:
            ChannelError: the code cannot arrive; the message says why and what helps.
        """
        ...


@record
class AccountPart:
    """A line of the catalogue: how to open the account that the configuration names. Nothing is sent yet."""

    name: str
    open: Callable[[Config, aiohttp.ClientSession, Clock], Account]
    """Raises ConfigError when the configuration has no token."""
