"""Read a server's answers as far as possible: one odd entry costs that entry, one odd part that part, and no more.

The library validates an answer as a whole: a single tool without a schema would take all tools of its server away, and
a result that is odd in one place would be lost after its effect. A `Salvage` stands between transport and library. It
changes only answers that the library would refuse.
"""

import json
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import Any, Self, cast

import anyio
import mcp_types as types
from mcp.client._transport import ReadStream, TransportStreams, WriteStream
from mcp.shared.message import SessionMessage
from mcp_types import methods
from pydantic import ValidationError

from goclaw.common.core.records import BoundedDict
from goclaw.tools.mcp.untrusted import shorten

ENTRIES = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}
"""Methods whose answer is a list: the field that has it."""
PARTS = {"tools/call": "content", "prompts/get": "messages", "resources/read": "contents"}
"""Methods whose answer consists of parts: the field that has them."""
OUTPUT_SCHEMA = "goclaw/outputSchema"
"""Where a tool's `_meta` keeps its output schema. The library would check results against it, without any bound, and
refuse them after their effect; `tools.mcp_schemas` checks them, and says what is off."""
UNREADABLE = {"unreadable": "goclaw"}
"""The data of the error that replaces a reply which cannot be read."""
MAX_REQUESTS = 1_000
"""Requests whose method is remembered until they are answered."""
MAX_SALVAGED = 300
"""Entries or parts of one odd answer that are read one by one, which takes some 30 µs each."""
MAX_NESTING = 100
"""Levels of a reply that are kept; the library's parser gives up at 200, and no tool has a tenth of that."""
TOO_DEEP = "[nested too deep]"
"""Stands for what is below."""
_OUTER_ID = re.compile(
    rb'\A\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,18})\b'
    rb'|"id"\s*:\s*(\d{1,18})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*\Z'
)
"""The request's number at the beginning or the end of a reply."""
MAX_SHOWN = 4_000
"""Characters of a part that cannot be read which the model gets all the same."""
_LONE_SURROGATE = re.compile(
    rb"(?<!\\)((?:\\\\)*)(\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|"
    rb"(?<!\\)((?:\\\\)*)\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
)
"""A whole pair, which stays, or half of one: what JavaScript writes of an emoji that it has cut."""

Message = SessionMessage | Exception
Result = dict[str, Any]


def whole_characters(line: bytes) -> bytes:
    """Return a JSON text with U+FFFD, the replacement character, for each half of a surrogate pair."""
    return _LONE_SURROGATE.sub(lambda found: found[0] if found[2] else (found[3] or b"") + rb"\ufffd", line)


class Salvage:
    """Reads the answers of one connection as far as they can be read."""

    def __init__(self, version: Callable[[], str]) -> None:
        """`version`: returns the protocol's version, once it is negotiated."""
        self.left_out: dict[str, dict[str, str]] = {}
        """By method, the entries that its lists lack, and why. A first page empties it."""
        self._version = version
        self._methods: BoundedDict[types.RequestId, str] = BoundedDict(MAX_REQUESTS)

    @asynccontextmanager
    async def over(self, transport: AbstractAsyncContextManager[TransportStreams]) -> AsyncIterator[TransportStreams]:
        """Open the transport, and read through this."""
        async with transport as (incoming, outgoing):
            yield _Incoming(incoming, self.read), _Outgoing(outgoing, self.note)

    def note(self, message: SessionMessage) -> None:
        """Remember which method a request of ours calls."""
        request = message.message
        if isinstance(request, types.JSONRPCRequest):
            self._methods[request.id] = request.method
            if request.method in ENTRIES and not (request.params or {}).get("cursor"):
                self.left_out[request.method] = {}

    def read(self, message: Message) -> Message:
        """Return a message of the server, with the oddities of an answer left out."""
        if isinstance(message, ValidationError):
            message = _reply_in(message) or message
        if isinstance(message, Exception):
            return message
        answer = message.message
        if isinstance(answer, types.JSONRPCResponse):
            method = self._methods.pop(answer.id, "")
            answer.result = self._readable(method, answer.result)
            if method == "tools/list":
                for tool in answer.result["tools"]:
                    if (schema := tool.pop("outputSchema", None)) is not None:
                        tool["_meta"] = {**(tool.get("_meta") or {}), OUTPUT_SCHEMA: schema}
        elif isinstance(answer, types.JSONRPCError) and answer.id is not None:
            self._methods.pop(answer.id, "")
        return message

    def _readable(self, method: str, result: Result) -> Result:
        if (method not in ENTRIES and method not in PARTS) or self._fits(method, result):
            return result
        field = ENTRIES.get(method) or PARTS[method]
        others = {name: value for name, value in result.items() if name != field}
        if not self._fits(method, {**others, field: []}):
            others = {name: value for name, value in others.items() if self._fits(method, {name: value, field: []})}
        given = result.get(field)
        if method in ENTRIES:
            entries = given if isinstance(given, list) else []
            return {**others, field: [each for each in entries[:MAX_SALVAGED] if self._keeps(method, field, each)]}
        listed = given if isinstance(given, list) else [] if given is None else [given]
        parts = [
            each if self._fits(method, {field: [each]}) else _as_text(method, each) for each in listed[:MAX_SALVAGED]
        ]
        odd: list[Any] = listed[MAX_SALVAGED:]
        odd += [{name: value} for name, value in result.items() if name != field and name not in others]
        return {**others, field: [*parts, *([_as_text(method, odd)] if odd else [])]}

    def _keeps(self, method: str, field: str, entry: Any) -> bool:
        """Return whether an entry of a list can be read; note it if not."""
        why = self._fault(method, {field: [entry]})
        if why:
            name = entry.get("name") if isinstance(entry, dict) else None
            place = len(self.left_out.setdefault(method, {})) + 1
            named = shorten(str(name or f"entry {place} without a name"), 60)
            self.left_out[method][named] = why.removeprefix(f"{field}.0.")
        return not why

    def _fits(self, method: str, result: Result) -> bool:
        return not self._fault(method, result)

    def _fault(self, method: str, result: Result) -> str:
        """Return why the library would refuse an answer; empty if it takes it."""
        try:
            methods.parse_server_result(method, self._version(), result)
        except ValidationError as error:
            return brief(error)
        except (KeyError, ValueError) as error:
            return shorten(str(error))
        return ""


class _Stream:
    """The end of a stream of the library's: closing is the inner one's."""

    def __init__(self, inner: ReadStream[Message] | WriteStream[SessionMessage]) -> None:
        self._closing = inner

    async def aclose(self) -> None:
        await self._closing.aclose()

    async def __aenter__(self) -> Self:
        await self._closing.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._closing.__aexit__(kind, error, trace)


class _Incoming(_Stream):
    """The messages of a server, each read through `read`. Implements the library's `ReadStream`."""

    def __init__(self, inner: ReadStream[Message], read: Callable[[Message], Message]) -> None:
        super().__init__(inner)
        self._inner = inner
        self._read = read

    @property
    def last_context(self) -> Any:
        """Return the sender's context of the last message, as the library asks its own streams."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> Message:
        return self._read(await self._inner.receive())

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None


class _Outgoing(_Stream):
    """Our messages, each noted before it goes. Implements the library's `WriteStream`."""

    def __init__(self, inner: WriteStream[SessionMessage], note: Callable[[SessionMessage], None]) -> None:
        super().__init__(inner)
        self._inner = inner
        self._note = note

    async def send(self, item: SessionMessage, /) -> None:
        self._note(item)
        await self._inner.send(item)


def _reply_in(error: ValidationError) -> SessionMessage | None:
    """Return the reply that could not be parsed: as a whole if its characters were at fault, else as an error of its
    call. None: it answers no request."""
    for fault in error.errors(include_url=False):
        raw = fault["input"]
        if fault["type"] == "json_invalid":
            text = raw.encode() if isinstance(raw, str) else cast("bytes", raw)
            try:
                return SessionMessage(
                    types.jsonrpc_message_adapter.validate_json(whole_characters(text), by_name=False)
                )
            except ValidationError as second:
                is_broken = any(each["type"] == "json_invalid" for each in second.errors(include_url=False))
                return _deep_reply_in(text) if is_broken else _reply_in(second)
        if isinstance(raw, dict) and isinstance(raw.get("id"), int | str) and raw.keys() & {"result", "error"}:
            said = shorten(json.dumps(raw.get("result", raw.get("error")), ensure_ascii=False))
            data = types.ErrorData(code=types.PARSE_ERROR, message=said, data=UNREADABLE)
            return SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=raw["id"], error=data))
    return None


def _deep_reply_in(text: bytes) -> SessionMessage | None:
    """Return a reply that is nested deeper than the library reads, cut off there, or as an error of its call."""
    try:
        cut = json.dumps(_cut_deep(json.loads(text), MAX_NESTING))
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(cut, by_name=False))
    except RecursionError:  # a thousand levels
        if found := _OUTER_ID.search(text):
            said = f"its answer is nested deeper than {MAX_NESTING} levels"
            data = types.ErrorData(code=types.PARSE_ERROR, message=said, data=UNREADABLE)
            return SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=int(found[1] or found[2]), error=data))
    except ValueError:
        pass  # it is no JSON, or no reply
    return None


def _cut_deep(value: Any, levels: int) -> Any:
    if not isinstance(value, dict | list):
        return value
    if not levels:
        return TOO_DEEP
    if isinstance(value, list):
        return [_cut_deep(each, levels - 1) for each in value]
    return {name: _cut_deep(each, levels - 1) for name, each in value.items()}


def _as_text(method: str, part: Any) -> Mapping[str, Any]:
    """Return a part that cannot be read as a part that says so, with its JSON."""
    given = part if isinstance(part, str) else json.dumps(part, ensure_ascii=False)
    text = given if isinstance(part, str) else f"[a part that is not as the protocol wants it] {given}"
    content = {"type": "text", "text": text[:MAX_SHOWN]}
    match method:
        case "prompts/get":
            return {"role": "user", "content": content}
        case "resources/read":
            return {"uri": "unknown:", "text": content["text"]}
    return content


def brief(error: ValidationError) -> str:
    """Return the first fault of an answer in one line: the place, and the error there."""
    first = error.errors(include_url=False, include_input=False)[0]
    return shorten(f"{'.'.join(map(str, first['loc']))}: {first['msg']}")
