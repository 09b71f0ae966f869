"""Requests that a tool makes of its turn: an answer of a model, a call of another tool, a slash command.

Sampling is no step of the turn: it ends with the call that requests it, and a repeated call asks again. Its costs are
booked for the turn and the person, and no answer is begun that the turn could not afford itself. A forwarded call
(`passthrough` of an exported tool) is a step of its own in the same turn and takes the path of every call: known,
authorized, approved, audited, and never run twice if it must not be.
"""

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Protocol

from goclaw.common.auth.access import ChosenMode
from goclaw.common.core.codec import Codec
from goclaw.common.core.events import Delivery, Inbound, Question, Receipt, Todo
from goclaw.common.core.messages import ToolCall, ToolResult, UserMessage
from goclaw.common.core.records import record
from goclaw.common.core.redact import mask_known
from goclaw.common.specs import ToolSpec
from goclaw.conversation.agent.context.model_messages import no_reminder, sound
from goclaw.conversation.agent.limits import Planning
from goclaw.conversation.turns.agent_run import AgentRun
from goclaw.conversation.turns.costs import Costs, reservation_of
from goclaw.durable.engine.base import Turn
from goclaw.errors import ConfigError, LimitReached, ModelError, StateError, ToolError
from goclaw.llm.base import DECLINED, UNCACHED, ChatModel, Finished, Request, Stop
from goclaw.llm.token_counts import estimate_request
from goclaw.tools.approval.guard import WindowContent
from goclaw.tools.approval.requests import Approval, ApprovalRequest
from goclaw.tools.toolkit.agent_tasks import AgentReport, AgentTask, Forward
from goclaw.tools.toolkit.dispatcher import Dispatcher, outcome_unknown
from goclaw.tools.toolkit.scope import CallOptions, CallScope
from goclaw.tools.toolkit.services import Sample, Sampled, TurnServices

log = logging.getLogger(__name__)

_RESULT: Codec[ToolResult] = Codec(ToolResult)


@record
class ToolSampling:
    """Has models answer for the tools of one agent at work."""

    agent_run: AgentRun
    costs: Costs
    planning: Callable[[str, ChatModel, int | None], Planning]
    """Returns the time of an answer, given a name for it, the model and the tokens that it may have."""

    async def answer(self, wanted: Sample, models: Callable[[], Awaitable[ChatModel]]) -> Sampled:
        """Ask the model.

        Args:
            wanted: the request.
            models: opens the models that answer, if the turn can afford it.

        Raises:
            ToolError: it does not answer. The asker may see the error, so it says little.
        """
        try:
            done = await self._ask(await models(), wanted)
        except LimitReached as limit:
            log.warning("%s is not answered: %s", wanted.asker, limit)
            raise ToolError("the model is not asked: what may be spent on this turn, or today, is spent") from None
        except ConfigError as error:
            log.warning("%s is not answered: %s", wanted.asker, error)
            raise ToolError("the model is not asked: none is set up that could answer") from None
        except ModelError as error:
            log.warning("%s is not answered: %s", wanted.asker, error)
            raise ToolError(f"the model did not answer ({error.kind})") from None
        except StateError as error:
            log.error("the cost of a model's answer to %s cannot be recorded: %s", wanted.asker, error)
            raise ToolError("the model is not asked: what it takes cannot be booked now") from None
        if done.stop in DECLINED:
            raise ToolError("the model declined to answer")
        used, text = done.usage, mask_known(sound(done.message).text)
        return Sampled(text, done.spec, used.input + used.output, "length" if done.stop is Stop.LENGTH else "end")

    async def _ask(self, model: ChatModel, wanted: Sample) -> Finished:
        if not model.sees_images and any(isinstance(each, UserMessage) and each.images for each in wanted.messages):
            raise ToolError("the model that would answer sees no pictures")
        # Only the runtime reminds, here as in a conversation.
        messages = [replace(each, text=no_reminder(each.text)) for each in wanted.messages]
        request = Request(no_reminder(wanted.system), messages, max_output=wanted.max_tokens, cache=UNCACHED)
        name = f"sampling:{secrets.token_hex(8)}"
        planning = self.planning(name, model, request.max_output)
        async with planning.request(estimate_request(request)), model.stream(request) as events:
            async for event in events:
                if isinstance(event, Finished):
                    turn, session = self.agent_run.turn, self.agent_run.session.key
                    person, reservation = turn.inbound.actor.key, reservation_of(turn.id, name)
                    await self.costs.book(session, turn.id, "sampling", event, person, reservation)
                    return event
            raise ToolError("the model ended without an answer")


class ForwardedServices(TurnServices):
    """The services of a call that was handed on: those of the call that it stands for, but for what leads further.

    It hands nothing on in turn, and changes neither mode nor settings of the conversation nor gives commands: the
    exported tool was allowed to its caller, not these.
    """

    def __init__(self, services: TurnServices, turn: Turn, *, spawns: bool) -> None:
        """`turn` takes the call's intent; `spawns`: whether the call may start agents."""
        self._services = services
        self._turn = turn
        self._spawns = spawns
        self.place = services.place
        self.reminders = services.reminders
        self.teams = services.teams

    def chosen_mode(self) -> ChosenMode | None:
        return self._services.chosen_mode()

    def window(self) -> WindowContent | None:
        return self._services.window()

    async def complete(self, spec: ToolSpec, call: ToolCall, step: str) -> ToolCall:
        return await self._services.complete(spec, call, step)

    async def approve(self, wanted: ApprovalRequest) -> Approval:
        return await self._services.approve(wanted)

    async def intend(self, step: str) -> None:
        await self._turn.intend(step)

    def check_delivery(self, delivery: Delivery) -> None:
        self._services.check_delivery(delivery)

    async def deliver(self, delivery: Delivery) -> Receipt:
        return await self._services.deliver(delivery)

    async def ask(self, question: Question, step: str) -> str | None:
        return await self._services.ask(question, step)

    async def keep_todos(self, todos: Sequence[Todo]) -> None:
        await self._services.keep_todos(todos)

    async def spawn(self, task: AgentTask, step: str, call_id: str) -> AgentReport:
        if not self._spawns:
            return await super().spawn(task, step, call_id)
        return await self._services.spawn(task, step, call_id)

    async def sample(self, wanted: Sample) -> Sampled:
        return await self._services.sample(wanted)


@record
class Forwarding:
    """Hands calls on for one agent at work."""

    dispatcher: Dispatcher
    turn: Turn
    scope: CallScope
    """Of that agent."""
    selection: Sequence[str] | None = None
    """The tools of the agent that offers the call."""
    spawns: bool = True
    """Whether the call may start agents."""

    async def hand_on(self, wanted: Forward, step: str, call_id: str) -> ToolResult:
        """Make the call on behalf of the call with this step name and id, or read back its recorded result."""
        call = ToolCall(call_id, wanted.tool, dict(wanted.input))
        name = f"{step}/{wanted.tool}"
        repeatable = self.dispatcher.is_idempotent(call, self.scope.actor, wanted.agent)
        services = ForwardedServices(self.scope.services, self.turn, spawns=self.spawns)
        # The tool must belong to the offering agent and, as a rule, to the caller.
        within = (self.selection,) if wanted.own_tools else (*self.scope.selections, self.selection)
        scope = replace(self.scope, services=services, selections=within, agent=wanted.agent)

        async def run() -> ToolResult:
            if self.turn.stopping:
                raise asyncio.CancelledError
            return await self.dispatcher.call(call, scope, CallOptions(name, hidden=True))

        done = await self.turn.step(name, run, _RESULT, unknown=None if repeatable else lambda: outcome_unknown(call))
        return done.value


class CommandPort(Protocol):
    """The gateway, as the agent that answers a person uses it."""

    async def run_command(self, inbound: Inbound, text: str) -> str:
        """Run a command for the person whose message the turn answers, and return its text.

        Raises:
            ToolError: it is not allowed.
        """
