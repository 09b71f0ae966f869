"""Ollama's own protocol (`/api/chat`): its OpenAI-compatible one ignores `num_ctx`, and long conversations are then
cut silently to 4,096 tokens.

The `ollama` package is imported when a model is first asked: it takes half a second. An answer is assembled from the
objects of its stream.
"""

import asyncio
import json
import logging
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import aiohttp
import orjson

from goclaw.common.config.schema import ModelOptions, ProviderSettings
from goclaw.common.core.messages import AssistantMessage, Message, Native, ToolCall, ToolResult
from goclaw.common.net import CONNECT_TIMEOUT, check_reachable, is_loopback
from goclaw.common.net.ollama import ollama_url
from goclaw.errors import ConfigError, ModelError, ModelErrorKind
from goclaw.llm.base import (
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
from goclaw.llm.data import ANSWER_SHARE, INEXACT, LEAST_OUTPUT, sees, usual_output
from goclaw.llm.encoded import Blocks, EncodedMessages, EncodedTools, Pictures, with_conversation
from goclaw.llm.failures import UNREADABLE, classify, fail, flag_errors, from_text, piece_of_text
from goclaw.llm.http_streams import promptly
from goclaw.llm.media import again_without_media, caption
from goclaw.llm.ollama_facts import OllamaEndpoint, OllamaFacts, bucket, fitting_window
from goclaw.llm.openai_chat import encode_tools, no_tools
from goclaw.llm.served import WindowOrigin
from goclaw.llm.server_words import is_page
from goclaw.llm.token_counts import estimate_request, reported_tokens
from goclaw.llm.tool_calls import arguments_of, read_id, read_name

if TYPE_CHECKING:
    from ollama import AsyncClient


log = logging.getLogger(__name__)


PROVIDER_NAME = "ollama"
NATIVE_SCHEMA = 1

STOPS = {"length": Stop.LENGTH, "load": Stop.LOADED}
"""Finish reasons of the server other than `stop`."""
LOOK_LIMIT = 3.0
"""Seconds for all questions about a model: on a slow disk Ollama reads its header for more than one."""
NO_ANSWER = (TimeoutError, OSError, aiohttp.ClientError, ValueError, ConfigError)
"""Errors of a request about a model where the server is not a working Ollama."""


class OllamaAnswer:
    """Takes the stream's JSON objects, one after the other; gives events, and the whole at the end.

    Anything in an unexpected shape raises LookupError, TypeError …: an answer that broke off.
    """

    def __init__(self, spec: str) -> None:
        self.begun = False
        """Whether anything was received."""
        self._spec = spec
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._calls: list[ToolCall] = []
        self._last: Mapping[str, Any] | None = None

    def decode(self, part: Mapping[str, Any]) -> Iterator[ModelEvent]:
        """Yield what one object of the stream adds."""
        self.begun = True
        message = part.get("message") or {}
        if thought := piece_of_text(message.get("thinking") or ""):
            self._thinking.append(thought)
            yield ThinkingDelta(thought)
        if text := piece_of_text(message.get("content") or ""):
            self._text.append(text)
            yield TextDelta(text)
        for call in message.get("tool_calls") or ():
            function = call["function"]
            # Ids are ours: older servers give none, and a step of the turn is named after it.
            name = read_name(function.get("name"))
            self._calls.append(ToolCall(read_id(None), name, arguments_of(function.get("arguments"))))
            yield CallStarted(name)
        if part.get("done"):
            self._last = part

    def finish(self) -> Finished:
        """Return the whole answer.

        Raises:
            ModelError: the stream ended before the server said that it is done.
        """
        if self._last is None:
            raise fail(ModelErrorKind.TRUNCATED, self._spec, "the stream ended without `done`", accepted=True)
        stop = STOPS.get(str(self._last.get("done_reason")), Stop.TOOLS if self._calls else Stop.END)
        native = None
        if self._calls and self._thinking:
            native = Native(PROVIDER_NAME, NATIVE_SCHEMA, {"thinking": "".join(self._thinking)})
        usage = Usage(
            reported_tokens(self._last.get("prompt_eval_count")), reported_tokens(self._last.get("eval_count"))
        )
        return Finished(AssistantMessage("".join(self._text), tuple(self._calls), native), usage, stop, self._spec)


def replayable(message: AssistantMessage) -> dict[str, Any]:
    """Return the fields that an Ollama model must get back with its own tool calls."""
    native = message.native
    if native is None or native.provider != PROVIDER_NAME or native.schema != NATIVE_SCHEMA:
        return {}
    return dict(native.content) if isinstance(native.content, dict) else {}


class OllamaModel:
    """A `ChatModel` on an Ollama server, for `ollama:name[:tag]`."""

    def __init__(self, spec: str, settings: ProviderSettings, options: ModelOptions, ports: ModelPorts) -> None:
        self.spec = spec
        self._name = spec.partition(":")[2]
        self._base_url = ollama_url(settings)
        key = settings.api_key.get_secret_value() if settings.api_key else None
        self._headers = {"authorization": f"Bearer {key}"} if key else {}
        self._options = options
        self._ports = ports
        self._served, self._origin = ports.served.open(spec, self._base_url), WindowOrigin.SERVER
        self._largest = options.context_window or settings.max_context
        self._num_ctx = options.context_window or 0
        """The window last asked for, or configured; it never shrinks, for a change costs a reload of the model."""
        self._facts: OllamaFacts | None = None
        self._looking, self._failed_looks = asyncio.Lock(), 0
        self._messages = EncodedMessages(encode, ports.load_image, lambda: self.sees_images)
        self._tools = EncodedTools(encode_tools)

    @property
    def context_window(self) -> int:
        """The largest `num_ctx` that will be asked for; known exactly after `look`."""
        return self._largest

    @property
    def sees_images(self) -> bool:
        if self._messages.blind:
            return False
        if self._options.images is not None:
            return self._options.images
        return sees(self._name) if self._facts is None else "vision" in self._facts.capabilities

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        """Ask. Raises ModelError while iterating; see `base.ChatModel`."""
        return aclosing(flag_errors(again_without_media(self._events, request, self._messages)))

    async def count(self, request: Request) -> int:
        """Return an estimate: the protocol has no count."""
        return estimate_request(request)

    async def _events(self, request: Request) -> AsyncGenerator[ModelEvent, None]:
        await self.look()
        if self._served.facts.tools is False:
            request = no_tools(request)
        async with self._client() as client:
            body = await self._body(request)
            answer = OllamaAnswer(self.spec)
            with self._translate_errors(answer):
                # Not `client.chat`: it drops what its own tool type does not know (`anyOf`, nested properties,
                # defaults) and checks and writes the whole conversation anew each time.
                parts: AsyncGenerator[dict[str, Any], None] = await client._request(  # type: ignore[assignment]  # it is one
                    dict, "POST", "/api/chat", content=body, stream=True
                )
                async with aclosing(parts), aclosing(promptly(parts, self._ports.first_byte)) as prompt:
                    async for part in prompt:
                        for event in answer.decode(part):
                            yield event
        if not self._served.facts.answered:
            self._served.learn(answered=True)
        yield answer.finish()

    async def _body(self, request: Request) -> bytes:
        prompt = request.tokens or estimate_request(request)
        limit = self._limit_for(prompt, request.max_output)
        options = {"num_ctx": self._window_for(prompt, limit), "num_predict": limit}
        head: dict[str, Any] = {"model": self._name, "stream": True, "options": options, **self._think()}
        return await with_conversation(head, request, self._messages, self._tools)

    def _limit_for(self, prompt: int, wanted: int | None) -> int:
        """Return the tokens that the answer may have.

        Prompt and answer together must not exceed the window: Ollama makes room for a longer answer at the beginning of
        the conversation, without a word. Nor does the answer exceed the share that is kept free for it.
        """
        limit = wanted or self._output_limit()
        room = self._largest - prompt - prompt // INEXACT
        return min(limit, self._largest // ANSWER_SHARE, max(LEAST_OUTPUT, room))

    def _window_for(self, prompt: int, limit: int) -> int:
        """Return the window to ask for.

        Raises:
            ModelError: the prompt does not fit (`overflow`): Ollama would cut it without a word.
        """
        if prompt + LEAST_OUTPUT > self._largest:
            raise fail(ModelErrorKind.OVERFLOW, self.spec, f"about {prompt} tokens, but the window has {self._largest}")
        self._num_ctx = max(self._num_ctx, min(bucket(prompt + limit), self._largest))
        return self._num_ctx

    def _think(self) -> dict[str, Any]:
        """Return the field that turns thinking on or off, for models that can; others refuse it."""
        if self._facts is None or "thinking" not in self._facts.capabilities:
            return {}
        effort = self._options.thinking
        if self._name.startswith("gpt-oss"):
            # It always thinks; only the effort can be set.
            return {} if effort == "off" else {"think": effort}
        return {"think": effort != "off"}

    async def look(self) -> None:
        """Learn the model's window and abilities, once; see `base.Looking`. Not knowing them is no reason to fail."""
        before = self._failed_looks
        async with self._looking:
            if self._facts is not None or self._failed_looks != before:
                return  # known; or another request has just asked in vain, and this one waited for it
            here = is_loopback(urlsplit(self._base_url).hostname or "")
            try:
                async with asyncio.timeout(LOOK_LIMIT):
                    facts = await self._asking().facts(memory=here and not self._options.context_window)
            except NO_ANSWER:
                self._failed_looks += 1
                return  # the question itself will show what is wrong
            self._facts = facts
            self._choose(facts)
            can = "tools" in facts.capabilities if facts.capabilities else None
            self._served.learn(tools=can, window=self._largest, origin=self._origin)

    async def settle(self, tokens: int, *, in_use: bool) -> None:
        """Settle the window; see `base.Loading`."""
        await self.look()
        wanted = self._num_ctx or bucket(tokens + self._output_limit())
        if in_use and not self._options.context_window:
            with suppress(*NO_ANSWER):
                async with asyncio.timeout(LOOK_LIMIT):
                    wanted = await self._asking().loaded() or wanted
        self._num_ctx = min(wanted, self._largest)

    def _output_limit(self) -> int:
        """Return the tokens that an answer may have where the request does not say."""
        return self._options.max_output or usual_output(self._name)

    def _asking(self) -> OllamaEndpoint:
        return OllamaEndpoint(self._ports.http, self._base_url, self._name, self._headers)

    def _choose(self, facts: OllamaFacts) -> None:
        """Settle the window: the configured one, else the largest that fits into the memory, where that is known."""
        self._largest = min(self._largest, facts.longest or self._largest)
        if self._options.context_window:
            self._num_ctx = self._largest
            return
        footprint, free = facts.footprint, self._ports.free_memory()
        if footprint is None or free is None:
            return
        self._origin = WindowOrigin.MEMORY
        self._num_ctx = self._largest = fitting_window(footprint, free, self._largest)
        sizes = (self._num_ctx, footprint.token, footprint.weights >> 20, free >> 20)
        told = "%s: a window of %d tokens, %d bytes of memory each; the model takes %d MB, %d MB are free"
        log.info(told, self.spec, *sizes)

    @asynccontextmanager
    async def _client(self) -> AsyncIterator["AsyncClient"]:
        """Open the library's client; leaving the block closes its connections."""
        check_reachable(urlsplit(self._base_url).hostname or "")
        await asyncio.to_thread(library_errors)
        from httpx import Timeout
        from ollama import AsyncClient

        timeout = Timeout(None, connect=CONNECT_TIMEOUT)  # silence is bounded by `promptly`
        # A redirect would send the key and the conversation to another server.
        async with AsyncClient(
            self._base_url, follow_redirects=False, timeout=timeout, headers=self._headers, verify=certificates()
        ) as client:
            yield client

    @contextmanager
    def _translate_errors(self, answer: OllamaAnswer) -> Iterator[None]:
        """Turn errors of the library and its HTTP client into `ModelError`."""
        from httpx import HTTPError, TimeoutException
        from ollama import ResponseError

        try:
            yield
        except ResponseError as error:
            raise self._refusal(error.error, error.status_code) from error
        except (TimeoutException, TimeoutError) as error:
            raise fail(ModelErrorKind.TIMEOUT, self.spec) from error
        except (HTTPError, OSError) as error:
            if answer.begun:
                raise fail(ModelErrorKind.TRUNCATED, self.spec, "connection lost", accepted=True) from error
            sentence = (
                f"Ollama does not answer at {self._base_url}; start it (`ollama serve`) or set "
                "providers.ollama.base_url"
            )
            kind = ModelErrorKind.LOADING if self._served.facts.answered else ModelErrorKind.NETWORK
            raise fail(kind, self.spec, sentence=sentence) from error
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            if isinstance(error, json.JSONDecodeError) and not answer.begun and is_page(error.doc):
                raise from_text(self.spec, error.doc) from error
            raise fail(ModelErrorKind.TRUNCATED, self.spec, UNREADABLE, accepted=True) from error

    def _refusal(self, text: str, status: int) -> ModelError:
        found = classify(self.spec, str(text), str(text), status if status > 0 else None, None)
        if found.kind is ModelErrorKind.NOT_FOUND and status >= 400:
            sentence = f"Ollama has no such model; try `ollama pull {self._name}`"
            return fail(ModelErrorKind.NOT_FOUND, self.spec, sentence=sentence)
        return found


def encode(message: Message, pictures: Pictures) -> Blocks:
    """Encode a message; a result with pictures becomes two messages."""
    if isinstance(message, ToolResult):
        result = orjson.dumps({"role": "tool", "content": message.content, "tool_name": message.name})
        if not message.images:
            return (result,)
        looked_at = [pictures[image.blob] for image in message.images]
        return (result, orjson.dumps({"role": "user", "content": caption(message), "images": looked_at}))
    if not isinstance(message, AssistantMessage):
        told: dict[str, Any] = {"role": "user", "content": message.text}
        if message.images:
            told["images"] = [pictures[image.blob] for image in message.images]
        return (orjson.dumps(told),)
    told = {"role": "assistant", "content": message.text}
    if message.calls:
        told["tool_calls"] = [{"function": {"name": call.name, "arguments": call.input}} for call in message.calls]
        told |= replayable(message)
    return (orjson.dumps(told),)


@cache
def library_errors() -> tuple[type[Exception], ...]:
    """Return the errors of the library and its HTTP client. The first call imports both: slow."""
    from httpx import HTTPError
    from ollama import RequestError, ResponseError

    certificates()
    return (HTTPError, RequestError, ResponseError)


@cache
def certificates() -> ssl.SSLContext:
    """Return the system's certificates, read once: the library would reread its own for every client."""
    return ssl.create_default_context()


PROVIDER = Provider(PROVIDER_NAME, OllamaModel)
