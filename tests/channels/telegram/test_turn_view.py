"""What is seen of a turn: its text, and a line each about its list and its tools, without anything raw."""

from typing import Any

import pytest

from goclaw.channels.telegram.render import MAX_UNITS, EntitySpan, Mark, RenderedMessage
from goclaw.channels.telegram.turn_view import MAX_LINE, Progress, tool_line, with_line
from goclaw.common.core.events import Todo
from goclaw.common.core.redact import MASK


@pytest.mark.parametrize(
    ("name", "arguments", "line"),
    [
        ("exec", {"command": "ls -la"}, "⚙ exec: ls -la"),
        ("exec", {"command": "cd /tmp\n\n  && make\tall"}, "⚙ exec: cd /tmp && make all"),
        ("read", {"limit": 5, "path": "a.txt"}, "⚙ read: a.txt"),
        ("todo_write", {"todos": [{"content": "x"}]}, "⚙ todo_write"),
        ("odd", {"body": ' {"raw": "json"}'}, "⚙ odd"),
        ("exec", {"command": "\u202ecurl\x1b[31m"}, "⚙ exec: curl"),
        ("exec", {"command": "curl -H 'Bearer abcdefghijklmnop'"}, f"⚙ exec: curl -H '{MASK}'"),
        ("exec", {}, "⚙ exec"),
    ],
)
def test_a_call_is_one_line_for_people(name: str, arguments: dict[str, Any], line: str) -> None:
    assert tool_line(name, arguments) == line


def test_a_long_call_is_shortened_after_its_secrets_are_masked() -> None:
    line = tool_line("exec", {"command": "x" * 60 + " sk-" + "secret" * 1000})
    assert len(line) <= MAX_LINE and "secretsecret" not in line


def test_what_an_agent_does_takes_the_place_of_the_call_that_started_it() -> None:
    progress = Progress()
    progress.tool_started("1", "agent", {}, "reader: Find the tests")
    progress.agent_did("1", "reader: Find the tests", "Searching with sk-" + "secret" * 20)
    assert progress.line() == f"⚙ reader: Find the tests › Searching with {MASK}"
    progress.tool_finished("1", "reader: 3 requests")
    assert progress.line() == "✓ reader: 3 requests"


def test_a_tool_says_in_its_own_words_what_it_does_and_what_came_of_it_until_something_else_goes_on() -> None:
    progress = Progress()
    progress.tool_started("1", "chart", {"of": "boats"}, "Counting boats with sk-" + "secret" * 20)
    progress.tool_started("2", "read", {"path": "a.txt"})
    assert progress.line() == "⚙ read: a.txt"
    progress.tool_finished("2")
    assert progress.line() == f"⚙ Counting boats with {MASK}"
    progress.tool_finished("1", "8 boats\nin all " + "x" * 200)
    assert progress.line().startswith("✓ 8 boats in all") and len(progress.line()) == MAX_LINE
    progress.add("So there are")
    assert progress.line() == ""
    progress.tool_finished("3", "late")
    progress.tool_started("4", "read", {})
    progress.tool_finished("4")
    assert progress.line() == "", "what came of the one before is old by now"


def test_how_far_the_list_of_what_is_to_be_done_is_stands_above_the_line_of_the_tool() -> None:
    progress = Progress()
    progress.todos_changed([Todo("Caulk", "completed"), Todo("Paint\nthe hull", "in_progress"), Todo("Sail")])
    assert progress.line() == "☑ 1 of 3 done; now: Paint the hull"
    progress.tool_started("1", "read", {"path": "a.txt"})
    assert progress.line().splitlines() == ["☑ 1 of 3 done; now: Paint the hull", "⚙ read: a.txt"]
    progress.todos_changed([])
    assert progress.line() == "⚙ read: a.txt"


def test_a_line_stands_below_the_text_where_there_is_room() -> None:
    bold = (EntitySpan(0, 2, Mark("bold")),)
    assert with_line(RenderedMessage("hi", bold), "⚙ x") == RenderedMessage("hi\n\n⚙ x", bold)
    assert with_line(RenderedMessage(""), "⚙ x") == RenderedMessage("⚙ x")
    full = RenderedMessage("x" * MAX_UNITS)
    assert with_line(full, "⚙ x") == full
