"""The seam between GoClaw and whoever searches the web."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from goclaw.config.web_tools import WebSearchSettings

if TYPE_CHECKING:  # every tool comes by here, few need a client
    import aiohttp


@dataclass(frozen=True, slots=True)
class Hit:
    """A page that was found, in the words of whoever wrote it."""

    title: str
    url: str
    snippet: str


@dataclass(frozen=True, slots=True)
class Hits:
    """What was found, best first."""

    provider: str
    hits: Sequence[Hit]
    more: bool = False
    """The provider had more than were asked for."""


class SearchProvider(Protocol):
    """Searches."""

    async def search(self, query: str, count: int) -> Sequence[Hit]:
        """At least `count` pages where there are so many, best first, as the provider words them. One try.

        Raises:
            ToolError: in words, without the key.
        """
        ...


@dataclass(frozen=True, slots=True)
class SearchPart:
    """A line of the catalogue: how to open a provider."""

    name: str
    open: "Callable[[WebSearchSettings, aiohttp.ClientSession], SearchProvider]"
    """Raises ConfigError when something is missing (a key, an address). Nothing is sent yet."""
