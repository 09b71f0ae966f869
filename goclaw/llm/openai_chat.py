"""OpenAI's chat completions, and every server that speaks them (`config.servers`). Streaming only.

Data that a server must get back with its answer (thinking, the extra fields of a tool call) travel as `Native` with the
server's name (schema 1: `{"reasoning": text, "extra": {call id: {field: value}}}`).
"""

import hashlib
import os
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import replace
from typing import Any

import orjson

from goclaw.config.schema import ModelOptions, ProviderSettings
from goclaw.config.servers import SERVERS, KnownServer
from goclaw.errors import ConfigError
from goclaw.llm.base import ModelEvent, ModelPorts, Provider, Request
from goclaw.llm.data import KnownModel
from goclaw.llm.encoded import (
    RESULTS_SEEN,
    Blocks,
    EncodedMessages,
    EncodedTools,
    Pictures,
    caption,
    clean,
    reminded,
    results_answered,
    with_conversation,
)
from goclaw.llm.estimate import estimate_request
from goclaw.llm.failures import flagged, reading
from goclaw.llm.openai_answer import NATIVE_SCHEMA, OpenAIAnswer
from goclaw.llm.pictures import again_without_pictures
from goclaw.llm.post import post, settle
from goclaw.llm.sse import read_events
from goclaw.llm.tool_schemas import trimmed
from goclaw.messages import AssistantMessage, Image, Message, ToolCall, ToolResult
from goclaw.specs import ToolSpec

DONE = b"[DONE]"
"""The data of the last frame, as the protocol has it."""
SHORT_ID = 9
"""Characters of a call id at Mistral."""
OF_MISTRAL = re.compile(r"(mis|minis|magis|codes|devs|mix|pix)tral", re.IGNORECASE)
"""Their models keep to their own order of roles wherever they are served."""


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
        super().__init__(spec, options, ports)
        self._provider, _, self._name = spec.partition(":")
        self._server = server
        self._url = f"{base_url.rstrip('/')}/chat/completions"
        self._key = key
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

    async def _events(self, request: Request) -> AsyncGenerator[ModelEvent, None]:
        body = await self._body(request)
        headers = {"authorization": f"Bearer {self._key}"} if self._key else {}
        async with post(self._ports.http, self._ports.clock, self.spec, self._url, headers, body) as response:
            answer = OpenAIAnswer(self.spec, self._provider)
            with reading(self.spec):
                async with aclosing(read_events(response.content)) as frames:
                    async for frame in frames:
                        if frame.data == DONE:
                            break
                        for event in answer.take(orjson.loads(frame.data)):
                            yield event
            finished = answer.finish()
            await settle(response)
            yield finished

    async def _body(self, request: Request) -> bytes:
        limit = request.max_output or self.facts.max_output
        head: dict[str, Any] = {"model": self._name, self._server.limit_field: limit, "stream": True}
        if self._server.stream_options:
            head["stream_options"] = {"include_usage": True}
        if self._options.thinking != "off":
            if self._server.effort == "word":
                head["reasoning_effort"] = self._options.thinking
            elif self._server.effort == "object":
                head["reasoning"] = {"effort": self._options.thinking}
        if self._is_strict:
            request = reminded(request)
            request = replace(request, messages=results_answered(request.messages))
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
                "function": {"name": tool.name, "description": tool.description, "parameters": trimmed(tool.schema)},
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
    return OpenAIChatModel(spec, server, settings.base_url or server.base_url, key, options, ports)


PROVIDER = Provider("openai-chat", open_openai_chat)
