"""What models send to `message` that it must not take; each is told in words, and nothing goes out."""

import os
from pathlib import Path
from typing import Any

import pytest

from goclaw.common.core.events import LOCAL, Address
from goclaw.common.workspace import Workspace
from goclaw.errors import InvalidInput, ToolError
from goclaw.tools.builtin.message import MAX_TEXT, message
from goclaw.tools.toolkit.attached_files import MAX_FILE
from tests.tables import table
from tests.tools.builtin.memory_support import Surroundings, surroundings

SEND = {"action": "send", "text": "x"}
REACT = {"action": "react", "message_id": "1", "emoji": "👍"}
KNOWN = '"action", "channel", "chat_id", "message_id", "emoji", "media_path", "text"'


@table(
    "given, complaint",
    [
        # missing
        ({}, "field \"action\": expected 'send' or 'react' or 'edit' or 'delete', got nothing"),
        ({"text": "x"}, "field \"action\": expected 'send' or 'react' or 'edit' or 'delete', got nothing"),
        ({"action": "react", "emoji": "👍"}, 'field "message_id": required for action react'),
        ({"action": "react", "message_id": "1"}, 'field "emoji": required for action react'),
        ({"action": "edit", "message_id": "1"}, 'field "text": required for action edit'),
        ({"action": "delete"}, 'field "message_id": required for action delete'),
        # empty
        ({"action": "send", "text": ""}, 'field "text": required for action send'),
        ({"action": "send", "text": " \n\t"}, 'field "text": required for action send'),
        ({"action": "delete", "message_id": "  "}, 'field "message_id": required for action delete'),
        ({"action": "react", "message_id": "1", "emoji": " "}, 'field "emoji": required for action react'),
        ({"action": "send", "media_path": ""}, 'field "text": required for action send'),
        # wrong type
        (None, "input: expected object, got null"),
        ([], "input: expected object, got array"),
        ("send", "input: expected object, got string"),
        ({"action": None}, "field \"action\": expected 'send', 'react', 'edit' or 'delete', got"),
        ({"action": ["send"]}, "field \"action\": expected 'send', 'react', 'edit' or 'delete', got"),
        ({"action": "SEND", "text": "x"}, "field \"action\": expected 'send', 'react', 'edit' or 'delete', got 'SEND'"),
        (SEND | {"text": 5}, 'field "text": expected string, got number'),
        (SEND | {"text": None}, 'field "text": expected string, got null'),
        (SEND | {"text": {"a": 1}}, 'field "text": expected string, got object'),
        (SEND | {"chat_id": 123}, 'field "chat_id": expected string, got number'),
        (SEND | {"media_path": ["a.png"]}, 'field "media_path": expected string, got array'),
        (REACT | {"message_id": 789}, 'field "message_id": expected string, got number'),
        (REACT | {"emoji": True}, 'field "emoji": expected string, got boolean'),
        # the other spellings that elsewhere were ways around the check of paths
        (SEND | {"mediaUrl": "file:///etc/passwd"}, 'field "mediaUrl": unknown field'),
        (SEND | {"fileUrl": "http://169.254.169.254/"}, 'field "fileUrl": unknown field'),
        (SEND | {"media": "/etc/passwd"}, 'field "media": unknown field, did you mean "media_path"?'),
        (SEND | {"path": "/etc/passwd"}, 'field "path": unknown field'),
        (SEND | {"filePath": "/etc/passwd"}, 'field "filePath": unknown field'),
        (SEND | {"media_url": "http://x"}, 'field "media_url": unknown field'),
        (SEND | {"attachments": ["a"]}, 'field "attachments": unknown field'),
        (SEND | {"choices": [{"label": "Yes", "question": "q", "answer": "allow"}]}, 'field "choices": unknown field'),
        (SEND | {"buttons": []}, f'field "buttons": unknown field, known are {KNOWN}'),
        # huge
        (SEND | {"text": "x" * (MAX_TEXT + 1)}, f'field "text": expected at most {MAX_TEXT} characters'),
        (SEND | {"chat_id": "1" * 5_000}, 'field "chat_id": expected at most 200 characters'),
        (REACT | {"emoji": "👍" * 5_000}, 'field "emoji": expected at most 200 characters'),
        (REACT | {"message_id": "1" * 5_000}, 'field "message_id": expected at most 200 characters'),
        # hostile
        (SEND | {"chat_id": "5\n6"}, 'field "chat_id": expected one line without control characters'),
        (SEND | {"chat_id": "5\u2028"}, 'field "chat_id": expected one line without control characters'),
        (SEND | {"channel": "tele\0gram"}, 'field "channel": expected one line without control characters'),
        (REACT | {"message_id": "\x1b[2J"}, 'field "message_id": expected one line without control characters'),
        (REACT | {"text": "x", "media_path": "a.png"}, 'field "media_path": only for action send'),
    ],
)
async def test_bad_input_is_told_field_by_field(tmp_path: Path, given: Any, complaint: str) -> None:
    async with surroundings(tmp_path) as around:
        with pytest.raises(InvalidInput) as caught:
            await around.call(message, given)
        assert str(caught.value).startswith(complaint) and len(str(caught.value)) < 1_000
        assert around.delivered == [] and around.asked == []


def lay_traps(around: Surroundings, folder: Path) -> None:
    """Files that must not be sent, under names a model may try."""
    root = around.the_workspace.root
    (folder / "secret.txt").write_text("secret")
    (root / "out.txt").symlink_to(folder / "secret.txt")
    (root / "tmp").symlink_to("/tmp")
    (root / "folder").mkdir()
    os.mkfifo(root / "pipe.txt")
    around.write("empty.txt", "")
    with (root / "large.bin").open("wb") as large:
        large.truncate(MAX_FILE + 1)


@pytest.mark.parametrize(
    ("path", "complaint"),
    [
        ("missing.txt", "file not found: missing.txt"),
        ("../secret.txt", "path traversal detected: ../secret.txt"),
        ("/etc/passwd", "path traversal detected: /etc/passwd"),
        ("/tmp/secret.txt", "path traversal detected: /tmp/secret.txt"),
        ("tmp/secret.txt", "path traversal detected: tmp/secret.txt"),
        ("out.txt", "path traversal detected: out.txt"),
        ("file:///etc/passwd", "file not found: file:///etc/passwd"),
        ("~/.ssh/id_rsa", "file not found: ~/.ssh/id_rsa"),
        ("http://169.254.169.254/latest", "file not found: http://169.254.169.254/latest"),
        ("/proc/self/environ", "path traversal detected: /proc/self/environ"),
        ("folder", "is a directory: folder"),
        (".", "is a directory: ."),
        ("pipe.txt", "not a regular file: pipe.txt (a pipe)"),
        ("empty.txt", "file is empty: empty.txt"),
        ("large.bin", "file too large: large.bin has 20.0 MB, at most 20 can be sent"),
        ("a\0.png", "path contains control characters"),
        ("a\n.png", "path contains control characters"),
        ("x/" * 5_000, "path is too long"),
        (" ", "path is empty"),
    ],
)
async def test_only_a_file_of_the_workspace_goes_out(tmp_path: Path, path: str, complaint: str) -> None:
    async with surroundings(tmp_path) as around:
        lay_traps(around, tmp_path)
        with pytest.raises(ToolError) as caught:
            await around.call(message, SEND | {"media_path": path})
        assert str(caught.value).startswith(complaint) and len(str(caught.value)) < 500
        assert around.delivered == []


async def test_no_file_of_the_daemon_goes_out_under_any_name(tmp_path: Path) -> None:
    state = tmp_path / "goclaw.db"
    state.write_bytes(b"everything")
    async with surroundings(tmp_path) as around, Workspace(around.the_workspace.root, [state]) as guarded:
        around.the_workspace = guarded
        (guarded.root / "report.pdf").hardlink_to(state)
        with pytest.raises(ToolError, match=r"^permission denied: report\.pdf$"):
            await around.call(message, SEND | {"media_path": "report.pdf"})
        assert around.delivered == []


@pytest.mark.promise("P-memory-own-notes")
async def test_somebody_elses_notes_do_not_go_out(tmp_path: Path) -> None:
    async with surroundings(tmp_path) as around:
        around.write("memory/users/telegram:6/n.md", "private")
        (around.the_workspace.root / "link.md").symlink_to("memory/users/telegram:6/n.md")
        around.the_workspace = around.the_workspace.seen_by("telegram:5")
        for path in ("memory/users/telegram:6/n.md", "link.md"):
            with pytest.raises(ToolError, match=f"^file not found: {path}$"):
                await around.call(message, SEND | {"media_path": path})
        assert around.delivered == []


@pytest.mark.parametrize("emoji", ["❤️‍🔥", "👍🏽", "🤷‍♀️"])
async def test_emoji_of_several_characters_are_taken(tmp_path: Path, emoji: str) -> None:
    async with surroundings(tmp_path) as around:
        assert await around.call(message, REACT | {"emoji": emoji}) == f"reacted with {emoji} to message 1"


@pytest.mark.parametrize("chat", [" 5", "5 ", "+5", "05", "٥", "5_0"])
async def test_another_spelling_of_the_own_chat_is_another_chat(tmp_path: Path, chat: str) -> None:
    async with surroundings(tmp_path) as around:
        around.allow = lambda action, target: False
        with pytest.raises(ToolError, match="permission denied: this person may not write to telegram:"):
            await around.call(message, SEND | {"chat_id": chat})
        assert around.delivered == []


@pytest.mark.parametrize(
    ("action", "words"),
    [("react", "react in"), ("edit", "edit in"), ("delete", "delete from")],
)
async def test_a_terminal_says_for_each_change_that_it_has_no_chat(tmp_path: Path, action: str, words: str) -> None:
    given = {"action": action, "message_id": "1", "emoji": "👍", "text": "x"}
    async with surroundings(tmp_path) as around:
        with pytest.raises(ToolError, match=rf"^there is no chat to {words}: this conversation is in a terminal, on"):
            await around.call(message, given, address=Address(LOCAL, "anna"))
