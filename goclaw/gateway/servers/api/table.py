"""The table of all operations. A module with further ones adds its `OPERATIONS` here."""

from functools import cache

from goclaw.gateway.servers.api import (
    administration,
    devices,
    events,
    files,
    memory,
    messages,
    openapi,
    schedules,
    sessions,
    status,
    turns,
    usage,
)
from goclaw.gateway.servers.api.operations import Operation

OPERATIONS: tuple[Operation, ...] = (
    *sessions.OPERATIONS,
    *messages.OPERATIONS,
    *files.OPERATIONS,
    *events.OPERATIONS,
    *turns.OPERATIONS,
    *memory.OPERATIONS,
    *schedules.OPERATIONS,
    *usage.OPERATIONS,
    *status.OPERATIONS,
    *administration.OPERATIONS,
    *devices.OPERATIONS,
    *openapi.OPERATIONS,
)


@cache
def document() -> bytes:
    """Return the OpenAPI document, as JSON. Takes long the first time: not in the event loop."""
    return openapi.render(OPERATIONS)
