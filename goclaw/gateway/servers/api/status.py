"""Status: what `/status` says of a session; for admins also the daemon's vital signs in numbers."""

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Annotated, Any, Literal

from aiohttp import web
from pydantic import Field

from goclaw.common.core.wire import MAX_NAME
from goclaw.gateway.servers.api import plots
from goclaw.gateway.servers.api.operations import Call, Operations, Reply, Request, Response
from goclaw.gateway.servers.api.problems import Problem
from goclaw.gateway.servers.api.sessions import readable
from goclaw.gateway.servers.api.usage import picture


class StatusAsked(Request):
    """The fields of `getStatus`."""

    session: Annotated[str, Field(max_length=MAX_NAME, description="Empty: your own.")] = ""


class Status(Response):
    """The state of a session, and what the user may know of the daemon."""

    session: str
    text: str = Field(description="As `/status` shows it.")
    numbers: Mapping[str, Any] = Field(description="The same for programs; its fields may grow.")
    daemon: Mapping[str, float] | None = Field(None, description="Vital signs of the daemon, for admins only.")


OPERATIONS = Operations()


@OPERATIONS.add("GET", "/status", "status", refusals=(HTTPStatus.NOT_FOUND,))
async def get_status(call: Call, asked: StatusAsked) -> Status:
    """Read the status of a session and of the daemon"""
    session = await readable(call, asked.session or call.services.programs.home(call.actor))
    numbers = dict(await call.ports.gateway.status(session, call.actor))
    text = str(numbers.pop("text", ""))
    oversees = call.ports.gateway.oversees(call.actor)
    return Status(session=session, text=text, numbers=numbers, daemon=call.ports.gauges.counts() if oversees else None)


class PlotAsked(Request):
    """The fields of `plotStatus`."""

    of: Annotated[Literal["lateness", "memory", "turns"], Field(description="The figure to show.")] = "lateness"
    theme: Annotated[plots.Theme, Field(description="The theme of the page that shows it.")] = "light"


_WORDS: Mapping[str, tuple[str, Callable[[float], str]]] = {
    "lateness": ("Worst event loop delay of the last minutes", plots.milliseconds),
    "memory": ("Memory used by the daemon", plots.megabytes),
    "turns": ("Running turns", plots.count),
}


@OPERATIONS.add(
    "GET",
    "/status/plot",
    "status",
    Reply(body=str, media_type=plots.MEDIA_TYPE),
    refusals=(HTTPStatus.CONFLICT,),
    admins_only=True,
)
async def plot_status(call: Call, asked: PlotAsked) -> web.Response:
    """Draw a chart of the daemon's last hour"""
    if call.ports.gauges.samples is None:
        raise Problem(HTTPStatus.CONFLICT, "there are no samples: `http.web` is off")
    points = call.ports.gauges.samples.of(asked.of)
    title, amount = _WORDS[asked.of]
    values = [value for _, value in points]
    described = f"Now {amount(values[-1])}, at most {amount(max(values))} in the last hour." if values else ""
    words = plots.PlotWords(title, described or "No samples yet.", amount)
    return picture(plots.line(words, points, asked.theme))
