"""Prompts that come with tools: slash commands whose text was written by a third party."""

from collections.abc import Awaitable, Callable

from goclaw.messages import Piece
from goclaw.records import record


@record
class LivePrompt:
    """One prompt, live."""

    name: str
    """The command: `mcp__<server>__<prompt>`, in small letters, digits and `_`."""
    summary: str
    """One line for menus and /help."""
    say: Callable[[str], Awaitable[tuple[Piece, ...]]]
    """From what stands behind the command to the text of the message that it stands for: pieces, each with its origin
    (empty: the person's own words). Raises ToolError, also with how it is used where something is missing."""
