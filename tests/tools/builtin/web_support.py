"""A web of a few pages, for examples: nobody's test may depend on a server of somebody else."""

from dataclasses import dataclass

from goclaw.common.net.pages.base import Page
from goclaw.common.net.search.base import Hit, Hits
from goclaw.errors import ToolError

ADDRESS = "https://example.com/"
SOURCE = "<!doctype html><title>Example Domain</title><h1>Example Domain</h1><p>For use in documentation.</p>"


@dataclass
class SmallWeb:
    """A `Web` with one page, which every search finds."""

    markdown: str = "# Example Domain\n\nFor use in documentation."
    status: int = 200
    cut: bool = False
    age: float | None = None
    found: Hits = Hits("searxng", [Hit("Example Domain", ADDRESS, "For use in documentation.")])  # noqa: RUF009 -- frozen

    async def fetch(self, url: str, *, raw: bool) -> Page:
        if url != ADDRESS:
            raise ToolError(f"{url} cannot be reached")
        text, title = (SOURCE, "") if raw else (self.markdown, "Example Domain")
        return Page(url, self.status, "text/html", title, text, self.cut, self.age)

    async def search(self, query: str, count: int | None) -> Hits:
        return self.found
