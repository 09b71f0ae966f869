"""Questions and answers: from a pipe, a file, a terminal, or nobody."""

import asyncio
import os
import pty
import termios
from pathlib import Path

import pytest

from goclaw.program.cli.setup_dialogue import Dialogue
from tests.program.cli.setup_support import dialogue

pytestmark = pytest.mark.usefixtures("no_keys")


async def test_answers_come_line_by_line_and_the_end_skips_the_rest() -> None:
    with dialogue("  one ", "", "three", ends=True) as heard:
        assert [await heard.ask("?") for _ in range(5)] == ["one", "", "three", "", ""]
        assert heard.text.startswith("? \n? \n? \n")


async def test_a_last_line_without_its_end_is_an_answer(tmp_path: Path) -> None:
    (tmp_path / "answers").write_text("one\ntwo")
    source = os.open(tmp_path / "answers", os.O_RDONLY)
    asked = Dialogue(source)
    assert [await asked.ask("?") for _ in range(3)] == ["one", "two", ""]
    os.close(source)


async def test_nobody_is_asked_where_there_is_no_input() -> None:
    with dialogue("typed", silent=True) as heard:
        assert await heard.ask("?") == "" and await heard.ask_hidden("?") == "" and heard.text == ""


async def test_a_secret_is_not_shown_in_a_terminal_and_the_next_answer_is() -> None:
    control, source = pty.openpty()
    asked = Dialogue(source)
    async with asyncio.timeout(10):
        secret = asyncio.create_task(asked.ask_hidden("Key:"))
        await hidden(source)
        os.write(control, b"hush\n")
        assert await secret == "hush"
        assert shown(control) == b""
        os.write(control, b"aloud\n")
        assert await asked.ask("Name:") == "aloud"
        assert b"aloud" in shown(control)
    os.close(control)
    os.close(source)


async def hidden(source: int) -> None:
    """Return when the terminal shows nothing of what is typed."""
    while termios.tcgetattr(source)[3] & termios.ECHO:  # noqa: ASYNC110 - a terminal tells nobody
        await asyncio.sleep(0)


def shown(control: int) -> bytes:
    """What the terminal shows of what was typed."""
    os.set_blocking(control, False)
    try:
        return os.read(control, 100)
    except BlockingIOError:
        return b""


async def test_the_echo_comes_back_when_a_secret_is_given_up() -> None:
    control, source = pty.openpty()
    secret = asyncio.create_task(Dialogue(source).ask_hidden("Key:"))
    async with asyncio.timeout(10):
        await hidden(source)
    secret.cancel()
    with pytest.raises(asyncio.CancelledError):
        await secret
    assert termios.tcgetattr(source)[3] & termios.ECHO
    os.close(control)
    os.close(source)


async def test_an_answer_ends_the_waiting_for_something_else() -> None:
    given_up = asyncio.Event()

    async def never() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            given_up.set()

    with dialogue("enough") as heard:
        assert await heard.ask_beside("?", never()) == "enough"
    assert given_up.is_set()


async def test_what_happens_ends_the_question_and_the_next_line_answers_the_next() -> None:
    async def happen() -> int:
        return 5

    with dialogue() as heard:
        assert await heard.ask_beside("?", happen()) == 5
        heard.type("next")
        assert await heard.ask("?") == "next"


async def test_what_fails_beside_a_question_is_raised() -> None:
    async def fail() -> None:
        raise LookupError("gone")

    with dialogue() as heard:
        with pytest.raises(LookupError, match="gone"):
            await heard.ask_beside("?", fail())


async def test_nothing_that_a_terminal_obeys_and_no_secret_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    Dialogue(silent=True).print("\x1b[31mred sk-0123456789abcdef0123")
    assert capsys.readouterr().out == "red [secret]\n"
