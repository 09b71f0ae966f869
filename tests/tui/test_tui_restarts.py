"""After the daemon died and came back the screen is the same as if it had lived, at whatever write it died."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from goclaw.errors import StateError
from goclaw.events import Actor, QuestionAsked
from goclaw.messages import ToolCall
from goclaw.servers.socket import open_socket
from goclaw.specs import Risk, SideEffect
from goclaw.supervise import background
from goclaw.toolkit.base import Tool, ToolContext, tool
from goclaw.tools.ask_user import ask_user
from goclaw.tools.todo_write import todo_write
from goclaw.tui.app import Terminal
from goclaw.tui.widgets.prompt import Prompt
from tests.harness import PATIENCE, Answer, Core, World
from tests.lanes import repeats
from tests.tui.bad_line import BadLine, open_bad_line
from tests.tui.fake_daemon import SESSION, Screen, Stage

SIZE = (100, 60)
LAST = "Blue it is."


def peek() -> Tool:
    """A tool that may be run again."""

    @tool(side_effect=SideEffect.READ_ONLY, risk=Risk.NONE, name="peek")
    async def run(ctx: ToolContext, where: str) -> str:
        """Look."""
        return f"seen: {where}"

    return run


def story(folder: Path) -> World:
    todos = [{"content": "Look", "status": "in_progress"}, {"content": "Ask", "status": "pending"}]
    done = [{"content": "Look", "status": "completed"}, {"content": "Ask", "status": "completed"}]
    question = {"questions": [{"question": "Which?", "options": ["red", "blue"]}]}
    script = [
        Answer("I will look.", "Hm.", (ToolCall("c1", "peek", {"where": "here"}),), deltas=4, when="paint it"),
        Answer("", "", (ToolCall("c2", "todo_write", {"todos": todos}),), when="seen: here"),
        Answer("Let me ask.", "", (ToolCall("c3", "ask_user", question),), when="0 of 2"),
        Answer("", "", (ToolCall("c4", "todo_write", {"todos": done}),), when="blue"),
        Answer(LAST, "Done, I think.", deltas=3, when="2 of 2"),
    ]
    return World(folder, script, tools=[peek(), ask_user, todo_write])


class Life:
    """A daemon that dies once, and the line to it."""

    def __init__(self, world: World, line: BadLine, socket: Path) -> None:
        self._world = world
        self._line = line
        self._socket = socket
        self.deaths = 0
        self.writes = 0

    async def live(self, die_before: int | None, die_after: int | None) -> None:
        """Run for ever, from death to death."""
        while True:
            async with self._world.running(die_before=die_before, die_after=die_after) as core:
                async with open_socket(self._socket, core.gateway, self._world.clock, lambda: "Model: scripted."):
                    async with background(self._answer(core), "somebody who answers"):
                        self._line.up.set()
                        try:
                            await core.database.dead.wait()
                            self._line.hang_up()
                            self.deaths += 1
                        finally:
                            self.writes = core.database.writes
                            core.database.buried.set()
            die_before = die_after = None

    async def _answer(self, core: Core) -> None:
        async with core.gateway.subscribe(SESSION) as events:
            for question in (await core.gateway.now(SESSION)).questions:
                await self._say_blue(core, question.id)
            async for event in events:
                if isinstance(event, QuestionAsked):
                    await self._say_blue(core, event.question.id)

    async def _say_blue(self, core: Core, question: str) -> None:
        item = core.sessions.questions._open.get(question)
        if item is not None:
            try:
                await core.gateway.decide(ME, question, "blue")
            except StateError:
                return  # it died of this


ME = Actor(SESSION, "socket", owner=True)


@asynccontextmanager
async def stage_of(
    folder: Path, *, die_before: int | None = None, die_after: int | None = None
) -> AsyncIterator[tuple[Screen, Life]]:
    await asyncio.to_thread(folder.mkdir, exist_ok=True)
    world = story(folder)
    stage = Stage(folder, world.clock)
    async with asyncio.timeout(2 * PATIENCE), open_bad_line(stage.place.socket, folder / "d") as line:
        life = Life(world, line, folder / "d")
        async with background(life.live(die_before, die_after), "the daemon"):
            async with stage.terminal(SIZE, ready="● connected") as screen:
                await screen.press("ctrl+l")
                yield screen, life


async def seen(screen: Screen) -> str:
    """Ask, and see what there is in the end.

    What stands in no row may be missing, but is not there twice: that the model thought, the card of a question that
    was answered, times of less than a second. Tokens are the provider's count in one run and an estimate in the next.
    """
    await screen.until("● connected")
    screen.terminal.query_one(Prompt).put("paint it")
    await screen.press("enter")
    await screen.until(LAST)
    await screen.until("working", gone=True)
    await screen.until("● connected")
    assert isinstance(screen.terminal, Terminal)
    async with asyncio.timeout(PATIENCE):
        while screen.terminal._link.unsent():
            await screen.pilot.pause()
        text = ""
        while text != (text := screen.text()):
            await screen.pilot.pause(0.1)
    assert len(re.findall("thought", text)) <= 2 and len(re.findall("A question", text)) <= 1, text
    text = re.sub(r"\d+ of 200k", "few of 200k", text)
    return re.sub(r"(?m)  ~?0(\.0)? s| +thought\n| *│ [✓·] A question.*\n", "", text)


_undisturbed: list[tuple[str, int]] = []


@pytest.fixture
async def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, int]:
    """What somebody sees whose daemon lives, and how often that writes."""
    if not _undisturbed:
        async with stage_of(tmp_path_factory.mktemp("u")) as (screen, life):
            text = await seen(screen)
        assert life.deaths == 0
        _undisturbed.append((text, life.writes))
    return _undisturbed[0]


MOST_WRITES = 18
EVERY = repeats(6, 1)


async def test_the_story_shows_everything_once(undisturbed: tuple[str, int]) -> None:
    text, writes = undisturbed
    for words in ("paint it", "I will look.", "✓ peek  here", "seen: here", "Let me ask.", LAST):
        assert text.count(words) == 1, text
    assert 10 < writes <= MOST_WRITES, "the tests below kill the daemon at each of them"


@pytest.mark.deep
@pytest.mark.promise("P-terminal-history")
@pytest.mark.parametrize("number", range(1, MOST_WRITES, EVERY))
@pytest.mark.parametrize("when", ["die_before", "die_after"])
async def test_a_daemon_that_died_at_any_write_leaves_no_trace(
    tmp_path: Path, undisturbed: tuple[str, int], when: str, number: int
) -> None:
    expected, writes = undisturbed
    if number > writes:
        pytest.skip("the daemon has nothing more to write")
    async with stage_of(tmp_path, **{when: number}) as (screen, life):
        assert await seen(screen) == expected
    assert life.deaths == 1
