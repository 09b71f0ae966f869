"""Memory: a search of notes and conversations, and the list of the files that are searched."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Annotated, Any

from pydantic import Field

from goclaw.errors import StateError
from goclaw.memory.base import MemoryFile, Mode, NoteHit, Quote
from goclaw.memory.memory_queries import REFUSED_WHILE_OFF, MemoryQuery
from goclaw.servers.api.operations import Call, NoFields, Operation, Request, Response
from goclaw.servers.api.problems import Problem


class SearchAsked(Request):
    """The fields of `searchMemory`."""

    q: Annotated[str, Field(min_length=1, max_length=2_000, description="What to look for, in words.")]
    everybody: Annotated[bool, Field(description="In every conversation that you may read, not only your own.")] = False
    limit: Annotated[int, Field(ge=0, le=50, description="Passages at most; 0: as configured.")] = 0


class MemoryFound(Response):
    """The results of a search, the best first."""

    mode: Mode = Field(description="Whether meaning was compared, too, or words alone.")
    notes: Sequence[NoteHit]
    conversations: Sequence[Quote]
    left_out: str = Field("", description="Why conversations were not searched; empty: they were, or you may not.")


class MemoryFiles(Response):
    """The files that are searched for you."""

    files: Sequence[MemoryFile]


async def search(call: Call, asked: SearchAsked) -> MemoryFound:
    """Return what memory has about a text."""
    query = MemoryQuery("search", asked.q, everybody=asked.everybody, limit=asked.limit)
    return MemoryFound.model_validate(await _asked(call, query))


async def list_files(call: Call, _: NoFields) -> MemoryFiles:
    """Return the files of memory."""
    return MemoryFiles.model_validate(await _asked(call, MemoryQuery("list")))


async def _asked(call: Call, query: MemoryQuery) -> Mapping[str, Any]:
    """Return the gateway's answer.

    Raises:
        Problem: 409, memory is off: to ask again would not help.
    """
    try:
        return await call.ports.gateway.memory(call.actor, query)
    except StateError as error:
        if str(error) == REFUSED_WHILE_OFF:
            raise Problem(HTTPStatus.CONFLICT, str(error)) from None
        raise


OPERATIONS = (
    Operation(
        "GET",
        "/memory/search",
        "searchMemory",
        "Search your notes, and the conversations that you may read",
        "memory",
        search,
        SearchAsked,
        MemoryFound,
        refusals=(HTTPStatus.CONFLICT,),
    ),
    Operation(
        "GET",
        "/memory/files",
        "listMemoryFiles",
        "List the files that a search looks through",
        "memory",
        list_files,
        NoFields,
        MemoryFiles,
        refusals=(HTTPStatus.CONFLICT,),
    ),
)
