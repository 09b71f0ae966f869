"""A bench to try an agent on: the daemon itself (`open_app`), in a folder of its own, and one person in memory.

`goclaw.testing` has it for tests, beside the one for tools; `goclaw declare run` talks to an agent on it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from goclaw.channels.memory import NAME, Room
from goclaw.common.config.packaged import PackagedSource
from goclaw.common.config.sources import SettingsSource, combine
from goclaw.common.core.events import (
    ALLOW,
    Choice,
    Question,
    QuestionAsked,
    TurnEvent,
    TurnFinished,
)
from goclaw.errors import StateError
from goclaw.program.app.opening import open_app
from goclaw.program.app.parts import App
from goclaw.tools.toolkit.parts import PackageParts


@dataclass
class AgentBench:
    """An agent at work. Made by `open_agent`."""

    app: App
    room: Room
    folder: Path
    """The workspace."""
    asked: list[Question] = field(default_factory=list)
    """The questions to the person, approvals among them."""
    events: list[TurnEvent] = field(default_factory=list)
    """What happened during the turns, oldest first."""
    agrees: bool = True
    """Whether the person approves calls."""
    decide: Callable[[Question], str] | None = None
    """Called in a thread: the person's answer to a question; empty: none, which denies an approval. None: approvals as
    `agrees` says, and no other answer."""

    async def say(self, text: str) -> str:
        """Say something to the agent, or a command; return the answer."""
        async with self.app.foundation.bus.subscribe(None) as events:
            accepted = await self.room.say(text)
            if not accepted.turn:
                return accepted.text
            async for event in events:
                self.events.append(event)
                if isinstance(event, QuestionAsked):
                    await self._answer(event.question)
                elif isinstance(event, TurnFinished) and event.turn == accepted.turn:
                    return event.text
        raise StateError("the agent did not answer")

    async def _answer(self, question: Question) -> None:
        self.asked.append(question)
        said = ALLOW if self.agrees and question.kind == "approval" else ""
        if self.decide:
            said = await asyncio.to_thread(self.decide, question)
        if said:
            await self.room.press(Choice(said, question.id, said))
        else:
            await self.room.say(f"/deny {question.id}")


@asynccontextmanager
async def open_agent(
    folder: Path, parts: PackageParts, name: str, *, model: str = "", **settings: Any
) -> AsyncIterator[AgentBench]:
    """Open the daemon with these parts; the agent of this name answers.

    Args:
        folder: for the workspace. The state is in a temporary folder: the path of a socket has to be short.
        parts: the declarations, the agent's among them.
        name: of the agent.
        model: the specification of its model; empty: as its declaration or `settings` say.
        settings: other keys of the configuration.

    Raises:
        ConfigError: something of it cannot be used.
    """
    with TemporaryDirectory(prefix="goclaw-") as state:
        room = Room()
        agents: dict[str, Any] = {"routes": [{"agent": name}]}
        if model:
            agents["kinds"] = {name: {"model": model, "fallbacks": []}}
        own = {
            "state_dir": state,
            "workspace": folder / "workspace",
            "channels": {NAME: {"room": room}},
            "agents": agents,
            **settings,
        }
        config = combine([SettingsSource(own), PackagedSource(parts.packaged)])
        config.workspace_path.mkdir(parents=True, exist_ok=True)
        async with open_app(config, parts=parts) as app:
            await app.foundation.tools.registry.ready()
            yield AgentBench(app, room, config.workspace_path)
