"""Errors as problem details (RFC 9457): `{"type", "title", "status", "detail", "field"}`."""

from collections.abc import Mapping
from http import HTTPStatus

import orjson
from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field

from goclaw.channels.base import Handler
from goclaw.errors import AccessDenied, StateError
from goclaw.gateway.servers.admission import NotAdmitted
from goclaw.gateway.servers.http import HEADERS, allowed_methods, explain

MEDIA_TYPE = "application/problem+json"
RETRY_SECONDS = "5"


class ProblemDetails(BaseModel):
    """The body of a refusal (RFC 9457)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    type: str = Field("about:blank", description="`about:blank`: the status says what kind of problem it is.")
    title: str = Field(description="The name of the status.")
    status: int
    detail: str = Field(description="The reason and the remedy, in words.")
    field: str | None = Field(None, description="The part of the request that is wrong.")


class Problem(Exception):
    """A request that is refused. The message is for the caller, and reveals no secret."""

    def __init__(
        self, status: HTTPStatus, detail: str, *, field: str | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        """`field`: the part of the request that is wrong: `limit`, `text`."""
        super().__init__(detail)
        self.status = status
        self.field = field
        self.headers = headers or {}

    def response(self) -> web.Response:
        """Return the answer."""
        details = ProblemDetails(title=self.status.phrase, status=self.status, detail=str(self), field=self.field)
        body = orjson.dumps(details.model_dump(exclude_none=True))
        head = {**HEADERS, "Content-Type": MEDIA_TYPE, **self.headers}
        return web.Response(body=body, status=self.status, headers=head)


def bad_request(detail: str, field: str | None = None) -> Problem:
    """Return the refusal of a request that is wrong in itself."""
    return Problem(HTTPStatus.BAD_REQUEST, detail, field=field)


def unavailable(detail: str) -> Problem:
    """Return the refusal of a request that may be sent again soon."""
    return Problem(HTTPStatus.SERVICE_UNAVAILABLE, detail, headers={"Retry-After": RETRY_SECONDS})


def refusal_response(refusal: web.HTTPException) -> web.Response:
    """Return the answer to a request that the listener refuses."""
    words = explain(refusal, "this path does not exist; GET /api/v1/openapi.json lists all paths")
    return Problem(HTTPStatus(refusal.status), words, headers=allowed_methods(refusal)).response()


async def respond(handler: Handler, request: web.Request) -> web.StreamResponse:
    """Return a handler's answer; its errors are problem details."""
    try:
        return await handler(request)
    except Problem as problem:
        return problem.response()
    except NotAdmitted as refusal:
        return Problem(refusal.status, str(refusal), headers=refusal.headers).response()
    except AccessDenied as error:
        return Problem(HTTPStatus.FORBIDDEN, str(error)).response()
    except StateError as error:
        return unavailable(str(error)).response()
