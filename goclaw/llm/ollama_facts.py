"""Facts of a model from its Ollama server, and the window that follows: abilities, largest window, memory.

Asked over the shared client: the daemon asks at its start, and loads no `ollama` package for that. `num_ctx` is chosen
once, for Ollama reloads a model for every other value. Where the server is this machine and reports the footprint,
it follows from the memory that is free; elsewhere it grows with the needs of a conversation (`bucket`).
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

import aiohttp
import orjson

from goclaw.common.core.records import record
from goclaw.common.net.ollama import ask, is_named

KV_BYTES = 2
"""Bytes of one number in the KV cache: f16, Ollama's default. The API does not show `OLLAMA_KV_CACHE_TYPE`."""
HEADS_BY_LAYER = re.compile(rb'\.attention\.head_count_kv"\s*:\s*(\[[\d,\s]+\])')
"""In a verbose answer, which is megabytes of vocabulary: the one list wanted is cut out, the rest never parsed."""


@record
class Footprint:
    """The memory that a model takes of the machine that it runs on, in bytes."""

    token: int
    """The KV cache of one token of the window."""
    weights: int
    """The pulled files; all of them are loaded."""
    loaded: int = 0
    """Tokens of the window that it is in memory with right now; 0: it is not."""


@record
class OllamaFacts:
    """Facts of a model, from `/api/show` and the lists of pulled and loaded models."""

    capabilities: frozenset[str] = frozenset()
    longest: int | None = None
    """Tokens of the model's largest window; None: unknown."""
    footprint: Footprint | None = None
    """None: not requested, not reported by the server, or the model runs elsewhere (Ollama's cloud)."""


@record
class OllamaEndpoint:
    """A model of a server, and how it is reached."""

    http: aiohttp.ClientSession
    base_url: str
    name: str
    headers: Mapping[str, str]

    async def facts(self, *, memory: bool) -> OllamaFacts:
        """Ask; `memory`: also for the model's use of memory there.

        Raises:
            aiohttp.ClientError: no server answers, or it knows no such model.
            ValueError: an answer has not Ollama's form.
        """
        shown = await ask(self.http, f"{self.base_url}/api/show", {"model": self.name}, self.headers)
        info = shown.get("model_info")
        info = info if isinstance(info, dict) else {}
        own = [value for key, value in info.items() if key.endswith(".context_length") and _positive(value)]
        footprint = await self._footprint(info) if memory and not shown.get("remote_host") else None
        abilities = shown.get("capabilities")
        known = frozenset(map(str, abilities)) if isinstance(abilities, list) else frozenset[str]()
        return OllamaFacts(known, min(own, default=None), footprint)

    async def _footprint(self, info: Mapping[str, Any]) -> Footprint | None:
        key = f"{info.get('general.architecture')}.attention.head_count_kv"
        heads = info.get(key)
        if key in info and not heads:
            heads = await self._heads_by_layer()
        token = token_bytes(info, heads)
        weights = (await self._row("tags")).get("size") if token else None
        if not token or not _positive(weights):
            return None
        return Footprint(token, weights, await self.loaded())

    async def loaded(self) -> int:
        """Return the window in tokens of the model in memory; 0: not loaded, or not reported.

        Raises:
            aiohttp.ClientError: no server answers.
        """
        loaded = (await self._row("ps")).get("context_length")
        return loaded if _positive(loaded) else 0

    async def _heads_by_layer(self) -> Sequence[int]:
        """Return the KV heads of each layer, where they differ: only a verbose answer has lists."""
        body = {"model": self.name, "verbose": True}
        url = f"{self.base_url}/api/show"
        async with self.http.post(
            url, json=body, headers=self.headers, raise_for_status=True, allow_redirects=False
        ) as response:
            found = HEADS_BY_LAYER.search(await response.read())
        return list(orjson.loads(found[1])) if found else ()

    async def _row(self, path: str) -> Mapping[str, Any]:
        """Return the model's row in a list of the server (`tags`: pulled, `ps`: in memory); empty: none, or no list."""
        try:
            listed = (await ask(self.http, f"{self.base_url}/api/{path}", None, self.headers)).get("models")
        except (aiohttp.ClientResponseError, ValueError):
            return {}
        rows = listed if isinstance(listed, list) else []
        return next((row for row in rows if isinstance(row, dict) and is_named(str(row.get("name")), self.name)), {})


def token_bytes(info: Mapping[str, Any], kv_heads: object) -> int | None:
    """Return the bytes of KV cache that a token of the window takes; None where the facts do not say.

    Keys and values of every layer count, also of layers that look back through a sliding window only: each family
    reports their number in another way. `kv_heads` are those of each layer, a list where layers differ; without
    them every head has its own keys and values.
    """

    def number(key: str) -> int:
        value = info.get(f"{info.get('general.architecture')}.{key}")
        return value if _positive(value) else 0

    layers, heads = number("block_count"), number("attention.head_count")
    size = number("embedding_length") // heads if heads else 0
    key, value = number("attention.key_length") or size, number("attention.value_length") or size
    if isinstance(kv_heads, Sequence) and not isinstance(kv_heads, str):
        all_heads = sum(count for count in kv_heads if _positive(count))
    else:
        all_heads = layers * (int(kv_heads) if isinstance(kv_heads, int) else heads)
    return all_heads * (key + value) * KV_BYTES if layers and key and value and all_heads else None


def _positive(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and value > 0


SMALLEST_BUCKET = 4_096
"""Tokens of `num_ctx`: what Ollama itself loads a model with on a small machine. The least that is asked for, and the
step of everything larger, so that a few megabytes more or less in the next life are no reason to load it anew."""
SPARE = 1 << 30
"""Bytes of free memory that stay free: for what the server computes in, and for what other programs take next."""


def bucket(tokens: int) -> int:
    """Return the smallest bucket that holds so many tokens: 4,096 times a power of two."""
    return SMALLEST_BUCKET << max(0, math.ceil(math.log2(tokens / SMALLEST_BUCKET)))


def fitting_window(footprint: Footprint, free: int, largest: int) -> int:
    """Return the tokens of the window that fits into `free` bytes of memory besides the model, at most `largest`.

    A model that is in memory keeps the window that it has, if that is the larger one: it is loaded, so it fits. Its
    window's memory counts as free. Its weights do not: mapped from the disk they are already part of the memory that
    the kernel calls available.
    """
    room = free + footprint.loaded * footprint.token - footprint.weights - SPARE
    fits = room // footprint.token // SMALLEST_BUCKET * SMALLEST_BUCKET
    return min(largest, max(SMALLEST_BUCKET, footprint.loaded, fits))
