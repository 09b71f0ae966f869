"""Reviews of file changes: with `tools.write.review`, each change waits for the approval of its diff."""

import asyncio
from collections.abc import Sequence
from itertools import islice
from typing import Any

from goclaw.errors import ToolError
from goclaw.records import record
from goclaw.redact import mask, revealed
from goclaw.specs import Risk
from goclaw.toolkit.base import ToolContext
from goclaw.toolkit.consent import Grounds
from goclaw.tools.difference import unified
from goclaw.tools.text import as_code, shown, text_of

_MAX_LINES, _MAX_LINE = 60, 200
"""Lines and characters per line of a diff: it is read on a telephone."""
_COMPARED = 200_000
"""Characters of either side that are compared line by line."""
_FENCE = "```"


@record
class Proposed:
    """The content that a call would give one file."""

    path: str
    before: str
    """Empty where nothing is yet."""
    after: str


def review_risk(arguments: Any, ctx: ToolContext) -> Risk:
    """Return the risk of a write: high where changes are reviewed, so that approval is requested."""
    return Risk.HIGH if ctx.config.tools.write.review else Risk.MEDIUM


async def grounds_of(ctx: ToolContext, proposed: Sequence[Proposed]) -> Grounds:
    """Return the grounds for a person: the diff of each file, and its state, which must last until the call runs."""
    states = await ctx.workspace.fingerprints(each.path for each in proposed)
    lines = await asyncio.to_thread(lambda: [line for each in proposed for line in _shown_diff(each)])
    real = await asyncio.to_thread(lambda: [ctx.workspace.real(each.path) for each in proposed])
    labels = tuple(f"every change of {as_code(each.path)}" for each in proposed)
    return Grounds(facts=states, lines=tuple(lines), pattern=tuple(real), labels=labels)


async def now_in(ctx: ToolContext, path: str) -> str:
    """Return the text of a file; a note in its place for other content, empty where no file is."""
    try:
        return (await ctx.workspace.use(path, lambda opened: text_of(path, opened))).body
    except ToolError as error:
        return "" if isinstance(error.__cause__, FileNotFoundError) else f"({error})\n"


def _shown_diff(proposed: Proposed) -> list[str]:
    before, after = shown(proposed.before), shown(proposed.after)
    if max(len(before), len(after)) > _COMPARED:
        return [f"{as_code(proposed.path)}: {len(before):,} characters become {len(after):,}"]
    changed = unified(before.splitlines(), after.splitlines(), ("now", "then"), 2)
    lines = list(islice(changed, 2, _MAX_LINES + 3))
    more = ["…"] if len(lines) > _MAX_LINES else []
    # What cannot be seen is shown as its code, and nothing in the diff may end the fence that it stands in.
    text = revealed(mask("\n".join([*map(_cut, lines[:_MAX_LINES]), *more]))).replace(_FENCE, "'''")
    return [f"{as_code(proposed.path)}:\n{_FENCE}diff\n{text or '(no line changes)'}\n{_FENCE}"]


def _cut(line: str) -> str:
    """Cut a line and say so: a change is easily pushed out of sight behind spaces."""
    beyond = len(line) - _MAX_LINE
    return f"{line[:_MAX_LINE]}… [{beyond:,} more characters]" if beyond > 0 else line
