"""Anthropic's Messages API, version 2023-06-01, as documented in November 2026. Streaming only.

Thinking is signed and must come back as it was; it travels as `Native` (schema 1: the answer's content blocks).
"""

import os
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from functools import partial
from typing import Any

import orjson

from goclaw.common.config.schema import ModelOptions, ProviderSettings
from goclaw.common.core.messages import AssistantMessage, Image, Message, ToolResult, UserMessage
from goclaw.common.specs import TOOL_CALL, TOOL_SEARCH
from goclaw.errors import ConfigError, ModelError, ModelErrorKind
from goclaw.llm.anthropic_blocks import (
    SEARCH_TOOL,
    STALE_SEARCH,
    WITHOUT_SEARCH,
    AnthropicAnswer,
    encode_tools,
    has_search,
    joined_tools,
    search_refusal,
)
from goclaw.llm.base import ModelEvent, ModelPorts, Provider, Request
from goclaw.llm.data import KnownModel
from goclaw.llm.encoded import (
    Blocks,
    EncodedMessages,
    EncodedTools,
    Pictures,
    clean,
    results_first,
    splice,
)
from goclaw.llm.failures import connecting, flag_errors, reading
from goclaw.llm.http_streams import drain, join_texts, post, read_events
from goclaw.llm.media import again_without_media
from goclaw.llm.token_counts import estimate_request

BASE_URL = "https://api.anthropic.com"
VERSION = "2023-06-01"
NATIVE_SCHEMA = 1
MARK = b',"cache_control":{"type":"ephemeral"}}'
"""Ends a block that closes a cached prefix."""
MARKED_TURNS = 2
"""Cache marks in the conversation: its end, and where it ended last time. Tools and system text take the other two of
the four that the API allows."""
BUDGET_ONLY = re.compile(r"claude-(3|(opus|sonnet|haiku)-4-([015]|20))")
"""Models that think within a budget; all later ones think adaptively and refuse a budget."""
BUDGETS: Mapping[str, int] = {"low": 2_048, "medium": 8_192, "high": 12_288}
"""Tokens of thinking; they count towards the output limit, which is raised by as much (with the
limits of `data` this stays below the 32,000 of Opus 4)."""
STALE_THINKING = re.compile(r"thinking|signature", re.IGNORECASE)
"""In a rejection: thinking was sent back that no longer fits the conversation before it (it was compacted, say)."""
OPENING = b'{"role":"user","content":[{"type":"text","text":"(The conversation goes on.)"}]}'
"""First message of a conversation that does not begin with a person: the API requires one, compaction may remove it."""


class AnthropicModel(KnownModel):
    """A `ChatModel` on the Messages API, for `anthropic:name`.

    Raises:
        ConfigError: there is no key, as of `reach_api`.
    """

    def __init__(self, spec: str, settings: ProviderSettings, options: ModelOptions, ports: ModelPorts) -> None:
        super().__init__(spec, options, ports)
        self._name = spec.partition(":")[2]
        self._base_url, self._headers = reach_api(spec, settings)
        self._defers = settings.defer_tools and not WITHOUT_SEARCH.search(self._name)
        """Whether it is left to the API to find the tools of the index."""
        self._messages = EncodedMessages(
            partial(encode, searches=self._defers), ports.load_image, lambda: self.sees_images, reads=options.documents
        )
        self._tools = EncodedTools(encode_tools)
        self._deferred = EncodedTools(partial(encode_tools, defer_loading=True))

    @property
    def sees_images(self) -> bool:
        return super().sees_images and not self._messages.blind

    def takes(self, image: Image) -> bool:
        return self._messages.takes(image)

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        """Ask. Raises ModelError while iterating; see `base.ChatModel`."""
        return aclosing(flag_errors(again_without_media(self._events, request, self._messages)))

    async def count(self, request: Request) -> int:
        """Return Anthropic's own count; an estimate when it cannot be had."""
        body = await self._body(request, {"model": self._name})
        try:
            url = f"{self._base_url}/messages/count_tokens"
            async with post(self._ports, self.spec, url, self._headers, body) as response:
                with connecting(self.spec), reading(self.spec):
                    return int(orjson.loads(await response.read())["input_tokens"])
        except (ModelError, KeyError, TypeError):
            return estimate_request(request)

    async def _events(self, request: Request) -> AsyncGenerator[ModelEvent, None]:
        try:
            async with aclosing(self._ask(request)) as events:
                async for event in events:
                    yield event
        except ModelError as error:
            if self._defers and (refused := search_refusal(error)):
                raise refused from error
            is_stale = STALE_THINKING.search(str(error)) or STALE_SEARCH.search(str(error))
            if error.kind is not ModelErrorKind.REJECTED or not is_stale or not self._forget_native(request):
                raise
        else:
            return
        async with aclosing(self._ask(request)) as events:
            async for event in events:
                yield event

    async def _ask(self, request: Request) -> AsyncGenerator[ModelEvent, None]:
        limit = request.max_output or self.facts.max_output
        thinking = think(self._name, self._options.thinking, limit, request.messages, searches=self._defers)
        head = {"model": self._name, "max_tokens": limit, "stream": True, **thinking}
        body = await self._body(request, head)
        async with post(self._ports, self.spec, f"{self._base_url}/messages", self._headers, body) as response:
            answer = AnthropicAnswer(self.spec)
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

    async def _body(self, request: Request, head: Mapping[str, Any]) -> bytes:
        messages = results_first(request.messages)
        parts: dict[str, bytes | Sequence[bytes]] = {}
        if request.system.strip():
            block = orjson.dumps({"type": "text", "text": request.system})
            parts["system"] = [mark(block) if request.cache.after_system else block]
        shown, deferred = request.tools, request.deferred if self._defers else ()
        if deferred:
            shown = [tool for tool in shown if tool.name not in (TOOL_SEARCH, TOOL_CALL)]  # with which others search
            search = mark(SEARCH_TOOL) if request.cache.after_tools else SEARCH_TOOL
            parts["tools"] = joined_tools(self._tools.text(shown), self._deferred.text(deferred), search)
        elif shown:
            tools = self._tools.text(shown)
            # `}]` ends the last tool and the list.
            parts["tools"] = mark(tools[:-1]) + b"]" if request.cache.after_tools else tools
        blocks = await self._messages.blocks(messages, shown)
        parts["messages"] = join(messages, blocks, marked=bool(request.cache), reminder=request.reminder)
        return splice(head, **parts)

    def _forget_native(self, request: Request) -> bool:
        """Send answers without thinking and searches from now on; return whether that changes anything."""
        stale = [
            message
            for message in request.messages
            if isinstance(message, AssistantMessage) and replayable(message, searches=self._defers)
        ]
        for message in stale:
            self._messages.store(message, plain(message))
        return bool(stale)


def encode(message: Message, pictures: Pictures, *, searches: bool = False) -> Blocks:
    """Return the content blocks of one message. `searches`: to a model that finds tools by itself."""
    if isinstance(message, AssistantMessage):
        native = replayable(message, searches=searches)
        return tuple(map(orjson.dumps, native)) if native else plain(message)
    if isinstance(message, ToolResult):
        block: dict[str, Any] = {"type": "tool_result", "tool_use_id": clean(message.call_id)}
        if message.content:
            block["content"] = message.content
        if message.images:
            said = [{"type": "text", "text": message.content}] if message.content.strip() else []
            block["content"] = [*said, *_pictures(message.images, pictures)]
        if message.is_error:
            block["is_error"] = True
        return (orjson.dumps(block),)
    blocks = list(map(orjson.dumps, _pictures(message.images, pictures)))
    # Blocks of nothing but space are rejected.
    text = message.text if message.text.strip() else "" if blocks else "(empty message)"
    return (*blocks, orjson.dumps({"type": "text", "text": text})) if text else tuple(blocks)


def _pictures(images: Sequence[Image], pictures: Pictures) -> list[dict[str, Any]]:
    return [
        {
            "type": "document" if image.pages else "image",
            "source": {"type": "base64", "media_type": image.mime, "data": pictures[image.blob]},
        }
        for image in images
    ]


def plain(message: AssistantMessage) -> Blocks:
    """Return the content blocks of an answer without what only its own model could have said."""
    blocks: list[dict[str, Any]] = [{"type": "text", "text": message.text}] if message.text.strip() else []
    for call in message.calls:
        blocks.append({"type": "tool_use", "id": clean(call.id), "name": clean(call.name), "input": call.input})
    return tuple(map(orjson.dumps, blocks))


def replayable(message: AssistantMessage, *, searches: bool) -> list[Any]:
    """Return the answer's own blocks, if they are Anthropic's, of a shape that we know, and still make the same calls.

    Those of an answer that searched for tools are nothing for a request without that search.
    """
    native = message.native
    if native is None or native.provider != "anthropic" or native.schema != NATIVE_SCHEMA:
        return []
    blocks = native.content if isinstance(native.content, list) else []
    made = [block.get("id") for block in blocks if block.get("type") == "tool_use"]
    if made != [call.id for call in message.calls] or (has_search(blocks) and not searches):
        return []
    return blocks


def join(messages: Sequence[Message], blocks: Sequence[Blocks], *, marked: bool, reminder: str = "") -> list[bytes]:
    """Return the turns as JSON: what follows each other from one side becomes one turn, tool results first.

    The reminder is the last block, after the last mark: the next request begins like this one without it.
    """
    turns: list[tuple[bool, list[bytes]]] = []
    for message, encoded in zip(messages, blocks, strict=True):
        from_model = isinstance(message, AssistantMessage)
        if not encoded:
            continue
        if turns and turns[-1][0] is from_model:
            turns[-1][1].extend(encoded)
        else:
            turns.append((from_model, list(encoded)))
    if marked:
        for content in [content for from_model, content in turns if not from_model][-MARKED_TURNS:]:
            content[-1] = mark(content[-1])
    if reminder:
        if not turns or turns[-1][0]:
            turns.append((False, []))
        turns[-1][1].append(orjson.dumps({"type": "text", "text": reminder}))
    texts = [
        b'{"role":"%s","content":[%s]}' % (b"assistant" if from_model else b"user", b",".join(content))
        for from_model, content in turns
    ]
    return texts if turns and not turns[0][0] else [OPENING, *texts]


def mark(block: bytes) -> bytes:
    """Return the block with a cache mark; given and returned as JSON."""
    return block[:-1] + MARK


def think(name: str, effort: str, limit: int, messages: Sequence[Message], *, searches: bool = False) -> dict[str, Any]:
    """Return the fields that ask for thinking; none for `off`: the model then does as it does by default."""
    if effort not in BUDGETS:
        return {}
    if not BUDGET_ONLY.match(name):
        return {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": effort}}
    since = max((number for number, message in enumerate(messages) if isinstance(message, UserMessage)), default=0)
    answers = [message for message in messages[since:] if isinstance(message, AssistantMessage)]
    if not all(replayable(message, searches=searches) for message in answers):
        # With a budget the API requires every answer of the running turn to begin with thinking.
        return {}
    budget = BUDGETS[effort]
    return {"thinking": {"type": "enabled", "budget_tokens": budget}, "max_tokens": limit + budget}


def reach_api(spec: str, settings: ProviderSettings) -> tuple[str, dict[str, str]]:
    """Return the address of the API, with its version, and the headers of each request. `spec`: for messages.

    Raises:
        ConfigError: there is no key (one is not needed with an own `base_url`).
    """
    key = settings.api_key.get_secret_value() if settings.api_key else os.environ.get("ANTHROPIC_API_KEY")
    if not key and not settings.base_url:
        raise ConfigError(f"{spec}: no key; set ANTHROPIC_API_KEY or providers.anthropic.api_key")
    base_url = (settings.base_url or BASE_URL).rstrip("/").removesuffix("/v1")
    return f"{base_url}/v1", {"anthropic-version": VERSION, **({"x-api-key": key} if key else {})}


PROVIDER = Provider("anthropic", AnthropicModel, frozenset({"after_system", "after_tools"}))
