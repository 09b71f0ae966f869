"""Replace texts in files: `edit` one text, `multi_edit` several in one file or more, all of them or none.

See `matching` for how closely a text has to be given.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from goclaw.common.core.supervise import wait_without_cancelling
from goclaw.common.specs import Annotations, Example, SideEffect
from goclaw.common.workspace import FileChanged
from goclaw.errors import InvalidInput, ToolError
from goclaw.tools.approval.requests import Grounds
from goclaw.tools.builtin.file_changes import (
    DIFF,
    Difference,
    Proposed,
    again_unless_approved,
    difference,
    grounds_of,
    note_change,
    review_risk,
    text_in,
)
from goclaw.tools.builtin.listing import FilePath
from goclaw.tools.builtin.matching import MatchTier
from goclaw.tools.builtin.replacing import Replaced, Replacement, check, replace_text
from goclaw.tools.builtin.text import MAX_BYTES, Text
from goclaw.tools.toolkit.base import ToolContext, tool
from goclaw.tools.toolkit.results import Result
from goclaw.tools.toolkit.scheduling import ResourceUse


class EditResult(Result):
    """What became of the file."""

    path: str
    tier: Annotated[MatchTier, Field(description="How closely old_string was found.")]
    places: Annotated[int, Field(ge=1)]
    how: str
    preview: Annotated[str, Field(description="The lines that changed, and some around.")]
    change: Annotated[str, Field(description="The change in a few words.")]

    def text(self) -> str:
        """Return the file, how the text was found unless exactly, and the preview."""
        return f"edited {self.path}{self.how}\n{self.preview}"


async def _grounds(arguments: Any, ctx: ToolContext) -> Grounds:
    wanted = Replacement(arguments.old_string, arguments.new_string, arguments.replace_all)
    check(wanted)
    text = await text_in(ctx, arguments.path)
    fuzzy = ctx.config.tools.edit.allow_fuzz_on_edits
    made = await asyncio.to_thread(replace_text, arguments.path, text, text.body, wanted, fuzzy=fuzzy)
    return await grounds_of(ctx, [Proposed(arguments.path, text.body, made.body)])


@tool(
    side_effect=SideEffect.MUTATING,
    idempotent=False,
    foreign=True,
    risk=review_risk,
    grounds=_grounds,
    tags=("filesystem", "write"),
    annotations=Annotations("Edit a file", read_only=False, destructive=True, idempotent=False, open_world=False),
    access=lambda arguments, ctx: ResourceUse(writes=(arguments.path,)),
    asks="change {{ path or 'a file' }}",
    does="write files",
    call_hint="Editing {{ path }}",
    result_hint="Edited {{ path }}{{ how }}{% if change %}: {{ change }}{% endif %}",
    artifacts={DIFF: Difference},
    examples=(
        Example(
            "One call becomes another",
            {"path": "main.py", "old_string": "print('hello')", "new_string": "print('world')"},
            "edited main.py",
            {"main.py": "print('hello')\n"},
        ),
        Example(
            "A name, everywhere in the file",
            {"path": "a.py", "old_string": "cnt", "new_string": "count", "replace_all": True},
            "edited a.py (2 places)",
            {"a.py": "cnt = 1\nprint(cnt)\n"},
        ),
    ),
)
async def edit(
    ctx: ToolContext,
    path: FilePath,
    old_string: Annotated[str, Field(description="Text to find: exactly as in the file, and only once in it.")],
    new_string: Annotated[str, Field(description="Replacement text.")],
    replace_all: Annotated[bool, Field(description="Replace every place where it stands.")] = False,
) -> EditResult:
    """Edit a file by replacing a text that occurs exactly once. Returns a preview of the change."""
    wanted = Replacement(old_string, new_string, replace_all)
    check(wanted)
    text, made = await again_unless_approved(ctx, "edit", partial(_change, ctx, path, wanted))
    changed = await difference(path, text.body, made.body)
    ctx.attach(DIFF, changed)
    match = made.match
    return EditResult(
        path=path, tier=match.tier, places=len(match.spans), how=made.how, preview=made.preview, change=changed.brief()
    )


async def _change(ctx: ToolContext, path: str, wanted: Replacement) -> tuple[Text, Replaced]:
    """Make the replacement in the file; return its text before, and the replacement."""
    text = await text_in(ctx, path)
    fuzzy = ctx.config.tools.edit.allow_fuzz_on_edits
    made = await asyncio.to_thread(replace_text, path, text, text.body, wanted, fuzzy=fuzzy)
    content = text.content(made.body)
    written = await ctx.workspace.write_bytes(path, content, unless_changed=text.version)
    await note_change(ctx, written.path, text, content)
    return text, made


_MAX_EDITS = 100
"""Edits in one call."""
_ALIASES = AliasChoices("path", "file_path")


class Edit(BaseModel):
    """One replacement."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    old_string: Annotated[str, Field(description="Text to find, as the edits before left it; only once in the file.")]
    new_string: Annotated[str, Field(description="Replacement text.")]
    path: Annotated[
        str | None, Field(validation_alias=_ALIASES, description="The file, where it is another than the call's.")
    ] = None
    replace_all: Annotated[bool, Field(description="Replace every place where it stands.")] = False


class MultiEditResult(Result):
    """What became of the files."""

    paths: list[str]
    edits: Annotated[int, Field(ge=1)]
    preview: Annotated[str, Field(description="For each edit the lines that changed, and some around.")]

    def text(self) -> str:
        """Return the preview, under a line that all edits were made."""
        return f"made {self.edits} edits in {', '.join(self.paths)}\n{self.preview}"


@dataclass(slots=True)
class _File:
    """A file on its way from one content to the next."""

    path: str
    text: Text
    body: str


def _paths(arguments: Any) -> tuple[str, ...]:
    named = [edit.path or arguments.path for edit in arguments.edits]
    return tuple(dict.fromkeys(path for path in named if path))


async def _grounds_of_all(arguments: Any, ctx: ToolContext) -> Grounds:
    files, _ = await _plan(ctx, arguments.path, arguments.edits)
    return await grounds_of(ctx, [Proposed(file.path, file.text.body, file.body) for file in files])


@tool(
    side_effect=SideEffect.MUTATING,
    idempotent=False,
    foreign=True,
    risk=review_risk,
    grounds=_grounds_of_all,
    tags=("filesystem", "write"),
    annotations=Annotations("Edit files", read_only=False, destructive=True, idempotent=False, open_world=False),
    access=lambda arguments, ctx: ResourceUse(writes=_paths(arguments)),
    asks="change {{ path or 'several files' }}",
    does="write files",
    call_hint="Making {{ edits | count }} edits{{ ' in ' ~ path if path else '' }}",
    result_hint="Made {{ edits }} edits in {{ paths | join(', ') }}",
    examples=(
        Example(
            "Two edits of one file",
            {
                "path": "a.py",
                "edits": [
                    {"old_string": "one = 1", "new_string": "one = 10"},
                    {"old_string": "two = 2", "new_string": "two = 20"},
                ],
            },
            "made 2 edits in a.py",
            {"a.py": "one = 1\ntwo = 2\n"},
        ),
    ),
)
async def multi_edit(
    ctx: ToolContext,
    edits: Annotated[list[Edit], Field(min_length=1, max_length=_MAX_EDITS, description="The replacements, in order.")],
    path: Annotated[
        str | None, Field(validation_alias=_ALIASES, description="The file of all edits that name none.")
    ] = None,
) -> MultiEditResult:
    """Make several edits, in one file or in several. All are made, or none is: one that has no place changes nothing.

    Each edit sees what those before it made.
    """
    files, done = await again_unless_approved(ctx, "multi_edit", partial(_change_all, ctx, path, edits))
    return MultiEditResult(
        paths=[file.path for file in files],
        edits=len(edits),
        preview="\n".join(f"{name}{made.how}\n{made.preview}" for name, made in done),
    )


async def _change_all(
    ctx: ToolContext, path: str | None, edits: Sequence[Edit]
) -> tuple[list[_File], list[tuple[str, Replaced]]]:
    files, done = await _plan(ctx, path, edits)
    # To its end even when the turn is stopped: half of it would be neither all nor none.
    await wait_without_cancelling(asyncio.create_task(_write(ctx, files), name="multi_edit"))
    return files, done


async def _plan(
    ctx: ToolContext, path: str | None, edits: Sequence[Edit]
) -> tuple[list[_File], list[tuple[str, Replaced]]]:
    """Return every file with all edits made, in memory, and the outcome of each edit.

    Raises:
        ToolError: one of them cannot be made; the message says which.
    """
    files: dict[str, _File] = {}
    done: list[tuple[str, Replaced]] = []
    fuzzy = ctx.config.tools.edit.allow_fuzz_on_edits
    for number, edit in enumerate(edits, 1):
        name = edit.path or path
        if not name:
            raise InvalidInput(f'field "edits.{number - 1}.path": expected string, got nothing (nor does the call)')
        try:
            wanted = Replacement(edit.old_string, edit.new_string, edit.replace_all)
            check(wanted)
            file = await _file(ctx, name, files)
            made = await asyncio.to_thread(replace_text, name, file.text, file.body, wanted, fuzzy=fuzzy)
        except ToolError as error:
            raise ToolError(f"nothing was changed: edit {number} of {len(edits)}: {error}") from error
        file.body = made.body
        done.append((name, made))
    return list(files.values()), done


async def _file(ctx: ToolContext, name: str, files: dict[str, _File]) -> _File:
    real = await asyncio.to_thread(ctx.workspace.real, name)  # two names of one file are one
    if real not in files:
        files[real] = _File(name, text := await text_in(ctx, name), text.body)
        if sum(len(file.body) for file in files.values()) > MAX_BYTES:
            raise ToolError(f"the files together are too large: multi_edit takes at most {MAX_BYTES:,} characters")
    return files[real]


async def _write(ctx: ToolContext, files: Sequence[_File]) -> None:
    """Write all files; when one of them cannot be written, those before it are restored."""
    written: dict[str, _File] = {}
    try:
        for file in files:
            content = file.text.content(file.body)
            made = await ctx.workspace.write_bytes(file.path, content, unless_changed=file.text.version)
            written[made.path] = file
    except ToolError as error:
        lost = [file.path for file in written.values() if not await _put_back(ctx, file)]
        if isinstance(error, FileChanged) and not lost:
            raise
        rest = f"; {', '.join(lost)} could not be put back as they were" if lost else "; nothing was changed"
        raise ToolError(f"{error}{rest}") from error
    for path, file in written.items():
        await note_change(ctx, path, file.text, file.text.content(file.body))


async def _put_back(ctx: ToolContext, file: _File) -> bool:
    """Put back the file's old content; returns whether it has it. A change made by others meanwhile stays."""
    try:
        now = await text_in(ctx, file.path)
        if now.content(now.body) == file.text.content(file.body):
            await ctx.workspace.write_bytes(file.path, file.text.content(file.text.body), unless_changed=now.version)
            return True
    except ToolError:
        pass
    return False
