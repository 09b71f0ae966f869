"""Sampling: a model answers for a tool, at the expense of the tool's turn, as MCP servers request.

It is no step of the turn: it ends with the call that requests it, and a repeated call asks again. Its costs are booked
for the turn and the person, and no answer is begun that the turn could not afford itself.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace

from goclaw.context.sanitize import sound
from goclaw.context.untrusted_content import no_reminder
from goclaw.errors import ConfigError, LimitReached, ModelError, StateError, ToolError
from goclaw.llm.base import UNCACHED, ChatModel, Finished, Request, Stop
from goclaw.messages import UserMessage
from goclaw.records import record
from goclaw.redact import mask_known
from goclaw.sessions.agent_run import AgentRun
from goclaw.sessions.costs import Costs
from goclaw.toolkit.sampling import Sample, Sampled

log = logging.getLogger(__name__)


@record
class ToolSampling:
    """Has models answer for the tools of one agent at work."""

    agent_run: AgentRun
    costs: Costs

    async def answer(self, wanted: Sample, models: Callable[[], Awaitable[ChatModel]]) -> Sampled:
        """Ask the model.

        Args:
            wanted: the request.
            models: opens the models that answer, if the turn can afford it.

        Raises:
            ToolError: it does not answer. The asker may see the error, so it says little.
        """
        try:
            done = await self._asked(await models(), wanted)
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
            log.error("what a model answered to %s cannot be booked: %s", wanted.asker, error)
            raise ToolError("the model is not asked: what it takes cannot be booked now") from None
        if done.stop is Stop.REFUSAL:
            raise ToolError("the model declined to answer")
        used, text = done.usage, mask_known(sound(done.message).text)
        return Sampled(text, done.spec, used.input + used.output, "length" if done.stop is Stop.LENGTH else "end")

    async def _asked(self, model: ChatModel, wanted: Sample) -> Finished:
        if not model.sees_images and any(isinstance(each, UserMessage) and each.images for each in wanted.messages):
            raise ToolError("the model that would answer sees no pictures")
        # Only the runtime reminds, here as in a conversation.
        messages = [replace(each, text=no_reminder(each.text)) for each in wanted.messages]
        request = Request(no_reminder(wanted.system), messages, max_output=wanted.most_tokens, cache=UNCACHED)
        async with self.agent_run.policy.planning().request(), model.stream(request) as events:
            async for event in events:
                if isinstance(event, Finished):
                    await self._book(event)
                    return event
        raise ToolError("the model ended without an answer")

    async def _book(self, done: Finished) -> None:
        turn = self.agent_run.turn
        person = turn.inbound.actor.key
        await self.costs.spending.keep(self.costs.row(self.agent_run.session.key, turn.id, "sampling", done, person))
