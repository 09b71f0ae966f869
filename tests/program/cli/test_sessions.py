"""`goclaw sessions` without a daemon: what it prints, what it writes, how it fails."""

import asyncio
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from goclaw.common.config.schema import Config
from goclaw.common.core.messages import UserMessage
from goclaw.durable.store.open import open_database
from goclaw.durable.store.transcripts import Origin, StoredCompaction, rows_of
from goclaw.program.cli.program import run
from tests.durable.store.saying import Story, talk
from tests.lanes import repeats
from tests.program.cli.test_users import state as state  # a fixture

ROWS = repeats(2_000, 20_000)
"""Of 40 MB in all."""


def tell(state: Path, act: Callable[[Story], Awaitable[object]]) -> None:
    """Write conversations as an earlier daemon did."""

    async def write() -> None:
        async with open_database(Config(state_dir=state).database_path) as database:
            await act(Story(database))

    asyncio.run(write())


async def two_sessions(story: Story) -> None:
    await story.turn("telegram:5", "a:1", 1_750_000_000.0, *talk("cat"))
    rows = await story.turn("telegram:5", "a:2", 1_750_000_100.0, *talk("dog"))
    compaction = StoredCompaction("they spoke of cats", "LLM", rows[0], 9, 1, at=1_750_000_101.0)
    await story.transcripts.add_compaction("telegram:5", compaction)
    await story.turn("tui:me", "b:1", 1_750_000_200.0, UserMessage("hello \x1b[31mred\n## world"))


def test_sessions_are_listed_latest_first(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sessions", "list"]) == 0
    assert capsys.readouterr().out == "" and not (state / "goclaw.db").exists()
    tell(state, two_sessions)
    assert run(["sessions", "list"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("tui:me            1 rows  last 2025-06-15 ") and first.endswith("## world")
    assert second.startswith("telegram:5       10 rows  last 2025-06-15 ") and second.endswith("dog question")
    assert run(["sessions", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [(info["key"], info["messages"]) for info in listed] == [("tui:me", 1), ("telegram:5", 10)]


def test_nothing_that_a_terminal_obeys_leaves_through_a_pipe(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "open \x1b]0;owned\x07 \u202egpj.exe \x9b31m red"

    async def hostile(story: Story) -> None:
        await story.turn("tui:me", "b:1", 1_750_000_200.0, UserMessage(text))

    tell(state, hostile)
    for words in (["list"], ["list", "--json"], ["show", "tui:me"], ["show", "tui:me", "--json"]):
        assert run(["sessions", *words]) == 0
        shown = capsys.readouterr().out
        assert "open" in shown and not set(shown) & {"\x1b", "\x07", "\x9b", "\u202e"}, words
        if "--json" in words:
            assert "\\u202e" in shown and json.loads(shown if "list" in words else shown.splitlines()[-1])


def test_what_the_model_is_shown_and_everything(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tell(state, two_sessions)
    assert run(["sessions", "show", "telegram:5"]) == 0
    shown = capsys.readouterr().out
    assert "they spoke of cats" in shown and "dog question" in shown and "cat question" not in shown
    assert run(["sessions", "show", "telegram:5", "--full"]) == 0
    full = capsys.readouterr().out
    assert full.index("cat answer") < full.index("they spoke of cats") < full.index("dog question")
    assert run(["sessions", "show", "telegram:5", "--full", "--limit", "2", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["text"] for line in lines] == ["dog result", "dog answer"]


def test_an_export_is_a_new_file_or_standard_output(
    state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tell(state, two_sessions)
    assert run(["sessions", "export", "telegram:5", "out.md"]) == 0
    written = (tmp_path / "out.md").read_text()
    assert written.startswith("# Conversation `telegram:5`\n") and "> cat question" in written
    assert run(["sessions", "export", "telegram:5", "out.md"]) == 1
    assert "out.md: already exists" in capsys.readouterr().err
    assert (tmp_path / "out.md").read_text() == written
    for arguments in ([], ["-"]):
        assert run(["sessions", "export", "telegram:5", *arguments]) == 0
        assert capsys.readouterr().out == written
    assert run(["sessions", "export", "telegram:5", "--format", "jsonl"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 11


def test_names_in_an_export_are_those_of_users_json(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (state / "users.json").write_text('{"users": {"telegram:5": {"name": "Ann"}}}')
    tell(state, two_sessions)
    assert run(["sessions", "export", "telegram:5"]) == 0
    assert "## `telegram:5` `Ann`, 2025-06-15 " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["show", "telegarm:5"], 1, "there is no session `telegarm:5`; did you mean `telegram:5`?"),
        (["export", "nobody", "out.md"], 1, "there is no session `nobody`"),
        (["export", "telegram:5", "no/such/out.md"], 1, "no/such/out.md: cannot be written"),
        (["export", "telegram:5", "--format", "pdf"], 2, "pdf"),
        (["show"], 2, "key"),
        (["show", "telegram:5", "--limit", "-1"], 2, "limit"),
    ],
)
def test_what_cannot_be_done_is_said_and_leaves_nothing(
    state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, words: str
) -> None:
    tell(state, two_sessions)
    assert run(["sessions", *arguments]) == code
    assert words in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


@pytest.mark.long
def test_a_state_folder_that_is_held_is_not_read(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Never two processes on the database: a daemon that just starts has the lock, and no socket yet."""
    tell(state, two_sessions)
    hold = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.flock(f, fcntl.LOCK_EX); print(1, flush=True); input()"
    command = [sys.executable, "-c", hold, str(state / "goclaw.lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout and holder.stdout.readline()
        assert run(["sessions", "list"]) == 1
        holder.communicate(b"\n", timeout=20)
    assert "uses" in capsys.readouterr().err
    assert run(["sessions", "list"]) == 0


@pytest.mark.deep
def test_thousands_of_rows_pass_through_a_small_memory(state: Path, tmp_path: Path) -> None:
    """Texts of 40 MB in all: whoever kept them would need more than the limit."""

    async def much(story: Story) -> None:
        for number in range(ROWS // 100):
            origin = Origin("tui:me", f"t:{number}", "user", float(number))
            text = f"{number} " + "x" * (40_000_000 // ROWS)
            rows = [row for _ in range(100) for row in rows_of(UserMessage(text), origin)]
            await story.database.write(story.transcripts.ensure_session("tui:me", 0.0), *rows)

    tell(state, much)
    program = (
        "import re, sys; from goclaw.program.cli.program import run; code = run(sys.argv[1:]);"
        "print(re.search(r'VmHWM:\\s*(\\d+) kB', open('/proc/self/status').read())[1], file=sys.stderr); sys.exit(code)"
    )
    for format_ in ("jsonl", "markdown"):
        command = [sys.executable, "-c", program, "sessions", "export", "tui:me", f"out.{format_}", "--format", format_]
        done = subprocess.run(command, cwd=tmp_path, env={**os.environ}, capture_output=True, timeout=120, check=True)
        written = (tmp_path / f"out.{format_}").read_text()
        assert len(written) > 40_000_000 and written.count("xx\n") + written.count('xx",') == ROWS
        assert int(done.stderr) < 100_000, "kilobytes"


def test_a_reader_who_has_enough_ends_it_quietly(state: Path, tmp_path: Path) -> None:
    async def much(story: Story) -> None:
        await story.turn("tui:me", "a:1", 0.0, *(UserMessage("x" * 1_000) for _ in range(500)))

    tell(state, much)
    for arguments in ("show tui:me", "export tui:me"):
        command = f"{shlex.quote(sys.executable)} -m goclaw sessions {arguments} | head -n 1"
        root = str(Path(__file__).parents[3])
        done = subprocess.run(
            ["bash", "-c", command], cwd=root, env={**os.environ}, capture_output=True, timeout=60, check=True
        )
        assert done.stderr == b"" and b"tui:me" in done.stdout
