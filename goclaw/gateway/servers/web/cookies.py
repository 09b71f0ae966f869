"""The cookie of a device: its name and attributes, and proof that a request with it comes from our own page.

Cookies know neither ports nor who sends them. So a cookie on plain http carries the port in its name, two values of one
name are none, and every request that changes something needs the page's CSRF token.
"""

import hashlib
import hmac
import re
from collections.abc import Sequence
from http import HTTPStatus
from ipaddress import ip_address, ip_network
from urllib.parse import urlsplit

from aiohttp import hdrs, web

from goclaw.common.config.listening import is_loopback
from goclaw.common.config.schema import Config
from goclaw.gateway.servers.admission import NotAdmitted
from goclaw.gateway.servers.connections import FORWARDING

SECURE_NAME = "__Host-goclaw"
"""Browsers take such a cookie by https only, from the host itself, for all paths: no neighbour can set it."""
PLAIN_NAME = "goclaw_"
"""Before the port, on http of this machine: daemons on other ports have the same host, and so the same cookies."""
CSRF_HEADER = "X-CSRF-Token"
_SAFE = ("GET", "HEAD")
_VALUE = re.compile(r"[A-Za-z0-9_-]{1,200}", re.ASCII)


class DeviceCookies:
    """The cookies of one listener."""

    def __init__(self, config: Config) -> None:
        self._proxies = [ip_network(each, strict=False) for each in config.http.trusted_proxies]
        self._public = urlsplit(config.http.public_url or "")

    def is_https(self, request: web.Request) -> bool:
        """Whether the browser speaks https: a trusted proxy says so, or the host is that of `http.public_url`."""
        if self._public.scheme == "https" and request.host.lower() == self._public.netloc.lower():
            return True
        said = request.headers.getall(hdrs.X_FORWARDED_PROTO, [])
        return len(said) == 1 and said[0].strip().lower() == "https" and self._is_trusted(request)

    def is_here(self, request: web.Request) -> bool:
        """Whether the browser runs on this machine, as far as can be seen: no proxy passed the request on.

        With a public address there is a proxy: a request it passes on looks like this machine's unless it is trusted to
        say.
        """
        is_told = bool(self._proxies) or is_loopback(self._public.hostname or "localhost")
        return (
            is_told
            and is_loopback(request.remote or "")
            and is_loopback(_split(request)[0])
            and all(is_loopback(urlsplit(origin).hostname or "") for origin in _origins(request))
            and not any(name in request.headers for name in FORWARDING)
        )

    def is_private(self, request: web.Request) -> bool:
        """Whether no other on a network can read along: by https, or on this machine."""
        return self.is_https(request) or is_loopback(_split(request)[0])

    def is_own_origin(self, request: web.Request) -> bool:
        """Whether a request says that a page of ours sent it: a WebSocket of another page has the same cookies."""
        scheme = "https" if self.is_https(request) else "http"
        own = {f"{scheme}://{request.host.lower()}"}
        if self._public.netloc:
            own.add(f"{self._public.scheme}://{self._public.netloc}".lower())
        origins = _origins(request)
        return len(origins) == 1 and origins[0] in own

    def secret_in(self, request: web.Request) -> str:
        """Return the secret in a request's cookie; empty without one, or with more than one."""
        name = self._name(request)
        values = [
            value
            for header in request.headers.getall(hdrs.COOKIE, [])
            for key, _, value in (each.strip().partition("=") for each in header.split(";"))
            if key == name
        ]
        return values[0] if len(values) == 1 and _VALUE.fullmatch(values[0]) else ""

    def check(self, request: web.Request, secret: str) -> None:
        """Check that a request with a device's secret comes from our own page.

        Raises:
            NotAdmitted: 403.
        """
        demand_own_page(request)
        if any(origin.startswith("http:") for origin in _origins(request)) and self.is_https(request):
            raise NotAdmitted(HTTPStatus.FORBIDDEN, {}, "this page was not loaded over https")
        if request.method in _SAFE:
            return
        shown = request.headers.getall(CSRF_HEADER, [])
        if len(shown) != 1 or not hmac.compare_digest(shown[0].encode(errors="replace"), csrf_of(secret).encode()):
            words = f"the header {CSRF_HEADER} is missing or wrong; reload the page"
            raise NotAdmitted(HTTPStatus.FORBIDDEN, {}, words)

    def put(self, request: web.Request, response: web.Response, secret: str, seconds: float) -> None:
        """Give a browser its cookie."""
        response.set_cookie(
            self._name(request),
            secret,
            max_age=int(seconds),
            path="/",
            secure=self.is_https(request),
            httponly=True,
            samesite="Strict",
        )

    def remove(self, request: web.Request, response: web.Response) -> None:
        """Take a browser its cookie."""
        self.put(request, response, "", 0)

    def _name(self, request: web.Request) -> str:
        return SECURE_NAME if self.is_https(request) else f"{PLAIN_NAME}{_split(request)[1]}"

    def _is_trusted(self, request: web.Request) -> bool:
        # The request says who called the proxy; the connection has the proxy itself.
        peer = request.transport.get_extra_info("peername") if request.transport else None
        try:
            address = ip_address(str(peer[0])) if peer else None
        except ValueError:
            return False
        mapped = getattr(address, "ipv4_mapped", None) or address
        return mapped is not None and any(mapped in network for network in self._proxies)


def csrf_of(secret: str) -> str:
    """Return the CSRF token that belongs to a device's secret."""
    return hmac.new(secret.encode(), b"goclaw csrf", hashlib.sha256).hexdigest()


def demand_own_page(request: web.Request) -> None:
    """Refuse a request that another page caused, as far as the browser says so.

    Raises:
        NotAdmitted: 403.
    """
    if any(site not in ("same-origin", "none") for site in request.headers.getall("Sec-Fetch-Site", [])):
        raise NotAdmitted(HTTPStatus.FORBIDDEN, {}, "this request comes from another page")


def _origins(request: web.Request) -> Sequence[str]:
    return [origin.lower() for origin in request.headers.getall(hdrs.ORIGIN, [])]


def _split(request: web.Request) -> tuple[str, str]:
    """Return host and port that the browser knows; the port is empty where it is the usual one."""
    found = re.fullmatch(r"(\[[^\]]*\]|[^:]*):?([0-9]*)", request.host.lower())
    return (found[1].strip("[]"), found[2]) if found else ("", "")
