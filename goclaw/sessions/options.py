"""The settings of one conversation, as the tool `config` reads and chooses them."""

from collections.abc import Mapping
from pathlib import Path
from typing import get_args

from goclaw.config.values import QueueMode
from goclaw.errors import ToolError
from goclaw.events import Actor
from goclaw.records import record
from goclaw.sessions.modes import Modes
from goclaw.sessions.queueing import QueueModes
from goclaw.toolkit.settings import SettingsPort

QUEUE, MODE = "session.queue_mode", "session.mode"


@record
class SessionOptions(SettingsPort):
    """The settings that a turn reads and chooses."""

    key: str
    actor: Actor
    queue_modes: QueueModes
    modes: Modes
    file: Path | None

    async def of_session(self) -> Mapping[str, str]:
        """Return the settings in force in the conversation. The permission mode is read-only: people choose it."""
        return {
            QUEUE: await self.queue_modes.of(self.key),
            MODE: await self.modes.of(self.key, self.actor),
        }

    async def choose(self, name: str, value: str) -> None:
        """Choose the queue mode.

        Raises:
            ToolError: it is another setting, or no such mode.
        """
        if name == MODE:
            raise ToolError(f"{MODE} is chosen by people, with /mode; a plan is put before them with exit_plan_mode")
        if name != QUEUE:
            raise ToolError(f"no such setting of a conversation: {name}")
        for mode in get_args(QueueMode):
            if value == mode:
                await self.queue_modes.set(self.key, mode)
                return
        raise ToolError(f"{QUEUE}: {value[:100]!r} should be one of {', '.join(get_args(QueueMode))}")
