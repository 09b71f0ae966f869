"""The keys of `tools.web_fetch` and `tools.web_search`."""

from typing import Literal

from pydantic import Field

from goclaw.config.section import Section
from goclaw.config.values import Duration, Secret, Url


class WebFetchSettings(Section):
    """The `web_fetch` tool."""

    timeout: Duration = Field(20, le=120, description="Seconds that a page may take, redirects included.")
    max_mb: float = Field(5, gt=0, le=50, description="How much of a page is read.")
    cache_minutes: float = Field(15, ge=0, le=1_440, description="How long a page is kept in memory; 0: not at all.")
    cache_mb: float = Field(20, ge=0, le=1_024, description="Memory for such pages.")


class WebSearchSettings(Section):
    """The `web_search` tool."""

    provider: Literal["searxng", "brave", "tavily", "duckduckgo"] | None = Field(
        None, description="Who searches; not set: the agent cannot."
    )
    url: Url | None = Field(
        None, description="Where it answers: a SearXNG of yours; for the others only to replace their own address."
    )
    api_key: Secret | None = Field(
        None, description="Key for Brave or Tavily; BRAVE_API_KEY and TAVILY_API_KEY are read, too."
    )
    count: int = Field(10, ge=1, le=20, description="How many results the agent gets when it asks for no number.")
    timeout: Duration = Field(15, le=120, description="Seconds that a search may take.")
