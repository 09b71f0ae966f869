"""The doctor's check of the web search: one search for one result, as the agent does it."""

from goclaw.config.load import Loaded
from goclaw.doctor.base import Finding
from goclaw.errors import ToolError
from goclaw.websearch.open import search

_REMEDY = "see `tools.web_search` in docs/web.md"


async def check_web_search(loaded: Loaded) -> list[Finding]:
    """Check that the configured provider answers."""
    settings = loaded.config.tools.web_search
    if settings.provider is None:
        return [Finding("web search", "ok", "off", "set `tools.web_search.provider` to turn it on")]
    try:
        found = await search(settings, "goclaw", 1)
    except ToolError as error:
        return [Finding("web search", "problem", str(error), _REMEDY)]
    if not found.hits:
        return [Finding("web search", "warning", f"{settings.provider} answers, but finds nothing", _REMEDY)]
    return [Finding("web search", "ok", f"{settings.provider} answers")]
