"""The library's requests on our own HTTP session: proxied, bounded, and without the token in any error."""

import asyncio
import base64
import contextlib
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from types import FrameType

import aiohttp
import pytest
from telegram import Bot
from telegram.error import TelegramError

from goclaw.channels.telegram.outgoing import (
    ChatTarget,
    delete,
    edit_caption,
    edit_keyboard,
    edit_text,
    react,
    send_text,
)
from goclaw.channels.telegram.render import RenderedMessage, render
from goclaw.channels.telegram.request import AiohttpRequest, Flood, TooLarge, Unanswered, Unsent, wait_of
from goclaw.common.core.fencing import AUTHORITY, Authority
from goclaw.common.net import open_client
from goclaw.errors import OwnershipLost
from tests.fake_telegram.server import FakeTelegram

TOKEN = "123456789:AAsecret-secret-secret-secret-secret"
ME = b'{"ok":true,"result":{"id":1,"is_bot":true,"first_name":"x","username":"x_bot"}}'


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@contextlib.asynccontextmanager
async def tcp_server(answer: Callable[[bytes], Awaitable[bytes | None]]) -> AsyncIterator[str]:
    """A server that answers each request's head with bytes (or hangs up); yields its address."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            if reply := await answer(await reader.readuntil(b"\r\n\r\n")):
                writer.write(reply)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


def http(body: bytes, status: str = "200 OK", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def bot_at(server: str, session: aiohttp.ClientSession, proxy: str | None = None) -> Bot:
    request = AiohttpRequest(session, proxy)
    return Bot(TOKEN, f"{server}/bot", f"{server}/file/bot", request=request, get_updates_request=request)


@pytest.mark.promise("P-answered-once")
@pytest.mark.parametrize(
    "request_of",
    [
        partial(send_text, target=ChatTarget(5), chunk=RenderedMessage("hello")),
        partial(edit_text, chat=5, message_id=1, chunk=RenderedMessage("hello")),
        partial(edit_caption, chat=5, message_id=1, chunk=RenderedMessage("hello")),
        partial(edit_keyboard, chat=5, message_id=1, keyboard=None),
        partial(delete, chat=5, message_id=1),
        partial(react, chat=5, message_id=1, emoji="👍"),
    ],
)
async def test_a_request_of_a_process_that_has_lost_the_session_is_not_sent_and_is_no_failure_of_the_network(
    request_of: Callable[[Bot], Awaitable[object]],
) -> None:
    async def lost() -> None:
        raise OwnershipLost("another process has taken over the session")

    AUTHORITY.set(Authority(before_sending=lost))
    async with FakeTelegram() as telegram, open_client() as session:
        bot = Bot(telegram.token, f"{telegram.base_url}/bot", request=AiohttpRequest(session))
        with pytest.raises(OwnershipLost):
            await request_of(bot)
        assert telegram.calls == []


@pytest.mark.promise("P-telegram-stays")
async def test_the_proxy_is_used_with_its_password(session: aiohttp.ClientSession) -> None:
    heads: list[bytes] = []

    async def proxy(head: bytes) -> bytes:
        heads.append(head)
        return http(ME, "200 OK", "Content-Type: application/json")

    async with tcp_server(proxy) as address:
        bot = bot_at("http://telegram.invalid", session, address.replace("//", "//user:password@"))
        assert (await bot.get_me()).username == "x_bot"
    assert heads[0].startswith(f"POST http://telegram.invalid/bot{TOKEN}/getMe HTTP/1.1".encode())
    assert b"Proxy-Authorization: Basic " + base64.b64encode(b"user:password") in heads[0]


@pytest.mark.promise("P-secrets-masked")
@pytest.mark.parametrize(
    ("server", "proxy"),
    [
        ("http://127.0.0.1:9", None),
        ("http://telegram.invalid", None),
        ("http://telegram.invalid", "http://user:password@127.0.0.1:9"),
        ("no url", None),
        ("https://127.0.0.1:9", None),
    ],
)
async def test_what_never_left_says_so_without_the_token(
    server: str, proxy: str | None, session: aiohttp.ClientSession
) -> None:
    with pytest.raises(Unsent) as caught:
        await bot_at(server, session, proxy).get_me()
    chain = repr(caught.value) + str(caught.value) + repr(caught.value.__cause__)
    assert TOKEN not in chain and "password" not in chain
    assert caught.value.__suppress_context__


@pytest.mark.parametrize(
    "reply",
    [
        None,
        b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{",
        http(b"<html>"),
        http(b"[]"),
        http(b"{}"),
        http(b"<html>", "502 Bad Gateway"),
        http(b"404: Not Found", "404 Not Found"),
    ],
)
async def test_a_lost_or_unreadable_answer_may_have_taken_effect(
    reply: bytes | None, session: aiohttp.ClientSession
) -> None:
    async def answer(head: bytes) -> bytes | None:
        return reply

    async with tcp_server(answer) as address:
        with pytest.raises(Unanswered):
            await bot_at(address, session).get_me()


async def test_a_server_that_stays_silent_is_given_up(session: aiohttp.ClientSession) -> None:
    gate = asyncio.Event()

    async def answer(head: bytes) -> bytes | None:
        await gate.wait()
        return None

    async with tcp_server(answer) as address:
        with pytest.raises(Unanswered, match="SocketTimeoutError"):
            await bot_at(address, session).get_me(read_timeout=0.05)
        gate.set()


async def test_redirects_are_not_followed(session: aiohttp.ClientSession) -> None:
    async def answer(head: bytes) -> bytes:
        return http(b"", "302 Found", "Location: http://127.0.0.1:9/elsewhere")

    async with tcp_server(answer) as address:
        with pytest.raises(TelegramError) as caught:
            await bot_at(address, session).get_me()
    assert not isinstance(caught.value, Unsent), "nobody went to the other place"


async def test_flood_control_tells_how_long_to_wait(session: aiohttp.ClientSession) -> None:
    async with FakeTelegram(token=TOKEN) as telegram:
        telegram.fail("getMe", status=429, retry_after=17)
        with pytest.raises(Flood) as caught:
            await bot_at(telegram.base_url, session).get_me()
    assert caught.value.seconds == 17


@pytest.mark.parametrize("body", [b"", b"{}", b'{"parameters": {"retry_after": "soon"}}', b"[]", b"null"])
def test_a_429_without_a_time_means_a_second(body: bytes) -> None:
    assert wait_of(body) == 1.0


async def test_downloads_are_bounded(session: aiohttp.ClientSession) -> None:
    async with FakeTelegram() as telegram:
        number = telegram.world.keep_file(b"x" * 1_000_000, "x")["file_id"]
        url = f"{telegram.base_url}/file/bot{telegram.token}/documents/{number}"
        request = AiohttpRequest(session)
        assert await request.download(url, 1_000_000) == b"x" * 1_000_000
        with pytest.raises(TooLarge):
            await request.download(url, 999_999)
        with pytest.raises(TelegramError, match="HTTP 404") as caught:
            await request.download(url + "no", 10)
        assert telegram.token not in repr(caught.value)


async def test_a_message_is_sent_without_the_library_s_objects(session: aiohttp.ClientSession) -> None:
    """Building them of each answer took more CPU than the request."""
    built = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal built
        built += event == "call" and frame.f_code.co_filename.endswith("telegram/_telegramobject.py")

    async def answer(head: bytes) -> bytes:
        message = b'{"message_id":5,"date":1,"chat":{"id":7,"type":"private"},"text":"hello"}'
        return http(b'{"ok":true,"result":' + message + b"}")

    async with tcp_server(answer) as address:
        bot = bot_at(address, session)
        sys.setprofile(note)
        try:
            assert await send_text(bot, ChatTarget(7, reply_to=4), render("**hello**")[0]) == 5
        finally:
            sys.setprofile(None)
    assert built == 0


async def test_an_answer_without_the_message_may_have_taken_effect(session: aiohttp.ClientSession) -> None:
    async def answer(head: bytes) -> bytes:
        return http(b'{"ok":true,"result":true}')

    async with tcp_server(answer) as address:
        with pytest.raises(Unanswered):
            await send_text(bot_at(address, session), ChatTarget(7), render("hello")[0])
