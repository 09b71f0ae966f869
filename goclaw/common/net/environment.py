"""Proxies of the environment and logins of `.netrc`, read once for a client.

aiohttp (`trust_env`) reads all of it again for every request, in two threads. Here it is read when a client is opened,
so a change needs a restart. Other than there, the `default` entry of `.netrc` is given to no server and no proxy: every
server that the daemon talks to would get it. And a request that brings its own `Authorization` keeps it.
"""

import asyncio
import logging
import netrc
import os
from collections.abc import Mapping
from pathlib import Path
from urllib.request import getproxies, proxy_bypass

import aiohttp
from aiohttp.hdrs import AUTHORIZATION
from yarl import URL

from goclaw.errors import ConfigError

log = logging.getLogger(__name__)

DEFAULT_ENTRY = "default"
"""The name that Python's `netrc` gives to the entry for all hosts without one."""
MOST_HOSTS = 1_000
"""Hosts for which it is known whether they are reached without the proxy."""

Login = tuple[str, str]
"""A user and a password."""


class NetworkEnvironment:
    """How servers are reached, as the environment has it; `apply` is the middleware of a client."""

    def __init__(self, proxies: Mapping[str, URL], logins: Mapping[str, Login]) -> None:
        """Store the settings that were read.

        Args:
            proxies: a proxy for each scheme of addresses (`http`), with its user and password.
            logins: the user and password of each server.
        """
        self._proxies = proxies
        self._authorizations = {host: aiohttp.encode_basic_auth(*login) for host, login in logins.items()}
        self._direct: dict[str, bool] = {}

    async def apply(self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
        """Send a request through its proxy, with the login for its server; after a redirect, for the new one."""
        host = request.url.host or ""
        if host in self._authorizations and AUTHORIZATION not in request.headers:
            request.headers[AUTHORIZATION] = self._authorizations[host]
        proxy = self._proxies.get(request.url.scheme)
        if proxy and request.proxy is None and not await self._is_direct(host):
            request.proxy = proxy
        return await handler(request)

    async def _is_direct(self, host: str) -> bool:
        """Return whether `NO_PROXY` (on macOS the system's settings) exempts a host."""
        known = self._direct.get(host)
        if known is None:
            known = bool(await asyncio.to_thread(proxy_bypass, host))  # macOS may look the name up
            if len(self._direct) < MOST_HOSTS:
                self._direct[host] = known
        return known


def read_environment() -> NetworkEnvironment | None:
    """Read `HTTP_PROXY`, `HTTPS_PROXY` and `.netrc` (or the file that `NETRC` names); None: there is nothing to apply.

    Blocks. A file that cannot be read is logged and left out.

    Raises:
        ConfigError: a proxy has no address that can be used. To go past it could reveal the caller to servers.
    """
    logins = _logins()
    proxies = {}
    for scheme, address in getproxies().items():
        if scheme not in ("http", "https", "ws", "wss"):
            continue
        proxy = _proxy(scheme, address)
        if proxy.scheme in ("https", "wss"):
            log.warning("the proxy at %s is not used: it speaks TLS itself, which is not supported", proxy.host)
            continue
        if proxy.user is None and proxy.password is None and proxy.host in logins:
            user, password = logins[proxy.host]
            proxy = proxy.with_user(user).with_password(password)
        proxies[scheme] = proxy
    return NetworkEnvironment(proxies, logins) if proxies or logins else None


def _proxy(scheme: str, address: str) -> URL:
    try:
        proxy = URL(address)
    except ValueError:
        proxy = URL()
    if not proxy.host:
        # Its own words may hold a password.
        raise ConfigError(f"{scheme.upper()}_PROXY: is not a proxy address; write http://HOST:PORT")
    return proxy


def _logins() -> dict[str, Login]:
    """Return the login of each server that has an entry of its own."""
    try:
        path = Path(os.environ.get("NETRC") or "~/.netrc").expanduser()
    except RuntimeError:
        return {}  # a user without a home
    try:
        entries = netrc.netrc(str(path)).hosts
    except FileNotFoundError as error:
        if "NETRC" in os.environ:
            log.warning("%s: cannot be read: %s", path, error.strerror)
        return {}
    except netrc.NetrcParseError:
        # The error's own words may hold a password.
        log.warning("%s: not used: its entries are not `machine HOST login USER password WORD`", path)
        return {}
    except (OSError, UnicodeDecodeError) as error:
        log.warning("%s: cannot be read: %s", path, error)
        return {}
    return {
        host: (user or account, password)
        for host, (user, account, password) in entries.items()
        if host != DEFAULT_ENTRY and ":" not in (user or account)  # Basic authentication has no user with a colon
    }
