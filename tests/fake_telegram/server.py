"""A strict fake of Telegram's Bot API on a loopback port.

In a test:

    async with FakeTelegram() as telegram:
        await telegram.world.say("hello", user=5)
        ...  # telegram.base_url, telegram.token
        sent = await telegram.wait_sent(5, count=1)

As a program, for tests and benchmarks with processes of their own: `python -m tests.fake_telegram --port 0` prints one
line of JSON (`base_url`, `token`); what a test does with methods is then done by `/sim/…` (see `control`).
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar

from aiohttp import BodyPartReader, MultipartReader, web

from goclaw.common.core.clock import Clock, RealClock
from tests.fake_telegram import oracle
from tests.fake_telegram.caller import Caller
from tests.fake_telegram.faults import Fault, Faults, FloodControl
from tests.fake_telegram.methods import Methods
from tests.fake_telegram.rules import ApiError
from tests.fake_telegram.world import TOKEN, Json, Sent, World

FLOOD_CONTROLLED = frozenset({"sendMessage", "editMessageText", "sendPhoto", "sendDocument"})
MAX_UPLOAD = 50 * 1024 * 1024
WAIT_SECONDS = 30
HANG_UP_SECONDS = 0.01
"""What a call that waits for updates gets when the fake ends: its bot has gone already."""
ValueT = TypeVar("ValueT")


@dataclass(frozen=True)
class Call:
    """A request that arrived."""

    method: str
    parameters: Json
    at: float
    """Seconds of the fake's clock, monotonic."""


class FakeTelegram(AbstractAsyncContextManager["FakeTelegram"]):
    """The server; `world` holds what people do and see, `calls` what the bot asked for."""

    def __init__(self, *, port: int = 0, token: str = TOKEN, flood: bool = False, clock: Clock | None = None) -> None:
        self.clock = clock or RealClock()
        self.token = token
        self.port = port
        self.world = World(self.clock)
        self.calls: list[Call] = []
        self.faults = Faults()
        self._flood = FloodControl(self.clock) if flood else None
        self._methods = Methods(self.world)
        self._runner: web.AppRunner | None = None
        self.caller = Caller(self.world)
        self._calling: asyncio.Task[None] | None = None

    @property
    def base_url(self) -> str:
        """For `telegram.base_url`."""
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        application = web.Application(client_max_size=MAX_UPLOAD)
        application.router.add_get("/file/bot{token}/{path:.*}", self._download)
        application.router.add_route("*", "/bot{token}/{method}", self._answer)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=HANG_UP_SECONDS)
        self.add_routes(application)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True)
        await site.start()
        self.port = self._runner.addresses[0][1]
        self._calling = asyncio.create_task(self.caller.run(), name="calls of the webhook")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._calling:
            self._calling.cancel()
            await asyncio.wait([self._calling])
        if self._runner:
            await self._runner.cleanup()

    def add_routes(self, application: web.Application) -> None:
        """For `control.ControlledTelegram`."""

    def sent(self, chat: int | None = None) -> list[Sent]:
        """The bot's messages as they stand now."""
        return self.world.sent(chat)

    def repeated(self, chat: int | None = None) -> list[Sent]:
        """The bot's messages whose words (or file) stand higher up in the same chat already: what was sent twice."""
        contents = [(sent.chat, sent.thread, sent.text, sent.file) for sent in self.sent(chat)]
        return [sent for place, sent in enumerate(self.sent(chat)) if contents[place] in contents[:place]]

    def called(self, method: str) -> list[Json]:
        """The parameters of every call of `method`, oldest first."""
        return [call.parameters for call in self.calls if call.method == method]

    def fail(self, method: str, **fault: Any) -> Fault:
        """Let coming calls fail: see `Fault` for the words (`status=429, retry_after=2`, `cut="after"`)."""
        ordered = Fault(method, **fault)
        self.faults.waiting.append(ordered)
        return ordered

    async def wait_sent(self, chat: int, count: int = 1) -> list[Sent]:
        """Wait until the bot's messages in `chat` are at least `count`; `TimeoutError` after `WAIT_SECONDS`."""
        return await self.wait_for(lambda: found if len(found := self.sent(chat)) >= count else None)

    async def wait_called(self, method: str, count: int = 1) -> list[Json]:
        """Wait until `method` was called (and, unless it hangs, answered) `count` times."""
        return await self.wait_for(lambda: found if len(found := self.called(method)) >= count else None)

    async def wait_for(self, look: Callable[[], ValueT | None], seconds: float = WAIT_SECONDS) -> ValueT:
        """Wait until `look` finds something, asked after every change."""
        async with asyncio.timeout(seconds), self.world.changed:
            while (found := look()) is None:
                await self.world.changed.wait()
            return found

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        """One call of the Bot API."""
        name = request.match_info["method"]
        try:
            if request.match_info["token"] != self.token:
                raise ApiError(401, "Unauthorized")
            method = oracle.find_method(name)
            form, uploads, names = await read_body(request)
            parameters = oracle.checked(method, form, uploads)
            self.calls.append(Call(method.__api_method__, parameters, self.clock.monotonic()))
            # Before anybody hears of the call: a fault that is ordered then is for the next one.
            fault = self.faults.take(method.__api_method__, parameters.get("chat_id"))
            await self.world.notify()
            return await self._handle(request, method, parameters | names, uploads, fault)
        except ApiError as error:
            return refusal(error)

    async def _handle(
        self,
        request: web.Request,
        method: oracle.Method,
        parameters: Json,
        uploads: Mapping[str, bytes],
        fault: Fault | None,
    ) -> web.StreamResponse:
        name = method.__api_method__
        if fault and await self._trouble(fault):
            return cut(request)
        if self._flood and name in FLOOD_CONTROLLED:
            self._flood.check(parameters["chat_id"])
        try:
            result = await self._methods.find(name)(parameters, uploads)
        finally:
            await self.world.notify()
        oracle.check_answer(method, result)
        if fault and fault.cut == "after":
            return cut(request)
        if fault and fault.body is not None:
            return web.Response(body=fault.body, content_type="application/json")
        return web.json_response({"ok": True, "result": result})

    async def _trouble(self, fault: Fault) -> bool:
        """The part of a fault that comes before the call is handled; True cuts the connection now."""
        if fault.delay:
            await self.clock.sleep(fault.delay)
        if fault.gate:
            await fault.gate.wait()
        if error := fault.error():
            raise error
        return fault.cut == "before"

    async def _download(self, request: web.Request) -> web.StreamResponse:
        """A file by the path that getFile gave."""
        number = request.match_info["path"].rpartition("/")[2]
        if request.match_info["token"] != self.token or number not in self.world.files:
            return refusal(ApiError(404, "Not Found"))
        return web.Response(body=self.world.files[number])


async def read_body(request: web.Request) -> tuple[Json, dict[str, bytes], dict[str, str]]:
    """Query, form or JSON; uploaded files by field; and their names as `<field>_name`."""
    form: Json = dict(request.query)
    uploads: dict[str, bytes] = {}
    names: dict[str, str] = {}
    if request.content_type == "application/json":
        form |= json.loads(await request.read())
    elif request.content_type == "multipart/form-data":
        async for part in MultipartReader(request.headers, request.content):
            assert isinstance(part, BodyPartReader) and part.name
            if part.filename is None:
                form[part.name] = await part.text()
            else:
                uploads[part.name] = bytes(await part.read())
                names[f"{part.name}_name"] = part.filename
    else:
        form |= dict(await request.post())
    return form, uploads, names


def refusal(error: ApiError) -> web.Response:
    """An `ok: false` answer."""
    body: Json = {"ok": False, "error_code": error.status, "description": error.description}
    if error.parameters:
        body["parameters"] = error.parameters
    return web.json_response(body, status=error.status)


def cut(request: web.Request) -> web.Response:
    """Close the connection without an answer, as a crash or a broken network does; the response goes nowhere."""
    if request.transport:
        request.transport.abort()
    return web.Response()
