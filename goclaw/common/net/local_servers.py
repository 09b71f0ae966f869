"""Servers of models on this machine that speak OpenAI's protocol, looked for on the ports of their kinds.

Ports: the defaults in the manuals of llama.cpp, LM Studio, vLLM, Jan, KoboldCpp and text-generation-webui.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import aiohttp
import orjson

from goclaw.common.config.servers import SERVERS, full_address
from goclaw.common.core.records import record
from goclaw.common.net.client import read_whole

TIME_LIMIT = 1.0
"""Seconds for all servers together: a person waits."""
MAX_BYTES = 1 << 20
PLACES = {
    "llamacpp": "llama.cpp",
    "lmstudio": "LM Studio",
    "vllm": "vLLM",
    "jan": "Jan",
    "koboldcpp": "KoboldCpp",
    "text-generation-webui": "text-generation-webui",
}
"""The titles of the providers that are looked for."""
EMBEDDERS = ("embed", "rerank")
"""In the names of models that do not chat."""


@record
class LocalServer:
    """A server that answered."""

    provider: str
    title: str
    base_url: str
    models: tuple[str, ...]


async def no_servers() -> Sequence[LocalServer]:
    """Look for nothing."""
    return ()


async def find_local_servers(http: aiohttp.ClientSession, places: Mapping[str, str]) -> Sequence[LocalServer]:
    """Return the servers that answer with at least one model, in the order of `PLACES`.

    Args:
        http: the shared client.
        places: addresses by provider, where the configuration has others than the usual ones.
    """

    async def probe(provider: str) -> LocalServer | None:
        server = SERVERS[provider]
        base_url = full_address(places.get(provider) or server.base_url, server)
        try:
            async with asyncio.timeout(TIME_LIMIT), http.get(f"{base_url}/models", allow_redirects=False) as response:
                names = _names(orjson.loads(await read_whole(response, MAX_BYTES) or b"")) if response.ok else ()
        except (TimeoutError, OSError, aiohttp.ClientError, ValueError):
            return None  # no server, or another kind of server on that port
        return LocalServer(provider, PLACES[provider], base_url, names) if names else None

    return [found for found in await asyncio.gather(*map(probe, PLACES)) if found]


def _names(listed: Any) -> tuple[str, ...]:
    rows = listed.get("data") if isinstance(listed, dict) else None
    names = [row.get("id") for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    return tuple(name for name in names if isinstance(name, str) and not any(each in name for each in EMBEDDERS))
