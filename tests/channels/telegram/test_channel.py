"""The channel as a whole: when it is on, what it announces, what it fetches, what it keeps to itself."""

import logging
import subprocess
import sys
from typing import Any, Literal

import pytest

from goclaw.channels.telegram.message_content import MAX_FILE, MAX_IMAGE
from goclaw.common.config.schema import Config
from goclaw.common.core.events import Attachment
from goclaw.errors import ConfigError, DeliveryError
from tests.channels.telegram.support import PART, Stage, eventually, open_stage


@pytest.mark.parametrize(
    ("settings", "on"),
    [
        ({}, False),
        ({"token": "1:x"}, True),
        ({"token": "1:x", "enabled": False}, False),
        ({"enabled": True}, True),
    ],
)
def test_it_is_on_when_there_is_a_token_unless_it_is_switched(settings: dict[str, Any], on: bool) -> None:
    assert PART.enabled(Config.model_validate({"telegram": settings})) is on


async def test_without_a_token_it_cannot_be_opened() -> None:
    with pytest.raises(ConfigError, match="TELEGRAM_BOT_TOKEN"):
        async with open_stage(running=False, token=None, enabled=True):
            pass


def test_the_library_is_loaded_only_when_it_is_needed() -> None:
    """Its import costs 130 ms and 20 MB; `telegram.ext` would cost as much again."""
    program = """
import sys
from goclaw.channels import telegram
assert "telegram" not in sys.modules and "telegramify_markdown" not in sys.modules
from goclaw.channels.telegram import channel
assert "telegram" in sys.modules and "telegram.ext" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=30)


async def test_its_health_says_when_telegram_last_answered() -> None:
    async with open_stage() as stage:
        assert stage.channel.health() == "connecting"
        await eventually(lambda: stage.channel.health() == "polling, last answer 0 s ago")
        assert stage.telegram.world.confirmed == [], "not even the first poll has ended"


async def fetch(
    stage: Stage, content: bytes, size: int | None = None, kind: Literal["image", "document", "voice"] = "image"
) -> bytes:
    number = stage.telegram.world.keep_file(content, "x.jpg")["file_id"]
    return await stage.channel.fetch(Attachment(kind, number, "image/jpeg", size=size))


async def test_pictures_are_fetched() -> None:
    async with open_stage(running=False) as stage:
        assert await fetch(stage, b"jpeg") == b"jpeg"


@pytest.mark.parametrize("declared", [None, MAX_FILE + 1, 10])
@pytest.mark.parametrize(("kind", "limit"), [("image", MAX_IMAGE), ("document", MAX_FILE), ("voice", MAX_FILE)])
async def test_a_file_past_its_limit_is_refused_whatever_its_size_is_said_to_be(
    kind: Literal["image", "document", "voice"], limit: int, declared: int | None
) -> None:
    async with open_stage(running=False) as stage:
        with pytest.raises(DeliveryError, match=rf"{limit >> 20} MB|too big") as caught:
            await fetch(stage, b"x" * (limit + 1), declared, kind)
        assert caught.value.permanent


async def test_a_document_may_be_as_large_as_a_bot_may_download() -> None:
    async with open_stage(running=False) as stage:
        assert len(await fetch(stage, b"x" * MAX_FILE, MAX_FILE, "document")) == MAX_FILE


async def test_a_file_that_is_gone_is_an_error_in_words() -> None:
    async with open_stage(running=False) as stage:
        with pytest.raises(DeliveryError, match="cannot be downloaded"):
            await stage.channel.fetch(Attachment("image", "nope", "image/jpeg"))
        stage.telegram.fail("getFile", status=429, retry_after=3)
        with pytest.raises(DeliveryError) as caught:
            await fetch(stage, b"x")
        assert caught.value.retry_after == 3


async def test_a_slash_at_the_end_of_the_base_url_changes_nothing() -> None:
    async with (
        open_stage() as running,
        open_stage(telegram=running.telegram, running=False, base_url=running.telegram.base_url + "/") as stage,
    ):
        assert await fetch(stage, b"jpeg") == b"jpeg"


@pytest.mark.promise("P-secrets-masked")
async def test_the_token_is_in_no_log_line_at_any_level(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        async with open_stage() as stage:
            stage.telegram.fail("getUpdates", cut="before")
            stage.telegram.fail("sendMessage", status=500, description="no")
            stage.telegram.world.meet(5)
            with pytest.raises(DeliveryError):
                await stage.deliver("hello")
            await fetch(stage, b"jpeg")
            await eventually(lambda: "no connection" in caplog.text)
        assert stage.telegram.token not in caplog.text
    assert caplog.records, "there was something to look at"


@pytest.mark.promise("P-interim")
async def test_whether_a_text_before_a_tool_call_is_a_message_of_its_own_is_chosen() -> None:
    async with open_stage(running=False) as usual, open_stage(running=False, interim="joined") as joining:
        assert usual.channel.capabilities.interim and not joining.channel.capabilities.interim


async def test_changes_of_files_are_no_documents_unless_that_is_wanted() -> None:
    async with open_stage(running=False) as quiet, open_stage(running=False, artifacts="files") as wanting:
        assert quiet.channel.capabilities.artifacts and not quiet.channel.capabilities.diffs
        assert wanting.channel.capabilities.diffs


@pytest.mark.parametrize("chosen", ["files", "none"])
async def test_what_tools_keep_for_people_comes_as_a_document_unless_that_is_turned_off(chosen: str) -> None:
    async with open_stage(running=False, artifacts=chosen) as stage:
        assert stage.channel.capabilities.artifacts is (chosen == "files")
        stage.telegram.world.meet(5)
        stage.blobs["key"] = b'{"path": "a.txt"}'
        await stage.deliver("", media="key", media_name="diff.json")
        (document,) = stage.telegram.sent(5)
    assert (document.file_name, document.file) == ("diff.json", b'{"path": "a.txt"}')


async def test_the_admins_of_a_group_are_those_that_telegram_names_now() -> None:
    async with open_stage(running=False) as stage:
        stage.telegram.world.meet(-1001)
        stage.telegram.world.admins[-1001] = [5, 7]
        assert list(await stage.channel.capabilities.admins_of("-1001")) == ["telegram:5", "telegram:7"]
        stage.telegram.fail("getChatAdministrators", status=400, description="Bad Request: chat not found")
        assert list(await stage.channel.capabilities.admins_of("-1001")) == []
