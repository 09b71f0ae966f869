"""OpenAI's chat completions, and every server that speaks them (`config.servers`). Streaming only.

Data that a server must get back with its answer (thinking, the extra fields of a tool call) travel as `Native` with the
server's name (schema 1: `{"reasoning": text, "extra": {call id: {field: value}}}`).

An answer is assembled from the chunks of its stream. Servers differ in what they leave out: names and ids may come once
or with every piece, thinking has two field names, usage comes in a chunk of its own, in the last one, or never.
"""

import asyncio
import hashlib
import os
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import orjson

from goclaw.config.schema import ModelOptions, ProviderSettings
from goclaw.config.servers import SERVERS, KnownServer, full_address
from goclaw.core.messages import AssistantMessage, Image, Message, Native, ToolCall, ToolResult
from goclaw.errors import ConfigError, ModelError, ModelErrorKind
from goclaw.llm.base import (
    INVALID_JSON,
    MAX_TOKENS,
    CallStarted,
    Finished,
    ModelEvent,
    ModelPorts,
    Provider,
    Request,
    Stop,
    TextDelta,
    ThinkingDelta,
    Usage,
)
from goclaw.llm.data import KnownModel
from goclaw.llm.encoded import (
    RESULTS_SEEN,
    Blocks,
    EncodedMessages,
    EncodedTools,
    Pictures,
    again_without_pictures,
    alternating,
    caption,
    clean,
    reminded,
    results_answered,
    with_conversation,
)
from goclaw.llm.failures import error_in, fail, flagged, from_object, piece_of_text, reading, unframed
from goclaw.llm.finish_reasons import FAILED, stop_of
from goclaw.llm.http_streams import UNFRAMED, ServerEvent, joined, post, read_events, settle
from goclaw.llm.refused_fields import LIMIT_FIELDS, amend, no_tools
from goclaw.llm.served import ServedModel, WindowOrigin
from goclaw.llm.served_windows import ServedEndpoint
from goclaw.llm.token_counts import estimate_request, fields, reported_tokens
from goclaw.llm.tool_calls import PartialCall, read_arguments, read_name, trimmed_schema
from goclaw.net import is_loopback
from goclaw.specs import ToolSpec

LOOK_LIMIT = 3.0
"""Seconds for all questions about a model."""
DONE = b"[DONE]"
"""The data of the last frame, as the protocol has it."""
SHORT_ID = 9
"""Characters of a call id at Mistral."""
OF_MISTRAL = re.compile(r"(mis|minis|magis|codes|devs|mix|pix)tral", re.IGNORECASE)
"""Their models keep to their own order of roles wherever they are served."""

NATIVE_SCHEMA = 1
REASONING_FIELDS = ("reasoning_content", "reasoning")
TEXT_FIELDS = frozenset({"role", "content"})
"""Fields of a delta that is a piece of text and nothing else, as nearly all are."""
CALL_FIELDS = frozenset({"index", "id", "type", "function"})
"""Fields of a call that our own type holds; others (Gemini's signatures) must come back as they were."""


class OpenAIChatModel(KnownModel):
    """A `ChatModel` on one compatible server."""

    def __init__(
        self,
        spec: str,
        server: KnownServer,
        base_url: str,
        key: str | None,
        options: ModelOptions,
        ports: ModelPorts,
    ) -> None:
        super().__init__(spec, options, ports, base_url)
        self._provider, _, self._name = spec.partition(":")
        self._server = server
        self._url = f"{base_url.rstrip('/')}/chat/completions"
        self._headers = {"authorization": f"Bearer {key}"} if key else {}
        self._is_local = server.local or is_loopback(urlsplit(base_url).hostname or "")
        self._asks = self._is_local or base_url != server.base_url
        """Whether its server is asked about the model: one of the public ones has nothing to say."""
        self._endpoint = ServedEndpoint(ports.http, base_url.rstrip("/"), self._name, self._headers)
        self._looking, self._has_looked = asyncio.Lock(), False
        self._messages = EncodedMessages(self._encode, ports.load_image, lambda: self.sees_images)
        self._tools = EncodedTools(encode_tools)

    @property
    def sees_images(self) -> bool:
        return super().sees_images and not self._messages.blind

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        """Ask. Raises ModelError while iterating; see `base.ChatModel`."""
        return aclosing(flagged(again_without_pictures(self._events, request, self._messages)))

    async def count(self, request: Request) -> int:
        """Return an estimate: the protocol has no count."""
        return estimate_request(request)

    async def look(self) -> None:
        """Learn the model's window from its server, once; see `base.Looking`. A server may say nothing of it."""
        async with self._looking:
            if not self._asks or self._has_looked:
                return
            try:
                async with asyncio.timeout(LOOK_LIMIT):
                    window = await self._endpoint.window()
            except (TimeoutError, OSError, aiohttp.ClientError):
                return  # the question itself will show what is wrong
            self._has_looked = True
            self._served.learn_window(window, WindowOrigin.SERVER, self.context_window)

    async def _events(self, request: Request) -> AsyncGenerator[ModelEvent, None]:
        """Ask; a request that is refused for one of its fields is made again without it, from then on always."""
        await self.look()
        known, begun = self._served.facts, False
        while True:
            head = self._head(request, known)
            try:
                async with aclosing(
                    self._ask(request if known.tools is not False else no_tools(request), head)
                ) as events:
                    async for event in events:
                        if not begun:
                            begun = True
                            self._accepted(known)
                        yield event
                return
            except ModelError as error:
                self._refused(error)
                amended = None if begun else amend(known, error, head, request)
                if amended is None:
                    raise
                known = amended

    def _accepted(self, known: ServedModel) -> None:
        """Note what an answer shows: the server is there, and takes a request with no more fields than this."""
        news = replace(known, answered=known.answered or self._is_local)
        if news != self._served.facts:
            self._served.learn(output=news.output, left_out=news.left_out, tools=news.tools, answered=news.answered)

    def _refused(self, error: ModelError) -> None:
        """Note what an error shows; a local server that has answered before and is away now is starting anew."""
        self.hear(error)
        refused = isinstance(error.__cause__, aiohttp.ClientConnectorError)
        if error.kind is ModelErrorKind.NETWORK and refused and self._served.facts.answered:
            error.kind = ModelErrorKind.LOADING
        if error.kind is ModelErrorKind.LOADING:
            self._has_looked = False  # it may have another window then

    async def _ask(self, request: Request, head: Mapping[str, Any]) -> AsyncGenerator[ModelEvent, None]:
        body = await self._body(request, head)
        async with post(self._ports, self.spec, self._url, self._headers, body) as response:
            answer = OpenAIAnswer(self.spec, self._provider)
            with reading(self.spec):
                async with aclosing(read_events(response)) as reads:
                    async for frames in reads:
                        for event in joined(answer.read(frames)):
                            yield event
                        if answer.ended:
                            break
                finished = answer.finish()
            await settle(response)
            yield finished

    def _head(self, request: Request, known: ServedModel) -> dict[str, Any]:
        limit = min(self.output_limit(request), known.output or MAX_TOKENS)
        limit_field = next((name for name in self._limit_fields if name not in known.left_out), "")
        optional: dict[str, Any] = {limit_field: limit} if limit_field else {}
        if self._server.stream_options:
            optional["stream_options"] = {"include_usage": True}
        if self._options.thinking != "off":
            if self._server.effort == "word":
                optional["reasoning_effort"] = self._options.thinking
            elif self._server.effort == "object":
                optional["reasoning"] = {"effort": self._options.thinking}
        wanted = {name: value for name, value in optional.items() if name not in known.left_out}
        return {"model": self._name, "stream": True, **wanted}

    @property
    def _limit_fields(self) -> Sequence[str]:
        """The names of the output limit, that of the server's kind first."""
        return (self._server.limit_field, *(name for name in LIMIT_FIELDS if name != self._server.limit_field))

    async def _body(self, request: Request, head: Mapping[str, Any]) -> bytes:
        if self._is_strict or self._server.local:
            request = replace(request, messages=alternating(request.messages))
        if self._is_strict:
            messages = results_answered(reminded(request.messages, request.reminder))
            request = replace(request, messages=messages, reminder="")
        return await with_conversation(head, request, self._messages, self._tools)

    @property
    def _is_strict(self) -> bool:
        return self._server.strict_order or OF_MISTRAL.search(self._name) is not None

    def _encode(self, message: Message, pictures: Pictures) -> Blocks:
        """Encode a message; a result with pictures becomes two messages."""
        if isinstance(message, AssistantMessage):
            return (orjson.dumps(self._assistant(message)),)
        if isinstance(message, ToolResult):
            call_id = self._call_id(message.call_id)
            told = orjson.dumps({"role": "tool", "tool_call_id": call_id, "content": message.content})
            if not message.images:
                return (told,)
            # Results are text here; pictures come from a person, which some templates do not allow after a result.
            seen = self._user(caption(message), message.images, pictures)
            between = [orjson.dumps(self._assistant(RESULTS_SEEN))] if self._is_strict else []
            return (told, *between, seen)
        if not message.images:
            return (orjson.dumps({"role": "user", "content": message.text}),)
        return (self._user(message.text, message.images, pictures),)

    def _user(self, text: str, images: Sequence[Image], pictures: Pictures) -> bytes:
        content: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
        for image in images:
            url = f"data:{image.mime};base64,{pictures[image.blob]}"
            content.append({"type": "image_url", "image_url": {"url": url}})
        return orjson.dumps({"role": "user", "content": content})

    def _assistant(self, message: AssistantMessage) -> dict[str, Any]:
        native = self._replayable(message)
        extra: Mapping[str, Any] = native.get("extra") or {}
        # Null beside calls, never beside nothing: that is refused.
        told: dict[str, Any] = {"role": "assistant", "content": message.text or (None if message.calls else "")}
        if message.calls:
            told["tool_calls"] = [self._call(call, extra.get(call.id) or {}) for call in message.calls]
            if self._server.replay_reasoning and native.get("reasoning"):
                told[self._server.reasoning_field] = native["reasoning"]
        return told

    def _call(self, call: ToolCall, extra: Mapping[str, Any]) -> dict[str, Any]:
        function = {"name": clean(call.name), "arguments": orjson.dumps(call.input).decode()}
        return {"id": self._call_id(call.id), "type": "function", "function": function, **extra}

    def _call_id(self, call_id: str) -> str:
        if not self._server.short_ids or (len(call_id) == SHORT_ID and call_id.isascii() and call_id.isalnum()):
            return call_id
        return hashlib.sha256(call_id.encode()).hexdigest()[:SHORT_ID]

    def _replayable(self, message: AssistantMessage) -> Mapping[str, Any]:
        native = message.native
        if native is None or native.provider != self._provider or native.schema != NATIVE_SCHEMA:
            return {}
        return native.content if isinstance(native.content, dict) else {}


def encode_tools(tools: Sequence[ToolSpec]) -> bytes:
    """Return the JSON list of the tools."""
    return orjson.dumps(
        [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": trimmed_schema(tool.schema),
                },
            }
            for tool in tools
        ]
    )


def open_openai_chat(
    spec: str, settings: ProviderSettings, options: ModelOptions, ports: ModelPorts
) -> OpenAIChatModel:
    """Return the model for `name:model`, where `name` is a row of the table of compatible servers.

    Raises:
        ConfigError: there is no key (one is not needed with an own `base_url`).
    """
    name = spec.partition(":")[0]
    server = SERVERS[name]
    key = settings.api_key.get_secret_value() if settings.api_key else None
    if key is None and server.key_variable:
        key = os.environ.get(server.key_variable)
    if not key and server.key_variable and not settings.base_url:
        raise ConfigError(f"{spec}: no key; set {server.key_variable} or providers.{name}.api_key")
    base_url = full_address(settings.base_url or server.base_url, server)
    if not base_url:
        raise ConfigError(f"{spec}: no address; set providers.{name}.base_url (http://host:port/v1)")
    return OpenAIChatModel(spec, server, base_url, key, options, ports)


PROVIDER = Provider("openai-chat", open_openai_chat)


class OpenAIAnswer:
    """Takes the stream's JSON objects, one after the other; gives events, and the whole at the end.

    Anything in an unexpected shape raises LookupError, TypeError … (through `reading`: an answer that broke off).
    """

    def __init__(self, spec: str, provider: str) -> None:
        self._spec = spec
        self._provider = provider
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: dict[int, PartialCall] = {}
        self._last_of: dict[int, int] = {}
        """The latest call by an index that several share."""
        self._stop: str | None = None
        self._usage: Mapping[str, Any] = {}
        self.ended = False
        """The server has sent its last frame."""

    def read(self, frames: Iterable[ServerEvent]) -> Iterator[ModelEvent]:
        """Yield what the stream's next events add."""
        for frame in frames:
            if frame.data == DONE:
                self.ended = True
                return
            if frame.name == UNFRAMED:
                yield from self._whole(frame.data)
            else:
                yield from self.take(orjson.loads(frame.data))

    def _whole(self, data: bytes) -> Iterator[ModelEvent]:
        """Yield the answer that came as one object in place of a stream."""
        if self._stop or self.ended or not data.strip():
            return  # behind a whole answer it means nothing
        found = unframed(self._spec, data)
        if not found.get("choices"):
            raise from_object(self._spec, error_in(found) or found)
        yield from self.take(found)
        self.ended = True  # whole, also without a reason

    def take(self, chunk: dict[str, Any]) -> Iterator[ModelEvent]:
        """Yield what one object of the stream adds.

        Raises:
            ModelError: it is an error of the server.
        """
        if error := error_in(chunk):
            raise from_object(self._spec, error)
        # Mistral and Groq put usage beside the last choice, all others into a chunk without choices.
        usage = chunk.get("usage") or ("x_groq" in chunk and fields(chunk["x_groq"]).get("usage"))
        if usage:
            self._usage = fields(usage)
        for choice in (chunk.get("choices") or ())[:1]:
            if choice.get("error"):
                raise from_object(self._spec, choice["error"])
            # Some servers close with a whole `message` in the place of a delta; it is news where nothing came before.
            is_news = not (self._text or self._reasoning or self._calls)
            yield from self._delta(choice.get("delta") or (is_news and choice.get("message")) or {})
            self._stop = choice.get("finish_reason") or self._stop

    def finish(self) -> Finished:
        """Return the whole answer.

        Raises:
            ModelError: the stream ended before the server said why.
        """
        if self._stop is None and not self.ended:
            words = "the stream ended without a finish reason"
            raise fail(ModelErrorKind.TRUNCATED, self._spec, words, accepted=True)
        if self._stop in FAILED:
            raise fail(ModelErrorKind.SERVER, self._spec, accepted=True)
        stop = stop_of(self._stop or "")
        calls = self._whole_calls(stop)
        if calls and stop is Stop.END:
            stop = Stop.TOOLS
        message = AssistantMessage("".join(self._text), calls, self._native())
        return Finished(message, self._read_usage(), stop, self._spec)

    def _delta(self, delta: dict[str, Any]) -> Iterator[ModelEvent]:
        content = delta.get("content")
        if content and isinstance(content, str) and delta.keys() <= TEXT_FIELDS:
            self._text.append(content)
            yield TextDelta(content)
            return
        for name in REASONING_FIELDS:
            if isinstance(delta.get(name), str) and delta[name]:
                self._reasoning.append(delta[name])
                yield ThinkingDelta(delta[name])
                break  # a server that sends both names says the same twice
        if isinstance(content, list):
            yield from self._parts(content)
        elif content:
            yield self._said(content)
        if delta.get("refusal"):
            yield self._said(delta["refusal"])
        for piece in delta.get("tool_calls") or ():
            yield from self._call_delta(piece)

    def _parts(self, parts: list[dict[str, Any]]) -> Iterator[ModelEvent]:
        """Yield a list's parts, as of Mistral: `{type: thinking, thinking: [{text}]}` and `{type: text, text}`."""
        for part in parts:
            if part.get("type") == "thinking":
                thought = "".join(inner.get("text", "") for inner in part["thinking"])
                yield ThinkingDelta(thought)
            elif part.get("text"):
                yield self._said(part["text"])

    def _said(self, text: object) -> TextDelta:
        self._text.append(piece_of_text(text))
        return TextDelta(self._text[-1])

    def _call_delta(self, piece: dict[str, Any]) -> Iterator[ModelEvent]:
        function = piece.get("function") or {}
        name, given = read_name(function.get("name")), function.get("arguments")
        # Some servers send the object itself.
        written = given if isinstance(given, str) else orjson.dumps(given).decode() if given else ""
        index = self._index(piece)
        if index in self._calls and self._calls[index].is_followed_by(name, written):
            self._last_of[piece.get("index") or 0] = index = max(self._calls) + 1
        call = self._calls.setdefault(index, PartialCall())
        call.given_id = call.given_id or read_name(piece.get("id"))
        if name and not call.name:
            yield CallStarted(name)
        call.add(name, written)
        call.extra.update({key: value for key, value in piece.items() if key not in CALL_FIELDS and value is not None})

    def _index(self, piece: dict[str, Any]) -> int:
        """Return the call of a piece: its index; without one, a new id begins a new call (Gemini, Ollama)."""
        index = piece.get("index")
        last = len(self._calls) - 1
        if index is None:
            return last + 1 if piece.get("id") or last < 0 else last
        known = self._calls.get(self._last_of.get(index, index))
        # Some servers number every call 0 but give each an id and a name of its own.
        new = known is not None and piece.get("id") and known.given_id not in ("", read_name(piece["id"]))
        if new and (piece.get("function") or {}).get("name"):
            self._last_of[index] = max(self._calls) + 1
        return int(self._last_of.get(index, index))

    def _whole_calls(self, stop: Stop) -> tuple[ToolCall, ...]:
        """Return the calls in order, without one that the output limit cut."""
        calls = []
        for _, call in sorted(self._calls.items()):
            read = read_arguments(call.arguments)
            if INVALID_JSON in read and stop is Stop.LENGTH:
                continue
            calls.append(ToolCall(call.id, call.name, read))
        return tuple(calls)

    def _native(self) -> Native | None:
        """Return data that only this server understands; None if it has only tool calls."""
        extra = {call.id: call.extra for call in self._calls.values() if call.extra}
        reasoning = "".join(self._reasoning)
        if not self._calls or not (extra or reasoning):
            return None
        return Native(self._provider, NATIVE_SCHEMA, {"reasoning": reasoning, "extra": extra})

    def _read_usage(self) -> Usage:
        prompt = fields(self._usage.get("prompt_tokens_details"))
        completion = fields(self._usage.get("completion_tokens_details"))
        # DeepSeek counts cache hits beside the details.
        cached = prompt.get("cached_tokens") or self._usage.get("prompt_cache_hit_tokens") or 0
        return Usage(
            input=reported_tokens(self._usage.get("prompt_tokens")),
            output=reported_tokens(self._usage.get("completion_tokens")),
            cache_read=reported_tokens(cached),
            cache_write=reported_tokens(prompt.get("cache_write_tokens")),
            reasoning=reported_tokens(completion.get("reasoning_tokens")),
        )
