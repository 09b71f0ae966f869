"""Numbers of tokens as servers give them: what is no number counts as nothing.

An answer that came whole is worth more than its bill: nonsense in the usage must not make it fail.
"""

from collections.abc import Mapping
from typing import Any

from goclaw.llm.base import MAX_TOKENS


def tokens(given: object) -> int:
    """Return a count of tokens; 0 for any other value."""
    if isinstance(given, bool) or not isinstance(given, int | float) or given != given:
        return 0
    return int(min(max(given, 0), MAX_TOKENS))


def fields(given: object) -> Mapping[str, Any]:
    """Return an object of a server's usage; an empty one for any other value."""
    return given if isinstance(given, dict) else {}
