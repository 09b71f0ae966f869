"""The program on a screen: keys, focus, scrolling, the mouse, and its way out. What is shown, and when, needs none."""

import asyncio
from pathlib import Path

import pytest
from textual.events import Paste

from goclaw.clients.tui import app
from goclaw.clients.tui.app import Terminal
from goclaw.clients.tui.widgets.conversation import FollowedScroll
from goclaw.clients.tui.widgets.entries import AnswerEntry
from goclaw.clients.tui.widgets.prompt import HISTORY_FILE, Prompt
from goclaw.common.core.events import Outcome, ThinkingStreamed, ToolFinished, ToolStarted, TurnFinished
from goclaw.common.core.messages import Artifact, AssistantMessage, ToolCall, ToolResult, UserMessage
from tests.clients.tui.fake_daemon import PATIENCE, SESSION, FakeGateway, Screen, Stage


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def sent(daemon: FakeGateway) -> list[str]:
    return [inbound.text for inbound in daemon.heard]


async def heard(daemon: FakeGateway, screen: Screen, number: int = 1) -> str:
    """Wait for the message of that number; returns its turn."""
    async with asyncio.timeout(PATIENCE):
        while len(daemon.heard) < number:
            await screen.pilot.pause()
    return daemon.heard[number - 1].id


@pytest.mark.promise("P-terminal-typing")
@pytest.mark.screen
async def test_what_is_typed_or_pasted_is_sent_with_enter_and_comes_back_with_up_in_the_next_run_too(
    daemon: FakeGateway, stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pasted = "\n".join(f"line {number}" for number in range(50))
    async with stage.terminal() as screen:
        await screen.type("first line\nsecond line")
        await screen.press("enter")
        turn = await heard(daemon, screen)
        daemon.begin(turn, "first line\nsecond line")
        daemon.stream(turn, "Grow", "ing")
        await screen.until("Growing")
        daemon.answer(turn, "Growing **up**")
        text = await screen.until("Growing up")
        assert sent(daemon) == ["first line\nsecond line"]
        assert text.count("second line") == 1 and text.count("Growing") == 1

        await screen.type("precious words")
        assert "precious words" not in await screen.press("ctrl+c")
        assert "precious words" in await screen.press("up"), "a cleared draft comes back"
        await screen.press("ctrl+c")

        await screen.type("look: ")
        screen.terminal.query_one(Prompt).post_message(Paste(pasted))
        assert "look: [pasted text 1: 50 lines]" in await screen.until("pasted text")
        await screen.press("enter")
        await heard(daemon, screen, 2)
        assert sent(daemon)[1] == f"look: {pasted}", "a large paste is folded and sent whole"

        monkeypatch.setattr(app, "MAX_TEXT", 1_000)
        screen.terminal.query_one(Prompt).post_message(Paste(pasted * 4))
        await screen.until("pasted text")
        await screen.press("enter")
        await screen.until("too long for one message")
        prompt = screen.terminal.query_one(Prompt)
        assert len(daemon.heard) == 2 and prompt.text.startswith("[pasted text") and prompt.whole_text == pasted * 4
        await screen.press("ctrl+c")
        await screen.type("remember me")
        await screen.press("enter")
        await heard(daemon, screen, 3)
    assert (tmp_path / HISTORY_FILE).stat().st_mode & 0o777 == 0o600
    async with stage.terminal() as screen:
        assert "│ remember me" in await screen.press("up")
        assert "│ remember me" not in await screen.press("down")


@pytest.mark.promise("P-terminal-history")
@pytest.mark.screen
async def test_after_a_break_nothing_is_missing_and_nothing_twice(stage: Stage) -> None:
    async with asyncio.timeout(PATIENCE):
        async with stage.daemon() as daemon:
            daemon.store("t1", UserMessage("one"))
            daemon.store("t1", AssistantMessage("answer one"))
            terminal = stage.terminal((100, 40))
            screen = await terminal.__aenter__()
            daemon.begin("t2", "two")
            daemon.stream("t2", "Half an ans")
            await screen.until("Half an ans")
        await screen.until("reconnecting")
        await screen.type("said meanwhile")
        await screen.press("enter")
        daemon.tell("t2", AssistantMessage("Half an answer two"))
        daemon.store("t3", UserMessage("three"))
        daemon.stream("t3", "answer th")
        async with stage.daemon() as daemon:
            await screen.until("answer th")
            turn = await heard(daemon, screen)
            daemon.stream("t3", "ree")
            daemon.answer("t3", "answer three")
            daemon.begin(turn, "said meanwhile")
            daemon.answer(turn, "answer four")
            text = await screen.until("answer four")
            await terminal.__aexit__(None, None, None)
    for words in ("answer one", "Half an ans", "Half an answer two", "answer three", "said meanwhile", "answer four"):
        assert text.count(words) == 1, text
    places = [text.index(words) for words in ("one", "two", "three", "said meanwhile", "answer four")]
    assert places == sorted(places)
    assert sent(daemon) == ["said meanwhile"]


@pytest.mark.promise("P-terminal-typing")
@pytest.mark.screen
async def test_typing_while_a_turn_runs_stays_and_queues_and_escape_stops_the_turn(
    daemon: FakeGateway, stage: Stage
) -> None:
    async with stage.terminal() as screen:
        await screen.press("escape")
        daemon.begin("t1", "a long task")
        daemon.bus.publish(ThinkingStreamed("t1", SESSION, "Hm."))
        await screen.until("thinking · Esc stops")
        assert sent(daemon) == [], "there was nothing to stop"
        daemon.stream("t1", "Working")
        await screen.until("working · Esc stops")
        await screen.type("a second")
        daemon.stream("t1", " on it")
        assert "a second" in await screen.until("Working on it")
        await screen.type(" message")
        text = await screen.press("enter")
        await heard(daemon, screen)
        assert text.index("Working on it") < text.index("a second message")
        await screen.press("escape")
        await screen.until("Answer to /stop")
        daemon.answer("t1", "Working on it: done")
        text = await screen.until("it: done")
        assert text.index("done") < text.index("a second message")
    assert sent(daemon) == ["a second message", "/stop"]


@pytest.mark.promise("P-terminal-ctrl-c")
@pytest.mark.screen
async def test_ctrl_c_copies_then_stops_then_clears_then_asks_then_leaves(daemon: FakeGateway, stage: Stage) -> None:
    async with stage.terminal() as screen:
        await screen.type("draft")
        daemon.begin("t1", "a long task")
        await screen.until("working")
        await screen.pilot.press("shift+home", "ctrl+c")
        assert (screen.terminal.clipboard, sent(daemon)) == ("draft", [])
        await screen.pilot.press("end", "ctrl+c")
        await heard(daemon, screen)
        assert sent(daemon) == ["/stop"]
        daemon.bus.publish(TurnFinished("t1", SESSION, Outcome.STOPPED, "Stopped."))
        assert "draft" in await screen.until("working", gone=True)
        assert "draft" not in await screen.press("ctrl+c")
        await screen.press("ctrl+c")
        await screen.until("Ctrl+C again")
        await screen.pilot.press("ctrl+c")
    farewell = screen.terminal.return_value
    assert farewell is not None and farewell.connected and farewell.unsent == ()


@pytest.mark.screen
async def test_there_are_other_ways_out(daemon: FakeGateway, stage: Stage) -> None:
    for way in ("/quit", "/exit", "ctrl+q"):
        async with stage.terminal() as screen:
            if way.startswith("/"):
                await screen.type(way)
            await screen.pilot.press("enter" if way.startswith("/") else way)
        farewell = screen.terminal.return_value
        assert farewell is not None and farewell.connected, way
    assert sent(daemon) == []


@pytest.mark.screen
async def test_tab_completes_a_command_while_the_list_is_open_else_moves_the_focus(
    daemon: FakeGateway, stage: Stage
) -> None:
    async with stage.terminal() as screen:
        await screen.type("/st")
        await screen.until("Show session status")
        await screen.press("down", "tab")
        assert "/stop" in await screen.until("Show session status", gone=True)
        await screen.press("enter")
        await screen.until("Answer to /stop")
        before = screen.terminal.focused
        await screen.press("tab")
        assert screen.terminal.focused is not before
        assert "typed" in (await screen.press(*"typed")), "what is typed anywhere goes to the input"
    assert sent(daemon) == ["/stop"]


@pytest.mark.screen
async def test_cards_open_to_input_result_and_time_and_to_what_a_call_kept_which_is_fetched_once(
    daemon: FakeGateway, stage: Stage
) -> None:
    kept = (Artifact("chart", "c" * 64, "application/json", "chart.json", 1_234),)
    gone = (Artifact("chart", "d" * 64, "application/json", "old.json", 5),)
    daemon.artifacts["c" * 64] = '{\n  "planted": "\x1b[31mred"\n}'
    daemon.store("t0", UserMessage("count"))
    daemon.store("t0", AssistantMessage("", (ToolCall("c1", "chart", {}), ToolCall("c2", "chart", {}))))
    daemon.store("t0", ToolResult("c1", "chart", "done", artifacts=kept))
    daemon.store("t0", ToolResult("c2", "chart", "done", artifacts=gone))
    async with stage.terminal((120, 60)) as screen:
        daemon.begin("t1", "read it")
        daemon.answer("t1", "I look.", ToolCall("c1", "read", {"path": "notes.txt"}))
        daemon.bus.publish(ToolStarted("t1", SESSION, "c1", "read", {"path": "notes.txt"}))
        await screen.until("● read  notes.txt")
        daemon.bus.publish(ToolFinished("t1", SESSION, "c1", "read", "one\ntwo\nthree", False, 0.25))
        text = await screen.until("✓ read  notes.txt  0.2 s")
        assert "one  … 2 more lines" in text and "▸ chart.json · 1.2 kB" in text
        assert "planted" not in text and daemon.wanted == []
        daemon.tell("t1", ToolResult("c1", "read", "one\ntwo\nthree"))

        await screen.press("ctrl+o")
        await screen.until('"planted": "red"')
        text = await screen.until("it is no longer stored")
        assert "path: notes.txt" in text and "three" in text
        assert "\x1b" not in text and "─ old.json · 5 B" in text
        text = await screen.press("ctrl+o")
        assert "planted" not in text and "three" not in text
        await screen.pilot.click(screen.terminal.query("ToolCard").first(), offset=(2, 0))
        text = await screen.until('"planted": "red"')
        assert "it is no longer stored" not in text, "a click opens one card alone"
        assert sorted(daemon.wanted) == ["c" * 64, "d" * 64]


@pytest.mark.screen
async def test_ctrl_l_shows_both_then_the_chat_then_the_log(daemon: FakeGateway, stage: Stage) -> None:
    stage.place.log.write_text('{"event": "a log line", "level": "info", "timestamp": "2026-01-01T12:00:00+00:00"}\n')
    daemon.store("t1", UserMessage("said"))
    async with stage.terminal() as screen:
        assert "said" in await screen.until("a log line")
        assert "a log line" not in await screen.press("ctrl+l")
        text = await screen.press("ctrl+l")
        assert "said" not in text and "a log line" in text
        text = await screen.press("ctrl+l")
        assert "said" in text and "a log line" in text


@pytest.mark.screen
async def test_scrolling_up_holds_the_place_end_goes_back_and_the_top_brings_older_rows_once(
    daemon: FakeGateway, stage: Stage
) -> None:
    for number in range(60):
        daemon.store(f"t{number}", UserMessage(f"message <{number}>"))
    async with stage.terminal() as screen:
        assert "message <59>" in screen.text()
        await screen.press("pageup")
        held = await screen.until("more below")
        daemon.begin("t", "something new")
        await screen.until("working")
        assert held.splitlines()[5] in screen.text() and "something new" not in screen.text()
        await screen.press("end")
        await screen.until("something new")
        await screen.until("more below", gone=True)
        async with asyncio.timeout(PATIENCE):
            while "message <0>" not in screen.text():
                await screen.press("pageup")
        said = [str(entry.render()) for entry in screen.terminal.query("Said")]
        assert said == [*(f"message <{number}>" for number in range(60)), "something new"]
        await screen.pilot.click("#jump")
        await screen.until("something new")


@pytest.mark.screen
async def test_a_look_in_the_middle_of_a_change_is_put_right(daemon: FakeGateway, stage: Stage) -> None:
    for number in range(30):
        daemon.store(f"t{number}", UserMessage(f"message <{number}>"))
    async with stage.terminal() as screen:
        view = screen.terminal.query_one(FollowedScroll)
        view.set_reactive(FollowedScroll.scroll_y, view.max_scroll_y - 3)  # a panel took room, the layout comes later
        view._check()
        seen = [view.end_in_view]
        assert seen == [False]
        async with asyncio.timeout(PATIENCE):
            while not view.end_in_view:
                await screen.pilot.pause()
        await screen.until("more below", gone=True)
        assert "message <29>" in screen.text()


@pytest.mark.long
@pytest.mark.screen
async def test_a_large_screen_is_filled_with_older_rows(daemon: FakeGateway, stage: Stage) -> None:
    for number in range(60):
        daemon.store(f"t{number}", UserMessage(f"message <{number}>"))
    async with stage.terminal((80, 100)) as screen:
        await screen.until("message <15>")


@pytest.mark.screen
async def test_a_mistake_of_ours_ends_the_client_without_printing_what_was_said(stage: Stage) -> None:
    terminal = Terminal(stage.place, SESSION)

    async def run() -> None:
        async with terminal.run_test() as pilot:
            terminal.call_later(lambda: 1 // 0)
            await pilot.pause()

    with pytest.raises(ZeroDivisionError):
        await run()
    assert isinstance(terminal.failure, ZeroDivisionError)


@pytest.mark.screen
async def test_a_selected_part_of_an_answer_is_copied(daemon: FakeGateway, stage: Stage) -> None:
    daemon.store("t1", AssistantMessage("- alpha beta\n- **gamma** delta"))
    async with stage.terminal() as screen:
        await screen.until("gamma delta")
        answer = screen.terminal.query_one(AnswerEntry)
        await screen.pilot.mouse_down(answer, offset=(4, 0))
        await screen.pilot.hover(answer, offset=(8, 1))
        await screen.pilot.mouse_up(answer, offset=(8, 1))
        await screen.press("ctrl+c")
        copied = screen.terminal.clipboard
    assert copied.splitlines() == ["alpha beta", "• gamma"]
