"""Memory: a search of notes and conversations, and the list of the files that are searched."""

import asyncio
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from types import FunctionType
from typing import Annotated, Any

from pydantic import Field

from goclaw.common.core.plugins import load
from goclaw.gateway.servers.api.operations import Call, NoFields, Operations, Request, Response
from goclaw.gateway.servers.api.problems import Problem
from goclaw.memory.base import MemoryFile, Mode, NoteHit, Quote
from goclaw.memory.memory_queries import MemoryOff, MemoryQuery, NoSuchFile

RENDERER = "goclaw.gateway.servers.web.rendering:rendered_aside"


class SearchAsked(Request):
    """The fields of `searchMemory`."""

    q: Annotated[str, Field(min_length=1, max_length=2_000, description="What to look for, in words.")]
    everybody: Annotated[bool, Field(description="Search every conversation that you may read, not only your own.")] = (
        False
    )
    limit: Annotated[int, Field(ge=0, le=50, description="Maximum number of passages; 0: as configured.")] = 0


class MemoryFound(Response):
    """The results of a search, the best first."""

    mode: Mode = Field(description="Whether the search compared meaning and words, or words only.")
    notes: Sequence[NoteHit]
    conversations: Sequence[Quote]
    left_out: str = Field(
        "", description="Why conversations were not searched; empty: they were, or you may not search them."
    )


class FileAsked(Request):
    """The fields of `getMemoryFile`."""

    path: Annotated[str, Field(min_length=1, max_length=4_096, description="The path, as in `listMemoryFiles`.")]


class FileShown(Response):
    """A file of memory; of a very long one the beginning."""

    path: str
    text: str = Field(description="Markdown.")
    html: str = Field("", description="The same as HTML; empty without `http.web`.")


class MemoryFiles(Response):
    """The files that are searched for you."""

    files: Sequence[MemoryFile]


OPERATIONS = Operations()


@OPERATIONS.add("GET", "/memory/search", "memory", refusals=(HTTPStatus.CONFLICT,))
async def search_memory(call: Call, asked: SearchAsked) -> MemoryFound:
    """Search your notes, and the conversations that you may read"""
    query = MemoryQuery("search", asked.q, everybody=asked.everybody, limit=asked.limit)
    return MemoryFound.model_validate(await _ask(call, query))


@OPERATIONS.add("GET", "/memory/files", "memory", refusals=(HTTPStatus.CONFLICT,))
async def list_memory_files(call: Call, _: NoFields) -> MemoryFiles:
    """List the files that searches cover"""
    return MemoryFiles.model_validate(await _ask(call, MemoryQuery("list")))


@OPERATIONS.add("GET", "/memory/file", "memory", refusals=(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT))
async def get_memory_file(call: Call, asked: FileAsked) -> FileShown:
    """Read a file of memory: your own notes, or one for everybody"""
    try:
        found = await _ask(call, MemoryQuery("file", asked.path))
    except NoSuchFile as error:
        raise Problem(HTTPStatus.NOT_FOUND, str(error), field="path") from None
    text = str(found["text"])
    html = ""
    if call.ports.config.http.web:  # the renderer's libraries are loaded where there is a page, and only there
        render = await asyncio.to_thread(load, RENDERER, FunctionType)
        html = str(await render(text))
    return FileShown(path=str(found["path"]), text=text, html=html)


async def _ask(call: Call, query: MemoryQuery) -> Mapping[str, Any]:
    """Return the gateway's answer; raises Problem (409) where memory is off: to ask again would not help."""
    try:
        return await call.ports.gateway.memory(call.actor, query)
    except MemoryOff as error:
        raise Problem(HTTPStatus.CONFLICT, str(error)) from None
