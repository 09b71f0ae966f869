"""Status: what `/status` says of a session; for admins also the daemon's vital signs in numbers."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Annotated, Any

from pydantic import Field

from goclaw.core.wire import MAX_NAME
from goclaw.servers.api.operations import Call, Operation, Request, Response
from goclaw.servers.api.sessions import readable


class StatusAsked(Request):
    """The fields of `getStatus`."""

    session: Annotated[str, Field(max_length=MAX_NAME, description="Empty: your own.")] = ""


class Status(Response):
    """The state of a session, and what the user may know of the daemon."""

    session: str
    text: str = Field(description="As `/status` shows it.")
    numbers: Mapping[str, Any] = Field(description="The same for programs; its fields may grow.")
    daemon: Mapping[str, float] | None = Field(None, description="Vital signs of the daemon, for admins alone.")


async def get(call: Call, asked: StatusAsked) -> Status:
    """Return the status of a session."""
    session = await readable(call, asked.session or call.services.programs.home(call.actor))
    numbers = dict(await call.ports.gateway.status(session, call.actor))
    text = str(numbers.pop("text", ""))
    oversees = call.ports.gateway.oversees(call.actor)
    return Status(session=session, text=text, numbers=numbers, daemon=call.ports.counts() if oversees else None)


OPERATIONS = (
    Operation(
        "GET",
        "/status",
        "getStatus",
        "Say how a session and the daemon are",
        "status",
        get,
        StatusAsked,
        Status,
        refusals=(HTTPStatus.NOT_FOUND,),
    ),
)
