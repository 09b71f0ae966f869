"""The `ask_user` tool."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from goclaw.events import Question
from goclaw.specs import SideEffect
from goclaw.toolkit.base import ToolContext, tool

MOST_OPTIONS = 6
"""A list that can be read at a glance (goa-tool-system, `ask_user_question`)."""
NO_ANSWER = "no answer"


class AskedQuestion(BaseModel):
    """One question of a call."""

    model_config = ConfigDict(extra="forbid", strict=True)

    question: Annotated[str, Field(description="The question", min_length=1, max_length=2_000)]
    title: Annotated[str, Field(description="A short label for it", max_length=80)] = ""
    summary: Annotated[str, Field(description="What the person should know to answer", max_length=2_000)] = ""
    options: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=200)]],
        Field(description="Up to 6 choices", max_length=MOST_OPTIONS),
    ] = []
    required: Annotated[bool, Field(description="Whether a cancelled question is an error")] = False
    allow_free_text: Annotated[bool, Field(description="Whether an answer beside the options is taken")] = True


@tool(side_effect=SideEffect.READ_ONLY, own_timeout=True, foreign=False)
async def ask_user(
    ctx: ToolContext,
    questions: Annotated[
        list[AskedQuestion], Field(description="Asked one after the other", min_length=1, max_length=10)
    ],
) -> str:
    """Ask the user when what they want is unclear and a guess would cost them something. Waits for the answers.

    Never ask what a look into the workspace can tell, and never ask for passwords.
    """
    lines = []
    for asked in questions:
        answer = await ctx.ask(_as_event(asked))
        lines.append(f"{asked.question}\n{NO_ANSWER if answer is None else answer}")
    return "\n\n".join(lines)


def _as_event(asked: AskedQuestion) -> Question:
    return Question(
        id="",
        kind="question",
        asker="",
        title=asked.title or "A question",
        text="\n\n".join(part for part in (asked.summary, asked.question) if part),
        options=tuple(asked.options),
        free_text=asked.allow_free_text or not asked.options,
        required=asked.required,
    )
