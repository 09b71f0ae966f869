"""Every fault of Telegram at every method that the bot calls: what people see, how often it polls, whether it goes on.

The daemon's own parts in one process (`open_app`: gateway, journal, lanes, outbox, channel) against the fake Bot API
over HTTP. Time runs quicker for the daemon and for the fake alike.
"""

import asyncio
import gc
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from goclaw.channels.telegram import polling, request
from goclaw.common.config.schema import Config
from goclaw.common.core.clock import RealClock, Timer
from goclaw.common.core.events import Address, Delivery
from goclaw.common.health.vitals import catching
from goclaw.errors import DeliveryError
from goclaw.program.app import App, open_app
from tests.acceptance.books import read_chat
from tests.acceptance.daemon import SPEC, UNLIMITED
from tests.acceptance.faults.telegram_faults import FAULTS, QUERY, FaultyTelegram, TelegramFault
from tests.acceptance.model import FILE, EchoModel, echo_model, unanswered
from tests.acceptance.waiting import clock, eventually
from tests.fake_telegram.world import BOT_NAME, person
from tests.parts import sql

QUICK = 20.0
"""How much quicker time runs."""
TOGETHER_SECONDS, ALONE_SECONDS = 2.0, 0.8
"""Real ones, in place of the twenty that Telegram gets to answer, where many are served at once, and where few are."""
SLOWLY = 0.5
"""Real seconds between two pieces of an answer that is long enough to be shown while it is written."""
SETTLE_SECONDS = 40.0
TIMES, POLLS, FEW_POLLS = 2, 3, 2
"""Calls that fail."""
MARKED = "(marked) "
TOOL = "[the tool is told: "
MOST_POLLS = 2.2
"""A second, in trouble: two, and what rounding and a busy machine add."""
BEGAN = 1_750_000_000.0
"""The wall clock of a machine that has just started."""
FIRST_PERSON = 5_000
PICTURE = b"\xff\xd8\xff\xe0" + bytes(range(250))


class QuickClock(RealClock):
    """The machine's clock, quicker."""

    def now(self) -> float:
        return BEGAN + self.awake_or_not()

    def monotonic(self) -> float:
        return QUICK * super().monotonic()

    def awake_or_not(self) -> float:
        return QUICK * super().awake_or_not()

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds / QUICK)

    def later(self, seconds: float, call: Callable[[], None]) -> Timer:
        return super().later(seconds / QUICK, call)


@dataclass
class Cell:
    """One fault of one method, in a chat of its own."""

    method: str
    fault: TelegramFault
    chat: int
    """A group where it is negative."""
    person: int
    told: list[str] = field(default_factory=list)
    """What people saw while it failed."""
    afterwards: list[str] = field(default_factory=list)
    met: int = 0
    """Calls that failed."""
    model_requests: int = 0
    polls_per_second: float = 0.0
    notes: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """How its first message is called; the second has a letter more."""
        return f"m{self.person}"

    @property
    def wrong(self) -> list[str]:
        """What is not as it should be."""
        found = list(self.notes)
        if not self.met:
            found.append("the method was not called")
        plain = [text for text in self.told if not text.startswith(MARKED)]
        marked = len(self.told) - len(plain)
        site = SITES.get(self.method, Site(ask))
        closed = self.fault.status == 403 and site.speaks
        if closed and not self.told:
            pass  # whoever has blocked the bot sees nothing
        elif len(self.told) < site.messages[0] or len(plain) > site.messages[-1]:
            found.append(f"{len(plain)} messages and {marked} marked ones instead of {site.messages}: {self.told}")
        if marked and not self.fault.is_unsure:
            found.append(f"marked without a reason: {self.told}")
        if self.afterwards != [f"answer {self.name}b (end)"]:
            found.append(f"afterwards: {self.afterwards}")
        if self.polls_per_second > MOST_POLLS:
            found.append(f"{self.polls_per_second:.1f} polls a second")
        return found

    def as_json(self) -> dict[str, Any]:
        """For the report."""
        place = {"method": self.method, "fault": self.fault.name, "calls_failed": self.met}
        seen = {"told": [text[:200] for text in self.told], "model_requests": self.model_requests}
        polls = {"polls_per_second": round(self.polls_per_second, 2)} if self.polls_per_second else {}
        return {**place, **seen, **polls, "wrong": self.wrong}


@dataclass
class House:
    """The daemon's parts, and the world around them."""

    app: App
    telegram: FaultyTelegram
    model: EchoModel

    async def settled(self) -> None:
        """Wait until nothing is left to do."""

        def quiet() -> bool:
            busy = self.app.engine.busy() or self.app.outbox.waiting()
            return not busy and not self.telegram.world.updates

        try:
            async with asyncio.timeout(SETTLE_SECONDS):
                while not quiet() or await self._left():
                    await clock.sleep(0.05)
        except TimeoutError:
            raise AssertionError(
                f"{self.app.engine.busy()} turns, {self.app.outbox.waiting()} deliveries, "
                f"{len(self.telegram.world.updates)} updates are left"
            ) from None

    async def _left(self) -> int:
        """How many messages and deliveries are not done: on Postgres also those that this process has not taken yet."""
        [(turns,)] = await self.app.foundation.storage.database.read(
            sql("SELECT count(*) FROM inbox WHERE state <> 'done'")
        )
        open_ones = "SELECT count(*) FROM deliveries WHERE state IN ('pending', 'sending')"
        [(deliveries,)] = await self.app.foundation.storage.database.read(sql(open_ones))
        return int(turns + deliveries)

    def texts(self, cell: Cell) -> list[str]:
        """What the bot's messages in the cell's chat say."""
        seen = read_chat(self.telegram.sent(cell.chat))
        return [f"{MARKED if message.marked else ''}{message.text or 'a file'}" for message in seen]

    def has_met(self, cell: Cell) -> bool:
        """Whether a call of the cell's method failed."""
        return self.telegram.ordered[cell.method, cell.chat].met > 0

    def last_id(self, cell: Cell) -> str:
        """The id of the bot's newest message there."""
        return str(self.telegram.sent(cell.chat)[-1].message_id)

    async def say(self, cell: Cell, text: str, **more: Any) -> None:
        """The person of a cell writes."""
        mention = f"{BOT_NAME} " if cell.chat < 0 else ""
        await self.telegram.world.say(f"{mention}{text}", user=cell.person, chat=cell.chat, **more)

    async def send(self, cell: Cell, **what: Any) -> None:
        """A tool sends something; what it is told when that fails is noted."""
        try:
            await self.app.outbox.send(
                Delivery(f"{cell.name}:{what.get('action', 'send')}", Address("telegram", str(cell.chat)), **what)
            )
        except DeliveryError as error:
            cell.told.append(f"{TOOL}{error}]")


async def ask(house: House, cell: Cell) -> None:
    """Answered by a message."""
    await house.say(cell, f"{cell.name} plain")


async def ask_slowly(house: House, cell: Cell) -> None:
    """Answered by a message that is shown while it is written: the model goes on when that was tried."""
    gate = house.model.gate(f"{cell.name} plain slowly", streamed=2)
    await house.say(cell, gate.text)
    with suppress(TimeoutError):  # the cell says what was not tried
        await eventually(lambda: house.has_met(cell) or house.telegram.sent(cell.chat))
    gate.opened.set()


async def ask_for_a_file(house: House, cell: Cell) -> None:
    """Answered by a file and a message."""
    await house.say(cell, f"{cell.name} file")


async def show_a_picture(house: House, cell: Cell) -> None:
    """A photo that has to be fetched."""
    await house.say(cell, f"{cell.name} plain", photo=PICTURE + cell.name.encode())


async def send_a_picture(house: House, cell: Cell) -> None:
    """A picture goes out."""
    blob = await house.app.foundation.environment.blobs.put(PICTURE, "image/png")
    await house.send(cell, text="a picture", media=blob, media_name="a.png")


async def react(house: House, cell: Cell) -> None:
    """A reaction to a message of the bot's."""
    await house.send(cell, text="a message")
    await house.send(cell, text="", action="react", message_id=house.last_id(cell), emoji="👍")


async def remove(house: House, cell: Cell) -> None:
    """A message of the bot's is deleted."""
    await house.send(cell, text="soon gone")
    await house.send(cell, text="", action="delete", message_id=house.last_id(cell))


async def press(house: House, cell: Cell) -> None:
    """A button of a question that is over."""
    await house.send(cell, text="a question")
    world = house.telegram.world
    world.callbacks.add(query := f"{QUERY}{cell.chat}")
    pressed = {"id": query, "from": person(cell.person, "Ann"), "chat_instance": "1", "data": "q:gone:0"}
    shown = world.find(cell.chat, int(house.last_id(cell)))
    await world.update("callback_query", pressed | {"message": shown})


@dataclass(frozen=True)
class Site:
    """A method of the Bot API, and what makes the bot call it."""

    act: Callable[[House, Cell], Coroutine[Any, Any, None]]
    messages: tuple[int, ...] = (1,)
    """How many people see in the end, what a tool is told among them."""
    in_group: bool = False
    speaks: bool = False
    """A chat that refuses this call takes nothing at all."""


SITES: Mapping[str, Site] = {
    "sendMessage": Site(ask, speaks=True),
    "sendMessageDraft": Site(ask_slowly),
    "editMessageText": Site(ask_slowly, in_group=True, speaks=True),
    "sendChatAction": Site(ask_slowly),
    "sendDocument": Site(ask_for_a_file, (1, 2), speaks=True),
    "sendPhoto": Site(send_a_picture, speaks=True),
    "getFile": Site(show_a_picture),
    "answerCallbackQuery": Site(press),
    "setMessageReaction": Site(react, (1, 2)),
    "deleteMessage": Site(remove, (0, 2)),
}
EVERYWHERE = ("getMe", "setMyCommands", "getUpdates")
"""Methods without a chat: their faults are tried from the start of a daemon on, one after the other."""
TOKEN_REFUSED = (401, 404)
"""What ends the polling for good: the operator has to do something."""


def cells() -> Iterator[Cell]:
    """One for each method with a chat and each fault."""
    for row, (method, site) in enumerate(SITES.items()):
        for column, fault in enumerate(FAULTS):
            number = FIRST_PERSON + 100 * row + column
            yield Cell(method, fault, -number if site.in_group else number, number)


@asynccontextmanager
async def open_house(folder: Path, telegram: FaultyTelegram, model: EchoModel) -> AsyncIterator[House]:
    """The daemon's parts on a state folder of their own."""
    config = Config.model_validate(
        {
            "state_dir": folder / "state",
            "workspace": folder / "work",
            "telegram": {
                "token": telegram.token,
                "base_url": telegram.base_url,
                "poll_seconds": 1,
                "groups": [*(cell.chat for cell in cells() if cell.chat < 0), 1 - FIRST_PERSON],
                **UNLIMITED,
            },
            "models": {"agent": SPEC, "options": {SPEC: {"images": True, "context_window": 1_000_000}}},
            "providers": {"openai-chat": {"base_url": model.url, "api_key": "sk-none"}},
        }
    )
    await asyncio.to_thread(furnish, folder)
    async with open_app(config, QuickClock()) as app:
        yield House(app, telegram, model)


def furnish(folder: Path) -> None:
    """Whom the daemon knows, and what it finds in its workspace."""
    for name in ("state", "work"):
        (folder / name).mkdir(parents=True, mode=0o700)
    (folder / "work" / FILE).write_text("given")
    people = [*(cell.person for cell in cells()), *(FIRST_PERSON - number for number in (1, 2, 3))]
    (folder / "state" / "users.json").write_text(json.dumps({"users": {f"telegram:{number}": {} for number in people}}))


@asynccontextmanager
async def open_world(patience: float) -> AsyncIterator[tuple[FaultyTelegram, EchoModel]]:
    """The fake services, and so many seconds of patience with them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(request, "ANSWER_SECONDS", patience)
        patch.setattr(request, "UPLOAD_SECONDS", patience)
        patch.setattr(polling, "ANSWER_MARGIN", patience)
        async with AsyncExitStack() as stack:
            telegram = FaultyTelegram(clock=QuickClock())
            await stack.enter_async_context(telegram)
            stack.callback(telegram.silent.set)
            yield telegram, await stack.enter_async_context(echo_model(pause))


def pause(said: str, piece: int) -> float:
    """Seconds before a piece of an answer."""
    return SLOWLY if "slowly" in said else 0.0


async def run_chats(folder: Path, *, share: int = 1) -> list[Cell]:
    """Every fault of every method that has a chat, side by side in one daemon; or every n-th, each fault somewhere."""
    tried = [cell for place, cell in enumerate(cells()) if (place + place // len(FAULTS)) % share == 0]
    async with open_world(TOGETHER_SECONDS) as (telegram, model), open_house(folder, telegram, model) as house:
        for cell in tried:
            telegram.world.meet(cell.chat)
        orders = [telegram.order(cell.method, cell.chat, cell.fault, times(cell)) for cell in tried]
        drafts = [order for cell, order in zip(tried, orders, strict=True) if cell.method == "sendMessageDraft"]
        for order in drafts:
            if order.fault.status in TOKEN_REFUSED:
                order.together = drafts  # a server that answers so knows no drafts, and gets no more of them
        async with asyncio.TaskGroup() as group:
            for cell in tried:
                group.create_task(SITES[cell.method].act(house, cell))
        await house.settled()
        for cell, order in zip(tried, orders, strict=True):
            cell.met, order.times = order.met, 0
            cell.told += house.texts(cell)
            cell.model_requests = requests_about(model, cell)
        async with asyncio.TaskGroup() as group:
            for cell in tried:
                group.create_task(house.say(cell, f"{cell.name}b plain"))
        await house.settled()
        for cell in tried:
            seen = house.texts(cell)
            told = [text for text in cell.told if not text.startswith(TOOL)]
            cell.afterwards = seen[len(told) :]
    return tried


def times(cell: Cell) -> int:
    """How many calls fail: a message that is refused is not sent again, and the word about that is to arrive."""
    return 1 if cell.fault.status == 400 else TIMES


def requests_about(model: EchoModel, cell: Cell) -> int:
    """How often the model was asked about a message."""
    return sum(cell.name in {name for name, _, _ in unanswered(body)} for body in model.requests)


async def run_everywhere(folder: Path, fault: TelegramFault, *, few: bool = False) -> list[Cell]:
    """One fault of the methods without a chat, from the start of a daemon on; `few` times, for less waiting."""
    named, menu, polled = (
        Cell(method, fault, -number if method == "getMe" else number, number)
        for method, number in zip(EVERYWHERE, (FIRST_PERSON - 1, FIRST_PERSON - 2, FIRST_PERSON - 3), strict=True)
    )
    async with open_world(ALONE_SECONDS) as (telegram, model):
        orders = [telegram.order(cell.method, None, fault, 1 if few else TIMES) for cell in (named, menu)]
        async with open_house(folder, telegram, model) as house:
            await asyncio.gather(*(_talk(house, cell) for cell in (named, menu)))
            for cell, order in zip((named, menu), orders, strict=True):
                cell.met = order.met
            await _poll(house, polled, FEW_POLLS if few else POLLS)
    return [named, menu, polled]


async def _talk(house: House, cell: Cell) -> None:
    """A message and its answer, and another one."""
    await house.say(cell, f"{cell.name} plain")
    await eventually(lambda: house.texts(cell))
    cell.told, cell.model_requests = house.texts(cell), requests_about(house.model, cell)
    await house.say(cell, f"{cell.name}b plain")
    await eventually(lambda: len(house.texts(cell)) > len(cell.told))
    cell.afterwards = house.texts(cell)[len(cell.told) :]


async def _poll(house: House, cell: Cell, failures: int) -> None:
    """Polls fail; how often they are made is counted in the time of the daemon."""
    before = len(house.telegram.polls)
    order = house.telegram.order("getUpdates", None, cell.fault, failures)
    if cell.fault.status in TOKEN_REFUSED:
        await eventually(lambda: "refuses" in house.app.channels["telegram"].health())
        cell.told = [f"[the operator is told: {house.app.channels['telegram'].health()}]"]
        cell.afterwards = [f"answer {cell.name}b (end)"]  # nobody is heard before the token is another one
    else:
        await _talk(house, cell)
    cell.met = order.met
    made = house.telegram.polls[before : before + order.met + 1]
    pauses = [after - at for at, after in pairwise(made)]
    cell.polls_per_second = 1 / min(pauses) if pauses else 0.0


async def run_all(folder: Path) -> tuple[list[str], list[Cell]]:
    """The whole table: what is wrong, and the cells."""
    with catching() as unhandled:
        tried = await run_chats(folder / "chats")
        for number, fault in enumerate(FAULTS):
            tried += await run_everywhere(folder / str(number), fault)
        gc.collect()
        await asyncio.sleep(0)
    wrong = [f"{cell.method}, {cell.fault.name}: {what}" for cell in tried for what in cell.wrong]
    return [*wrong, *([f"{unhandled.count} errors that nobody handled"] if unhandled.count else [])], tried
