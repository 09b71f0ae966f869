"""Refusals in the shape of OpenAI's API: `{"error": {"message", "type", "param", "code"}}`."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from aiohttp import web

from goclaw.gateway.servers.http import HEADERS, allowed_methods, explain

_TYPES: Mapping[int, str] = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
_SERVER_ERROR = 500
NOT_AGAIN = {"x-should-retry": "false"}
"""Header by which OpenAI's clients know that sending the same again would not help."""


class ApiError(Exception):
    """A request that is refused, or a turn without an answer. The message is for the caller."""

    def __init__(
        self,
        status: HTTPStatus,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """`param`: the part of the request that is wrong: `messages[0].role`. `code`: the same for programs."""
        super().__init__(message)
        self.status = status
        self.param = param
        self.code = code
        self.headers = headers or {}

    def data(self) -> dict[str, Any]:
        """Return the body."""
        is_ours = self.status >= _SERVER_ERROR
        kind = "server_error" if is_ours else _TYPES.get(self.status, "invalid_request_error")
        return {"error": {"message": str(self), "type": kind, "param": self.param, "code": self.code}}

    def response(self) -> web.Response:
        """Return the answer."""
        return web.json_response(self.data(), status=self.status, headers={**HEADERS, **self.headers})


def bad_request(message: str, param: str | None = None, code: str | None = None) -> ApiError:
    """Return the refusal of a request that is wrong in itself."""
    return ApiError(HTTPStatus.BAD_REQUEST, message, param=param, code=code)


def refusal_response(refusal: web.HTTPException) -> web.Response:
    """Return the answer to a request that the listener refuses."""
    words = explain(
        refusal, "this path does not exist; use GET /v1/models, POST /v1/chat/completions or POST /v1/responses"
    )
    return ApiError(HTTPStatus(refusal.status), words, headers=allowed_methods(refusal)).response()
