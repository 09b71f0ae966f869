"""The interface between GoClaw and providers of web search."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from goclaw.common.config.tools import WebSearchSettings
from goclaw.common.core.records import record

if TYPE_CHECKING:  # every tool comes by here, few need a client
    import aiohttp

NOT_SET_UP = (
    "web search is not set up: set tools.web_search.provider to searxng (with tools.web_search.url), brave or tavily "
    "(with tools.web_search.api_key), or duckduckgo"
)


@record
class Hit:
    """A page found, with the provider's texts."""

    title: str
    url: str
    snippet: str


@record
class Hits:
    """The pages found, best first."""

    provider: str
    hits: Sequence[Hit]
    more: bool = False
    """The provider had more than were asked for."""


@record
class SearchPart:
    """A line of the catalogue: a provider."""

    name: str
    search: "Callable[[WebSearchSettings, aiohttp.ClientSession, str, int], Awaitable[Sequence[Hit]]]"
    """Returns at least so many pages for a query if there are so many, best first, with the provider's texts.

    One attempt. Raises ConfigError, before anything is sent, when something is missing (a key, an address), and
    ToolError in words, without the key.
    """
