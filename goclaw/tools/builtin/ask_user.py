"""The `ask_user` tool."""

from typing import Annotated

from pydantic import BaseModel, Field

from goclaw.common.core.events import Question
from goclaw.common.specs import Example, SideEffect
from goclaw.tools.toolkit.base import ToolContext, tool
from goclaw.tools.toolkit.results import Result
from goclaw.tools.toolkit.scheduling import ResourceUse

MAX_OPTIONS = 6
"""A list that can be read at a glance (goa-tool-system, `ask_user_question`)."""
NO_ANSWER = "no answer"
_MAX_HEADING = 250
"""Characters of a question that is its own heading."""


class AskedQuestion(BaseModel, extra="forbid", strict=True):
    """One question of a call."""

    question: Annotated[str, Field(description="The question", min_length=1, max_length=2_000)]
    title: Annotated[str, Field(description="A short label for it", max_length=80)] = ""
    summary: Annotated[str, Field(description="What the person should know to answer", max_length=2_000)] = ""
    options: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=200)]],
        Field(description="Up to 6 choices", max_length=MAX_OPTIONS),
    ] = []
    required: Annotated[bool, Field(description="Whether a cancelled question is an error")] = False
    allow_free_text: Annotated[bool, Field(description="Whether an answer beside the options is taken")] = True


class Answered(Result):
    """One question with its answer."""

    question: str
    answer: Annotated[str | None, Field(description="None: there was none")]


class Answers(Result):
    """What the user said, question by question."""

    answers: tuple[Answered, ...]

    def text(self) -> str:
        return "\n\n".join(
            f"{each.question}\n{NO_ANSWER if each.answer is None else each.answer}" for each in self.answers
        )


@tool(
    side_effect=SideEffect.READ_ONLY,
    own_timeout=True,
    foreign=False,
    title="Question to the user",
    tags=("conversation",),
    access=lambda arguments, ctx: ResourceUse(orders=("the user's answers",)),
    does="ask questions",
    call_hint="Asking: {{ questions[0].question | truncate(120) }}",
    result_hint=(
        "{{ args.questions[0].question | truncate(60) }} {{ answers[0].answer or 'no answer' }}{{ ' …' if "
        "answers[1:] }}"
    ),
    examples=(
        Example(
            "Offer two choices",
            {
                "questions": [
                    {
                        "title": "Target branch",
                        "summary": "Two release branches are active",
                        "question": "Which branch should I target?",
                        "options": ["main", "release-2.x"],
                    }
                ]
            },
            output="Which branch should I target?\nmain",
        ),
    ),
)
async def ask_user(
    ctx: ToolContext,
    questions: Annotated[
        list[AskedQuestion], Field(description="Asked one after the other", min_length=1, max_length=10)
    ],
) -> Answers:
    """Ask the user when what they want is unclear and a guess would cost them something. Waits for the answers.

    Never ask what a look into the workspace can tell, and never ask for passwords.
    """
    answers = []
    for asked in questions:  # one after the other: a later one often rests on what was said before
        fits = len(asked.question) <= _MAX_HEADING and "\n" not in asked.question
        below = asked.summary if fits else "\n\n".join(part for part in (asked.summary, asked.question) if part)
        question = Question(
            id="",
            kind="question",
            asker="",
            title=asked.question if fits else asked.title or "A question",
            text=below,
            options=tuple(asked.options),
            free_text=asked.allow_free_text or not asked.options,
            required=asked.required,
        )
        answers.append(Answered(question=asked.question, answer=await ctx.ask(question)))
    return Answers(answers=tuple(answers))
