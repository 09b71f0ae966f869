"""The `message` tool."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from goclaw.common.core.events import LOCAL, Address, Delivery, Receipt
from goclaw.common.core.messages import SENT
from goclaw.common.specs import Risk
from goclaw.errors import DeliveryError, InvalidInput, ToolError
from goclaw.tools.approval.guard import Route
from goclaw.tools.builtin.message import message
from goclaw.tools.toolkit.arguments import validate
from tests.tools.builtin.memory_support import ANNAS_CHAT, surroundings

TERMINAL = Address(LOCAL, "anna")
TOPIC = Address("telegram", "-100123", thread="7", reply_to="55")


async def test_send_goes_to_the_conversations_own_chat_by_default(tmp_path: Path) -> None:
    async with surroundings(tmp_path) as around:
        answer = await around.call(message, {"action": "send", "text": "Hello!"})
        assert answer == "sent to telegram:5, message id 789"
        assert around.delivered == [Delivery(id="telegram:77:tool:call-1", address=ANNAS_CHAT, text="Hello!")]


async def test_send_in_a_topic_stays_in_the_topic(tmp_path: Path) -> None:
    async with surroundings(tmp_path) as around:
        given = {"action": "send", "text": "Hello!", "chat_id": "-100123"}
        await around.call(message, given, address=TOPIC)
        assert around.delivered[0].address == TOPIC
        assert around.asked == []


@pytest.mark.promise("P-guard")
@pytest.mark.parametrize(
    ("address", "given", "route"),
    [
        (ANNAS_CHAT, {"media_path": "a.csv"}, None),
        (TERMINAL, {"media_path": "a.csv"}, None),
        (TOPIC, {"text": "Hello!"}, None),
        (TOPIC, {"media_path": "a.csv"}, Route.FILE),
        (Address("other", "room", reply_to="7"), {"media_path": "a.csv"}, Route.FILE),
        (ANNAS_CHAT, {"media_path": "a.csv", "chat_id": "6"}, Route.FILE),
        (ANNAS_CHAT, {"text": "Hello!", "chat_id": "6"}, Route.SEND),
    ],
)
async def test_the_guard_looks_at_a_file_for_a_group_and_at_all_for_another_chat(
    tmp_path: Path, address: Address, given: dict[str, Any], route: Route | None
) -> None:
    async with surroundings(tmp_path) as around:
        arguments = validate(message.arguments, {"action": "send", **given})
        assert message.sink
        sink = message.sink(arguments, around.context(address=address))
    assert (sink.route if sink else None) is route


async def test_a_channel_without_message_ids_gives_a_sentence(tmp_path: Path) -> None:
    async with surroundings(tmp_path) as around:
        around.receipt = Receipt("")
        assert await around.call(message, {"action": "send", "text": "Hello!"}) == "sent to telegram:5"


@pytest.mark.parametrize(
    ("given", "answer", "delivery"),
    [
        (
            {"action": "react", "message_id": "12", "emoji": "👍"},
            "reacted with 👍 to message 12",
            {"action": "react", "message_id": "12", "emoji": "👍"},
        ),
        (
            {"action": "edit", "message_id": "12", "text": "Better"},
            "edited message 12",
            {"action": "edit", "message_id": "12", "text": "Better"},
        ),
        ({"action": "delete", "message_id": "12"}, "deleted message 12", {"action": "delete", "message_id": "12"}),
    ],
)
async def test_react_edit_and_delete_name_their_message(
    tmp_path: Path, given: dict[str, Any], answer: str, delivery: dict[str, Any]
) -> None:
    async with surroundings(tmp_path) as around:
        assert await around.call(message, given) == answer
        plain = Delivery(id="telegram:77:tool:call-1", address=ANNAS_CHAT)
        assert around.delivered == [replace(plain, **delivery)]


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"action": "send"}, 'field "text": required for action send'),
        ({"action": "send", "text": "  "}, 'field "text": required for action send'),
        (
            {"action": "edit"},
            'field "message_id": required for action edit; field "text": required for action edit',
        ),
        (
            {"action": "react"},
            'field "message_id": required for action react; field "emoji": required for action react',
        ),
        ({"action": "delete", "text": "x"}, 'field "message_id": required for action delete'),
        (
            {"action": "edit", "message_id": "1", "text": "x", "media_path": "a.png"},
            'field "media_path": only for action send',
        ),
        (
            {"action": "shout", "text": "x"},
            "field \"action\": expected 'send', 'react', 'edit' or 'delete', got 'shout'",
        ),
        ({"action": "send", "text": "x", "chat_id": 5}, 'field "chat_id": expected string, got number'),
    ],
)
async def test_what_an_action_needs_is_checked_before_anything_else(
    tmp_path: Path, given: dict[str, Any], complaint: str
) -> None:
    async with surroundings(tmp_path) as around:
        with pytest.raises(InvalidInput, match=f"^{re.escape(complaint)}$"):
            await around.call(message, given)
        assert around.delivered == []


async def test_a_file_of_the_workspace_is_sent_with_its_name_and_type(tmp_path: Path) -> None:
    async with surroundings(tmp_path) as around:
        around.write("pictures/cat.png", b"\x89PNG")
        await around.call(message, {"action": "send", "media_path": "pictures/cat.png"})
        sent = around.delivered[0]
        assert sent.media
        assert sent.media_name == "cat.png"
        assert await around.blobs.get(sent.media) == b"\x89PNG"
        assert await around.blobs.mime(sent.media) == "image/png"


@pytest.mark.parametrize("path", ["../secret.txt", "/etc/passwd", "link.txt", "missing.txt"])
async def test_no_file_outside_the_workspace_is_sent(tmp_path: Path, path: str) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    async with surroundings(tmp_path) as around:
        (around.the_workspace.root / "link.txt").symlink_to(tmp_path / "secret.txt")
        with pytest.raises(ToolError, match=r"path traversal detected|file not found"):
            await around.call(message, {"action": "send", "text": "look", "media_path": path})
        assert around.delivered == []


async def test_another_chat_asks_and_its_own_does_not(tmp_path: Path) -> None:
    async with surroundings(tmp_path) as around:
        assert around.risk(message, {"action": "send", "text": "x"}) == Risk.LOW
        assert around.risk(message, {"action": "send", "text": "x", "channel": "telegram", "chat_id": "5"}) == Risk.LOW
        assert around.risk(message, {"action": "send", "text": "x", "chat_id": "6"}) == Risk.HIGH
        other_channel = {"action": "delete", "message_id": "1", "channel": "matrix", "chat_id": "5"}
        assert around.risk(message, other_channel) == Risk.HIGH


async def test_another_chat_is_written_to_without_the_topic_of_this_one(tmp_path: Path) -> None:
    async with surroundings(tmp_path) as around:
        await around.call(message, {"action": "send", "text": "x", "chat_id": "6"}, address=TOPIC)
        assert around.delivered[0].address == Address("telegram", "6")
        assert around.asked == [("message.other", "telegram:6")]


@pytest.mark.promise("P-message-other-chats")
async def test_a_chat_that_may_not_be_written_to_is_refused_before_anybody_is_asked(tmp_path: Path) -> None:
    async with surroundings(tmp_path) as around:
        around.allow = lambda action, target: False
        given = {"action": "send", "text": "x", "chat_id": "6"}
        with pytest.raises(ToolError, match="permission denied: this person may not write to telegram:6"):
            around.risk(message, given)
        with pytest.raises(ToolError, match="permission denied"):
            await around.call(message, given)
        assert around.delivered == []


async def test_a_local_conversation_is_sent_to_as_its_own_chat(tmp_path: Path) -> None:
    async with surroundings(tmp_path) as around:
        for given in ({}, {"channel": LOCAL}, {"channel": LOCAL, "chat_id": "anna"}):
            assert around.risk(message, {"action": "send", "text": "x", **given}, address=TERMINAL) == Risk.LOW
            answer = await around.call(message, {"action": "send", "text": "x", **given}, address=TERMINAL)
            assert answer.startswith("shown in this conversation")
            assert around.delivered[-1].address == TERMINAL


async def test_no_local_conversation_is_sent_to_from_elsewhere(tmp_path: Path) -> None:
    async with surroundings(tmp_path) as around:
        for given, address in (({"chat_id": "5"}, TERMINAL), ({"channel": LOCAL, "chat_id": "anna"}, ANNAS_CHAT)):
            with pytest.raises(ToolError, match=r"there is no chat to send to.* name channel and chat_id"):
                await around.call(message, {"action": "send", "text": "x", **given}, address=address)
        assert around.delivered == []


async def test_no_file_is_sent_whose_name_misleads_people_or_their_terminal(tmp_path: Path) -> None:
    async with surroundings(tmp_path) as around:
        for name in ("bill\u202efdp.exe", "bill\x1b]0;x\x07.exe", "two\nlines"):
            (around.the_workspace.root / name).write_bytes(b"MZ")
            with pytest.raises(ToolError, match="path contains control characters"):
                await around.call(message, {"action": "send", "media_path": name})
        around.write("out/bill.pdf", b"%PDF")
        await around.call(message, {"action": "send", "media_path": "./out/bill.pdf"})
        [file] = around.files
        assert file and (file.kind, file.name, file.size) == (SENT, "out/bill.pdf", 4)


async def test_a_terminal_may_name_a_chat(tmp_path: Path) -> None:
    async with surroundings(tmp_path) as around:
        given = {"action": "send", "text": "x", "channel": "telegram", "chat_id": "5"}
        assert around.risk(message, given, address=TERMINAL) == Risk.HIGH
        await around.call(message, given, address=TERMINAL)
        assert around.delivered[0].address == Address("telegram", "5")


async def test_another_channel_needs_a_chat_id(tmp_path: Path) -> None:
    async with surroundings(tmp_path) as around:
        with pytest.raises(ToolError, match='field "chat_id": required for channel telegram'):
            await around.call(message, {"action": "send", "text": "x", "channel": "telegram"}, address=TERMINAL)


async def test_the_channels_own_words_say_why_it_was_not_delivered(tmp_path: Path) -> None:
    async with surroundings(tmp_path) as around:
        around.refusal = "telegram cannot edit this"
        with pytest.raises(DeliveryError, match="telegram cannot edit this"):
            await message.run(around.context(), action="edit", message_id="1", text="x")


def test_repeating_a_call_is_harmless_and_says_so() -> None:
    assert message.spec.idempotent


@pytest.mark.promise("P-approval")
async def test_a_file_that_changes_while_it_is_asked_for_is_not_sent(tmp_path: Path) -> None:
    async with surroundings(tmp_path) as around:
        around.write("report.csv", "a,b")
        given = {"action": "send", "chat_id": "9", "media_path": "report.csv"}
        arguments = message.arguments.model_validate(given)
        assert message.grounds is not None
        before = await message.grounds(arguments, around.context())
        assert (before.labels, before.recipient) == (("files to telegram:9",), "telegram:9")
        around.write("report.csv", "secret")
        assert (await message.grounds(arguments, around.context())).facts != before.facts
