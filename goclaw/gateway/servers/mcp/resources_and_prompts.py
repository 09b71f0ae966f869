"""Resources and prompts, in pages, as `tools` are.

Resources are files of the workspace, conversations, the status, and those that code declares. Each is read with the
rights of the caller, and up to a bound. A missing resource and one that the caller may not read get the same answer.
Prompts are those of the configuration, and those that code declares.
"""

import base64
import mimetypes
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

import mcp_types as types
import orjson
from mcp.shared.exceptions import MCPError

from goclaw.common.auth.audit import AuditEntry
from goclaw.common.config.mcp import PLACE, PromptSettings
from goclaw.common.core.events import Actor, TranscriptRow
from goclaw.common.core.redact import mask
from goclaw.errors import GoclawError, ToolError
from goclaw.gateway.servers.mcp.backend import McpBackend
from goclaw.gateway.servers.mcp.uris import (
    FILE,
    STATUS,
    TRANSCRIPT,
    Absent,
    file_uri,
    is_file,
    path_of,
    session_of,
    transcript_uri,
)
from goclaw.tools.mcp.declared import Argument, DeclaredPrompt, Message

ItemT = TypeVar("ItemT")

PAGE_ENTRIES = 200
"""Entries of one page."""

JSON, TEXT, UNKNOWN = "application/json", "text/plain", "application/octet-stream"
MAX_FILE_BYTES = 1 << 20
"""Bytes of a file: models read larger ones in parts, with `read`."""
MAX_FILES, MAX_SESSIONS = 2_000, 500
"""Listed resources; others can be read by their URI all the same."""
LAST_ROWS = 50
"""Last messages of a conversation that are read when no row is given."""
NOT_FOUND = -32002
"""Resource not found (specification, Resources, Error Handling)."""

TEMPLATES = (
    types.ResourceTemplate(
        name="file",
        title="File of the workspace",
        uri_template="workspace:///{+path}",
        description="A file, addressed by its path.",
    ),
    types.ResourceTemplate(
        name="conversation",
        title="Conversation",
        uri_template="transcript://{session}{?after}",
        description=(
            "The last messages of a conversation, or those after a row; `next` is the URI of the following ones."
        ),
        mime_type=JSON,
    ),
)

MAX_ARGUMENT = 100_000
"""Characters of one argument: it becomes part of a message."""


def page(
    items: Sequence[ItemT], key: Callable[[ItemT], str], params: types.PaginatedRequestParams | None
) -> tuple[list[ItemT], str | None]:
    """Return the requested page, in the order of the keys, and the cursor of the next one.

    A cursor is the last key of its page, not a number: entries that come and go meanwhile move nothing.

    Raises:
        MCPError: the cursor is invalid.
    """
    try:
        cursor = params.cursor if params and params.cursor else ""
        after = base64.b64decode(cursor, altchars=b"-_", validate=True).decode()
    except ValueError:  # also of binascii
        raise MCPError(types.INVALID_PARAMS, "the cursor is not from this server") from None
    rest = sorted((item for item in items if key(item) > after), key=key)
    here = rest[:PAGE_ENTRIES]
    return here, base64.urlsafe_b64encode(key(here[-1]).encode()).decode() if len(rest) > PAGE_ENTRIES else None


class ResourceOffer:
    """The resources of a user."""

    def __init__(self, backend: McpBackend, reads: Callable[[Actor, str], Awaitable[str]]) -> None:
        """`reads`: the file that the tool `read` opens under a path; raises ToolError where it opens none."""
        self._backend = backend
        self._reads = reads
        self._declared = {each.uri: each for each in backend.declared.resources}
        self._offers_own = backend.settings.resources

    async def list_items(self, actor: Actor, params: types.PaginatedRequestParams | None) -> types.ListResourcesResult:
        """Return everything that can be read."""
        found = [
            types.Resource(name=each.name, uri=each.uri, mime_type=each.mime, description=each.description or None)
            for each in self._declared.values()
            if each.may(actor)
        ]
        if self.may(actor, STATUS):
            about = "The status of the daemon; clients can subscribe to it."
            found.append(types.Resource(name="status", uri=STATUS, mime_type=JSON, description=about))
        if self._offers_own:
            found += await self._files(actor)
            conversations = (await self._readable(actor))[:MAX_SESSIONS]
            found += [types.Resource(name=key, uri=transcript_uri(key), mime_type=JSON) for key in conversations]
        resources, cursor = page(found, lambda resource: resource.uri, params)
        return types.ListResourcesResult(resources=resources, next_cursor=cursor)

    async def templates(self, params: types.PaginatedRequestParams | None) -> types.ListResourceTemplatesResult:
        """Return the URI templates of files and conversations."""
        offered = TEMPLATES if self._offers_own else ()
        here, cursor = page(offered, lambda each: each.uri_template, params)
        return types.ListResourceTemplatesResult(resource_templates=here, next_cursor=cursor)

    async def read(self, actor: Actor, uri: str) -> types.ReadResourceResult:
        """Return the content of a resource.

        Raises:
            MCPError: it is missing, or not for the actor, or cannot be read.
        """
        allowed = self.may(actor, uri)
        rule = "" if allowed else "missing, or not accessible to the actor"
        self._backend.environment.audit(
            AuditEntry("resource.read", uri, actor, self._backend.session(actor), allowed, rule)
        )
        try:
            if not allowed:
                raise Absent(f"there is no resource {uri[:200]}")
            return await self._read_content(actor, uri)
        except Absent as error:
            raise MCPError(NOT_FOUND, str(error), {"uri": uri[:200]}) from None
        except GoclawError as error:
            raise MCPError(types.INVALID_PARAMS, mask(str(error))) from None

    def may(self, actor: Actor, uri: str) -> bool:
        """Return whether the actor may read the URI's resource, if it exists. Checked at every use, and for every
        change."""
        if known := self._declared.get(uri):
            return known.may(actor)
        access = self._backend.access
        if not self._offers_own:
            return False
        if uri == STATUS:
            return access.authorize(actor, "command.run", "status").allowed
        scheme = uri.partition(":")[0]
        if scheme == FILE:
            return self._backend.may_read_files(actor)
        return scheme == TRANSCRIPT and access.authorize(actor, "session.read", session_of(uri)[0]).allowed

    async def there(self, actor: Actor, uri: str) -> bool:
        """Return whether the actor could read the URI's resource now or once it exists: for subscriptions."""
        if not self.may(actor, uri):
            return False
        if uri in self._declared or not uri.startswith(f"{FILE}:"):
            return True
        if not is_file(uri):
            return False
        path = path_of(uri)
        try:
            found = await (await self._backend.environment.workspace(actor)).stat(path)
        except ToolError:
            return True  # it may be created; files that the workspace hides are never reported
        try:
            return await self._reads(actor, path) == found.path
        except ToolError:
            return False

    async def complete(self, actor: Actor, name: str, begun: str) -> Sequence[str]:
        """Return completions of a template's variable."""
        if name == "session" and self._offers_own:
            return [key for key in await self._readable(actor) if key.startswith(begun)]
        if name == "path" and self._offers_own and self._backend.may_read_files(actor):
            workspace = await self._backend.environment.workspace(actor)
            return [path for path in await workspace.paths(MAX_FILES) if path.startswith(begun)]
        return ()

    async def _files(self, actor: Actor) -> list[types.Resource]:
        if not self._backend.may_read_files(actor):
            return []
        workspace = await self._backend.environment.workspace(actor)
        paths = [path for path in await workspace.paths(MAX_FILES) if not path.endswith("/")]
        return [types.Resource(name=path, uri=file_uri(path), mime_type=_mime(path)) for path in paths]

    async def _readable(self, actor: Actor) -> list[str]:
        found = await self._backend.conversations.sessions()
        may = self._backend.access.authorize
        return [info.key for info in found if may(actor, "session.read", info.key).allowed]

    async def _read_content(self, actor: Actor, uri: str) -> types.ReadResourceResult:
        if known := self._declared.get(uri):
            given = await known.read(actor)
            return _contents(uri, known.mime, given if isinstance(given, bytes) else given.encode())
        if uri == STATUS:
            return _json(uri, await self._backend.conversations.status(actor))
        if uri.startswith(f"{FILE}:"):
            return await self._file(actor, uri)
        return _json(uri, await self._transcript(*session_of(uri)))

    async def _file(self, actor: Actor, uri: str) -> types.ReadResourceResult:
        workspace, path = await self._backend.environment.workspace(actor), path_of(uri)
        found = (await workspace.stat(path)).path
        if await self._reads(actor, path) != found:  # a hook or a role means another file
            raise Absent(f"there is no resource {uri[:200]}")
        return _contents(uri, _mime(found), await workspace.read_bytes(found, MAX_FILE_BYTES))

    async def _transcript(self, session: str, after: int | None) -> dict[str, Any]:
        conversations = self._backend.conversations
        outline = await conversations.outline(session, LAST_ROWS)
        if not outline.rows:
            raise Absent(f"there is no resource {transcript_uri(session)}")
        rows = await conversations.page(session, max(0, outline.begins - 1) if after is None else after)
        following = f"{transcript_uri(session)}?after={rows[-1].row}" if rows else None
        return {"session": session, "rows": [_shown_row(row) for row in rows], "next": following}


def _shown_row(row: TranscriptRow) -> dict[str, Any]:
    shown: dict[str, Any] = {"row": row.row, "at": row.at, "role": row.role, "text": mask(row.text)}
    if row.sender:
        shown["sender"] = row.sender
    if row.name:
        shown["tool"] = row.name
    if row.input is not None:
        shown["input"] = orjson.loads(mask(orjson.dumps(row.input).decode()))
    if row.is_error:
        shown["is_error"] = True
    return shown


def _json(uri: str, value: Any) -> types.ReadResourceResult:
    return _contents(uri, JSON, orjson.dumps(value, option=orjson.OPT_INDENT_2, default=str))


def _contents(uri: str, mime: str, data: bytes) -> types.ReadResourceResult:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        blob = types.BlobResourceContents(uri=uri, mime_type=mime, blob=base64.b64encode(data).decode())
        return types.ReadResourceResult(contents=[blob])
    return types.ReadResourceResult(contents=[types.TextResourceContents(uri=uri, mime_type=mime, text=text)])


def _mime(path: str) -> str:
    return mimetypes.guess_type(path)[0] or (TEXT if "." not in path.rpartition("/")[2] else UNKNOWN)


class PromptOffer:
    """The prompts of a user; one of the configuration hides one of code with the same name."""

    def __init__(self, backend: McpBackend) -> None:
        self._backend = backend
        configured = [configured_prompt(name, given) for name, given in backend.settings.prompts.items()]
        self._prompts = {each.name: each for each in (*backend.declared.prompts, *configured)}

    async def list_items(self, actor: Actor, params: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
        """Return those that the actor may use."""
        here, cursor = page([each for each in self._prompts.values() if each.may(actor)], lambda it: it.name, params)
        return types.ListPromptsResult(prompts=[_listed_prompt(each) for each in here], next_cursor=cursor)

    async def get(self, actor: Actor, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        """Return the messages of a prompt.

        Raises:
            MCPError: the name is unknown to the actor, or the arguments are invalid.
        """
        prompt = self._find(actor, params.name)
        rule = "" if prompt else "missing, or not accessible to the actor"
        session = self._backend.session(actor)
        self._backend.environment.audit(AuditEntry("prompt.get", params.name, actor, session, prompt is not None, rule))
        if prompt is None:
            raise MCPError(types.INVALID_PARAMS, f"there is no prompt {params.name[:200]}")
        given = _checked_arguments(prompt, params.arguments or {})
        try:
            messages = await prompt.render(actor, given)
        except GoclawError as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from None
        shown = [
            types.PromptMessage(
                role="user" if each.role == "system" else each.role, content=types.TextContent(text=each.text)
            )
            for each in messages
        ]
        return types.GetPromptResult(description=prompt.description or None, messages=shown)

    def complete(self, actor: Actor, name: str, argument: str, begun: str) -> Sequence[str]:
        """Return completions of an argument."""
        prompt = self._find(actor, name)
        known = [each for each in (prompt.arguments if prompt else ()) if each.name == argument]
        return [value for value in (known[0].values if known else ()) if value.startswith(begun)]

    def _find(self, actor: Actor, name: str) -> DeclaredPrompt | None:
        prompt = self._prompts.get(name)
        return prompt if prompt and prompt.may(actor) else None


def configured_prompt(name: str, settings: PromptSettings) -> DeclaredPrompt:
    """A prompt of the configuration."""
    arguments = tuple(
        Argument(argument, given.description, given.required, given.values)
        for argument, given in settings.arguments.items()
    )

    async def render(_: Actor, given: Mapping[str, str]) -> Sequence[Message]:
        return [Message(each.role, PLACE.sub(lambda at: given.get(at[1], ""), each.text)) for each in settings.messages]

    return DeclaredPrompt(name, settings.description, render, arguments)


def _checked_arguments(prompt: DeclaredPrompt, given: Mapping[str, str]) -> Mapping[str, str]:
    known = {each.name for each in prompt.arguments}
    problems = [f"`{name[:64]}` is not one of its arguments" for name in given if name not in known]
    problems += [f"`{each.name}` is missing" for each in prompt.arguments if each.required and each.name not in given]
    problems += [
        f"`{name}` has more than {MAX_ARGUMENT:,} characters"
        for name, text in given.items()
        if len(text) > MAX_ARGUMENT
    ]
    if problems:
        raise MCPError(types.INVALID_PARAMS, f"prompt {prompt.name}: {'; '.join(problems)}")
    return given


def _listed_prompt(prompt: DeclaredPrompt) -> types.Prompt:
    arguments = [
        types.PromptArgument(name=each.name, description=each.description or None, required=each.required)
        for each in prompt.arguments
    ]
    return types.Prompt(name=prompt.name, description=prompt.description or None, arguments=arguments)
