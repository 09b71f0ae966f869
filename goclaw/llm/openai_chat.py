"""OpenAI's chat completions, and every server that speaks them (`config.servers`). Streaming only.

Data that a server must get back with its answer (thinking, the extra fields of a tool call) travel as `Native` with the
server's name (schema 1: `{"reasoning": text, "extra": {call id: {field: value}}}`). `openai_answer` reads the stream.
A server may refuse the output limit, `stream_options`, thinking or tools; the request is repeated without that field.
"""

import asyncio
import hashlib
import os
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import orjson

from goclaw.common.config.schema import ModelOptions, ProviderSettings
from goclaw.common.config.servers import SERVERS, KnownServer, full_address
from goclaw.common.core.messages import AssistantMessage, Image, Message, ToolCall, ToolResult
from goclaw.common.net import is_loopback
from goclaw.common.specs import ToolSpec
from goclaw.errors import ConfigError, ModelError, ModelErrorKind
from goclaw.llm.base import MAX_TOKENS, ModelEvent, ModelPorts, Provider, Request
from goclaw.llm.data import KnownModel
from goclaw.llm.encoded import (
    RESULTS_SEEN,
    Blocks,
    EncodedMessages,
    EncodedTools,
    Pictures,
    add_reminder,
    alternating,
    answer_results,
    clean,
    with_conversation,
)
from goclaw.llm.failures import flag_errors, reading
from goclaw.llm.http_streams import drain, join_texts, post, read_events
from goclaw.llm.media import again_without_media, caption
from goclaw.llm.openai_answer import NATIVE_SCHEMA, OpenAIAnswer
from goclaw.llm.served import ServedModel, WindowOrigin
from goclaw.llm.served_windows import ServedEndpoint
from goclaw.llm.server_words import output_limit_in, output_limit_refused, refused_field
from goclaw.llm.tool_calls import trimmed_schema

LOOK_LIMIT = 3.0
"""Seconds for all questions about a model."""
SHORT_ID = 9
"""Characters of a call id at Mistral."""
OF_MISTRAL = re.compile(r"(mis|minis|magis|codes|devs|mix|pix)tral", re.IGNORECASE)
"""Their models keep to their own order of roles wherever they are served."""

LIMIT_FIELDS = ("max_tokens", "max_completion_tokens")
NEEDED_FIELDS = frozenset({"model", "stream"})
FIELD_REFUSALS = frozenset({ModelErrorKind.REJECTED, ModelErrorKind.NOT_FOUND, ModelErrorKind.SERVER})
"""Kinds of errors with which servers refuse a field: 400 and 422, 404 (OpenRouter: tools), 500 (llama.cpp: tools)."""
TOOLS_REFUSED = re.compile(
    r"not support.{0,40}\btool|\btools?\b.{0,60}(not supported|unsupported|not enabled|requires?\b)|support tool use",
    re.IGNORECASE,
)
"""The model, or its server as it was started, takes no tools."""


class OpenAIChatModel(KnownModel):
    """A `ChatModel` on one compatible server."""

    def __init__(
        self, spec: str, server: KnownServer, base_url: str, key: str | None, options: ModelOptions, ports: ModelPorts
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
        self._messages = EncodedMessages(
            self._encode, ports.load_image, lambda: self.sees_images, reads=options.documents
        )
        self._tools = EncodedTools(encode_tools)

    @property
    def sees_images(self) -> bool:
        return super().sees_images and not self._messages.blind

    def takes(self, image: Image) -> bool:
        return self._messages.takes(image)

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        """Ask. Raises ModelError while iterating; see `base.ChatModel`."""
        return aclosing(flag_errors(again_without_media(self._events, request, self._messages)))

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
                asked = request if known.tools is not False else no_tools(request)
                async with aclosing(self._ask(asked, head)) as events:
                    async for event in events:
                        if not begun:
                            begun = True
                            self._record_success(known)
                        yield event
                return
            except ModelError as error:
                self._record_error(error)
                amended = None if begun else amend(known, error, head, request)
                if amended is None:
                    raise
                known = amended

    def _record_success(self, known: ServedModel) -> None:
        """Note the facts that an answer shows: the server works, and takes a request with no more fields than this."""
        news = replace(known, answered=known.answered or self._is_local)
        if news != self._served.facts:
            self._served.learn(output=news.output, left_out=news.left_out, tools=news.tools, answered=news.answered)

    def _record_error(self, error: ModelError) -> None:
        """Note the facts that an error shows; a local server that has answered before and is away now is restarting."""
        if error.kind is ModelErrorKind.OVERFLOW:
            self._served.learn_window(error.window, WindowOrigin.REFUSAL, self.context_window)
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
                        for event in join_texts(answer.decode_all(frames)):
                            yield event
                        if answer.ended:
                            break
                finished = answer.finish()
            await drain(response)
            yield finished

    def _head(self, request: Request, known: ServedModel) -> dict[str, Any]:
        limit = min(self.output_limit(request), known.output or MAX_TOKENS)
        names = (self._server.limit_field, *LIMIT_FIELDS)  # that of the server's kind first
        limit_field = next((name for name in names if name not in known.left_out), "")
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

    async def _body(self, request: Request, head: Mapping[str, Any]) -> bytes:
        if self._is_strict or self._server.local:
            request = replace(request, messages=alternating(request.messages))
        if self._is_strict:
            messages = answer_results(add_reminder(request.messages, request.reminder))
            request = replace(request, messages=messages, reminder="")
        return await with_conversation(head, request, self._messages, self._tools)

    @property
    def _is_strict(self) -> bool:
        return self._server.strict or OF_MISTRAL.search(self._name) is not None

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
            if image.pages:
                content.append({"type": "file", "file": {"filename": "document.pdf", "file_data": url}})
            else:
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
        if not self._server.strict or (len(call_id) == SHORT_ID and call_id.isascii() and call_id.isalnum()):
            return call_id
        return hashlib.sha256(call_id.encode()).hexdigest()[:SHORT_ID]

    def _replayable(self, message: AssistantMessage) -> Mapping[str, Any]:
        native = message.native
        if native is None or native.provider != self._provider or native.schema != NATIVE_SCHEMA:
            return {}
        return native.content if isinstance(native.content, dict) else {}


def encode_tools(tools: Sequence[ToolSpec]) -> bytes:
    """Return the JSON list of the tools."""
    functions = (
        {"name": tool.name, "description": tool.description, "parameters": trimmed_schema(tool.schema)}
        for tool in tools
    )
    return orjson.dumps([{"type": "function", "function": function} for function in functions])


def no_tools(request: Request) -> Request:
    """Return the request for a model that cannot call tools."""
    return replace(request, tools=(), deferred=()) if request.tools or request.deferred else request


def amend(known: ServedModel, error: ModelError, head: Mapping[str, Any], request: Request) -> ServedModel | None:
    """Return the facts to try instead after a server refused a request; None: its refusal says nothing of the kind.

    Args:
        known: the facts that the request was made with.
        error: the refusal.
        head: the fields that were sent with the conversation.
        request: the conversation.
    """
    if error.kind not in FIELD_REFUSALS or error.status is None:
        return None
    if request.tools and known.tools is not False and TOOLS_REFUSED.search(error.body):
        return replace(known, tools=False)
    if error.kind is not ModelErrorKind.REJECTED:
        return None
    limit_field = next((name for name in LIMIT_FIELDS if name in head), "")
    if limit_field and output_limit_refused(error.body):
        if known.output:
            return None
        most = output_limit_in(error.body, head[limit_field])
        return replace(known, output=most) if most else replace(known, left_out=(*known.left_out, limit_field))
    sent = [name for name in head if name not in NEEDED_FIELDS]
    field_refused = refused_field(error.body, sent)
    return replace(known, left_out=(*known.left_out, field_refused)) if field_refused else None


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
