"""Opens the search of `tools.web_search`: provider and client live for one search."""

import asyncio
import re
from collections.abc import Iterator, Sequence
from html import unescape

from goclaw.common.config.tools import WebSearchSettings
from goclaw.common.core import catalog
from goclaw.common.core.plugins import load
from goclaw.common.net import open_client
from goclaw.common.net.search.base import NOT_SET_UP, Hit, Hits, SearchPart
from goclaw.errors import ConfigError, ToolError

MAX_TITLE = 200
MAX_SNIPPET = 500
"""Characters that are shown of each result: it is for choosing, the page itself is for reading."""
MAX_URL = 2_000
_TAG = re.compile(r"</?[A-Za-z][^<>]{0,200}>")


async def search(settings: WebSearchSettings, query: str, count: int) -> Hits:
    """Ask the configured provider.

    Raises:
        ToolError: none is configured, or it did not answer; without its key.
    """
    if settings.provider is None:
        raise ToolError(NOT_SET_UP)
    try:
        async with asyncio.timeout(settings.timeout), open_client() as http:
            part = load(catalog.WEB_SEARCHES[settings.provider], SearchPart)
            found = await part.search(settings, http, query, count)
    except ConfigError as error:
        raise ToolError(str(error)) from None
    except TimeoutError:
        raise ToolError(f"{settings.provider} did not answer within {settings.timeout:g} s") from None
    hits = list(_clean(found))
    return Hits(settings.provider, hits[:count], len(hits) > count)


def _clean(found: Sequence[Hit]) -> Iterator[Hit]:
    """Yield each address once, with plain text of a bounded length."""
    seen = set()
    for hit in found:
        url = hit.url.strip()
        plain = url.isprintable() and " " not in url and len(url) <= MAX_URL
        if plain and url.startswith(("http://", "https://")) and url not in seen:
            seen.add(url)
            yield Hit(_plain(hit.title, MAX_TITLE) or url, url, _plain(hit.snippet, MAX_SNIPPET))


def _plain(text: str, most: int) -> str:
    """Return one line without HTML."""
    words = " ".join(unescape(_TAG.sub("", text[: 10 * most])).split())
    return words if len(words) <= most else f"{words[:most].rstrip()}…"
