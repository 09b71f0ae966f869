"""Detection of an Ollama server and its models at start: over the shared client, without the `ollama` package."""

import asyncio
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from goclaw.common.config.schema import ProviderSettings
from goclaw.common.core.records import record

DEFAULT_PORT = 11434
"""Ollama's own."""
TIME_LIMIT = 1.0
"""Seconds for all questions together: the start of the daemon waits for them."""
ASKED_AT_MOST = 8
"""Models whose abilities are asked for, the newest first."""


@record
class PulledModel:
    """One model that is pulled."""

    name: str
    modified_at: str
    """ISO 8601; when it was pulled or changed."""
    capabilities: tuple[str, ...] = ()
    """Of `completion`, `tools`, `vision`, `thinking`, `embedding` …; empty: not asked or an old server."""
    digest: str = ""
    """Digest of the pulled model: a different digest is a different version."""


@record
class OllamaServer:
    """An Ollama that answered."""

    base_url: str
    models: tuple[PulledModel, ...]
    """The newest first."""

    def find(self, name: str) -> PulledModel | None:
        """Return the pulled model of that name; a name without tag means `:latest`, as in Ollama."""
        return next((model for model in self.models if is_named(model.name, name)), None)

    def with_tools(self) -> PulledModel | None:
        """Return the newest model that can call tools."""
        return next((model for model in self.models if "tools" in model.capabilities), None)

    def for_chat(self) -> PulledModel | None:
        """Return the newest model that can chat (embedders cannot)."""
        return next((model for model in self.models if "completion" in model.capabilities), None)

    def for_embedding(self) -> PulledModel | None:
        """Return the newest model with embedding as its only capability."""
        return next((model for model in self.models if model.capabilities == ("embedding",)), None)


def ollama_url(settings: ProviderSettings, env: Mapping[str, str] = os.environ) -> str:
    """Return Ollama's address: `providers.ollama.base_url`, else `OLLAMA_HOST` in any of its forms, else this machine.

    >>> ollama_url(ProviderSettings(), {"OLLAMA_HOST": ":9000"})
    'http://127.0.0.1:9000'
    """
    host = (settings.base_url or env.get("OLLAMA_HOST") or "").strip().rstrip("/")
    if not host:
        return f"http://127.0.0.1:{DEFAULT_PORT}"
    parts = urlsplit(host if "://" in host else f"http://{host}")
    # OLLAMA_HOST is also what the server binds to: "all addresses" means this machine for a client.
    name = parts.hostname if parts.hostname not in (None, "", "0.0.0.0", "::") else "127.0.0.1"  # noqa: S104  # see above
    if ":" in str(name):
        name = f"[{name}]"
    # A full URL has the ports of the web, a bare host has Ollama's: its own client reads them that way.
    default = {"http": 80, "https": 443}.get(parts.scheme, DEFAULT_PORT) if "://" in host else DEFAULT_PORT
    return f"{parts.scheme}://{name}:{parts.port or default}{parts.path}"


async def probe(http: aiohttp.ClientSession, base_url: str, limit: float = TIME_LIMIT) -> OllamaServer | None:
    """Look for an Ollama server. None when none answers within `limit` seconds."""
    try:
        async with asyncio.timeout(limit):
            listed = await ask(http, f"{base_url}/api/tags")
            models = sorted(map(read_model, listed["models"]), key=lambda model: model.modified_at, reverse=True)
            return OllamaServer(base_url, await with_capabilities(http, base_url, models))
    except (TimeoutError, aiohttp.ClientError, ValueError, KeyError, TypeError):
        # No server, or another one on that port: to the caller it is the same.
        return None


def is_named(pulled: str, name: str) -> bool:
    """Whether a pulled model is the one that is meant; a name without tag means `:latest`, as Ollama has it."""
    return pulled in (name, name if ":" in name else f"{name}:latest")


async def ask(
    http: aiohttp.ClientSession,
    url: str,
    body: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Request the JSON object at `url`; POST with a body, else GET.

    Raises:
        aiohttp.ClientError: no server answers, or with an error.
        ValueError: the answer is not a JSON object, or a redirect, which would take a key along.
    """
    async with http.request(
        "POST" if body else "GET", url, json=body, headers=headers, raise_for_status=True, allow_redirects=False
    ) as response:
        found = await response.json(content_type=None)
    if not isinstance(found, dict):
        raise ValueError(f"{url} is no Ollama")
    return found


def read_model(listed: Mapping[str, Any]) -> PulledModel:
    """Parse one row of `/api/tags`."""
    capabilities = listed.get("capabilities") or ()
    modified_at, digest = (str(listed.get(key, "")) for key in ("modified_at", "digest"))
    return PulledModel(str(listed["name"]), modified_at, tuple(map(str, capabilities)), digest)


async def with_capabilities(
    http: aiohttp.ClientSession, base_url: str, models: list[PulledModel]
) -> tuple[PulledModel, ...]:
    """Return the models, the newest with their abilities from `/api/show` where the list lacks them."""

    async def load(model: PulledModel) -> PulledModel:
        if model.capabilities:
            return model
        try:
            shown = await ask(http, f"{base_url}/api/show", {"model": model.name})
        except (aiohttp.ClientError, ValueError):
            return model
        return replace(model, capabilities=tuple(map(str, shown.get("capabilities") or ())))

    asked = await asyncio.gather(*map(load, models[:ASKED_AT_MOST]))
    return (*asked, *models[ASKED_AT_MOST:])
