"""Selection of the agent for a message: by its command, by `/agent` of the session, by a route, or `main`.

The agent is looked up for every turn and kept for the whole turn: a turn resumed after a crash keeps its agent. An
agent that the person may not use never answers. Where an operator's route names a missing agent, no agent answers,
because another one may be less restricted.
"""

from collections.abc import Sequence
from functools import partial

from goclaw.common.auth.access import Access
from goclaw.common.config.agents import MAIN, RouteSettings
from goclaw.common.core.codec import Codec
from goclaw.common.core.events import Actor, Inbound
from goclaw.common.core.records import record
from goclaw.conversation.agent.kinds import Kind, Kinds, by_command, by_place, command_in, commands_of
from goclaw.conversation.sessions.models import Models
from goclaw.conversation.sessions.state import AGENT, Contexts
from goclaw.durable.engine.base import Turn
from goclaw.durable.store.settings import Settings
from goclaw.errors import AccessDenied, ConfigError
from goclaw.llm.base import ChatModel

_NAME: Codec[str] = Codec(str)
_STEP = "agent"
_FIRST_ANSWER = "model:1"

BY_COMMAND, BY_CHOICE, BY_ROUTE, BY_DEFAULT = "by its command", "set by /agent", "by agents.routes", ""
BY_SCHEDULE = "set by the schedule"


@record
class SelectedAgent:
    """The agent that answers, and the reason."""

    kind: Kind
    why: str = BY_DEFAULT


class AgentSelector:
    """Finds who answers in each session."""

    def __init__(self, kinds: Kinds, *, access: Access, contexts: Contexts, models: Models, stored: Settings) -> None:
        self.kinds = kinds
        self._access = access
        self._contexts = contexts
        self._models = models
        self._stored = stored
        self.main = self._find(MAIN, BY_DEFAULT)

    @property
    def routes(self) -> Sequence[RouteSettings]:
        return self.kinds.config.agents.routes

    def may(self, actor: Actor, agent: str) -> bool:
        """Whether an actor may have the agent of this name work for them."""
        return self._access.authorize(actor, "agent.use", agent).allowed

    async def answering(self, actor: Actor | None, session: str) -> tuple[Kind, str]:
        """Return the agent that answers an actor in a session, and the line about it for people."""
        if actor is None:
            return self.main, ""
        try:
            found = await self.of(actor, session)
        except (AccessDenied, ConfigError) as error:
            return self.main, f"none. {error}"
        chosen, line = await self.choice_for(session), f"{found.kind.name} ({found.why})" if found.why else ""
        if chosen and chosen != found.kind.name:
            line = f"{found.kind.name}; {chosen}, chosen with /agent, no longer exists or is not available to you"
        return found.kind, line

    async def model(self, session: str, kind: Kind) -> ChatModel:
        """Return the model that an agent uses in a session. Raises ConfigError where none can be opened."""
        own = () if kind.name == MAIN or await self._models.choice_for(session) else kind.settings.chain
        return await self._models.answering(session, own)

    async def of_turn(self, turn: Turn) -> SelectedAgent:
        """Return the agent of a turn; the same after a crash, unless it was removed or the person may no longer use it.

        Raises:
            AccessDenied: no agent may answer the person.
            ConfigError: a route names a missing agent.
        """
        inbound = turn.inbound
        began = await self._began(turn)
        if began and (known := self.kinds.of(began)) and self.may(inbound.actor, began):
            return SelectedAgent(known)
        if (unattended := inbound.unattended) and unattended.agent:
            found = self._select(inbound.actor, unattended.agent, BY_SCHEDULE)
        else:
            found = await self.of(inbound.actor, inbound.session, command_in(inbound), _chat(inbound))
        if found.kind.name != MAIN:
            await turn.step(_STEP, partial(_given, found.kind.name), _NAME)
        return found

    async def _began(self, turn: Turn) -> str:
        """Return the agent that began the turn in an earlier run; empty: none had. `main` is not recorded: no write."""
        if turn.has_record(_STEP):
            return (await turn.step(_STEP, partial(_given, MAIN), _NAME)).value
        return MAIN if turn.has_record(_FIRST_ANSWER) else ""

    def _select(self, actor: Actor, agent: str, why: str) -> SelectedAgent:
        """Return the agent that an unattended turn, or a command, names; raises as `of_turn` does."""
        kind = self._find(agent, why)
        if not self.may(actor, kind.name):
            raise AccessDenied(f"You may not use the agent {kind.name}.")
        return SelectedAgent(kind, why)

    async def of(self, actor: Actor, session: str, command: str = "", chat: str = "") -> SelectedAgent:
        """Return the agent for a person in a session who gives that command there; raises as `of_turn` does."""
        places = [name for name in (session, chat) if name]
        if route := by_command(self.routes, command, actor.key, places):
            return self._select(actor, route.agent, BY_COMMAND)
        chosen = await self.choice_for(session)
        if chosen and (known := self.kinds.of(chosen)) and self.may(actor, chosen):
            return SelectedAgent(known, BY_CHOICE)
        if route := by_place(self.routes, actor.key, places):
            kind = self._find(route.agent, BY_ROUTE)
            if self.may(actor, kind.name):
                return SelectedAgent(kind, BY_ROUTE)
        if not self.may(actor, MAIN):
            raise AccessDenied("No agent is available to you here. An admin can change that.")
        return SelectedAgent(self._find(MAIN, BY_DEFAULT))

    def commands(self, actor: Actor) -> dict[str, str]:
        """Return the slash commands for the actor to reach an agent, with the agent's name."""
        found = commands_of(self.routes, actor.key)
        return {command: agent for command, agent in found if self.may(actor, agent) and self.kinds.of(agent)}

    def is_command(self, inbound: Inbound) -> bool:
        """Whether a message gives a command that leads its sender to an agent."""
        places = [inbound.session, _chat(inbound)]
        route = by_command(self.routes, command_in(inbound), inbound.actor.key, places)
        return route is not None and self.may(inbound.actor, route.agent)

    async def choice_for(self, session: str) -> str:
        """Return the agent chosen by `/agent` for a session; empty if none."""
        return (await self._contexts.session(session)).settings.agent

    def list_for(self, actor: Actor) -> list[Kind]:
        """Return the agents that may answer the actor."""
        found = (self.kinds.of(name) for name in self.kinds.answering if self.may(actor, name))
        return [kind for kind in found if kind]

    async def choose(self, session: str, name: str, actor: Actor) -> None:
        """Select the agent of a session from its next turn on; an empty name returns to the routes.

        Raises:
            AccessDenied: there is no agent of that name that may answer the actor.
        """
        if name and name not in [kind.name for kind in self.list_for(actor)]:
            raise AccessDenied(f"You have no agent {name[:40]!r}.")
        await self._stored.set(session, AGENT, name or None)
        (await self._contexts.session(session)).settings.agent = name

    def _find(self, name: str, why: str) -> Kind:
        kind = self.kinds.of(name)
        if kind is None:
            raise ConfigError(
                f"{why or 'It'} is the agent {name} to answer, but there is no such agent: see `goclaw agents list`"
            )
        return kind


async def _given(name: str) -> str:
    return name


def _chat(inbound: Inbound) -> str:
    return f"{inbound.address.channel}:{inbound.address.chat}"
