"""Questions that tests let the daemon ask, and waiting for what becomes of them."""

import asyncio
from collections.abc import Sequence

from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.events import ALLOW, DENY, Question
from tests.clients.tui.fake_daemon import PATIENCE, SESSION, FakeGateway
from tests.harness import before_the_next_look

MAY = "y allow"


def approval(clock: SteppedClock, name: str = "q1", *, about: str = "exec", asker: str = SESSION) -> Question:
    return Question(
        id=name,
        kind="approval",
        asker=asker,
        title=f"May {about} run?",
        text='exec with network.\n\n```json\n{\n  "command": "pip install left-pad"\n}\n```',
        options=(ALLOW, DENY),
        free_text=False,
        required=True,
        asked_at=clock.now(),
        expires_at=clock.now() + 1_800,
        about=about,
    )


COLOUR = Question("q7", "question", SESSION, "Colour", "Which colour should it be?", ("red", "blue"))


async def until_asleep(clock: SteppedClock) -> None:
    """Wait until a pressed letter waits for another one."""
    async with asyncio.timeout(PATIENCE):
        while not clock.sleepers:
            await before_the_next_look()


async def until_decided(daemon: FakeGateway, number: int = 1) -> Sequence[tuple[str, str]]:
    async with asyncio.timeout(PATIENCE):
        while len(daemon.decided) < number:
            await before_the_next_look()
    return daemon.decided
