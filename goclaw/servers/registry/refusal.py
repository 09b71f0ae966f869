"""Refusals: an HTTP status, and a text as JSON. They hold nothing of the request."""

from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType

from aiohttp import web

from goclaw.servers.listener import HEADERS

_NOTHING: Mapping[str, str] = MappingProxyType({})
_WORDS: Mapping[int, str] = {
    HTTPStatus.FORBIDDEN: "no web page may call this registry",
    HTTPStatus.NOT_FOUND: "there is nothing at this address",
    HTTPStatus.METHOD_NOT_ALLOWED: "this cannot be done here",
    HTTPStatus.REQUEST_TIMEOUT: "the entry did not come in time",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "this is more than any entry may have",
    HTTPStatus.MISDIRECTED_REQUEST: "this registry has other names (`registry_server.hosts`)",
}
"""The texts of the listener's own refusals."""


class RequestRefused(Exception):
    """A refused request. The message is for the people who sent it."""

    def __init__(self, status: HTTPStatus, words: str, headers: Mapping[str, str] = _NOTHING) -> None:
        super().__init__(words)
        self.status = status
        self.headers = headers

    def response(self) -> web.Response:
        """Return the response."""
        return web.json_response({"error": str(self)}, status=self.status, headers={**HEADERS, **self.headers})


def refused(refusal: web.HTTPException) -> web.Response:
    """Return the same for a refusal of the listener."""
    words = _WORDS.get(refusal.status, "this is no request that can be answered")
    allow = {"Allow": refusal.headers["Allow"]} if "Allow" in refusal.headers else {}
    return RequestRefused(HTTPStatus(refusal.status), words, allow).response()
