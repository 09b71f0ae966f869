"""The fake Bot API is as strict as the tests that lean on it need it to be."""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from goclaw.common.core.clock import SteppedClock
from tests.fake_telegram.rules import ApiError, check_entities, check_text
from tests.fake_telegram.server import FakeTelegram

ROOT = Path(__file__).resolve().parents[2]


class Client:
    """Bare HTTP, so that no library hides what the fake answers."""

    def __init__(self, telegram: FakeTelegram, session: aiohttp.ClientSession) -> None:
        self.telegram = telegram
        self.session = session

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        url = f"{self.telegram.base_url}/bot{self.telegram.token}/{method}"
        async with self.session.post(url, json=parameters) as response:
            body: dict[str, Any] = await response.json()
            assert body["ok"] == (response.status == 200)
            return body


@pytest.fixture
async def telegram() -> AsyncIterator[FakeTelegram]:
    async with FakeTelegram() as telegram:
        yield telegram


@pytest.fixture
async def client(telegram: FakeTelegram) -> AsyncIterator[Client]:
    async with aiohttp.ClientSession() as session:
        yield Client(telegram, session)


async def test_updates_stay_until_a_higher_offset_confirms_them(telegram: FakeTelegram, client: Client) -> None:
    first = await telegram.world.say("one")
    second = await telegram.world.say("two")
    for _ in range(2):
        assert [update["update_id"] for update in (await client.call("getUpdates"))["result"]] == [
            first["update_id"],
            second["update_id"],
        ]
    left = await client.call("getUpdates", offset=first["update_id"] + 1)
    assert [update["message"]["text"] for update in left["result"]] == ["two"]
    assert telegram.world.confirmed == [first["update_id"]]


async def test_a_poll_that_is_cut_gives_its_updates_out_again(telegram: FakeTelegram, client: Client) -> None:
    await telegram.world.say("one")
    telegram.fail("getUpdates", cut="after")
    with pytest.raises(aiohttp.ClientError):
        await client.call("getUpdates")
    assert [update["message"]["text"] for update in (await client.call("getUpdates"))["result"]] == ["one"]


async def test_a_negative_offset_forgets_all_but_the_last(telegram: FakeTelegram, client: Client) -> None:
    for text in ("one", "two", "three"):
        await telegram.world.say(text)
    assert [update["message"]["text"] for update in (await client.call("getUpdates", offset=-2))["result"]] == [
        "two",
        "three",
    ]
    assert len(telegram.world.confirmed) == 1


async def test_what_was_sent_twice_is_counted(telegram: FakeTelegram, client: Client) -> None:
    for chat in (5, 6):
        telegram.world.meet(chat)
        await client.call("sendMessage", chat_id=chat, text="hello")
    assert telegram.repeated() == []
    await client.call("sendMessage", chat_id=5, text="hello")
    assert [sent.chat for sent in telegram.repeated()] == [5]


async def test_a_long_poll_ends_as_soon_as_somebody_writes(telegram: FakeTelegram, client: Client) -> None:
    polling = asyncio.create_task(client.call("getUpdates", timeout=50))
    await telegram.wait_called("getUpdates")
    await telegram.world.say("hello")
    async with asyncio.timeout(5):
        assert len((await polling)["result"]) == 1


async def test_a_second_poller_ends_the_first_with_409(telegram: FakeTelegram, client: Client) -> None:
    first = asyncio.create_task(client.call("getUpdates", timeout=50))
    await telegram.wait_called("getUpdates")
    second = asyncio.create_task(client.call("getUpdates", timeout=50))
    async with asyncio.timeout(5):
        assert (await first)["description"].startswith("Conflict: terminated by other getUpdates")
    await telegram.world.say("hello")
    assert len((await second)["result"]) == 1


async def test_polling_beside_a_webhook_is_a_conflict(telegram: FakeTelegram, client: Client) -> None:
    await client.call("setWebhook", url="https://example.org/hook")
    assert (await client.call("getUpdates"))["error_code"] == 409
    await client.call("deleteWebhook")
    assert (await client.call("getUpdates"))["ok"]


async def test_kinds_of_updates_that_were_not_asked_for_never_come(telegram: FakeTelegram, client: Client) -> None:
    said = await telegram.world.say("hello")
    await telegram.world.update("edited_message", said["message"] | {"edit_date": 1})
    assert len((await client.call("getUpdates", allowed_updates=["message"]))["result"]) == 1


@pytest.mark.parametrize(
    ("method", "parameters", "error"),
    [
        ("sendMessage", {"chat_id": 5}, "text"),
        ("sendMessage", {"chat_id": 5, "text": "x", "tetx": 1}, "no parameter tetx"),
        ("sendMessage", {"chat_id": 5, "text": "x", "entities": 3}, "entities"),
        ("sendMessage", {"chat_id": 6, "text": "x"}, "chat not found"),
        ("sendMessage", {"chat_id": 5, "text": " \n"}, "message text is empty"),
        ("sendMessage", {"chat_id": 5, "text": "😀" * 2049}, "message is too long"),
        ("sendMessage", {"chat_id": 5, "text": "x", "reply_parameters": {"message_id": 9}}, "to be replied not found"),
        ("editMessageText", {"chat_id": 5, "message_id": 99, "text": "x"}, "message to edit not found"),
        ("sendMessageDraft", {"chat_id": -100, "draft_id": 1, "text": "x"}, "TEXTDRAFT_PEER_INVALID"),
        ("sendChatAction", {"chat_id": 5, "action": "dance"}, "wrong parameter action"),
        ("setMyCommands", {"commands": [{"command": "Bad Name", "description": "x"}]}, "BOT_COMMAND_INVALID"),
        ("setMyCommands", {"commands": [], "scope": {"type": "chat", "chat_id": 6}}, "chat not found"),
        ("setMyCommands", {"commands": [], "scope": {"type": "everyone"}}, "scope"),
        ("getFile", {"file_id": "nope"}, "wrong file_id"),
        ("noSuchMethod", {}, "not found"),
    ],
)
async def test_mistakes_are_refused_with_telegrams_words(
    telegram: FakeTelegram, client: Client, method: str, parameters: dict[str, Any], error: str
) -> None:
    telegram.world.meet(5)
    telegram.world.meet(-100)
    answer = await client.call(method, **parameters)
    assert error in answer["description"]


async def test_a_person_sees_the_menu_of_the_chat_else_that_of_everybody(
    telegram: FakeTelegram, client: Client
) -> None:
    telegram.world.meet(5)
    own = {"scope": {"type": "chat", "chat_id": 5}}
    for name, scope in (("help", {}), ("remind", own)):
        await client.call("setMyCommands", commands=[{"command": name, "description": "x"}], **scope)
    assert (telegram.world.menu(5), telegram.world.menu(6)) == (["remind"], ["help"])
    assert (await client.call("getMyCommands", **own))["result"][0]["command"] == "remind"
    await client.call("deleteMyCommands", **own)
    assert telegram.world.menu(5) == ["help"]


async def test_an_edit_that_changes_nothing_is_refused(telegram: FakeTelegram, client: Client) -> None:
    telegram.world.meet(5)
    number = (await client.call("sendMessage", chat_id=5, text="same"))["result"]["message_id"]
    again = await client.call("editMessageText", chat_id=5, message_id=number, text="same")
    assert "message is not modified" in again["description"]
    await client.call("editMessageText", chat_id=5, message_id=number, text="new")
    assert [(sent.text, sent.edits) for sent in telegram.sent(5)] == [("new", 1)]


@pytest.mark.parametrize(
    "entities",
    [
        [("bold", 3, 3)],
        [("bold", 0, 0)],
        [("bold", -1, 2)],
        [("bold", 1, 1)],
        [("bold", 0, 3), ("italic", 2, 2)],
        [("code", 0, 4), ("bold", 2, 1)],
        [("bold", 0, 4), ("pre", 2, 1)],
        [("blockquote", 0, 4), ("blockquote", 2, 1)],
        [("text_link", 0, 2)],
        [("sparkle", 0, 2)],
    ],
)
def test_wrong_entities_are_refused(entities: list[tuple[str, int, int]]) -> None:
    listed = [{"type": kind, "offset": offset, "length": length} for kind, offset, length in entities]
    with pytest.raises(ApiError):
        check_entities("😀abc", listed)


def test_right_entities_pass() -> None:
    inside = [("blockquote", 0, 5), ("code", 0, 2), ("bold", 2, 3), ("italic", 3, 1)]
    check_text("😀abc", [{"type": kind, "offset": start, "length": length} for kind, start, length in inside])


async def test_a_lost_answer_takes_effect_all_the_same(telegram: FakeTelegram, client: Client) -> None:
    telegram.world.meet(5)
    telegram.fail("sendMessage", cut="after")
    with pytest.raises(aiohttp.ClientError):
        await client.call("sendMessage", chat_id=5, text="arrived")
    telegram.fail("sendMessage", cut="before")
    with pytest.raises(aiohttp.ClientError):
        await client.call("sendMessage", chat_id=5, text="lost")
    assert [sent.text for sent in telegram.sent(5)] == ["arrived"]


async def test_faults_are_used_up(telegram: FakeTelegram, client: Client) -> None:
    telegram.world.meet(5)
    telegram.fail("sendMessage", status=429, retry_after=7, description="Too Many Requests")
    refused = await client.call("sendMessage", chat_id=5, text="x")
    assert refused["parameters"] == {"retry_after": 7}
    assert (await client.call("sendMessage", chat_id=5, text="x"))["ok"]


async def test_flood_limits_count_per_chat() -> None:
    clock = SteppedClock()
    async with FakeTelegram(flood=True, clock=clock) as telegram, aiohttp.ClientSession() as session:
        client = Client(telegram, session)
        telegram.world.meet(5)
        telegram.world.meet(6)
        answers = [(await client.call("sendMessage", chat_id=5, text="x"))["ok"] for _ in range(4)]
        assert answers == [True, True, True, False]
        assert (await client.call("sendMessage", chat_id=6, text="x"))["ok"]
        clock.advance(3)
        assert (await client.call("sendMessage", chat_id=5, text="x"))["ok"]


async def test_uploads_can_be_downloaded_again(telegram: FakeTelegram, client: Client) -> None:
    telegram.world.meet(5)
    form = aiohttp.FormData({"chat_id": "5", "caption": "look"})
    form.add_field("document", b"content", filename="notes.txt")
    base = f"{telegram.base_url}/bot{telegram.token}"
    async with client.session.post(f"{base}/sendDocument", data=form) as response:
        document = (await response.json())["result"]["document"]
    path = (await client.call("getFile", file_id=document["file_id"]))["result"]["file_path"]
    async with client.session.get(f"{telegram.base_url}/file/bot{telegram.token}/{path}") as response:
        assert await response.read() == b"content"
    assert [(sent.text, sent.file_name) for sent in telegram.sent(5)] == [("look", "notes.txt")]


async def test_a_wrong_token_is_unauthorized(telegram: FakeTelegram, client: Client) -> None:
    telegram.token = "42:other"
    async with client.session.get(f"{telegram.base_url}/bot42:wrong/getMe") as response:
        assert response.status == 401


@pytest.mark.long  # the library of the oracle takes seconds to import
async def test_it_runs_as_a_program_of_its_own() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.fake_telegram", cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout
    async with asyncio.timeout(30):
        where = json.loads(await process.stdout.readline())
        async with aiohttp.ClientSession(where["base_url"]) as session:
            async with session.post("/sim/say", json={"text": "hello", "user": 7}) as response:
                assert (await response.json())["message"]["text"] == "hello"
            async with session.post(f"/bot{where['token']}/sendMessage", json={"chat_id": 7, "text": "hi"}) as response:
                assert response.status == 200
            async with session.get("/sim/sent", params={"chat": "7"}) as response:
                assert [sent["text"] for sent in await response.json()] == ["hi"]
            async with session.get("/sim/counts") as response:
                assert await response.json() == {
                    "calls": {"sendMessage": 1},
                    "sent": 1,
                    "repeated": 0,
                    "pending": 1,
                    "confirmed": 0,
                }
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
