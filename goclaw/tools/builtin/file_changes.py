"""Changes of files by tools: the diff for people, its approval, and the retry when others write meanwhile.

The model reads a short preview in the result (`replacing`). With `tools.write.review` each change waits for the
approval of its diff; a person saw its effect on one content, so an approved call is not retried on another.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import islice
from pathlib import PurePosixPath
from typing import Annotated, TypeVar

from pydantic import BaseModel, Field

from goclaw.common.config.schema import Config
from goclaw.common.core.diffs import unified_diff
from goclaw.common.core.records import record
from goclaw.common.core.redact import mask, reveal
from goclaw.common.specs import Risk
from goclaw.common.workspace import PROMPT_FILES, again_when_changed
from goclaw.errors import ToolError
from goclaw.tools.approval.requests import Grounds
from goclaw.tools.builtin.listing import with_suggestion
from goclaw.tools.builtin.text import Text, as_code, readable_text, text_of
from goclaw.tools.toolkit.base import CallRisk, ToolContext
from goclaw.tools.toolkit.results import FileForm

DIFF = "diff"
COMPARED = 200_000
"""Characters of either side that are compared line by line."""
SHORT_LINE = 60
"""Characters of a changed line that are shown in one line with what it was."""
_NAMES = ("before", "after")


class Difference(BaseModel):
    """The change of one file."""

    path: str
    lines: Annotated[list[str], Field(description="A unified diff, line by line.")]

    def brief(self) -> str:
        """Return the change in one line: both lines where one short line changed, else counts; empty: unknown."""
        body = self.lines[2:] if self.lines[:1] == [f"--- {_NAMES[0]}"] else []
        gone = [line[1:].strip() for line in body if line.startswith("-")]
        new = [line[1:].strip() for line in body if line.startswith("+")]
        if len(gone) == len(new) == 1 and max(len(gone[0]), len(new[0])) <= SHORT_LINE:
            return f"{gone[0]} → {new[0]}"
        return f"+{len(new)} -{len(gone)} lines" if body else ""

    def file(self) -> FileForm:
        """Return the diff as a file for people and their editors."""
        return FileForm(f"{PurePosixPath(self.path).name}.diff", "text/x-diff", "\n".join((*self.lines, "")))


async def difference(path: str, before: str, after: str) -> Difference:
    """Return the difference of two versions of a file; of a very long one only the lengths."""
    if max(len(before), len(after)) > COMPARED:
        return Difference(path=path, lines=[f"{len(before):,} characters became {len(after):,}"])
    return Difference(path=path, lines=await asyncio.to_thread(_diff_lines, before, after))


def _diff_lines(before: str, after: str) -> list[str]:
    # Bytes that are no text fit into no JSON.
    old, new = readable_text(before).splitlines(), readable_text(after).splitlines()
    return list(unified_diff(old, new, _NAMES, 3))


_MAX_REVIEWED_LINES, _MAX_REVIEWED_LINE = 60, 200
"""Lines and characters per line of a diff: it is read on a telephone."""
_FENCE = "```"


@record
class Proposed:
    """The content that a call would give one file."""

    path: str
    before: str
    """Empty where nothing is yet."""
    after: str


def _review_risk(config: Config) -> Risk:
    """Return the risk of a write: high where changes are reviewed, so that approval is requested."""
    return Risk.HIGH if config.tools.write.review else Risk.MEDIUM


review_risk = CallRisk(Risk.HIGH, lambda arguments, ctx: _review_risk(ctx.config), _review_risk)


async def grounds_of(ctx: ToolContext, proposed: Sequence[Proposed]) -> Grounds:
    """Return the grounds for a person: the diff of each file, and its state, which must last until the call runs."""
    states = await ctx.workspace.fingerprints(each.path for each in proposed)
    lines = await asyncio.to_thread(lambda: [line for each in proposed for line in _shown_diff(each)])
    real = await asyncio.to_thread(lambda: [ctx.workspace.real(each.path) for each in proposed])
    labels = tuple(f"every change to {as_code(each.path)}" for each in proposed)
    return Grounds(facts=states, lines=tuple(lines), pattern=tuple(real), labels=labels)


async def now_in(ctx: ToolContext, path: str) -> str:
    """Return the text of a file; a note in its place for other content, empty where no file is."""
    try:
        return (await ctx.workspace.use(path, lambda opened: text_of(path, opened))).body
    except ToolError as error:
        return "" if isinstance(error.__cause__, FileNotFoundError) else f"({error})\n"


def _shown_diff(proposed: Proposed) -> list[str]:
    before, after = readable_text(proposed.before), readable_text(proposed.after)
    if max(len(before), len(after)) > COMPARED:
        return [f"{as_code(proposed.path)}: {len(before):,} characters become {len(after):,}"]
    changed = unified_diff(before.splitlines(), after.splitlines(), ("now", "then"), 2)
    lines = list(islice(changed, 2, _MAX_REVIEWED_LINES + 3))
    more = ["…"] if len(lines) > _MAX_REVIEWED_LINES else []
    # What cannot be seen is shown as its code, and nothing in the diff may end the fence that it stands in.
    text = reveal(mask("\n".join([*map(_cut, lines[:_MAX_REVIEWED_LINES]), *more]))).replace(_FENCE, "'''")
    return [f"{as_code(proposed.path)}:\n{_FENCE}diff\n{text or '(no line changes)'}\n{_FENCE}"]


def _cut(line: str) -> str:
    """Cut a line and say so: a change is easily pushed out of sight by spaces."""
    beyond = len(line) - _MAX_REVIEWED_LINE
    return f"{line[:_MAX_REVIEWED_LINE]}… [{beyond:,} more characters]" if beyond > 0 else line


ResultT = TypeVar("ResultT")


async def text_in(ctx: ToolContext, path: str) -> Text:
    """Read the text as it is now.

    Raises:
        ToolError: no such file; the error suggests a similar name.
    """
    try:
        return await ctx.workspace.use(path, lambda opened: text_of(path, opened))
    except ToolError as error:
        raise await with_suggestion(ctx, path, error) from error


async def note_change(ctx: ToolContext, path: str, before: Text | None, after: bytes) -> None:
    """Take note of a file that was replaced: a prompt file may need an approval, or be approved with that.

    Args:
        ctx: of the call.
        path: the file's relative path.
        before: its text; None: there was no file, or no text in it.
        after: its content.
    """
    if path in PROMPT_FILES:
        content = before.content(before.body) if before else b""
        may = ctx.authorize("command.admin", "prompt-files").allowed
        approved_files = ctx.environment.approved_files
        await approved_files.wrote(ctx.workspace.root, path, content, after, ctx.actor.key, may=may)


async def again_unless_approved(ctx: ToolContext, tool: str, change: Callable[[], Awaitable[ResultT]]) -> ResultT:
    """Return the result of `change` (read, edit, write), retried while others change the file between read and write.

    Not where a person approved this call of `tool`: they saw its effect on one content, not on another.

    Raises:
        FileChanged: the file changed after it was approved.
        ToolError: `busy`, when others never leave the file alone; and what `change` raises.
    """
    if ctx.config.tools.write.review or ctx.agreed_by("tool.use", tool):
        return await change()
    return await again_when_changed(change)
