"""The seam between GoClaw and any language model.

Below it: one wire per provider. Above it: `chain` (retries, fallback), then the agent, which sees events and typed
errors only.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import astuple, dataclass, field
from enum import StrEnum
from typing import Literal, Protocol, runtime_checkable

import aiohttp

from goclaw.common.config.schema import ModelOptions, ProviderSettings
from goclaw.common.core.clock import Clock
from goclaw.common.core.messages import AssistantMessage, Image, Message
from goclaw.common.core.records import record
from goclaw.common.health.resources import free_memory
from goclaw.common.specs import ToolSpec
from goclaw.llm.served import ServedModels
from goclaw.llm.text_calls import UnreadCall

DEFAULT_MAX_OUTPUT = 8_192
"""Output limit in tokens where neither the configuration nor the model data say one."""

FIRST_BYTE = 300.0
"""Seconds until an answer begins where nothing else is configured: a large model is loaded, or thinks unseen."""

LOCAL_WAIT = 120.0
"""Seconds that a server which loads its model is waited for where nothing else is configured."""

SMALL_WINDOW = 16_384
"""Tokens up to which a context window is small (docs/models.md): tools in short form, answers of a quarter of it, no
summary that a person waits for."""

PDF = "application/pdf"
MAX_BYTES, MAX_PAGES = 6 << 20, 100
"""Bytes and pages of all documents of a request. The large providers take as many pages: Anthropic requests of 32 MB
and 100 pages, 600 in a window of a million tokens (platform.claude.com, "PDF support"); OpenAI 50 MB, before that 32 MB
and 100 pages (developers.openai.com, "File inputs"); Gemini requests of 20 MB and 1,000 pages (ai.google.dev, "Document
understanding"). The bytes are fewer: each request joins them on the event loop, 6 MB in 35 ms (pydantic-ai: 75)."""

MAX_TOKENS = 10**9
"""That a server may count of one answer; no window is a thousandth of that."""

INVALID_JSON = "__invalid_json__"
"""The one key of `ToolCall.input` when a model wrote arguments that are no JSON object; its value is what it wrote.

Never a valid input: the dispatcher answers the model with an error, and the call can still be replayed.
"""


def is_small(context_window: int) -> bool:
    """Whether a window of so many tokens is small; an unknown one (0) is not."""
    return 0 < context_window <= SMALL_WINDOW


CachePoint = Literal["after_system", "after_tools"]


@record
class CachePoints:
    """Positions up to which the prompt stays the same, for a provider's prompt cache.

    With any of them the conversation is marked, too; without any nothing is.
    """

    after_system: bool = True
    after_tools: bool = True

    def __bool__(self) -> bool:
        return self.after_system or self.after_tools


BOTH, UNCACHED = CachePoints(), CachePoints(after_system=False, after_tools=False)


@dataclass(eq=False, slots=True, weakref_slot=True)
class Beginning:
    """The messages that all later requests of a conversation begin with: only ever appended to."""

    messages: list[Message] = field(default_factory=list)


class Continued(list[Message]):
    """The messages of a request that begins as later ones of its conversation will; any change of it is a plain list.

    Args:
        beginning: their beginning, as it is now.
        following: the messages after it.
    """

    __slots__ = ("beginning", "begun")

    def __init__(self, beginning: Beginning, following: Sequence[Message]) -> None:
        super().__init__(beginning.messages)
        self.beginning = beginning
        self.begun = len(self)
        """Messages that are of the beginning."""
        self += following


@record
class Request:
    """One request to a model."""

    system: str
    messages: Sequence[Message]
    tools: Sequence[ToolSpec] = ()
    max_output: int | None = None
    """Tokens; None: the model's configured limit."""
    cache: CachePoints = BOTH
    """Marks of the stable prefix, for providers whose prompt cache needs marks."""
    tokens: int | None = None
    """Length of the prompt, if the caller knows it from the provider's earlier counts; None: estimate it."""
    reminder: str = ""
    """Text of the runtime, in its marks (`sessions.reminding`), placed behind everything else; no part of the
    conversation, so a wire puts it behind what it marks for the cache. Empty: no reminder.
    """
    deferred: Sequence[ToolSpec] = ()
    """More usable tools besides `tools`, for a provider that finds them itself; other providers ignore them."""


@record
class Usage:
    """Tokens as the provider counted them. `input` includes tokens read from and written to its cache."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(*(mine + its for mine, its in zip(astuple(self), astuple(other), strict=True)))


class Stop(StrEnum):
    """Why the model stopped."""

    END = "end"
    TOOLS = "tools"
    LENGTH = "length"
    REFUSAL = "refusal"
    """The model declined."""
    FILTERED = "filtered"
    """The provider's filter ended the answer."""
    MALFORMED = "malformed"
    """The model wrote a call that its server cannot read."""
    WINDOW = "window"
    """Prompt and answer have filled the window."""
    LOADED = "loaded"
    """The server has only loaded the model."""
    REPETITION = "repetition"
    """It was ended, because it repeated itself (`llm.repetition`)."""


DECLINED = frozenset({Stop.REFUSAL, Stop.FILTERED})


class Emptiness(StrEnum):
    """Why an answer has neither a text nor a call."""

    REFUSED = "refused"
    FILTERED = "filtered"
    MALFORMED = "malformed"
    THOUGHT = "thought"
    """The model only thought."""
    LOADING = "loading"
    WINDOW = "window"
    EMPTY = "empty"


@record
class TextDelta:
    text: str


@record
class ThinkingDelta:
    text: str


@record
class CallStarted:
    """The model began to write a tool call; its arguments are complete only in `Finished`."""

    name: str


@record
class Restarted:
    """Only from `chain`: the text streamed so far is void, the answer starts over."""

    reason: str


@record
class ModelLoading:
    """Only from `chain`: the model's server is loading it, and is waited for."""

    spec: str


@record
class Finished:
    """The whole answer; exactly once, last."""

    message: AssistantMessage
    usage: Usage
    stop: Stop
    spec: str
    """The model that answered, `provider:name`."""
    empty: Emptiness | None = None
    """Only from `chain`: why there is no answer in it."""
    wasted: Usage = Usage()
    """Only from `chain`: what an earlier answer to the same request took that was empty."""
    unread: UnreadCall | None = None
    """A call in its text that cannot be read, as a turn judges it (`turns.written_calls`)."""


ModelEvent = TextDelta | ThinkingDelta | CallStarted | Restarted | ModelLoading | Finished


@dataclass(eq=False, slots=True)
class AskedModel:
    """One request to one model, as a `ModelWatch` sees it."""

    spec: str
    number: int
    """Which request for the same answer it is; from the second on it is a retry."""
    answer: Finished | None = None
    failure: str = ""
    """The kind of the error; empty: it was answered, or its caller ended it."""


class ModelWatch(Protocol):
    """Told of every request; for what counts and never waits. Called in the context of the caller's task."""

    def on_request(self, request: AskedModel) -> None: ...

    def on_end(self, request: AskedModel) -> None: ...


class ChatModel(Protocol):
    """A model that answers."""

    @property
    def spec(self) -> str:
        """`provider:name`."""
        ...

    @property
    def context_window(self) -> int:
        """Tokens that prompt and answer share."""
        ...

    @property
    def sees_images(self) -> bool: ...

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        """Ask. Leaving the block closes the connection, whatever was read of it.

        Raises (while entering or iterating):
            ModelError: with its kind; never a library's own error. A stream that ends without a finish reason is one.
        """
        ...

    async def count(self, request: Request) -> int:
        """Count the tokens of the request: by the provider where it does, else by an estimate."""
        ...


@runtime_checkable
class DocumentModel(Protocol):
    """A model that may be given documents themselves."""

    def takes(self, image: Image) -> bool:
        """Whether the model is shown this picture or document: it takes such ones, and has not refused this one."""
        ...


@runtime_checkable
class Looking(Protocol):
    """A model with a window and abilities that only its server knows."""

    async def look(self) -> None:
        """Ask the server, so that both are known before the first request. Raises nothing; asks once, if it answers."""
        ...


@runtime_checkable
class Loading(Protocol):
    """A model that its server reloads for every other window."""

    async def settle(self, tokens: int, *, in_use: bool) -> None:
        """Settle the window before a short question, so that the model is not reloaded for it, nor after it.

        Args:
            tokens: of the conversations' first request, for which the daemon asks for a window.
            in_use: a daemon runs: the window with which the model is in memory is kept.
        """
        ...


@record
class ModelPorts:
    """Dependencies of a wire."""

    http: aiohttp.ClientSession
    load_image: Callable[[str], Awaitable[bytes]]
    """Bytes of a picture by its blob key."""
    clock: Clock
    free_memory: Callable[[], int | None] = free_memory
    """Bytes of this machine's memory that programs can still have; None: unknown."""
    first_byte: float = FIRST_BYTE
    """Seconds until the first byte of an answer (`models.first_byte_seconds`)."""
    local_wait: float = LOCAL_WAIT
    """Seconds that a server which loads its model is waited for (`models.local_wait`)."""
    served: ServedModels = field(default_factory=ServedModels)
    """Facts of models from their servers."""
    watches: list[ModelWatch] = field(default_factory=list)
    """Told of each request; a part that counts requests adds itself."""


@record
class Provider:
    """A line of the catalogue: how to open a model of this provider."""

    name: str
    open: Callable[[str, ProviderSettings, ModelOptions, ModelPorts], ChatModel]
    """From the full spec (`provider:name`). Raises ConfigError when something is missing (a key, an extra)."""
    cache_points: frozenset[CachePoint] = frozenset()
    """Which marks for a prompt cache its wire can place; none: there is no such cache, or it needs no marks."""
