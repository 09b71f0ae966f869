"""The one daemon for all tests that leave it as it was: each of their modules writes as a person of its own."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from goclaw.common.core.messages import AssistantMessage, Message, ToolCall, ToolResult, UserMessage
from tests.clients.web_ui.daemon import USERS, Json, WebDaemon, talk

CLEO, DORA, EVE, FAY = "tui:cleo", "tui:dora", "tui:eve", "tui:fay"
PERSONS: Mapping[str, Mapping[str, Any]] = {
    **USERS,
    CLEO: {"name": "Cleo", "roles": ["admin"]},
    DORA: {"name": "Dora", "roles": ["admin"]},
    EVE: {"name": "Eve", "roles": ["admin"]},
    FAY: {"name": "Fay", "roles": ["admin"]},
}
OTHERS = "telegram:123456"
"""A conversation of another channel, about a secret harbour."""
WORDS = [f"word{number}" for number in range(2_000)]
COUNTED = " ".join(WORDS[:120])
EFFECT = "echo done >> effects.log"
LINES = "\n".join(f"echo {number}" for number in range(200))
"""A command that is higher than a screen."""
TODOS = [{"content": "Look at the logs", "status": "completed"}, {"content": "Pack them", "status": "in_progress"}]
BREAKS: list[Json] = [
    {"when": "Count", "text": COUNTED, "seconds": 1.5},
    {"when": "Later", "text": "Answer to the later one."},
    {"when": "Beside", "text": "Answer to the one beside."},
]
ANSWERS: list[Json] = [
    *BREAKS,
    {"when": "Tell me much", "text": " ".join(WORDS), "deltas": 2_000, "seconds": 1},
    {"when": "Think", "thinking": "It wants me to think.", "text": "**Thought** about it."},
    {"when": "Act", "calls": [{"id": "c1", "name": "exec", "input": {"command": EFFECT}}]},
    {"when": "Run lines", "calls": [{"id": "c5", "name": "exec", "input": {"command": LINES}}]},
    {"when": "Ask", "calls": [{"id": "c2", "name": "ask_user", "input": {"questions": [{"question": "Which colour?",
     "options": ["Red", "Blue"]}]}}]},
    {"when": "Change", "calls": [{"id": "c3", "name": "edit", "input": {"path": "notes.md", "old_string": "milk",
     "new_string": "oat milk"}}]},
    {"when": "Plan", "text": "I plan.", "calls": [{"id": "c4", "name": "todo_write", "input": {"todos": TODOS}}]},
    {"when": "Hebrew", "text": "להריץ `git push --force` כאן\n\n```\n--force (twice)\n```"},
    {"when": "Take your time", "text": "so far and no further", "seconds": 30},
]  # fmt: skip
ASKS = {"policy": {"stricter": {"medium": "ask", "contained": "ask"}}}
RICH = (
    "## Heading\n\n| a | b |\n|---|---|\n| 1 | "
    + "wide " * 40
    + "|\n\n```python\nx = 1  # "
    + "long " * 60
    + "\n```\n\n"
    + "w" * 400
)
TALK: list[Message] = [
    UserMessage("Look at this, please: " + "a" * 200),
    AssistantMessage(RICH, (ToolCall("c1", "exec", {"command": "ls " + "x" * 300}),)),
    ToolResult("c1", "exec", "line\n" * 30, call_hint="Running ls", hint="Ran ls: exit code 0"),
    AssistantMessage("> quoted\n\n1. one\n2. [two](https://example.org)\n\n*done*"),
]
"""Everything that is wide or has parts; Dora's conversation begins with it."""


def shared_daemon(folder: Path) -> WebDaemon:
    """Return the daemon, prepared and not started."""
    made = WebDaemon(folder, ANSWERS, PERSONS, ASKS)
    made.prepare()
    made.seed(OTHERS, talk(6, "secret harbour"))
    made.seed(DORA, TALK, 4)
    made.seed("telegram:5", TALK, 4)
    (made.workspace / "MEMORY.md").write_text("# What I know\n\nAnn likes **tea**.\n")
    (made.workspace / "notes.md").write_text("Buy milk.\n")
    return made
