"""Detection of a conversation that cannot fit its model's window, with what uses the window and what helps."""

from collections.abc import Awaitable, Callable
from contextlib import suppress

from goclaw.common.core.events import Actor
from goclaw.common.core.records import record
from goclaw.conversation.agent.context.budget import ContextBudget
from goclaw.conversation.agent.context.window import Window
from goclaw.conversation.agent.kinds import Kind
from goclaw.conversation.sessions.state import Session
from goclaw.errors import ConfigError, GoclawError, ModelError, ModelErrorKind, StateError
from goclaw.llm.base import ChatModel


@record
class WindowShortage:
    """Measures what requests hold. Nothing here changes a context."""

    budget: Callable[[Session, Actor, Kind, ChatModel], Awaitable[ContextBudget]]
    """Returns how the next request divides the window; raises StateError where the workspace cannot be opened."""
    model: Callable[[str, Kind], Awaitable[ChatModel]]
    """Returns the model of an agent in a session; raises ConfigError where none can be opened."""

    async def shortage(self, session: Session, actor: Actor, kind: Kind, model: ChatModel) -> str:
        """Explain why no conversation fits the model's window, for `/status`; empty: one does, or it is unknown."""
        with suppress(StateError):  # a request would end with the error; a line of the status need not
            found = await self.budget(session, actor, kind, model)
            return "" if found.fits else found.sentence()
        return ""

    async def at_start(self, actor: Actor, main: Kind) -> str:
        """Return why no new conversation of `actor` fits, and what helps, in one line for the log; empty: one does."""
        with suppress(ConfigError, StateError):  # said where a request is made
            model = await self.model("", main)
            found = await self.budget(Session("", Window()), actor, main, model)
            return "" if found.fits else f"{model.spec}: {found.line()}"
        return ""

    async def at_first_answer(self, session: Session, actor: Actor, kind: Kind) -> str:
        """Return the same after the first answer of a context, for its people."""
        with suppress(ConfigError, StateError):  # the answer is there all the same
            found = await self.budget(session, actor, kind, await self.model(session.key, kind))
            return "" if found.fits else found.explain()
        return ""

    async def in_words(self, error: GoclawError, session: Session, actor: Actor, kind: Kind) -> str:
        """Return the text of an error; of a request that did not fit also what uses the window, and what helps."""
        if isinstance(error, ModelError) and error.kind is ModelErrorKind.OVERFLOW:
            with suppress(ConfigError, StateError):
                found = await self.budget(session, actor, kind, await self.model(session.key, kind))
                if found.is_tight:  # else the server knows another window than we do
                    return f"{error}\n\n{found.explain()}"
        return str(error)
