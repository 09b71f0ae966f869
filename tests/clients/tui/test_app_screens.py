"""What each screen looks like, letter by letter. `GOCLAW_UPDATE_SCREENS=1` writes the files in `screens/` anew."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from rich.color import ColorSystem
from textual.widget import Widget

from goclaw.clients.tui.widgets.completion import Completion
from goclaw.clients.tui.widgets.question_cards import SEEN_SECONDS
from goclaw.common.core.clock import Clock, SteppedClock
from goclaw.common.core.events import ALLOW, DENY, Notice, Question, SessionInfo, Todo, ToolFinished, ToolStarted
from goclaw.common.core.messages import Artifact, AssistantMessage, ToolCall, ToolResult, UserMessage
from tests.clients.tui.contrast import contrasts
from tests.clients.tui.fake_daemon import SESSION, FakeGateway, Screen, Stage
from tests.clients.tui.screen import SOON_SECONDS
from tests.tables import Failures

GREYS = 231
"""White, and behind it the greys of a terminal's 256 colours."""
ANSWER = """# Heading

A paragraph with **bold**, *italic*, `code` and a [link](https://example.org).

- first
- second
  1. nested

> quoted

```python
def add(a, b):
    return a + b
```

| name | size |
|------|-----:|
| one  |   10 |
"""

REST_SECONDS = 20.0
Act = Callable[[Screen, FakeGateway], Awaitable[str]]


async def rest(screen: Screen, daemon: FakeGateway) -> str:
    return await screen.until("Model: scripted.")


async def cards_open(screen: Screen, daemon: FakeGateway) -> str:
    await screen.press("ctrl+o", "pageup")
    return await screen.until("second line")


async def log_alone(screen: Screen, daemon: FakeGateway) -> str:
    await screen.until("listening")
    await screen.press("ctrl+l")
    return await screen.press("ctrl+l")


async def commands(screen: Screen, daemon: FakeGateway) -> str:
    await screen.type("/")
    return await screen.until("/help")


async def several_lines(screen: Screen, daemon: FakeGateway) -> str:
    await screen.type("one\ntwo\nthree")
    return await screen.until("three")


async def told(screen: Screen, daemon: FakeGateway) -> str:
    daemon.bus.publish(Notice(SESSION, "compaction began"))
    await screen.until("compaction began")
    await screen.type("/status")
    await screen.press("enter")
    return await screen.until("Answer to /status")


async def tool_failed(screen: Screen, daemon: FakeGateway) -> str:
    call = ToolCall("c2", "exec", {"command": "false", "timeout": 5})
    daemon.tell("t2", AssistantMessage("", (call,)))
    daemon.bus.publish(ToolStarted("t2", SESSION, "c2", "exec", call.input))
    daemon.bus.publish(ToolFinished("t2", SESSION, "c2", "exec", '{"error": "no such command"}', True, 1.5))
    return await screen.until("✗ exec")


def approval(clock: Clock, asker: str = SESSION) -> Question:
    return Question(
        id="4f2a9c11d0",
        kind="approval",
        asker=asker,
        title="May exec run?",
        text='exec may use the network.\n\n```json\n{\n  "command": "pip install left-pad",\n  "timeout": 60\n}\n```',
        options=(ALLOW, DENY),
        free_text=False,
        expires_at=clock.now() + 1_800,
        about="exec",
    )


COLOUR = Question(
    "9d03b7aa15",
    "question",
    SESSION,
    "Colour of the report",
    "The template has two colours. **Which one** should it be?",
    ("Red, as last year", "Blue, as the new rules of the house want it for everything that leaves the house"),
)
TODOS = [
    Todo("Read the notes", "completed"),
    Todo("Find out who wrote them", "completed"),
    Todo("Write the report", "in_progress"),
    Todo("Ask Anna whether the figures of the second quarter are right"),
    Todo("Correct the figures"),
    Todo("Send it"),
    Todo("Tell Anna"),
]


CHARTED = ToolCall("c9", "chart", {"of": "boats", "since": 2019})
CHART = (Artifact("chart", "c" * 64, "application/json", "chart.json", 12_345),)


async def tool_hints(screen: Screen, daemon: FakeGateway) -> str:
    daemon.artifacts["c" * 64] = '{\n  "kind": "bars",\n  "values": [\n    3,\n    5\n  ]\n}'
    daemon.begin("t2", "How many boats are there?")
    daemon.answer("t2", "", CHARTED, ToolCall("c10", "chart", {"of": "ships"}))
    daemon.bus.publish(ToolStarted("t2", SESSION, "c9", "chart", CHARTED.input, "Counting boats since 2019"))
    daemon.bus.publish(ToolStarted("t2", SESSION, "c10", "chart", {"of": "ships"}, "Counting ships"))
    await screen.until("Counting boats")
    daemon.tell("t2", ToolResult("c9", "chart", "3\n5", hint="8 boats in 2 years", artifacts=CHART))
    return await screen.until("8 boats in 2 years")


async def artifact_open(screen: Screen, daemon: FakeGateway) -> str:
    await tool_hints(screen, daemon)
    await screen.press("ctrl+o")
    return await screen.until('"kind": "bars"')


async def approval_asked(screen: Screen, daemon: FakeGateway) -> str:
    call = ToolCall("c2", "exec", {"command": "pip install left-pad", "timeout": 60})
    daemon.begin("t2", "Install it, please.")
    daemon.answer("t2", "", call)
    daemon.ask("t2", approval(daemon.clock))
    await screen.until("approval needed")
    clock, began = stepped(daemon), daemon.clock.now()
    while "y allow" not in screen.text():
        clock.advance(SEEN_SECONDS)
        await screen.pilot.pause(2 * SOON_SECONDS)
    clock.advance(60 - (clock.now() - began))
    screen.tick()
    await screen.until("29 min left")
    return await screen.until("1 min 00 s")


async def approval_decided(screen: Screen, daemon: FakeGateway) -> str:
    await approval_asked(screen, daemon)
    daemon.close("4f2a9c11d0", DENY, "telegram:5")
    return await screen.until("denied by telegram:5")


async def approval_while_typing(screen: Screen, daemon: FakeGateway) -> str:
    await approval_asked(screen, daemon)
    await screen.type("What does it do?")
    return await screen.until("clear the input")


async def question_asked(screen: Screen, daemon: FakeGateway) -> str:
    daemon.begin("t2", "Paint it.")
    daemon.ask("t2", COLOUR)
    return await screen.until("question for you")


async def question_answered(screen: Screen, daemon: FakeGateway) -> str:
    await question_asked(screen, daemon)
    await screen.type("Neither; take a green\nthat nobody has used")
    await screen.press("enter")
    return await screen.until("answered by you")


async def telegram_mirrored(screen: Screen, daemon: FakeGateway) -> str:
    daemon.begin("telegram:1", "Install it, please.", sender="telegram:5")
    daemon.ask("telegram:1", approval(daemon.clock, "telegram:5"))
    return await screen.until("for telegram:5")


async def thinking(screen: Screen, daemon: FakeGateway) -> str:
    daemon.begin("t2", "Think about it.")
    daemon.think("t2", *(f"This is thought number {number}, and it is rather a long one.\n" for number in range(9)))
    await screen.until("number 8")
    stepped(daemon).advance(12)
    screen.tick()
    return await screen.until("thinking 12 s")


async def thought(screen: Screen, daemon: FakeGateway) -> str:
    await thinking(screen, daemon)
    daemon.stream("t2", "So this is what I think")
    await screen.until("what I think")
    return await screen.until("12 s")


async def thought_open(screen: Screen, daemon: FakeGateway) -> str:
    await thought(screen, daemon)
    return await screen.press("ctrl+o")


async def todos(screen: Screen, daemon: FakeGateway) -> str:
    daemon.plan("t1", *TODOS)
    return await screen.until("2 of 7 done")


async def todos_folded(screen: Screen, daemon: FakeGateway) -> str:
    await todos(screen, daemon)
    return await screen.press("ctrl+n")


async def todos_and_approval(screen: Screen, daemon: FakeGateway) -> str:
    await todos(screen, daemon)
    return await approval_asked(screen, daemon)


async def forgotten(screen: Screen, daemon: FakeGateway) -> str:
    daemon.forget()
    return await screen.until("was deleted")


async def expensive(screen: Screen, daemon: FakeGateway) -> str:
    daemon.numbers |= {"model": "anthropic:claude-sonnet-4-5", "cost": 12.5, "spent": {"requests": 9, "unpriced": 2}}
    daemon.begin("t2", "Count it.")
    return await screen.until("$12.50+")


async def sessions(screen: Screen, daemon: FakeGateway) -> str:
    now = daemon.clock.now()
    daemon.known_sessions = [
        SessionInfo(SESSION, 4, now - 600, now - 20, "What is in the notes?"),
        SessionInfo(
            "tui:house-of-the-long-names-and-more", 1_204, now, now - 240, "Plan the\nhouse, with a cellar " * 4
        ),
        SessionInfo("telegram:5", 31, now, now - 7_300, "Wann treffen wir uns mit **Zoë**?"),
        SessionInfo("telegram:-1001234:7", 1, now, now - 400_000, "東京へ行きます"),
        SessionInfo("tui:empty", 0, now, now - 9_000_000, ""),
    ]
    await screen.type("/sessions")
    await screen.press("enter")
    return await screen.until("1,204 m")


async def sessions_found(screen: Screen, daemon: FakeGateway) -> str:
    await sessions(screen, daemon)
    await screen.type("house")
    await screen.until("telegram:5", gone=True)
    return await screen.press("down")


async def files(screen: Screen, daemon: FakeGateway) -> str:
    daemon.workspace = [
        "notes.txt",
        "notes/",
        "notes/about the house.md",
        *(f"notes/{number}.md" for number in range(20)),
    ]
    await screen.type("compare @notes.txt with @notes")
    await screen.until("about the house")
    return await screen.press("down", "down")


async def queued(screen: Screen, daemon: FakeGateway) -> str:
    daemon.begin("t2", "A long task")
    await screen.until("Esc stops")
    for text in ("and then this", "and that"):
        await screen.type(text)
        await screen.press("enter")
    return await screen.until("2 queued")


def stepped(daemon: FakeGateway) -> SteppedClock:
    assert isinstance(daemon.clock, SteppedClock)
    return daemon.clock


SCREENS: list[Act] = [
    rest,
    cards_open,
    log_alone,
    commands,
    several_lines,
    told,
    tool_failed,
    tool_hints,
    artifact_open,
    approval_asked,
    approval_decided,
    approval_while_typing,
    question_asked,
    question_answered,
    telegram_mirrored,
    thinking,
    thought,
    thought_open,
    todos,
    todos_folded,
    todos_and_approval,
    forgotten,
    expensive,
    sessions,
    sessions_found,
    files,
    queued,
]


@pytest.mark.long
@pytest.mark.timeout(240)
@pytest.mark.parametrize("size", [(80, 24), (160, 50)], ids=["80x24", "160x50"])
@pytest.mark.screen
async def test_screens(tmp_path: Path, size: tuple[int, int]) -> None:
    """One program plays them all, each from a conversation that has just begun."""
    stage = Stage(tmp_path, SteppedClock())
    stage.place.log.write_text('{"event": "listening", "level": "info", "path": "/run/goclaw.sock"}\n')
    failures = Failures(len(SCREENS))
    async with stage.terminal(size) as screen:
        for act in SCREENS:
            with failures.of(act.__name__):
                await begin_anew(screen, stage)
                async with stage.daemon() as daemon:
                    await screen.until("12.3k of 200k tokens")
                    if act is not log_alone:
                        await screen.until("listening")
                    await act(screen, daemon)
                    kept = Path(__file__).parent / "screens" / f"{act.__name__}-{size[0]}x{size[1]}.txt"
                    if os.environ.get("GOCLAW_UPDATE_SCREENS"):
                        await screen.pilot.pause(1.0)
                        kept.write_text(f"{screen.text()}\n")
                    assert await at_rest(screen, kept.read_text()) == kept.read_text()
    failures.raised()


async def begin_anew(screen: Screen, stage: Stage) -> None:
    """Let the client be as it was when it started, and let another daemon with its own transcript be the next."""
    await screen.leave_for_a_moment()
    stage.gateway = daemon = FakeGateway(stage.clock)
    daemon.store("t1", UserMessage("What is in the notes?"))
    daemon.store("t1", AssistantMessage("I look.", (ToolCall("c1", "read", {"path": "notes.txt"}),)))
    daemon.store("t1", ToolResult("c1", "read", "first line\nsecond line"))
    daemon.store("t1", AssistantMessage(ANSWER))


@pytest.mark.parametrize("theme", ["textual-dark", pytest.param("textual-light", marks=pytest.mark.long)])
@pytest.mark.screen
async def test_every_word_can_be_read_in_dark_and_in_light(tmp_path: Path, theme: str) -> None:
    stage = Stage(tmp_path, SteppedClock())
    async with stage.daemon() as daemon:
        daemon.store("t1", AssistantMessage(ANSWER))
        async with stage.terminal((160, 50)) as screen:
            screen.terminal.theme = theme
            await screen.press("ctrl+c")
            picture = await screen.until("Press Ctrl+C again")
            check_the_input_is_whole(picture.splitlines(), "Press Ctrl+C again")
            for act in (approval_decided, todos, thought_open, tool_failed, told, question_asked, telegram_mirrored):
                await act(screen, daemon)
                read = contrasts(screen.terminal)
                assert len(read) > 10
                # What stands in an empty input is there to be overlooked.
                blue = {
                    each.id or type(each).__name__: number for each, number in colors_of_256(screen) if number < GREYS
                }
                assert not blue, f"{act.__name__}: the bars are grey in a terminal of 256 colours, too"
                weak = {words: ratio for words, ratio in read.items() if ratio < 3 and "rite a message" not in words}
                assert not weak, act.__name__
                daemon.questions.clear()


def colors_of_256(screen: Screen) -> Iterator[tuple[Widget, int]]:
    """What a terminal of 256 colours puts behind the bar and the list of commands."""
    for each in screen.terminal.query("StatusBar, Completion"):
        for color in (each.styles.background, *([each.styles.scrollbar_color] if isinstance(each, Completion) else [])):
            yield each, color.rich_color.downgrade(ColorSystem.EIGHT_BIT).number or 0


def check_the_input_is_whole(lines: list[str], words: str) -> None:
    """What is told for a moment stands above the input and covers nothing of it."""
    (told,) = (number for number, line in enumerate(lines) if words in line)
    (typed,) = (number for number, line in enumerate(lines) if "Write a message" in line)
    assert told < typed - 1 and lines[typed - 1].rstrip().endswith("─╮")


async def at_rest(screen: Screen, expected: str) -> str:
    """The screen as soon as it is as expected, or after a time in which it would have become so."""
    try:
        async with asyncio.timeout(REST_SECONDS):
            while f"{screen.text()}\n" != expected:
                await screen.changed()
    except TimeoutError:
        pass  # the assertion shows the difference
    return f"{screen.text()}\n"
