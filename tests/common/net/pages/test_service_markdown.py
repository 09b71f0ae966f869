"""Markdown is made in another process, which can be ended and which a page cannot bring down with the daemon."""

import asyncio
from pathlib import Path

import pytest

from goclaw.common.net.pages import service
from goclaw.common.net.pages.service import Converter, MarkdownPage
from goclaw.errors import ToolError


async def test_a_page_is_converted_beside_the_daemon() -> None:
    made = await Converter().convert("<title>T</title><p>Grüße <a href=x>on</a>", "https://example.com/")
    assert made == MarkdownPage("T", "Grüße [on](https://example.com/x)", cut=False)


async def test_a_page_without_end_is_read_from_its_beginning_and_said_to_be_cut() -> None:
    made = await Converter().convert("<title>T</title>words" + "\n" * 2_000_000 + "more", "https://example.com/")
    assert made == MarkdownPage("T", "words", cut=True)


async def test_blanks_without_end_take_no_time() -> None:
    made = await Converter().convert("words" + " " * 2_000_000 + "more", "https://example.com/")
    assert made.text == "words more"


async def test_a_page_that_takes_too_long_is_given_up_and_its_process_is_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[asyncio.subprocess.Process] = []
    create = asyncio.create_subprocess_exec

    async def noted(*command: str, **options: object) -> asyncio.subprocess.Process:
        started.append(await create(*command, **options))  # type: ignore[arg-type]  # passed on as they came
        return started[-1]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", noted)
    with pytest.raises(ToolError, match="`raw` gives its source"):
        await Converter(seconds=1.0).convert("<p>words</p>" * 400_000, "https://example.com/")
    assert [process.returncode is not None for process in started] == [True]


async def test_a_worker_that_dies_is_an_error_in_words(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    dying = tmp_path / "worker.py"
    dying.write_text("raise MemoryError")
    monkeypatch.setattr(service, "_WORKER", dying)
    with pytest.raises(ToolError, match="too large or too intricate"):
        await Converter().convert("<p>words", "https://example.com/")
