"""The URL guard: every request that a model can cause goes through it.

A name is resolved once and the connection goes to one of the addresses that were checked, so that a name that changes
its mind in between (DNS rebinding) gains nothing. The address is checked again where the socket is made: redirects,
literal addresses and whatever a library may do come by there. Proxies of the environment are ignored, because one would
resolve for us. An address is the public internet, or reachable only from this machine or its network (`refusal`).
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from goclaw.common.core.records import record
from goclaw.common.net.client import CONNECT_TIMEOUT, check_reachable, stay_on_loopback
from goclaw.errors import ToolError

Address = IPv4Address | IPv6Address

METADATA = frozenset({ip_address("168.63.129.16")})
"""Services of a cloud for its own machines at addresses that look public (Azure's WireServer). The others are
link-local, private or shared, and refused as such: 169.254.169.254, fd00:ec2::254, 100.100.100.200."""
_TRANSLATED = (IPv6Network("64:ff9b::/96"), IPv6Network("64:ff9b:1::/48"), IPv6Network("::/96"))
"""IPv6 that stands for an IPv4 address in its last bits (RFC 6052, RFC 8215, RFC 4291 2.5.5.1)."""
_SPECIAL = tuple(
    ip_network(text)
    for text in (
        *("100.64.0.0/10", "192.0.0.0/24", "192.88.99.0/24", "198.18.0.0/15", "240.0.0.0/4"),
        *("100::/64", "2001::/23", "2001:db8::/32", "3fff::/20", "5f00::/16", "fec0::/10"),
    )
)
"""Of the registries of special purposes (RFC 6890, IANA), what some Python versions call global."""
_KINDS = {
    "loopback": "this machine",
    "link_local": "the local link, where clouds keep their metadata",
    "multicast": "many machines at once",
    "private": "a private network",
}


def parsed_address(text: str) -> Address | None:
    """Return the address of a host in its usual form; None for a name, and for every other notation of a number."""
    try:
        return ip_address(text.strip("[]"))
    except ValueError:
        return None


def refusal(address: Address) -> str:
    """Why an address is not the public internet, in words; empty when it is."""
    if isinstance(address, IPv6Address) and address.scope_id:
        return "one network of this machine"
    forms: list[Address] = list(_find_ipv4(address))
    for form in forms or [address]:
        if form in METADATA:
            return "a cloud's own service for this machine"
        if form.is_unspecified:
            return _KINDS["loopback"]
        for kind, words in _KINDS.items():
            if getattr(form, f"is_{kind}"):
                return words
        if form.is_reserved or not form.is_global or any(form in network for network in _SPECIAL):
            return "no public address"
    return _KINDS["loopback"] if _is_own(address) else ""


def is_within(address: Address, network: str) -> bool:
    """Whether an address, or the IPv4 one that it stands for, lies in `network` (`10.0.0.0/8`, or a single address)."""
    try:
        wanted = ip_network(network, strict=False)
    except ValueError:
        return False
    return any(form in wanted for form in (address, *_find_ipv4(address)))


def _find_ipv4(address: Address) -> Iterator[IPv4Address]:
    """IPv4 addresses that an IPv6 one leads to, through the system itself or a translator on the way."""
    if not isinstance(address, IPv6Address):
        return
    if address.ipv4_mapped:
        yield address.ipv4_mapped
    if address.sixtofour:
        yield address.sixtofour
    if address.teredo:
        yield from address.teredo
    if any(address in network for network in _TRANSLATED) and int(address) > 1:
        yield IPv4Address(int(address) & 0xFFFFFFFF)


def _is_own(address: Address) -> bool:
    """Whether it is an address of this machine, public as it may look: only to those can a socket be bound."""
    family = socket.AF_INET if isinstance(address, IPv4Address) else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((str(address), 0))
    except OSError:
        return False
    return True


SCHEMES = ("http", "https")
MAX_URL = 8_000
WITH_CREDENTIALS = "refused: an address with a user name or a password in it"

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""From a name and a port to its addresses. Raises OSError where there are none."""


class UrlRefused(ToolError):
    """The request does not leave: the message says what about its address is not allowed."""


async def resolve_by_system(host: str, port: int) -> Sequence[str]:
    """Ask the system's resolver, once."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return list(dict.fromkeys(str(info[4][0]) for info in found))


class UrlUnreachable(UrlRefused):
    """The address is not refused as such: nothing is found there, or nothing answers, which may change."""


@record
class UrlGuard:
    """Decides what may be reached, and reaches it."""

    allow: Sequence[str] = ()
    """Exceptions that the operator made: `host`, `host:port`, an address or a network, each also with `:port`."""
    deny: Sequence[str] = ()
    """Hosts (with all below them), addresses and networks that are refused although they are public."""
    resolve: Resolve = resolve_by_system

    async def addresses(self, host: str, port: int) -> list[str]:
        """Return the checked addresses of a host, to connect to instead of asking for its name again.

        Raises:
            UrlRefused: it has none, or one of them is not allowed; a name with good and bad addresses is a trick.
        """
        name = host.rstrip(".").lower()
        if not name or not name.isascii() or not name.isprintable() or any(sign in name for sign in " %/\\@#?"):
            raise UrlRefused(f"refused: {host[:100]!r} is no host")
        literal = parsed_address(name)
        if literal is None and (name.replace(".", "").isdigit() or name.startswith("0x")):
            raise UrlRefused(f"refused: {name[:100]} is an unusual way of writing an address")
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                found = [str(literal)] if literal else await self.resolve(name, port)
        except (OSError, UnicodeError):
            raise UrlUnreachable(f"cannot be reached: {name[:100]} has no address") from None
        except TimeoutError:
            raise UrlUnreachable(
                f"cannot be reached: the address of {name[:100]} could not be resolved in time"
            ) from None
        for text in found:
            self._check(name, text, port)
        if not found:
            raise UrlUnreachable(f"cannot be reached: {name[:100]} has no address")
        return list(found)

    def check_url(self, url: URL) -> None:
        """Refuse what can be seen without asking for the address.

        Raises:
            UrlRefused: not http(s), no host, or a password in it.
        """
        if url.scheme not in SCHEMES or not url.host:
            raise UrlRefused(f"refused: only http and https addresses can be fetched, not {url.scheme or 'this'}")
        if url.user is not None or url.password is not None:
            raise UrlRefused(WITH_CREDENTIALS)
        if len(str(url)) > MAX_URL:
            raise UrlRefused(f"refused: an address of more than {MAX_URL:,} characters")

    async def connect(self, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a connection to the first checked address that answers.

        Raises:
            UrlRefused: the host is not allowed or cannot be reached.
            ConfigError: `GOCLAW_LOOPBACK_ONLY` is set and it is not this machine.
        """
        check_reachable(host)
        for address in await self.addresses(host, port):
            try:
                async with asyncio.timeout(CONNECT_TIMEOUT):
                    return await asyncio.open_connection(address, port)
            except (OSError, TimeoutError):
                continue
        raise UrlUnreachable(f"cannot be reached: {host[:100]} does not answer on port {port}")

    @asynccontextmanager
    async def client(self, seconds: float) -> AsyncIterator[aiohttp.ClientSession]:
        """Open an HTTP client that reaches only allowed addresses, each request within `seconds`.

        A refused address raises `UrlRefused`, also after a redirect. Bodies come as they were sent: the caller bounds
        them, before and after unpacking.
        """
        gate = _Gate(self)
        connector = aiohttp.TCPConnector(
            resolver=gate, use_dns_cache=False, socket_factory=gate.socket_for, force_close=True
        )
        async with aiohttp.ClientSession(
            connector=connector,
            timeout=aiohttp.ClientTimeout(total=seconds, connect=CONNECT_TIMEOUT),
            trust_env=False,
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            middlewares=(stay_on_loopback, gate.check_request),
        ) as session:
            yield session

    def _check(self, host: str, text: str, port: int) -> None:
        address = parsed_address(text)
        if address is None:
            raise UrlRefused(f"refused: {host[:100]} has the address {text[:100]!r}")
        if any(_names(rule, host, address, port, below=True) for rule in self.deny):
            raise UrlRefused(f"refused: {host[:100]} is denied by the rules of this gateway")
        if any(_names(rule, host, address, port, below=False) for rule in self.allow):
            return
        if reason := refusal(address):
            leads = "" if host == str(address) else f" leads to {address}, which"
            raise UrlRefused(
                f"refused: {host[:100]}{leads} is {reason}; an admin can make an exception for `{host}:{port}`"
            )


class _Gate(AbstractResolver):
    """One client's way through the guard: checked addresses may be connected to, and nothing else."""

    def __init__(self, guard: UrlGuard) -> None:
        self._guard = guard
        self._checked: set[tuple[str, int]] = set()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=host,
                host=text,
                port=port,
                family=socket.AF_INET if isinstance(parsed_address(text), IPv4Address) else socket.AF_INET6,
                proto=socket.IPPROTO_TCP,
                flags=socket.AI_NUMERICHOST,
            )
            for text in await self._addresses(host, port)
        ]

    async def close(self) -> None:
        """Do nothing: nothing is held open."""

    async def check_request(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        """Before every request, those of redirects included."""
        self._guard.check_url(request.url)
        if aiohttp.hdrs.AUTHORIZATION in request.headers:
            raise UrlRefused(WITH_CREDENTIALS)  # which aiohttp has taken out of the address by now
        host = request.url.raw_host or ""
        if parsed_address(host):  # which aiohttp asks no resolver for
            await self._addresses(host, request.url.port or 0)
        return await handler(request)

    def socket_for(self, info: aiohttp.AddrInfoType) -> socket.socket:
        """Check the address about to be connected to, and return a socket: the last gate for every path."""
        family, kind, protocol, _, target = info
        if (str(target[0]), int(target[1])) not in self._checked:
            raise UrlRefused(f"refused: {str(target[0])[:100]} was not checked")
        return socket.socket(family, kind, protocol)

    async def _addresses(self, host: str, port: int) -> list[str]:
        found = await self._guard.addresses(host, port)
        self._checked |= {(text, port) for text in found}
        return found


def _names(rule: str, host: str, address: Address, port: int, *, below: bool) -> bool:
    """Whether a rule of the operator is about this host; `below`: about the names below it, too."""
    rule = rule.lower().rstrip(".")
    bare, _, number = rule.rpartition(":")
    if bare and number.isdigit() and (":" not in bare or bare.endswith("]")):
        if int(number) != port:
            return False
        rule = bare.strip("[]")
    return rule == host or is_within(address, rule) or (below and host.endswith(f".{rule}"))
