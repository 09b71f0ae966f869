"""The interface to the web for tools."""

from typing import Protocol

from goclaw.common.core.records import record
from goclaw.common.net.search.base import Hits
from goclaw.errors import ToolError


@record
class Page:
    """The response of an address."""

    url: str
    """The final address, after all redirects."""
    status: int
    kind: str
    """Its media type, as the server says; empty: it says none."""
    title: str
    text: str
    cut: bool = False
    """It was larger than the limit for reading."""
    age: float | None = None
    """Seconds since it was fetched, if it was kept; None: fetched now."""
    document: bytes = b""
    """The file, where it is a document: it has no text then."""


class Web(Protocol):
    """The web, as far as a model may reach it."""

    async def fetch(self, url: str, *, raw: bool) -> Page:
        """Return the page at an address as Markdown, or `raw` as it came, for every HTTP status.

        Raises:
            ToolError: refused by the URL guard, not reached, too slow, or no text.
        """
        ...

    async def search(self, query: str, count: int | None) -> Hits:
        """Search for pages; `count` None: as many as the configuration says.

        Raises:
            ToolError: no provider is configured, or it did not answer.
        """
        ...


class NoWeb:
    """Where nothing is reached."""

    async def fetch(self, url: str, *, raw: bool) -> Page:
        raise ToolError("the web cannot be reached here")

    async def search(self, query: str, count: int | None) -> Hits:
        raise ToolError("the web cannot be searched here")
