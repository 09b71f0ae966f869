"""The `edit` tool: a text in a file is replaced where it stands; see `matching` for how closely it has to be given."""

import asyncio
from functools import partial
from typing import Annotated, Any

from pydantic import Field

from goclaw.specs import Annotations, Example, SideEffect
from goclaw.toolkit.base import ToolContext, tool
from goclaw.toolkit.consent import Grounds
from goclaw.toolkit.results import Result
from goclaw.toolkit.scheduling import ResourceUse
from goclaw.tools.arguments import FilePath
from goclaw.tools.difference import KIND, Difference, difference
from goclaw.tools.editing import again_unless_approved, text_in
from goclaw.tools.matching import MatchTier
from goclaw.tools.replacing import Replaced, Replacement, check, replaced
from goclaw.tools.review import Proposed, grounds_of, review_risk
from goclaw.tools.text import Text


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
    made = await asyncio.to_thread(replaced, arguments.path, text, text.body, wanted, fuzzy=fuzzy)
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
    call_hint="Editing {{ path }}",
    result_hint="Edited {{ path }}{{ how }}{% if change %}: {{ change }}{% endif %}",
    artifacts={KIND: Difference},
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
    ctx.attach(KIND, changed)
    match = made.match
    return EditResult(
        path=path, tier=match.tier, places=len(match.spans), how=made.how, preview=made.preview, change=changed.brief()
    )


async def _change(ctx: ToolContext, path: str, wanted: Replacement) -> tuple[Text, Replaced]:
    """Make the replacement in the file; return its text before, and the replacement."""
    text = await text_in(ctx, path)
    fuzzy = ctx.config.tools.edit.allow_fuzz_on_edits
    made = await asyncio.to_thread(replaced, path, text, text.body, wanted, fuzzy=fuzzy)
    await ctx.workspace.write_bytes(path, text.content(made.body), unless_changed=text.version)
    return text, made
