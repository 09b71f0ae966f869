"""The URL guard: every request that a model can cause goes through it.

A name is resolved once and the connection goes to one of the addresses that were checked, so that a name that changes
its mind in between (DNS rebinding) gains nothing. The address is checked again where the socket is made: redirects,
literal addresses and whatever a library may do come by there. Proxies of the environment are ignored, because one would
resolve for us.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from ipaddress import IPv4Address

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from goclaw.errors import ToolError
from goclaw.net.addresses import Address, parsed, refusal, within
from goclaw.net.client import CONNECT_TIMEOUT, check_reachable, stay_on_loopback
from goclaw.records import record

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
        literal = parsed(name)
        if literal is None and (name.replace(".", "").isdigit() or name.startswith("0x")):
            raise UrlRefused(f"refused: {name[:100]} is an unusual way of writing an address")
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                found = [str(literal)] if literal else await self.resolve(name, port)
        except (OSError, UnicodeError):
            raise UrlRefused(f"cannot be reached: {name[:100]} has no address") from None
        except TimeoutError:
            raise UrlRefused(f"cannot be reached: nobody knows the address of {name[:100]} in time") from None
        for text in found:
            self._check(name, text, port)
        if not found:
            raise UrlRefused(f"cannot be reached: {name[:100]} has no address")
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
        raise UrlRefused(f"cannot be reached: {host[:100]} does not answer on port {port}")

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
        address = parsed(text)
        if address is None:
            raise UrlRefused(f"refused: {host[:100]} has the address {text[:100]!r}")
        if any(_names(rule, host, address, port, below=True) for rule in self.deny):
            raise UrlRefused(f"refused: {host[:100]} is denied by tools.network.deny")
        if any(_names(rule, host, address, port, below=False) for rule in self.allow):
            return
        if reason := refusal(address):
            leads = "" if host == str(address) else f" leads to {address}, which"
            raise UrlRefused(
                f"refused: {host[:100]}{leads} is {reason}; tools.network.allow makes an exception for `{host}:{port}`"
            )


class _Gate(AbstractResolver):
    """One client's way through the guard: what was checked may be connected to, and nothing else."""

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
                family=socket.AF_INET if isinstance(parsed(text), IPv4Address) else socket.AF_INET6,
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
        if parsed(host):  # which aiohttp asks no resolver for
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
    return rule == host or within(address, rule) or (below and host.endswith(f".{rule}"))
