"""What is known of a model beyond its name: window, output limit, eyes, prices.

The configuration (`models.options.<spec>`) comes first, then the model data of `genai-prices`, then a careful default.
The data take about half a second to import, so they are read when first asked for; `prepare` does that in a thread.
"""

import asyncio
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING

from goclaw.config.schema import ModelOptions
from goclaw.llm.base import DEFAULT_MAX_OUTPUT, ModelPorts, Usage
from goclaw.llm.compat import SERVERS

if TYPE_CHECKING:
    from genai_prices.data_snapshot import DataSnapshot
    from genai_prices.types import ModelInfo

DEFAULT_WINDOW = 128_000
"""Tokens: what nearly every hosted model of the last two years has at least."""
ANTHROPIC_WINDOW = 200_000
"""Tokens: the smallest window of any Claude since version 2.1."""
LOCAL_WINDOW = 32_768
"""Tokens: what people give a model on their own machine; too large a guess would be answered with `overflow`."""

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
"""Names of models that take pictures; the model data do not tell."""
BLIND = re.compile(r"gpt-oss|embed|whisper|tts", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What is known of one model. Prices in US dollars per million tokens, None where unknown."""

    context_window: int
    max_output: int
    sees_images: bool
    price_input: float | None = None
    price_output: float | None = None
    price_cache_read: float | None = None
    price_cache_write: float | None = None

    def cost(self, usage: Usage) -> float | None:
        """US dollars for `usage`; None when the prices are unknown."""
        if self.price_input is None or self.price_output is None:
            return None
        read = self.price_input if self.price_cache_read is None else self.price_cache_read
        write = self.price_input if self.price_cache_write is None else self.price_cache_write
        plain = max(0, usage.input - usage.cache_read - usage.cache_write)
        total = plain * self.price_input + usage.cache_read * read + usage.cache_write * write
        return (total + usage.output * self.price_output) / 1_000_000


class KnownModel:
    """The half of a `ChatModel` that only the model data know. The wires add `stream` and `count`."""

    def __init__(self, spec: str, options: ModelOptions, ports: ModelPorts) -> None:
        self.spec = spec
        self._options = options
        self._ports = ports

    @cached_property
    def facts(self) -> ModelFacts:
        """What is known of the model; see `prepare`."""
        return facts(self.spec, self._options, self._ports.clock.now())

    @property
    def context_window(self) -> int:
        return self.facts.context_window

    @property
    def sees_images(self) -> bool:
        return self.facts.sees_images


def facts(spec: str, options: ModelOptions, at: float) -> ModelFacts:
    """Everything known of `provider:name`; `at` (epoch seconds) chooses among prices that change.

    Slow (about half a second) once per process, unless `prepare` has run.
    """
    provider, _, name = spec.partition(":")
    server = SERVERS.get(provider)
    local = server is not None and server.local
    listed = None if local else look_up(server.data_id if server else provider, name)
    window = options.context_window or (listed and listed.context_window) or default_window(provider)
    price = partial(price_of, listed, datetime.fromtimestamp(at, UTC))
    return ModelFacts(
        context_window=window,
        max_output=options.max_output or min(usual_output(name), window // 2),
        sees_images=sees(name) if options.images is None else options.images,
        price_input=either(options.price_input, 0.0 if local else price("input_mtok")),
        price_output=either(options.price_output, 0.0 if local else price("output_mtok")),
        price_cache_read=price("cache_read_mtok"),
        price_cache_write=price("cache_write_mtok"),
    )


async def prepare() -> None:
    """Load the model data without holding up the event loop."""
    await asyncio.to_thread(snapshot)


@cache
def snapshot() -> "DataSnapshot":
    """The model data as installed: nothing is fetched."""
    from genai_prices.data_snapshot import get_snapshot

    return get_snapshot()


def look_up(provider: str | None, name: str) -> "ModelInfo | None":
    """The model data's row for a model of that provider (in the data's own naming); None without one."""
    if provider is None:
        return None
    try:
        return snapshot().find_provider_model(name, None, provider, None)[1]
    except LookupError:
        return None


def price_of(listed: "ModelInfo | None", at: datetime, field: str) -> float | None:
    """US dollars per million tokens; of prices that grow with the prompt the smallest."""
    found = getattr(listed.get_prices(at), field, None) if listed is not None else None
    found = getattr(found, "base", found)
    return None if found is None else float(found)


def either(configured: float | None, known: float | None) -> float | None:
    """What the configuration says, else what is known."""
    return known if configured is None else configured


def default_window(provider: str) -> int:
    """Tokens, for a model that the data do not know."""
    if provider == "anthropic":
        return ANTHROPIC_WINDOW
    return LOCAL_WINDOW if provider in SERVERS and SERVERS[provider].local else DEFAULT_WINDOW


def usual_output(name: str) -> int:
    """Tokens that an answer of this model may have when nobody says otherwise."""
    return next((limit for pattern, limit in MAX_OUTPUT if pattern.search(name)), DEFAULT_MAX_OUTPUT)


def sees(name: str) -> bool:
    """Whether a model of this name takes pictures."""
    return bool(SEES.search(name)) and not BLIND.search(name)
