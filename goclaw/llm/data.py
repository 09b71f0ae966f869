"""Facts of a model beyond its name: window, output limit, support of pictures, prices.

The configuration (`models.options.<spec>`) comes first, then the model data of `genai-prices`, then a careful default.
The data are read when first asked for (`find_model`), or beforehand by `prepare`.
"""

import re
from collections.abc import Sequence
from functools import cached_property

from goclaw.common.config.schema import ModelOptions
from goclaw.common.config.servers import SERVERS
from goclaw.common.core.records import record
from goclaw.llm.base import DEFAULT_MAX_OUTPUT, ModelPorts, Request, Usage, is_small
from goclaw.llm.listed import Key, ModelRow, find_model, read_beforehand
from goclaw.llm.token_counts import estimate_request

DEFAULT_WINDOW = 128_000
"""Tokens: what nearly every hosted model of the last two years has at least."""
ANTHROPIC_WINDOW = 200_000
"""Tokens: the smallest window of any Claude since version 2.1."""
LOCAL_WINDOW = 32_768
"""Tokens: what people give a model on their own machine; too large a guess would be answered with `overflow`."""

ANSWER_SHARE = 4
"""An answer is no longer than a quarter of a small window, which is kept free for it."""
INEXACT = 32
"""The size of a prompt is an estimate; it may be larger by one part in so many."""
LEAST_OUTPUT = 512
"""Tokens that must remain for an answer."""

MAX_OUTPUT = (
    (re.compile(r"claude-3-(opus|sonnet|haiku)"), 4_096),
    (re.compile(r"claude-(3-7|(opus|sonnet|haiku|fable|mythos)-)"), 16_384),
    (re.compile(r"\b(gpt-[5-9]|o[134]\b)"), 16_384),
)
"""Tokens of an answer by model name, where the default does not suit: the first three models allow no more, and the
others think within the same limit. All of these can write more; a chat answer does not, and what is reserved for it
is missing in the window."""
SEES = re.compile(
    r"claude-(?!2|v1|instant)|gemini|gpt-(4o|4\.1|4-turbo|[5-9])|chatgpt|\bo[134]\b(?!-mini)|o4-mini|grok-[4-9]|vision"
    r"|[-_/]vl\b|\bvl[-_]|\dvl|llava|pixtral|llama-?4|gemma-?3(?!n)|mistral-(small|medium)|kimi-k2\.[5-9]",
    re.IGNORECASE,
)
"""Names of models that take pictures; the model data do not say."""
BLIND = re.compile(r"gpt-oss|embed|whisper|tts", re.IGNORECASE)
UNLISTED = frozenset({"demo", "ollama", "scripted"})
"""Providers on this machine, whose models are not in the data: reading the data for them would find nothing."""


@record
class ModelFacts:
    """Facts of one model. Prices in US dollars per million tokens, None where unknown."""

    context_window: int
    max_output: int
    sees_images: bool
    price_input: float | None = None
    price_output: float | None = None
    price_cache_read: float | None = None
    price_cache_write: float | None = None

    def cost(self, usage: Usage) -> float | None:
        """Return US dollars for `usage`; None when the prices are unknown."""
        if self.price_input is None or self.price_output is None:
            return None
        read = self.price_input if self.price_cache_read is None else self.price_cache_read
        write = self.price_input if self.price_cache_write is None else self.price_cache_write
        plain = max(0, usage.input - usage.cache_read - usage.cache_write)
        total = plain * self.price_input + usage.cache_read * read + usage.cache_write * write
        return (total + usage.output * self.price_output) / 1_000_000


class KnownModel:
    """The half of a `ChatModel` that only the model data know. The wires add `stream`."""

    def __init__(self, spec: str, options: ModelOptions, ports: ModelPorts, base_url: str = "") -> None:
        self.spec = spec
        self._options = options
        self._ports = ports
        self._served = ports.served.open(spec, base_url)

    @cached_property
    def facts(self) -> ModelFacts:
        """Facts of the model; see `prepare`."""
        return facts(self.spec, self._options, self._ports.clock.now())

    @property
    def context_window(self) -> int:
        known, configured = self._served.facts.window, self._options.context_window
        if known is None:
            return self.facts.context_window
        return min(known, configured) if configured else known

    def output_limit(self, request: Request) -> int:
        """Return the tokens that an answer may have: where a server named the window, prompt and answer fit into it."""
        known, limit = self._served.facts, request.max_output or self.facts.max_output
        if known.output:
            limit = min(limit, known.output)
        if known.window is None:
            return limit
        window, prompt = self.context_window, request.tokens or estimate_request(request)
        room = window - prompt - prompt // INEXACT
        return min(limit, max(LEAST_OUTPUT, window // ANSWER_SHARE), max(LEAST_OUTPUT, room))

    @property
    def sees_images(self) -> bool:
        return self.facts.sees_images

    async def count(self, request: Request) -> int:
        """Return an estimate; most protocols have no count."""
        return estimate_request(request)


def facts(spec: str, options: ModelOptions, at: float) -> ModelFacts:
    """Return everything known of `provider:name`; `at` (epoch seconds) chooses among prices that change.

    Slow (some tenths of a second) once per process, unless `prepare` has run for the model.
    """
    provider, _, name = spec.partition(":")
    key = _key(spec)
    row = find_model(*key, at) if key else ModelRow()
    is_local = provider in SERVERS and SERVERS[provider].local
    usual_window = ANTHROPIC_WINDOW if provider == "anthropic" else LOCAL_WINDOW if is_local else DEFAULT_WINDOW
    window = options.context_window or row.context_window or usual_window
    free = 0.0 if is_local else None
    return ModelFacts(
        context_window=window,
        max_output=options.max_output or min(usual_output(name), window // (4 if is_small(window) else 2)),
        sees_images=sees(name) if options.images is None else options.images,
        price_input=either(options.price_input, either(free, row.price_input)),
        price_output=either(options.price_output, either(free, row.price_output)),
        price_cache_read=row.price_cache_read,
        price_cache_write=row.price_cache_write,
    )


async def prepare(specs: Sequence[str], at: float) -> None:
    """Look up the models `specs` in the data beforehand, in the background; see `find_model`."""
    await read_beforehand([key for spec in specs if (key := _key(spec))], at)


def _key(spec: str) -> Key | None:
    """Return provider and model as the data name them; None for a model on one's own machine."""
    provider, _, name = spec.partition(":")
    if provider in UNLISTED:
        return None
    server = SERVERS.get(provider)
    if server is None:
        return provider, name
    return (server.data_id, name) if server.data_id and not server.local else None


def either(configured: float | None, known: float | None) -> float | None:
    """Return the configured value, else the known one."""
    return known if configured is None else configured


def usual_output(name: str) -> int:
    """Return the usual maximum of tokens for an answer of this model."""
    return next((limit for pattern, limit in MAX_OUTPUT if pattern.search(name)), DEFAULT_MAX_OUTPUT)


def sees(name: str) -> bool:
    """Whether a model of this name takes pictures."""
    return bool(SEES.search(name)) and not BLIND.search(name)
