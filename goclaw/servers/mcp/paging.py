"""Pages of long lists."""

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import TypeVar

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, PaginatedRequestParams

ItemT = TypeVar("ItemT")

PAGE = 200
"""Entries of one page."""


def page(
    items: Sequence[ItemT], key: Callable[[ItemT], str], params: PaginatedRequestParams | None
) -> tuple[list[ItemT], str | None]:
    """Return the requested page, in the order of the keys, and the cursor of the next one.

    A cursor is the last key of its page, not a number: entries that come and go meanwhile move nothing.

    Raises:
        MCPError: the cursor is invalid.
    """
    after = _decoded(params.cursor) if params and params.cursor is not None else ""
    rest = sorted((item for item in items if key(item) > after), key=key)
    here = rest[:PAGE]
    return here, _encoded(key(here[-1])) if len(rest) > PAGE else None


def _encoded(key: str) -> str:
    return base64.urlsafe_b64encode(key.encode()).decode()


def _decoded(cursor: str) -> str:
    try:
        return base64.b64decode(cursor, altchars=b"-_", validate=True).decode()
    except (binascii.Error, UnicodeError, ValueError):
        raise MCPError(INVALID_PARAMS, "the cursor is none that was given out here") from None
