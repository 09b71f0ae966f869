"""python-telegram-bot's HTTP transport, on the daemon's shared aiohttp session instead of httpx.

It distinguishes failures that the library merges, because a delivery depends on it: a request that was not sent
(`Unsent`), one with a lost answer (`Unanswered`), and flood control (`Flood`). No error holds a URL: URLs of the
Bot API hold the token.
"""

import io
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import aiohttp
import orjson
from telegram import Bot, InputFile, TelegramObject
from telegram.error import NetworkError, TelegramError
from telegram.request import BaseRequest, RequestData
from telegram.request._requestparameter import RequestParameter

from goclaw.channels.telegram.exchange import Form, as_json, exchange, plain_form, timeout
from goclaw.channels.telegram.first_poll import FirstPoll
from goclaw.common.net import open_client
from goclaw.errors import OwnershipLost

ANSWER_SECONDS = 20.0
"""Seconds for Telegram's answer to an ordinary call; `getUpdates` brings its own timeout."""
UPLOAD_SECONDS = 120.0
TOO_MANY_REQUESTS = 429
CLIENT_ERROR = 400
UNAUTHORIZED = 401


class Unsent(NetworkError):
    """The request never reached Telegram: repeating it is safe."""


class Unanswered(NetworkError):
    """The request went out and no readable answer came back: it may have taken effect."""


class Flood(TelegramError):
    """Telegram's flood control (429). The library's own `RetryAfter` warns of its own future on every use."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"Telegram asks us to wait {seconds:g} s")
        self.seconds = seconds


class TooLarge(TelegramError):
    """A download went past its limit."""


class AiohttpRequest(BaseRequest):
    """Sends forms and files as the library's own request class does, and honours `telegram.proxy`."""

    def __init__(self, session: aiohttp.ClientSession, proxy: str | None = None) -> None:
        self._session = session
        self._proxy = proxy

    @property
    def read_timeout(self) -> float:
        return ANSWER_SECONDS

    async def initialize(self) -> None:
        """Nothing: the session belongs to the daemon."""

    async def shutdown(self) -> None:
        """Nothing: the session belongs to the daemon."""

    async def do_request(
        self,
        url: str,
        method: str,
        request_data: RequestData | None = None,
        read_timeout: Any = BaseRequest.DEFAULT_NONE,  # the library's marker for "not given" is a type of its own
        write_timeout: Any = BaseRequest.DEFAULT_NONE,
        connect_timeout: Any = BaseRequest.DEFAULT_NONE,
        pool_timeout: Any = BaseRequest.DEFAULT_NONE,
    ) -> tuple[int, bytes]:
        """Send one HTTP request; return its status and body.

        Raises:
            Unsent, Unanswered, Flood: see there.
        """
        seconds = read_timeout if isinstance(read_timeout, int | float) else ANSWER_SECONDS
        if request_data is None:
            status, body = await self._exchange(method, url, None, seconds)
        elif request_data.contains_files:
            upload = multipart_of(request_data)
            status, body = await self._exchange(method, url, upload, max(seconds, UPLOAD_SECONDS))
        else:
            status, body = await self._exchange(method, url, plain_form(request_data.json_parameters), seconds)
        if status == TOO_MANY_REQUESTS:
            raise Flood(wait_of(body))
        if status >= CLIENT_ERROR and status != UNAUTHORIZED and not is_json(body):
            # Something in between answered; what Telegram did, if it was asked at all, is unknown.
            raise Unanswered(f"HTTP {status} from a server that is not the Bot API; check telegram.base_url")
        if status < CLIENT_ERROR and b'"result"' not in body:
            raise Unanswered("an answer that is not Telegram's")  # the library would look for its result
        return status, body

    async def download(self, url: str, limit: int) -> bytes:
        """Return the bytes at `url`.

        Raises:
            TooLarge: more than `limit` bytes.
            TelegramError: it cannot be had.
        """
        try:
            async with self._session.get(url, timeout=timeout(ANSWER_SECONDS), proxy=self._proxy) as response:
                if response.status != 200:
                    raise TelegramError(f"HTTP {response.status} for a file")
                content = bytearray()
                while len(content) <= limit and (more := await response.content.read(limit + 1)):
                    content += more
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unsent(describe_error(error)) from None
        if len(content) > limit:
            raise TooLarge(f"the file is larger than {limit >> 20} MB")
        return bytes(content)

    @staticmethod
    def parse_json_payload(payload: bytes) -> dict[str, Any]:
        """Return the object in an answer; `Unanswered` for anything else."""
        parsed = read_json(payload)
        if not isinstance(parsed, dict) or ("result" not in parsed and parsed.get("ok", True)):
            raise Unanswered("an answer that is not Telegram's")
        return parsed

    async def _exchange(self, method: str, url: str, form: Form, seconds: float) -> tuple[int, bytes]:
        try:
            return await self._send(method, url, form, seconds)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.ClientHttpProxyError) as error:
            raise Unsent(describe_error(error)) from None
        except aiohttp.InvalidURL:
            raise Unsent("telegram.base_url or telegram.proxy is not a URL") from None
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unanswered(describe_error(error)) from None

    async def _send(self, method: str, url: str, form: Form, seconds: float) -> tuple[int, bytes]:
        return await exchange(self._session, method, url, form, seconds=seconds, proxy=self._proxy)


class PollingRequest(AiohttpRequest):
    """For `getUpdates` alone, on a client of its own: one that hangs is thrown away without cutting anything else.

    `first`: a poll that is under way already; its client is used while it works.
    """

    def __init__(self, session: aiohttp.ClientSession, proxy: str | None, first: FirstPoll | None) -> None:
        super().__init__(session, proxy)
        self._first = self._unanswered = first

    @asynccontextmanager
    async def client(self) -> AsyncIterator[None]:
        """Open a new client, without connections and names of an older one, until the block ends."""
        shared, first, self._first = self._session, self._first, None
        async with AsyncExitStack() if first is None else first.client.pop_all() as stack:
            self._session = first.session if first else await stack.enter_async_context(open_client())
            try:
                yield
            finally:
                self._session = shared

    async def _send(self, method: str, url: str, form: Form, seconds: float) -> tuple[int, bytes]:
        first, self._unanswered = self._unanswered, None
        if first and first.is_for(url, form):
            return await first.answer
        return await super()._send(method, url, form, seconds)


async def call(
    bot: Bot,
    method: str,
    parameters: Mapping[str, Any],
    seconds: float | None = None,
    request: BaseRequest | None = None,
) -> Any:
    """Call a method of the Bot API; return its result as parsed JSON.

    For calls of every message: the library's typed methods build objects of the parameters and of the whole answer,
    which takes five times the CPU, and its `do_api_request` prepares a warning, each time, that there is a typed
    method.

    Args:
        bot: the bot.
        method: its name in the Bot API (`sendMessage`).
        parameters: plain values, files and keyboards; None is left out.
        seconds: until the answer is given up; None: an ordinary call's.
        request: what sends it; None: what sends the bot's ordinary calls.

    Raises:
        TelegramError: see `AiohttpRequest.do_request`, and the library's errors for what Telegram refuses.
        OwnershipLost: another process owns the session of the call (`Authority.before_sending`); nothing was sent.
    """
    given = {name: encode(value) for name, value in parameters.items() if value is not None}
    form = RequestData([RequestParameter.from_input(name, value) for name, value in given.items()])
    sender = request or bot.request
    try:
        return await sender.post(f"{bot.base_url}/{method}", form, read_timeout=seconds or ANSWER_SECONDS)
    except NetworkError as error:
        # The library wraps whatever its transport raises. This one is no failure of the network: no try may follow it.
        if isinstance(error.__cause__, OwnershipLost):
            raise error.__cause__ from None
        raise


def encode(value: Any) -> Any:
    """Return a parameter as it stands in a form; the library's own objects are encoded by the library."""
    return value if isinstance(value, str | InputFile | TelegramObject) else as_json(value)


def multipart_of(data: RequestData) -> aiohttp.FormData:
    """Return the form of a request that files go along with."""
    form = aiohttp.FormData(data.json_parameters)
    for name, (file_name, content, mime) in data.multipart_data.items():
        # As a file: bytes of this length would be written in one piece, and hold up the event loop.
        file = io.BytesIO(content) if isinstance(content, bytes) else content
        form.add_field(name, file, filename=file_name, content_type=mime)
    return form


def read_json(payload: bytes) -> Any:
    """Parse an answer; None if it is invalid JSON.

    Python's parser accepts input that the quick one refuses (half a character, a NaN): one such message must not hold
    up all others in the answer.
    """
    try:
        return orjson.loads(payload)
    except orjson.JSONDecodeError:
        pass  # the patient way
    try:
        taken = json.loads(payload.decode(errors="replace"), parse_constant=lambda name: None)
        return orjson.loads(json.dumps(taken, ensure_ascii=False).encode(errors="replace"))
    except (ValueError, RecursionError):
        return None


def is_json(body: bytes) -> bool:
    """Whether this is an answer of the Bot API rather than a web page."""
    try:
        return isinstance(orjson.loads(body), dict)
    except orjson.JSONDecodeError:
        return False


def wait_of(body: bytes) -> float:
    """Return the seconds that a 429 asks for; one where it does not say."""
    try:
        return float(orjson.loads(body)["parameters"]["retry_after"])
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
        return 1.0


def describe_error(error: BaseException) -> str:
    """Return an error in words without its URL: its kind, and the operating system's words."""
    cause = getattr(error, "os_error", error)
    reason = getattr(cause, "strerror", None) or getattr(error, "status", None)
    return f"{type(error).__name__}: {reason}" if reason else type(error).__name__
