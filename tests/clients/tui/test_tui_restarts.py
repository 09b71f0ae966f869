"""After the daemon died and came back the screen is the same as if it had lived, at whatever write it died."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from goclaw.clients.tui.app import Terminal
from goclaw.clients.tui.widgets.prompt import Prompt
from goclaw.common.core.events import Actor, QuestionAsked
from goclaw.common.core.messages import ToolCall
from goclaw.common.core.supervise import background
from goclaw.common.specs import Risk, SideEffect
from goclaw.errors import StateError
from goclaw.gateway.servers.socket_file import open_socket
from goclaw.tools.builtin.ask_user import ask_user
from goclaw.tools.builtin.planning import todo_write
from goclaw.tools.toolkit.base import Tool, ToolContext, tool
from tests.clients.tui.bad_line import BadLine, open_bad_line
from tests.clients.tui.fake_daemon import SESSION, Screen, Stage
from tests.clients.tui.screen import rest
from tests.clients.tui.unseen import Unseen
from tests.harness import PATIENCE, Answer, Core, World, before_the_next_look
from tests.lanes import repeats

SIZE = (100, 60)
LAST = "Blue it is."
MOST_WRITES = 18
EVERY = repeats(3, 1)


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
        item = core.sessions.ports.questions._open.get(question)
        if item is not None:
            try:
                await core.gateway.decide(ME, question, "blue")
            except StateError:
                return  # it died of this


ME = Actor(SESSION, "socket", owner=True)


@asynccontextmanager
async def stage_of(
    folder: Path, *, on_screen: bool = False, die_before: int | None = None, die_after: int | None = None
) -> AsyncIterator[tuple[Unseen | Screen, Life]]:
    await asyncio.to_thread(folder.mkdir, exist_ok=True)
    world = story(folder)
    stage = Stage(folder, world.clock)
    async with asyncio.timeout(2 * PATIENCE), open_bad_line(stage.place.socket, folder / "d") as line:
        life = Life(world, line, folder / "d")
        async with background(life.live(die_before, die_after), "the daemon"):
            if on_screen:
                async with stage.terminal(SIZE, ready="● connected") as screen:
                    await screen.press("ctrl+l")
                    yield screen, life
            else:
                async with stage.unseen(ready="● connected") as client:
                    yield client, life


async def seen(client: Unseen | Screen) -> str:
    """Ask, and see what there is in the end.

    What stands in no row may be missing, but is not there twice: that the model thought, the card of a question that
    was answered, times of less than a second. Tokens are the provider's count in one run and an estimate in the next.
    """
    await client.until("● connected")
    if isinstance(client, Unseen):
        await client.send("paint it")
        link = client.link
    else:
        assert isinstance(client.terminal, Terminal)
        client.terminal.query_one(Prompt).put("paint it")
        await client.press("enter")
        link = client.terminal._link
    await client.until(LAST)
    await client.until("working", gone=True)
    await client.until("● connected")
    async with asyncio.timeout(PATIENCE):
        while link.unsent():
            await before_the_next_look()
        text = ""
        while text != (text := client.text()):
            await rest()
            await client.until("● connected")  # a death at the very end is noticed only now
    assert len(re.findall("thought", text)) <= 2 and len(re.findall(r"[✓·] Which\?", text)) <= 1, text
    text = re.sub(r"\d+ of 200k", "few of 200k", text)
    return re.sub(r"(?m)  ~?0(\.0)? s| +thought\n|^thought\n| *(│ )?[✓·] Which\?.*\n", "", text)


_undisturbed: dict[bool, tuple[str, int]] = {}


async def undisturbed(folders: pytest.TempPathFactory, *, on_screen: bool) -> tuple[str, int]:
    """Return what a client of a daemon that lives shows, and how often it writes."""
    if on_screen not in _undisturbed:
        async with stage_of(folders.mktemp("u"), on_screen=on_screen) as (client, life):
            text = await seen(client)
        assert life.deaths == 0
        _undisturbed[on_screen] = (text, life.writes)
    return _undisturbed[on_screen]


@pytest.mark.parametrize("on_screen", [False, pytest.param(True, marks=pytest.mark.screen)])
async def test_the_story_shows_everything_once(tmp_path_factory: pytest.TempPathFactory, on_screen: bool) -> None:
    text, writes = await undisturbed(tmp_path_factory, on_screen=on_screen)
    for words in ("paint it", "I will look.", "✓ peek  here", "seen: here", "Let me ask.", LAST):
        assert text.count(words) == 1, text
    assert 10 < writes <= MOST_WRITES, "the tests below kill the daemon at each of them"


@pytest.mark.deep
@pytest.mark.promise("P-terminal-history")
@pytest.mark.parametrize("number", range(1, MOST_WRITES, EVERY))
@pytest.mark.parametrize("when", ["die_before", "die_after"])
async def test_a_daemon_that_died_at_any_write_leaves_no_trace(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, when: str, number: int
) -> None:
    await die_and_compare(tmp_path, tmp_path_factory, when, number, on_screen=False)


@pytest.mark.deep
@pytest.mark.promise("P-terminal-history")
@pytest.mark.parametrize("number", repeats([MOST_WRITES // 2], range(1, MOST_WRITES, 4)))
@pytest.mark.screen
async def test_a_daemon_that_died_leaves_no_trace_on_a_screen(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, number: int
) -> None:
    await die_and_compare(tmp_path, tmp_path_factory, "die_before", number, on_screen=True)


async def die_and_compare(
    folder: Path, folders: pytest.TempPathFactory, when: str, number: int, *, on_screen: bool
) -> None:
    expected, writes = await undisturbed(folders, on_screen=on_screen)
    if number > writes:
        pytest.skip("the daemon has nothing more to write")
    async with stage_of(folder, on_screen=on_screen, **{when: number}) as (client, life):
        assert await seen(client) == expected
    assert life.deaths == 1
