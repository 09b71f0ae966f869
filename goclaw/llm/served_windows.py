"""The window of a model that a server with OpenAI's protocol serves: each kind of server says it at another place.

Sources: `max_model_len` in `/v1/models` (vLLM, SGLang), `meta` there and `/props` (llama.cpp, with the window of one
slot), `/api/v0/models` (LM Studio), `/api/extra/true_max_context_length` (KoboldCpp).
"""

import asyncio
from collections.abc import Mapping
from typing import Any

import aiohttp

from goclaw.common.core.records import record
from goclaw.common.net.client import read_whole
from goclaw.llm.lenient_json import load_json

MAX_BYTES = 4 << 20
LEAST_WINDOW = 256
"""Tokens; smaller numbers are no windows."""
ROW_FIELDS = ("max_model_len", "loaded_context_length", "n_ctx", "context_length", "max_context_length")
"""Where a row of a list of models has its window, that of the loaded model first."""


@record
class ServedEndpoint:
    """A model of a server, and how it is reached."""

    http: aiohttp.ClientSession
    base_url: str
    """Up to and without `/chat/completions`."""
    name: str
    headers: Mapping[str, str]

    async def window(self) -> int | None:
        """Return the window in tokens; None: the server does not say.

        Raises:
            aiohttp.ClientError, OSError: no server answers.
        """
        listed = await self._ask(f"{self.base_url}/models")
        root = self.base_url.removesuffix("/v1")
        # A list may name what the model was trained for; only these two say what is served now.
        if found := _tokens(_row(listed, self.name), "max_model_len"):
            return found
        props, studio, kobold = await asyncio.gather(
            self._ask(f"{root}/props"),
            self._ask(f"{root}/api/v0/models"),
            self._ask(f"{root}/api/extra/true_max_context_length"),
        )
        settings = props.get("default_generation_settings") if isinstance(props, dict) else None
        return (
            _tokens(settings, "n_ctx")
            or _tokens(_row(studio, self.name), *ROW_FIELDS)
            or _tokens(kobold, "value")
            or _tokens(_row(listed, self.name), *ROW_FIELDS)
            or _tokens(_row(listed, self.name).get("meta"), "n_ctx")
        )

    async def _ask(self, url: str) -> Any:
        """Return the JSON at `url`, or None."""
        async with self.http.get(url, headers=self.headers, allow_redirects=False) as response:
            body = await read_whole(response, MAX_BYTES)
        return load_json(body) if response.status < 300 and body else None


def _row(listed: Any, name: str) -> Mapping[str, Any]:
    """Return the row of a model in a list, also where its only model has another name; empty: none."""
    rows = listed.get("data") if isinstance(listed, dict) else None
    rows = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    named = [row for row in rows if row.get("id") == name]
    found = named or (rows if len(rows) == 1 else [])
    return found[0] if found else {}


def _tokens(found: Any, *fields: str) -> int | None:
    """Return the first of the fields that can be a window."""
    values = [found.get(field) for field in fields] if isinstance(found, Mapping) else []
    return next((value for value in values if isinstance(value, int) and value >= LEAST_WINDOW), None)
