"""The `schedule` tool: actions at a later time, for the person whom the agent talks with.

The agent's proposal is checked as `/schedule` checks it, and the result repeats the moment in words, so that a slip
is seen. A message to the person's own chat is a reminder and harmless; a task costs money later, when a person may not
be there. It is of medium risk and not high, since it can do nothing that the agent could not do now without asking:
a call of its turns that would ask is refused then.
"""

from typing import Annotated, Any, Literal

from pydantic import Field

from goclaw.common.core.events import Address, Delivery
from goclaw.common.specs import Annotations, Example, Risk, SideEffect
from goclaw.tools.approval.guard import Route, Sink
from goclaw.tools.toolkit.base import CallRisk, ToolContext, guarded, tool
from goclaw.tools.toolkit.results import Result
from goclaw.tools.toolkit.schedule_orders import ScheduleOrder, ScheduleRequest
from goclaw.tools.toolkit.scheduling import ResourceUse

MAX_TEXT = 20_000
"""Characters of a message or task (`schedules.requests.MAX_TEXT`)."""

_Short = Annotated[str, Field(max_length=200)]
_Text = Annotated[str, Field(max_length=MAX_TEXT)]


class Scheduled(Result):
    """What has come of an order."""

    answer: str

    def text(self) -> str:
        return self.answer


def _risk(arguments: Any, ctx: ToolContext) -> Risk:
    channel, _, chat = arguments.to.partition(":")
    if chat:  # where no message can go, none is asked about
        ctx.check_delivery(Delivery("", Address(channel, chat)))
    if arguments.to:
        return Risk.HIGH  # as a message to another chat is
    acts_later = arguments.task or arguments.action in ("run", "resume")
    return Risk.MEDIUM if acts_later else Risk.LOW


def _sink(arguments: Any, ctx: ToolContext) -> Sink | None:
    # A message to the person, once, is a reminder.
    if arguments.action != "add" or not (arguments.task or arguments.every or arguments.cron):
        return None
    what = "a task is set" if arguments.task else "a message is set"
    when = f"every {arguments.every}" if arguments.every else arguments.cron or arguments.at
    return Sink(Route.LASTING, f"{what} ({when})")


@guarded(_sink)
@tool(
    side_effect=SideEffect.MUTATING,
    risk=CallRisk(Risk.HIGH, _risk),
    idempotent=False,
    title="Schedules",
    tags=("conversation",),
    annotations=Annotations(read_only=False, destructive=False, idempotent=False, open_world=False),
    foreign=False,
    access=lambda arguments, ctx: ResourceUse(orders=("schedules",)),
    asks="{{ action }} a {% if task %}task for later{% else %}reminder{% endif %}{% if name %}, {{ name }}{% endif %}",
    does="set reminders",
    call_hint="Schedules: {{ action }}{% if name %} {{ name }}{% endif %}",
    result_hint="{{ answer | truncate(120) }}",
    examples=(
        Example(
            "Remind the person in 20 minutes",
            {"action": "add", "at": "20m", "message": "Drink tea"},
            "reminder-1 is set: ",
        ),
        Example(
            "A look at the news on weekdays",
            {"action": "add", "name": "news", "cron": "30 8 * * 1-5", "task": "Tell what is new in the project"},
            "news is set: ",
        ),
        Example("What is set", {"action": "list"}, "- reminder-1 (message): "),
    ),
)
async def schedule(
    ctx: ToolContext,
    action: Annotated[
        Literal["add", "list", "remove", "pause", "resume", "run"], Field(description="run: now, beside its times.")
    ],
    name: Annotated[_Short, Field(description="Letters, digits, - and _; for add it may be left out.")] = "",
    at: Annotated[_Short, Field(description="Once: 20m, 8:00, tomorrow 8:00 or 2026-12-24T18:00.")] = "",
    every: Annotated[_Short, Field(description="Again and again: 30m, 2h, 1d.")] = "",
    cron: Annotated[_Short, Field(description="Minute, hour, day, month, weekday, in the person's time zone.")] = "",
    message: Annotated[_Text, Field(description="Sent word for word, without a model.")] = "",
    task: Annotated[_Text, Field(description="What is to be done then, in a fresh conversation.")] = "",
    to: Annotated[_Short, Field(description="Another chat than this one: telegram:<id>.")] = "",
    ask: Annotated[bool, Field(description="Whether calls of a task that need approval ask the person.")] = False,
    budget: Annotated[float | None, Field(gt=0, description="US dollars for one run of a task.")] = None,
    time_limit: Annotated[_Short, Field(description="For one run of a task: 10m.")] = "",
) -> Scheduled:
    """Remind the person or do a task later, once or again and again.

    `add` takes one of at, every and cron, and one of message and task. Tell the person the moment as the result has it:
    weekday, date, time and zone. The other actions take the name of one of the person's schedules; `list` needs none.
    """
    request = ScheduleRequest(at, every, cron, message, task, to, ask=ask, budget=budget, time_limit=time_limit)
    return Scheduled(answer=await ctx.schedule(ScheduleOrder(action, name, request)))
