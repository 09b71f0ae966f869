"""The providers that there are, for people who misspelt one."""

from goclaw.common.config.keys import closest
from goclaw.common.config.servers import DOUBLE_NAMES, SERVERS
from goclaw.common.core import catalog

NO_SPECS = frozenset({"demo", "pydantic-ai", "scripted", *DOUBLE_NAMES})
"""Lines of the catalogue that no one writes before a model's name, and second names of servers."""


def unknown(provider: str) -> str:
    """Return the message about a provider that does not exist: the nearest of those that do, and all of them."""
    names = sorted({*catalog.PROVIDERS, *SERVERS} - NO_SPECS)
    near = closest(provider, names)
    meant = f" Did you mean `{near}:`?" if near else ""
    return f"there is no provider {provider!r}.{meant} Available: {', '.join(names)}."
