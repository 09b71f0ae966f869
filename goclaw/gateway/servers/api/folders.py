"""The person's folder of files: what the tools `list`, `read` and `write` may do for them, they may do by hand.

The rights are those of the tools, the bounds those of the workspace: no path, link or other name leads out of it, into
the state folder, or to another person's notes. What is removed is gone, and nothing is ever replaced.
"""

from collections.abc import Sequence
from http import HTTPStatus
from pathlib import PurePosixPath
from typing import Annotated, ClassVar, Literal

from aiohttp import web
from pydantic import Field

from goclaw.common.auth.audit import AuditEntry
from goclaw.common.workspace import Workspace
from goclaw.errors import AccessDenied, ToolError
from goclaw.gateway.servers.api.files import MAX_FILE, count_upload
from goclaw.gateway.servers.api.operations import BYTES, Call, Operations, Reply, Request, Response
from goclaw.gateway.servers.api.problems import Problem, bad_request
from goclaw.gateway.servers.downloads import file_response

MAX_ENTRIES = 2_000
"""Entries of a folder that are listed."""
FileTool = Literal["list", "read", "write"]
_Path = Annotated[str, Field(max_length=4_000, description="Below the workspace.")]


class FolderAsked(Request):
    """The fields of `listFolder`."""

    path: _Path = "."


class FileAsked(Request):
    """The fields of `downloadFile` and `deleteFile`."""

    path: Annotated[_Path, Field(min_length=1)]


class FileGiven(Request):
    """The fields of `addFile`."""

    takes_bytes: ClassVar = True
    path: Annotated[_Path, Field(min_length=1)]


class FolderEntry(Response):
    """A file or folder."""

    name: str
    path: str = Field(description="For the other operations.")
    size: int | None = Field(description="Bytes; null: it is a folder.")


class Folder(Response):
    """A folder of the workspace, folders first."""

    path: str
    entries: Sequence[FolderEntry]
    complete: bool = Field(description="Whether these are all entries; names that are not UTF-8 are left out.")
    writable: bool = Field(description="Whether you may add and delete files.")


class FileAdded(Response):
    """A file that was added."""

    path: str = Field(description="Another name than wanted, if that was taken.")
    size: int


OPERATIONS = Operations()


@OPERATIONS.add("GET", "/files", "files", refusals=(HTTPStatus.NOT_FOUND,))
async def list_folder(call: Call, asked: FolderAsked) -> Folder:
    """List a folder of your workspace"""
    workspace = await _open(call, "list", asked.path)
    try:
        path, found = await workspace.entries(asked.path or ".", MAX_ENTRIES + 1)
    except ToolError as error:
        raise _missing(error) from None
    entries = [
        FolderEntry(name=name, path=str(PurePosixPath(path, name)), size=size)
        for name, size in sorted(found[:MAX_ENTRIES], key=lambda entry: (entry[1] is not None, entry[0]))
        if _is_text(name)
    ]
    writable = _allowed(call, "write", path)[0]
    return Folder(path=path, entries=entries, complete=len(entries) == len(found), writable=writable)


@OPERATIONS.add("GET", "/files/content", "files", Reply(body=bytes, media_type=BYTES), refusals=(HTTPStatus.NOT_FOUND,))
async def download_file(call: Call, asked: FileAsked) -> web.Response:
    """Download a file of your workspace, up to 20 MB"""
    workspace = await _open(call, "read", asked.path)
    try:
        return await file_response(await workspace.read_bytes(asked.path, MAX_FILE), asked.path)
    except ToolError as error:
        raise _missing(error) from None


@OPERATIONS.add("POST", "/files", "files", refusals=(HTTPStatus.NOT_FOUND,))
async def add_file(call: Call, asked: FileGiven) -> FileAdded:
    """Add a file to your workspace

    The body is the file, up to 20 MB. A file of that name stays as it is: the new one gets a number.
    """
    workspace = await _open(call, "write", asked.path)
    with count_upload(call.actor.key):
        data = await call.request.read()
        if not data:
            raise bad_request("the file is empty", "body")
        try:
            path = await workspace.add_bytes(asked.path, data)
        except ToolError as error:
            raise _missing(error) from None
    _record(call, "file.add", path)
    return FileAdded(path=path, size=len(data))


@OPERATIONS.add(
    "DELETE",
    "/files",
    "files",
    Reply(statuses={HTTPStatus.NO_CONTENT: "It is deleted."}),
    refusals=(HTTPStatus.NOT_FOUND,),
)
async def delete_file(call: Call, asked: FileAsked) -> None:
    """Delete a file of your workspace"""
    workspace = await _open(call, "write", asked.path)
    try:
        await workspace.stat(asked.path)  # to remove a file makes the folders that it would be in
        await workspace.remove(asked.path)
    except ToolError as error:
        raise _missing(error) from None
    _record(call, "file.delete", asked.path)


async def _open(call: Call, tool: FileTool, path: str) -> Workspace:
    """Return the caller's workspace.

    Raises:
        AccessDenied: the caller may not use this tool for this path.
    """
    allowed, rule = _allowed(call, tool, path)
    if not allowed:
        raise AccessDenied(rule)
    return await call.ports.environment.workspace(call.actor)


def _allowed(call: Call, tool: FileTool, path: str) -> tuple[bool, str]:
    """Return whether the caller may use a tool for exactly this path, and the rule."""
    given = {"path": path}
    decision = call.ports.access.authorize(call.actor, "tool.use", tool, given)
    return decision.allowed and decision.input in (None, given), f"{tool}: {decision.rule}"


def _is_text(name: str) -> bool:
    """Whether the name of a file is UTF-8: no JSON can hold another one."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _missing(error: ToolError) -> Problem:
    return Problem(HTTPStatus.NOT_FOUND, str(error), field="path")


def _record(call: Call, action: str, path: str) -> None:
    call.ports.audit(AuditEntry(action, path, call.actor, call.request.remote or "", rule="own files", result="ok"))
