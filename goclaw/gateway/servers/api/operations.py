"""The form of an operation: its input, its output, and the handler between the two.

The fields of an operation's request are one frozen model. Those that the path template names come from the path; the
others come from the body if the method has one, else from the query.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from http import HTTPStatus
from inspect import cleandoc
from types import NoneType
from typing import Annotated, Any, ClassVar, Literal, TypeVar, get_type_hints

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from goclaw.common.core.events import Actor
from goclaw.common.core.records import record
from goclaw.common.core.wire import LAST_ROW, MAX_NAME
from goclaw.durable.store.uploads import Uploads
from goclaw.gateway.servers.api.problems import Problem
from goclaw.gateway.servers.programs import Program, Programs
from goclaw.gateway.servers.routes import RoutePorts
from goclaw.gateway.servers.serving import IdempotencyCache

JSON = "application/json"
BYTES = "application/octet-stream"
_NAMED = re.compile(r"\{([a-z_]+)\}")

Key = Annotated[str, Field(min_length=1, max_length=MAX_NAME, pattern=r"^[^\x00-\x1f\x7f]+$")]
"""A name in a path: a session's key, say. `/` in it is sent as `%2F`."""
Row = Annotated[int, Field(ge=0, le=LAST_ROW)]


class Request(BaseModel):
    """The fields of a request. Unknown ones are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    takes_bytes: ClassVar[bool] = False
    """Whether the body is bytes of any type, which the handler reads; the fields come from path and query."""
    headers: ClassVar[Mapping[str, str]] = {}
    """Headers that the handler reads, in words."""


class NoFields(Request):
    """The fields of an operation that has none."""


class Response(BaseModel):
    """The body of an answer."""

    model_config = ConfigDict(frozen=True)


@record
class Services:
    """The services that handlers use."""

    ports: RoutePorts
    programs: Programs
    receipts: IdempotencyCache
    uploads: Uploads


@record
class Call:
    """A request that has been admitted and read, apart from its fields."""

    services: Services
    program: Program
    request: web.Request

    @property
    def actor(self) -> Actor:
        """Return the user of the token."""
        return self.program.actor

    def demand_admin(self) -> None:
        """Refuse a caller who is no admin.

        Raises:
            Problem: 403.
        """
        if not self.ports.gateway.oversees(self.actor):
            raise Problem(HTTPStatus.FORBIDDEN, "this is for admins")

    @property
    def ports(self) -> RoutePorts:
        """Return the daemon's services."""
        return self.services.ports


@record
class Answer:
    """An answer with another status than the operation's first; for handlers that have more than one."""

    status: HTTPStatus
    body: Any


Handler = Callable[[Call, Any], Awaitable[Any]]
"""Returns the body, an `Answer`, or a whole response; raises `Problem`, AccessDenied (403) or StateError (503).

The annotation of its second parameter is the type of the request, that of its result the type of the body.
"""
HandlerT = TypeVar("HandlerT", bound=Handler)


@record
class Reply:
    """The answer of an operation that is no refusal."""

    statuses: Mapping[HTTPStatus, str] = field(default_factory=lambda: {HTTPStatus.OK: "The answer."})
    """In words; the first one is given unless the handler says otherwise."""
    body: Any = None
    """The type of the body, where the handler returns an `Answer` or a whole response."""
    media_type: str = JSON


@dataclass(frozen=True, eq=False)
class Operation:
    """An entry of the table. Name and docstring of its handler are those of the operation."""

    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    path: str
    """The template beneath `/api/v1`, such as `/sessions/{session}`."""
    tag: str
    handler: Handler
    reply: Reply = field(default_factory=Reply)
    refusals: tuple[HTTPStatus, ...] = ()
    """Statuses of refusals, besides those of every operation (`EVERYWHERE`)."""
    admins_only: bool = False

    @cached_property
    def id(self) -> str:
        """Return the name for clients that are made from the document: `listSessions`."""
        first, *others = self.handler.__name__.split("_")
        return first + "".join(map(str.capitalize, others))

    @cached_property
    def summary(self) -> str:
        """Return one line."""
        return cleandoc(self.handler.__doc__ or "").partition("\n")[0]

    @cached_property
    def description(self) -> str:
        """Return Markdown; empty: the summary says it all."""
        return cleandoc(self.handler.__doc__ or "").partition("\n\n")[2].replace("\n", " ")

    @cached_property
    def request(self) -> type[Request]:
        """Return the type of the request."""
        _, asked, *_ = get_type_hints(self.handler).values()
        return asked  # type: ignore[no-any-return]  # the hints of a function are Any

    @cached_property
    def response(self) -> Any:
        """Return the type of the body; None: it has none."""
        given = self.reply.body or get_type_hints(self.handler)["return"]
        return None if given is NoneType else given

    @property
    def in_path(self) -> tuple[str, ...]:
        """Return the fields that come from the path."""
        return tuple(_NAMED.findall(self.path))

    @property
    def has_body(self) -> bool:
        """Whether fields come from a body."""
        return (
            not self.request.takes_bytes
            and self.method in ("POST", "PUT", "PATCH")
            and bool(set(self.request.model_fields) - set(self.in_path))
        )

    @property
    def status(self) -> HTTPStatus:
        """Return the usual status of the answer."""
        return next(iter(self.reply.statuses))

    @cached_property
    def adapter(self) -> TypeAdapter[Any]:
        """Return the codec of the body. Takes milliseconds to make."""
        return TypeAdapter(self.response)


class Operations(list[Operation]):
    """A part of the table, in the order in which its handlers are defined."""

    def add(
        self,
        method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"],
        path: str,
        tag: str,
        reply: Reply | None = None,
        refusals: tuple[HTTPStatus, ...] = (),
        *,
        admins_only: bool = False,
    ) -> Callable[[HandlerT], HandlerT]:
        """Return a decorator that adds the operation of a handler; the parameters are as in `Operation`."""

        def add_handler(handler: HandlerT) -> HandlerT:
            self.append(Operation(method, path, tag, handler, reply or Reply(), refusals, admins_only))
            return handler

        return add_handler


EVERYWHERE = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.SERVICE_UNAVAILABLE,
)
"""Statuses of refusals that every operation can have."""
WITH_BODY = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
"""The same of an operation with a body in its request."""
