"""Connection limits of a listener, in total and per caller, so that one caller cannot shut out the others.

A connection is either waiting (for a request's head, or for its caller to read an answer) or working on a request. When
the listener is full, a new connection evicts the one that has waited longest: one of the same caller if that caller has
used up its share, otherwise any. So unauthenticated callers that begin requests and never finish them do not lock out
the rest. When every connection is working, a few more are accepted, for probes only.

A caller is an IP address, or the network prefix assigned to one customer. With a trusted proxy it is the forwarded
address, which is known once a head is complete; until then the proxy itself has no share.
"""

import ipaddress
import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from aiohttp import hdrs, web

from goclaw.common.core.records import record

log = logging.getLogger(__name__)

IpNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network
NOWHERE = "somewhere"
"""The network of an address that is not an IP address."""
FORWARDING = ("Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-IP", "Via")
"""Headers of a proxy, trusted or not: its caller may be anywhere."""
MAX_FORWARDED = 2_000
"""Characters of the list of forwarded addresses that are looked at, from its end."""


@record
class ConnectionLimits:
    """The limits of a listener's connections."""

    in_all: int
    per_caller: int
    """Of those that wait, and of those that are at work."""
    for_probes: int
    """Let in beyond all others."""


class Connections:
    """The open connections of one listener."""

    def __init__(self, limits: ConnectionLimits, trusted: Sequence[IpNetwork] = ()) -> None:
        """`trusted`: networks of proxies that are trusted about their callers."""
        self._limits = limits
        self._trusted = trusted
        self._waiting: dict[web.RequestHandler, str] = {}
        """Waiting connections, the longest wait first, each with the network that it counts for."""
        self._open: dict[web.RequestHandler, str] = {}
        self._probes: set[web.RequestHandler] = set()
        """Connections that were let in for probes."""
        self._at_work: Counter[str] = Counter()

    def came(self, connection: web.RequestHandler, address: str) -> None:
        """Take a new connection, and close a waiting one if there is no room; itself if none waits."""
        caller = "" if self._is_trusted(address) else network_of(address)
        of_caller = [each for each, counts_for in self._waiting.items() if counts_for == caller]
        if caller and len(of_caller) >= self._limits.per_caller:
            self._close(of_caller[0], "its caller has too many waiting connections")
        elif len(self._open) >= self._limits.in_all:
            if self._waiting:
                self._close(next(iter(self._waiting)), "it waited longest, and there are too many connections")
            elif len(self._probes) < self._limits.for_probes:
                self._probes.add(connection)
            else:
                self._close(connection, "there is no room")
                return
        self._open[connection] = self._waiting[connection] = caller

    def forget(self, connection: web.RequestHandler) -> None:
        """Forget a connection that is closed."""
        self._open.pop(connection, None)
        self._waiting.pop(connection, None)
        self._probes.discard(connection)

    @contextmanager
    def work(self, connection: web.RequestHandler, caller: str, *, probe: bool) -> Iterator[bool]:
        """Yield whether a request may be answered; until the block ends its connection does not wait."""
        caller = network_of(caller)
        counts_for = self._waiting.pop(connection, None)
        try:
            with count_one(self._at_work, caller):
                room = self._at_work[caller] <= self._limits.per_caller and connection not in self._probes
                yield probe or room
        finally:
            if connection in self._open and counts_for is not None:
                self._waiting[connection] = counts_for

    def caller_of(self, request: web.BaseRequest) -> str:
        """Return the address of a request's caller: the last one that no trusted proxy has, if one passed it on."""
        address = request.remote or ""
        named = ",".join(request.headers.getall(hdrs.X_FORWARDED_FOR, ()))[-MAX_FORWARDED:]
        for forwarded in reversed(named.split(",")):
            if not self._is_trusted(address) or not is_address(forwarded.strip()):
                break
            address = forwarded.strip()
        return address

    def _is_trusted(self, address: str) -> bool:
        if not self._trusted or not is_address(address):
            return False
        found = ipaddress.ip_address(address)
        if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped:
            found = found.ipv4_mapped
        return any(found in network for network in self._trusted)

    def _close(self, connection: web.RequestHandler, why: str) -> None:
        log.debug("a connection was closed: %s", why)
        self.forget(connection)
        if connection.transport:
            # Not `close`: that would wait until the caller has taken what is written.
            connection.transport.abort()


@contextmanager
def count_one(counter: Counter[str], *names: str) -> Iterator[None]:
    """Count each name once more until the block ends."""
    counter.update(names)
    try:
        yield
    finally:
        counter.subtract(names)
        for each in names:
            if not counter[each]:
                del counter[each]


def network_of(address: str) -> str:
    """Return the network that counts as one caller: the address, or for IPv6 its /64, which belongs to one caller."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return NOWHERE
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped:
            return str(found.ipv4_mapped)
        if not found.is_loopback:
            return str(ipaddress.ip_network((found, 64), strict=False))
    return str(found)


def is_address(text: str) -> bool:
    """Whether a text is an IP address."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
