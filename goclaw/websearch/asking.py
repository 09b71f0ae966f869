"""One request to a provider, and its errors in words, which never contain a server's text or a key."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import aiohttp
import orjson

from goclaw.config.web_tools import WebSearchSettings
from goclaw.errors import ConfigError, ToolError
from goclaw.net.answers import read_whole, wanted_pause
from goclaw.records import record
from goclaw.redact import remember
from goclaw.websearch.base import Hit

ANSWER_LIMIT = 2 << 20
"""Bytes of an answer that are read; twenty results have some 50 KB."""
ANSWERED = frozenset({200, 202})
"""DuckDuckGo asks with 202 whether a person is there; what comes is looked at anyway."""
KEY_REFUSED = frozenset({401, 403, 422})
"""Brave says 422 of a key that it does not know (SUBSCRIPTION_TOKEN_INVALID)."""
MAX_PAUSE = 1_000_000
"""Seconds: what a server says beyond it is no time to come back at."""
TOO_MANY = frozenset({429, 432, 433})
"""HTTP 429; Tavily has two more for what a plan allows (its API reference, "Response codes")."""


@record
class ProviderClient:
    """How a provider is asked."""

    name: str
    http: aiohttp.ClientSession
    url: str
    headers: Mapping[str, str]
    refused: str = "check tools.web_search.api_key"
    """The remedy for a refused request."""

    async def ask(
        self, params: Mapping[str, str] | None = None, body: Any = None, *, method: Literal["GET", "POST"] = "GET"
    ) -> bytes:
        """Return the body of the provider's answer.

        Raises:
            ToolError: it did not answer, or not with success.
        """
        try:
            # A redirect would send the key to another server.
            async with self.http.request(
                method, self.url, params=params, json=body, headers=self.headers, allow_redirects=False
            ) as response:
                self._check(response)
                content = await read_whole(response, ANSWER_LIMIT)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise ToolError(f"{self.name} cannot be reached ({type(error).__name__})") from None
        if content is None:
            raise ToolError(f"{self.name} answered with more than {ANSWER_LIMIT >> 20} MB")
        return content

    async def json(self, params: Mapping[str, str] | None = None, body: Any = None) -> dict[str, Any]:
        """Return the JSON object of the answer; with a `body`, by POST."""
        content = await self.ask(params, body, method="GET" if body is None else "POST")
        try:
            answer = orjson.loads(content)
        except orjson.JSONDecodeError:
            answer = None
        if not isinstance(answer, dict):
            raise ToolError(f"{self.name} answered with something else than results; is tools.web_search.url right?")
        return answer

    def _check(self, response: aiohttp.ClientResponse) -> None:
        status = response.status
        if status in KEY_REFUSED:
            raise ToolError(f"{self.name} refused the search (HTTP {status}); {self.refused}")
        if status in TOO_MANY:
            seconds = wanted_pause(response.headers)
            when = "later" if seconds is None or seconds > MAX_PAUSE else f"in {seconds:.0f} s"
            raise ToolError(f"{self.name} takes no more searches now (HTTP {status}); try again {when}")
        if status not in ANSWERED:
            raise ToolError(f"{self.name} answered HTTP {status}")


def key_of(settings: WebSearchSettings, variable: str) -> str:
    """Return the key for the configured provider.

    Raises:
        ConfigError: no key is set.
    """
    key = settings.api_key.get_secret_value() if settings.api_key else ""
    if not key and settings.url is None:  # the variable's key is for the provider itself, not for another server
        key = os.environ.get(variable, "").strip()
    if not key.isascii() or not key.isprintable():
        raise ConfigError(f"{variable}: should be one word without line breaks or unusual characters")
    if not key:
        raise ConfigError(f"{settings.provider} needs a key: set tools.web_search.api_key, or {variable}")
    remember(key)
    return key


def hits_of(results: Any, title: str, url: str, snippet: str) -> Sequence[Hit]:
    """Return the hits of an answer's list, by the names of its fields; malformed entries are left out."""
    return [
        Hit(_text(each.get(title)), each[url], _text(each.get(snippet)))
        for each in (results if isinstance(results, list) else ())
        if isinstance(each, dict) and isinstance(each.get(url), str)
    ]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
