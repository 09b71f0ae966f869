"""After a break the screen is the same as if there had been none, wherever the connection broke."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from goclaw.clients.tui import link as link_module
from goclaw.clients.tui.app import DaemonPlace, Terminal
from goclaw.clients.tui.link import Link
from goclaw.clients.tui.widgets.prompt import Prompt
from goclaw.clients.tui.widgets.question_cards import SEEN_SECONDS
from goclaw.common.core import bus as bus_module
from goclaw.common.core import replay_buffer as replay_buffer_module
from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.events import ALLOW, Notice, Question, StreamRestarted, Todo, ToolFinished, ToolStarted
from goclaw.common.core.messages import ToolCall, ToolResult
from goclaw.gateway.servers import event_coalescing
from goclaw.gateway.servers.socket_file import open_socket
from tests.clients.tui.bad_line import BadLine, Frame, open_bad_line
from tests.clients.tui.fake_daemon import PATIENCE, SESSION, Screen, Stage
from tests.clients.tui.screen import rest
from tests.clients.tui.unseen import Unseen
from tests.harness import before_the_next_look
from tests.lanes import repeats

SIZE = (100, 76)
"""All of the story fits: what is missing, or there twice, is seen."""
TELEGRAM = "telegram:5"
COLOUR = Question("q2", "question", SESSION, "Colour", "Which?", ("red", "blue"))


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each event is a frame of its own, and is acknowledged at once."""
    monkeypatch.setattr(event_coalescing, "MOMENT_SECONDS", 0.0)
    monkeypatch.setattr(link_module, "ACK_SECONDS", 0.0)


class Scene:
    """A client, with or without a screen, a daemon, and a line between them that is not to be trusted."""

    def __init__(self, stage: Stage, clock: SteppedClock, client: Unseen | Screen, line: BadLine) -> None:
        self.daemon = stage.gateway
        self.clock = clock
        self.client = client
        self.line = line

    @property
    def link(self) -> Link:
        """The connection that the client keeps."""
        if isinstance(self.client, Unseen):
            return self.client.link
        assert isinstance(self.client.terminal, Terminal)
        return self.client.terminal._link

    async def pause(self) -> None:
        """Let everybody work for a moment."""
        await (before_the_next_look() if isinstance(self.client, Unseen) else self.client.pilot.pause())

    async def pass_time(self, seconds: float) -> None:
        """Move the clock on, while no connection is being made: that would take the time for its own."""
        async with asyncio.timeout(PATIENCE):
            while self.line.up.is_set() and not (
                self.link.connected and self.link._position.number == self.daemon.bus._pasts[SESSION].end.number
            ):
                await self.pause()
        self.clock.advance(seconds)

    async def say(self, text: str) -> str:
        """Type and send, and wait until the daemon has it; returns the turn."""
        if isinstance(self.client, Unseen):
            await self.client.send(text)
        else:
            self.client.terminal.query_one(Prompt).put(text)
            await self.client.press("enter")
        async with asyncio.timeout(PATIENCE):
            while not (found := [heard.id for heard in self.daemon.heard if heard.text == text]):
                await self.pause()
        assert len(found) == 1
        return found[0]

    async def whole(self, words: str) -> str:
        """What there is to see, once `words` are there and nothing is under way."""
        await self.client.until(words)
        await self.client.until("● connected")
        async with asyncio.timeout(PATIENCE):
            while self.link.unsent():
                await self.pause()
            for text in iter(self.client.text, None):
                await rest()
                await self.pause()
                if text == self.client.text():
                    return text
        raise AssertionError


@asynccontextmanager
async def scene(folder: Path, *, on_screen: bool = False) -> AsyncIterator[Scene]:
    await asyncio.to_thread(folder.mkdir, exist_ok=True)
    stage = Stage(folder, clock := SteppedClock())
    daemon = folder / "d"
    async with (
        asyncio.timeout(2 * PATIENCE),
        open_socket(daemon, stage.gateway, clock, lambda: "Model: scripted."),
        open_bad_line(stage.place.socket, daemon) as line,
    ):
        if not on_screen:
            async with stage.unseen() as client:
                yield Scene(stage, clock, client, line)
            return
        async with stage.terminal(SIZE) as screen:
            await screen.press("ctrl+l")
            yield Scene(stage, clock, screen, line)


async def story(scene: Scene) -> str:
    """Play everything that a session shows; only where the person acts, the client is waited for."""
    for part in (thinking_and_a_tool, notices_and_questions, from_elsewhere):
        await part(scene)
    return await scene.whole("That is all.")


async def thinking_and_a_tool(scene: Scene, meanwhile: Callable[[], None] | None = None) -> None:
    """`meanwhile`: what becomes of the line once the message has arrived."""
    daemon, pause = scene.daemon, scene.pause
    turn = await scene.say("do it")
    if meanwhile is not None:
        meanwhile()
        await scene.client.until("reconnecting")
    daemon.begin(turn, "do it")
    daemon.think(turn, "Hm, ")
    await scene.pass_time(2)
    daemon.think(turn, "let me see.")
    await scene.pass_time(2)
    daemon.stream(turn, "I will ")
    await pause()
    daemon.stream(turn, "look.")
    call = ToolCall("c1", "read", {"path": "notes.txt"})
    daemon.answer(turn, "I will look.", call)
    daemon.bus.publish(ToolStarted(turn, SESSION, "c1", "read", call.input))
    await scene.pass_time(1.5)
    daemon.bus.publish(ToolFinished(turn, SESSION, "c1", "read", "the notes", False, 1.5))
    daemon.tell(turn, ToolResult("c1", "read", "the notes"))
    daemon.plan(turn, Todo("Read", "completed"), Todo("Write", "in_progress"))
    await pause()


async def notices_and_questions(scene: Scene) -> None:
    daemon, pause = scene.daemon, scene.pause
    turn = daemon.heard[0].id
    daemon.bus.publish(Notice(SESSION, "compacting the context", turn))
    await pause()
    daemon.bus.publish(Notice(SESSION, "12 messages became a summary", turn))
    daemon.ask(turn, Question("q1", "approval", SESSION, "May exec run?", "with network", (ALLOW, "deny")))
    await pause()
    daemon.close("q1", ALLOW, TELEGRAM)
    daemon.ask(turn, COLOUR)
    await scene.client.until("Which?")
    await scene.say("red")
    daemon.stream(turn, "Wrong begin")
    await pause()
    daemon.bus.publish(StreamRestarted(turn, SESSION, "cut"))
    daemon.stream(turn, "It will ")
    await scene.pass_time(1)
    daemon.stream(turn, "be **red**.")
    await pause()
    daemon.plan(turn, Todo("Read", "completed"), Todo("Write", "completed"))
    daemon.answer(turn, "It will be **red**.")
    await pause()


async def from_elsewhere(scene: Scene) -> None:
    daemon, pause = scene.daemon, scene.pause
    await scene.say("/status")
    await scene.client.until("Answer to /status")
    daemon.begin("telegram:7", "from my phone", TELEGRAM)
    daemon.stream("telegram:7", "Half an ")
    await pause()
    queued = await scene.say("and this")
    daemon.stream("telegram:7", "answer")
    daemon.answer("telegram:7", "Half an answer.")
    daemon.begin(queued, "and this")
    await pause()
    daemon.answer(queued, "That is all.")


_expected: dict[bool, tuple[str, list[Frame]]] = {}


async def undisturbed(folders: pytest.TempPathFactory, *, on_screen: bool) -> tuple[str, list[Frame]]:
    """Return what a client shows whose connection holds, and the frames that it took."""
    if on_screen not in _expected:
        async with scene(folders.mktemp("undisturbed"), on_screen=on_screen) as whole:
            _expected[on_screen] = (await story(whole), whole.line.came)
    return _expected[on_screen]


@pytest.fixture
async def expected(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[Frame]]:
    """The same, without a screen."""
    return await undisturbed(tmp_path_factory, on_screen=False)


@pytest.mark.parametrize("on_screen", [False, pytest.param(True, marks=pytest.mark.screen)])
async def test_the_story_shows_everything_once(tmp_path_factory: pytest.TempPathFactory, on_screen: bool) -> None:
    text, came = await undisturbed(tmp_path_factory, on_screen=on_screen)
    for words in (
        *("do it", "thought for 4 s", "I will look.", "✓ read  notes.txt  1.5 s", "compacting the context"),
        *("✓ May exec run?  allowed by telegram:5", "✓ Colour  red (you)", "It will be red.", "from my phone"),
        *("Answer to /status", "Half an answer.", "and this", "That is all."),
    ):
        assert text.count(words) == 1, text
    assert "Wrong" not in text and "done" not in text
    assert 40 < len(came) <= MOST_FRAMES, "the tests below break the line after each of them"


MOST_FRAMES = 64
EVERY = repeats(4, 1)


@pytest.mark.deep
@pytest.mark.promise("P-terminal-history")
@pytest.mark.parametrize("number", range(0, MOST_FRAMES, EVERY))
async def test_a_break_after_any_frame_leaves_no_trace(
    tmp_path: Path, expected: tuple[str, list[Frame]], number: int
) -> None:
    async with scene(tmp_path) as broken:
        broken.line.break_after = len(broken.line.came) + number
        assert await story(broken) == expected[0]


@pytest.mark.promise("P-terminal-history")
@pytest.mark.parametrize("after", [3, 4, 5])
async def test_breaks_again_and_again_leave_no_trace(
    tmp_path: Path, expected: tuple[str, list[Frame]], after: int
) -> None:
    async with scene(tmp_path) as broken:
        broken.line.break_every = after
        assert await story(broken) == expected[0]
        assert broken.line.breaks > 8


@pytest.mark.long
@pytest.mark.deep
@pytest.mark.promise("P-terminal-history")
@pytest.mark.parametrize("after", repeats([4], [3, 4, 5]))
@pytest.mark.screen
async def test_breaks_again_and_again_leave_no_trace_on_a_screen(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, after: int
) -> None:
    expected, _ = await undisturbed(tmp_path_factory, on_screen=True)
    async with scene(tmp_path, on_screen=True) as broken:
        broken.line.break_every = after
        assert await story(broken) == expected
        assert broken.line.breaks > 8


@pytest.mark.deep
@pytest.mark.parametrize("share", repeats([0.5], [0.2, 0.5, 0.8]))
async def test_a_frame_that_came_in_part_comes_again(
    tmp_path: Path, expected: tuple[str, list[Frame]], share: float
) -> None:
    text, came = expected
    async with scene(tmp_path) as broken:
        broken.line.break_within = int(share * sum(len(json.dumps(frame)) for frame in came))
        assert await story(broken) == text
        assert broken.line.breaks == 1


async def test_what_happens_while_a_client_is_away_is_shown_as_if_it_had_been_there(
    tmp_path: Path, expected: tuple[str, list[Frame]]
) -> None:
    async with scene(tmp_path) as broken:
        await thinking_and_a_tool(broken, meanwhile=broken.line.hang_up)
        broken.line.up.set()
        await notices_and_questions(broken)
        await from_elsewhere(broken)
        assert await broken.whole("That is all.") == expected[0]


@pytest.mark.promise("P-answered-once")
@pytest.mark.parametrize("text", ["do it", "red", "/status", "and this"])
@pytest.mark.parametrize("way", ["lose", "deafen"])
async def test_a_message_that_is_cut_off_before_or_after_it_arrived_is_taken_once_and_answered(
    tmp_path: Path, expected: tuple[str, list[Frame]], text: str, way: str
) -> None:
    async with scene(tmp_path) as broken:
        setattr(broken.line, way, lambda frame: frame["type"] == "send" and frame["text"] == text)
        assert await story(broken) == expected[0]
        assert broken.line.breaks == 1
        assert sum(heard.text == text for heard in broken.daemon.heard) == 1


@pytest.mark.parametrize("way", ["lose", "deafen"])
async def test_after_a_break_the_card_says_whether_a_decision_counted(tmp_path: Path, way: str) -> None:
    question = Question("q1", "approval", SESSION, "May exec run?", "with network", (ALLOW, "deny"))
    async with scene(tmp_path) as broken:
        daemon, client = broken.daemon, broken.client
        assert isinstance(client, Unseen)
        daemon.begin("t1", "do it")
        daemon.ask("t1", question)
        await client.until("May exec run?")
        setattr(broken.line, way, lambda frame: frame["type"] == "decide")
        broken.line.up.clear()
        card = client.card("q1")
        client.look()
        broken.clock.advance(SEEN_SECONDS)
        client.approving.choose(card, ALLOW)
        await client.until("reconnecting")
        broken.line.up.set()
        text = await broken.whole("May exec run?")
        if way == "deafen":
            assert "✓ May exec run?  allowed by you" in text and not card.is_open
        else:
            assert daemon.decided == [] and card.is_undecided and "allowing" not in text
        assert len(daemon.decided) == (way == "deafen")


@pytest.mark.long
@pytest.mark.screen
async def test_two_clients_of_a_session_end_with_the_same_screen_though_one_is_slow_and_one_is_cut_off(
    tmp_path: Path,
) -> None:
    async with scene(tmp_path, on_screen=True) as first:
        second = Stage(tmp_path, first.clock)
        second.place = DaemonPlace(tmp_path / "slow", tmp_path / "goclaw.log", tmp_path)
        async with open_bad_line(second.place.socket, tmp_path / "d") as slow, second.terminal(SIZE) as screen:
            await screen.press("ctrl+l")
            slow.flows.clear()
            first.line.break_every = 5
            daemon = first.daemon
            daemon.begin("telegram:1", "from my phone", TELEGRAM)
            for part in (thinking_and_a_tool, notices_and_questions):
                await part(first)
            daemon.answer(daemon.heard[0].id, "That is all.")
            text = await first.whole("That is all.")
            assert "That is all." not in screen.text()
            slow.flows.set()
            await screen.until("That is all.")
            assert (await Scene(second, first.clock, screen, slow).whole("That is all.")) == text
    assert text.count("from my phone") == 1 and first.line.breaks > 3


@pytest.mark.parametrize("lost", [False, True])
async def test_what_is_forgotten_while_a_client_is_away_is_gone_from_its_screen(tmp_path: Path, lost: bool) -> None:
    """`lost`: the daemon was restarted, too."""
    seen = []
    for is_broken in (False, True):
        async with scene(tmp_path / str(is_broken)) as told:
            turn = await told.say("a secret")
            told.daemon.begin(turn, "a secret")
            told.daemon.answer(turn, "I see.")
            await told.client.until("I see.")
            if is_broken:
                told.line.hang_up()
                await told.client.until("reconnecting")
            told.daemon.forget()
            if is_broken:
                if lost:
                    told.daemon.restart()
                told.line.up.set()
            seen.append(await told.whole("was deleted"))
    assert "secret" not in seen[1]
    greeting = "Model: scripted."
    assert seen[0].replace(greeting, "").split() == seen[1].replace(greeting, "").split()


async def test_a_client_that_does_not_read_is_cut_off_and_shows_everything_once_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bus_module, "BACKLOG", 50)
    monkeypatch.setattr(replay_buffer_module, "MAX_EVENTS", 40)
    async with scene(tmp_path) as told:
        turn = await told.say("count")
        told.daemon.begin(turn, "count")
        await told.client.until("working")
        told.line.flows.clear()
        words = [f"w{number:05d} " + "x" * 1_000 + "\n\n" for number in range(3_000)]
        for at in range(0, len(words), 20):
            told.daemon.stream(turn, *words[at : at + 20])
            await asyncio.sleep(0)
        told.line.flows.set()
        told.daemon.answer(turn, "Counted.")
        text = await told.whole("Counted.")
        assert text.count("count") == 1 and "w0" not in text


async def test_what_was_cleared_elsewhere_is_said_and_what_was_cleared_here_is_said_once(tmp_path: Path) -> None:
    async with scene(tmp_path) as told:
        told.daemon.bus.publish(Notice(SESSION, "The conversation was cleared.", "telegram:8"))
        await told.client.until("The conversation was cleared.")
        turn = await told.say("/clear")
        told.daemon.bus.publish(Notice(SESSION, "Cleared once more.", turn))
        text = await told.whole("Answer to /clear")
    assert text.count("cleared.") == 1


async def test_a_turn_that_a_key_stopped_says_so_once(tmp_path: Path) -> None:
    async with scene(tmp_path) as told:
        turn = await told.say("a long task")
        told.daemon.begin(turn, "a long task")
        told.daemon.replies["/stop"] = "Stopped. 1 waiting message follows now."
        await told.client.until("Esc stops")
        assert isinstance(told.client, Unseen)
        told.client.incoming.stop()
        told.daemon.answer(turn, "[Stopped.]")
        text = await told.whole("follows now.")
    assert text.count("Stopped.") == 1 and "\n1 waiting message follows now." in text
