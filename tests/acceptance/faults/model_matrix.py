"""Every fault of a model at every place where a model is asked, with one model and with two: what people are told, how
often the model is asked, and whether the conversation goes on.

The parts are the daemon's own, the models are asked over HTTP on loopback. The cells of one site run side by side in
one core, each in a chat of its own.
"""

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import SecretStr

from goclaw.common.config.schema import ModelOptions, ProviderSettings
from goclaw.common.core.messages import AssistantMessage, Message, UserMessage
from goclaw.common.health.vitals import catching
from goclaw.conversation.agent.context.compaction import Summarizer, SummarySource
from goclaw.conversation.sessions.models import Models
from goclaw.conversation.turns.service import FAILED
from goclaw.durable.store.database import Database
from goclaw.durable.store.transcripts import Origin, Transcripts, rows_of
from goclaw.llm.base import ChatModel, ModelEvent, ModelPorts, Request
from goclaw.llm.chain import ModelChain
from goclaw.llm.open import find_provider
from goclaw.llm.scripted import ScriptedModel
from tests.acceptance.faults.model_faults import FAULTS, ModelFault, calling
from tests.acceptance.faults.servers import Servers, open_servers
from tests.conversation.sessions.failing_models import CHECKPOINT, HastyClock, says
from tests.conversation.sessions.looking import SUMMARY
from tests.harness import Core, World
from tests.llm.asking import model_ports
from tests.llm.fake_provider import Reply
from tests.llm.wires import WIRES, Wire
from tests.parts import GivenModels, acting

Site = Literal["first request", "after a tool", "after steering", "compaction", "checkpoint", "debt"]
Chain = Literal["alone", "other works", "both fail"]
Share = Literal["all", "every fault", "some"]
"""Of the cells of a site: all; each fault with each chain, on one protocol; half of the faults with one chain."""
SITES: Sequence[Site] = ("first request", "after a tool", "after steering", "compaction", "checkpoint", "debt")
CHAINS: Sequence[Chain] = ("alone", "other works", "both fail")
SILENT = frozenset({"checkpoint", "debt"})
"""No person asked for these, so none is told."""
IDLE_TOGETHER, IDLE_FEW, IDLE_ALONE = 1.0, 0.4, 0.2
"""In place of five minutes without a byte, where many models are asked at once, where few are, and where one after the
other is."""
FEW = 30
"""Cells."""
MOST_REQUESTS = 6
PATIENCE = 120.0
AGAIN = "All is well again, as far as I can see from here."
CONFIG: Mapping[str, Any] = {
    "checkpoint": {"main_model": True, "min_tokens": 0, "every_turns": 1},
    "memory": {"flush": {"enabled": False}},
}
NOTICE = "I could not summarise the conversation: "
"""How a line begins that tells, once, why the conversation was shortened: it is about that, not about the message."""
ROWS = 15
"""Exchanges of a conversation that is to be compacted."""


@dataclass
class Counted:
    """A model that counts how often it is asked."""

    inner: ChatModel
    asked: int = 0
    well: ChatModel | None = None
    """Asked the first time in its place: where the server is, before it cannot be reached any more."""

    @property
    def spec(self) -> str:
        return self.inner.spec

    @property
    def context_window(self) -> int:
        return self.inner.context_window

    @property
    def sees_images(self) -> bool:
        return self.inner.sees_images

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        self.asked += 1
        asked, self.well = self.well or self.inner, None
        return asked.stream(request)

    async def count(self, request: Request) -> int:
        return await self.inner.count(request)


@dataclass
class Cell:
    """One fault in one place, and what became of it."""

    site: Site
    wire: Wire
    chain: Chain
    fault: ModelFault
    models: list[Counted] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    """What the person saw while it failed."""
    requests: int = 0
    """To the models that failed, for the one answer that failed."""
    afterwards: list[str] = field(default_factory=list)
    """What the person saw to the next message, when all was well again."""

    @property
    def chat(self) -> str:
        """A chat of its own; also the folder of its first model."""
        return "-".join((self.site, self.wire.name, self.chain, self.fault.name)).replace(" ", "_")

    @property
    def session(self) -> str:
        return f"memory:{self.chat}"

    @property
    def wrong(self) -> list[str]:
        """What is not as it should be."""
        found = []
        expected = 0 if self.site in SILENT else 1
        if len(self.told) != expected:
            found.append(f"{len(self.told)} messages instead of {expected}: {self.told}")
        found += [f"not a clear message: {text}" for text in self.told if FAILED in text or not text.strip()]
        if self.requests > MOST_REQUESTS:
            found.append(f"{self.requests} requests")
        if self.afterwards != [AGAIN]:
            found.append(f"afterwards: {self.afterwards}")
        return found

    def as_json(self) -> dict[str, Any]:
        """For the report."""
        place = {"site": self.site, "wire": self.wire.name, "chain": self.chain, "fault": self.fault.name}
        seen = {"told": [text[:300] for text in self.told], "requests": self.requests}
        return {**place, **seen, "afterwards": self.afterwards == [AGAIN], "wrong": self.wrong}


class CellModels(GivenModels):
    """Each session has models of its own."""

    def __init__(self, chains: Mapping[str, ChatModel]) -> None:
        super().__init__(ScriptedModel())
        self._by_session = chains

    async def agent(self, session: str = "") -> ChatModel:
        return self._by_session[session]

    async def summarizers(self, session: str = "", instead: str = "") -> list[Summarizer]:
        return [Summarizer(SummarySource.FALLBACK, self._by_session[session])]


@dataclass
class Matrix:
    """The cells of one site in one core."""

    site: Site
    cells: Sequence[Cell]
    servers: Servers
    world: World
    core: Core
    ports: ModelPorts
    gate: asyncio.Event
    """Opened when what is to join a turn is there."""

    async def run(self) -> None:
        """Let all cells fail, mend all, and look whether all go on."""
        before = self._asked()
        await getattr(self, f"_{self.site.replace(' ', '_')}")()
        for cell, asked, done in zip(self.cells, before, self._asked(), strict=True):
            cell.requests = done - asked - self._well_asked
            cell.told = self._texts(cell)
        for cell in self.cells:
            self._mend(cell)
        if self.site == "debt":
            await self._pay()
        self.world.room.all.clear()
        await self._say("What now?")
        for cell in self.cells:
            cell.afterwards = self._texts(cell)

    _well_asked = 0
    """Requests of each cell that went well before the one that failed."""

    async def _first_request(self) -> None:
        self._fail()
        await self._say("hello")

    async def _after_a_tool(self) -> None:
        self._fail(lambda cell: [calling(cell.wire, "look", '{"where": "here"}')])
        self._well_asked = 1
        await self._say("hello")

    async def _after_steering(self) -> None:
        for cell in self.cells:
            await self.core.say("/queue steer", chat=cell.chat)
        await self.core.settled()
        self.world.room.all.clear()
        self._fail(lambda cell: [calling(cell.wire, "wait", "{}")])
        self._well_asked = 1
        for cell in self.cells:
            await self.core.say("hello", chat=cell.chat)
        for cell in self.cells:
            await self.core.say("and this too", chat=cell.chat)
        self.gate.set()
        await self._settled()

    async def _compaction(self) -> None:
        await self._fill()
        self._fail()
        await self._say("/compact")

    async def _checkpoint(self) -> None:
        self._fail(lambda cell: [says(cell.wire, "Good morning to you.")])
        self._well_asked = 1
        await self._say("hello")
        self.world.room.all.clear()
        await self.core.sessions.maintenance.catch_up()
        await self._settled()

    async def _debt(self) -> None:
        await self._fill()
        self._fail()
        await self._say("/compact")
        self.world.room.all.clear()
        self._well_asked = 0
        for cell in self.cells:
            for model in cell.models:
                model.asked = 0
        await self._pay()

    async def _pay(self) -> None:
        self.world.clock.advance(3600)
        async with asyncio.timeout(PATIENCE):
            await self.core.sessions.summary_retries.retry_due()

    async def _fill(self) -> None:
        """Give every chat a conversation that is long enough."""
        for cell in self.cells:
            await fill(self.core.database, cell.session)

    async def _say(self, text: str) -> None:
        for cell in self.cells:
            await self.core.say(text, chat=cell.chat)
        await self._settled()

    async def _settled(self) -> None:
        async with asyncio.timeout(PATIENCE):
            while self.core.engine.busy() or self.core.outbox.waiting():
                await self.core.engine.idle()
                await self.core.outbox.flush(PATIENCE)

    def _fail(self, first: Callable[[Cell], list[Reply]] = lambda cell: []) -> None:
        for cell in self.cells:
            reply = cell.fault.reply(cell.wire)
            self.servers.replies[cell.chat] = [*first(cell), reply]
            if first(cell):
                cell.models[0].well = open_model(
                    cell, cell.wire.spec, self.servers.url("server", cell.chat), self.ports
                )
            well = says(cell.wire, SUMMARY if self.site in ("compaction", "debt") else "The other one answers.")
            if self.site == "checkpoint":
                well = says(cell.wire, CHECKPOINT)
            self.servers.replies[f"{cell.chat}-2"] = [well if cell.chain == "other works" else reply]

    def _mend(self, cell: Cell) -> None:
        for folder in (cell.chat, f"{cell.chat}-2"):
            self.servers.replies[folder] = [says(cell.wire, AGAIN)]
        for model in cell.models:
            model.inner = open_model(cell, model.inner.spec, self.servers.url("server", cell.chat), self.ports)

    def _texts(self, cell: Cell) -> list[str]:
        heard = [heard.delivery.text for heard in self.world.room.all if heard.delivery.address.chat == cell.chat]
        return [text for text in heard if not text.startswith(NOTICE)]

    def _asked(self) -> list[int]:
        return [sum(model.asked for model in cell.models) for cell in self.cells]


def open_model(cell: Cell, spec: str, url: str, ports: ModelPorts) -> ChatModel:
    """A model at that address, as the daemon opens it."""
    provider = find_provider(spec.partition(":")[0])
    settings = ProviderSettings(api_key=SecretStr("k"), base_url=url)
    return provider.open(spec, settings, ModelOptions(max_output=1_000, context_window=100_000), ports)


def open_chain(cell: Cell, servers: Servers, ports: ModelPorts) -> ChatModel:
    """The models of a cell, the second one at a server that fails or does not."""
    other = "server" if cell.chain == "other works" else cell.fault.place
    places = [(cell.wire.spec, cell.fault.place, cell.chat)]
    if cell.chain != "alone":
        places.append((f"{cell.wire.spec.partition(':')[0]}:other", other, f"{cell.chat}-2"))
    for spec, place, folder in places:
        cell.models.append(Counted(open_model(cell, spec, servers.url(place, folder), ports)))
    return ModelChain(cell.models, ports.clock)


async def fill(database: Database, session: str) -> None:
    """Write a conversation that is long enough to be compacted."""
    said: list[Message] = []
    for number in range(ROWS):
        said += [UserMessage(f"Question {number} about the report?"), AssistantMessage(f"Answer {number}: a cat.")]
    rows = [
        row
        for number, message in enumerate(said)
        for row in rows_of(message, Origin(session, f"{session}-{number // 2}", f"step-{number}", 0.0, "tui:here"))
    ]
    await database.write(Transcripts(database).ensure_session(session, 0.0), *rows)


@asynccontextmanager
async def open_matrix(folder: Path, site: Site, cells: Sequence[Cell]) -> AsyncIterator[Matrix]:
    """A core with a chat and models for each cell."""
    gate = asyncio.Event()

    async def look(where: str = "") -> str:
        return "a cat"

    async def wait() -> str:
        await gate.wait()
        return "it is time"

    async with AsyncExitStack() as stack:
        together = IDLE_FEW if len(cells) <= FEW else IDLE_TOGETHER
        idle = IDLE_ALONE if site in SILENT else together
        servers = await stack.enter_async_context(open_servers(idle))
        ports = replace(await stack.enter_async_context(model_ports(HastyClock())), first_byte=idle)
        chains: dict[str, ChatModel] = {cell.session: open_chain(cell, servers, ports) for cell in cells}
        world = World(folder, tools=[acting("look", look), acting("wait", wait)], **CONFIG)
        models: Models = CellModels(chains)
        world.models = models
        core = await stack.enter_async_context(world.running())
        yield Matrix(site, cells, servers, world, core, ports, gate)


async def run_site(folder: Path, site: Site, cells: Sequence[Cell]) -> Sequence[str]:
    """Run the cells of one site; returns what is wrong with any of them, and errors that were not handled."""
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    with catching() as unhandled:
        async with open_matrix(folder, site, cells) as matrix:
            await matrix.run()
        gc.collect()
        await asyncio.sleep(0)
    wrong = [f"{cell.chat}: {fault}" for cell in cells for fault in cell.wrong]
    wrong += [f"{site}: requests went where a redirect pointed"] if matrix.servers.elsewhere else []
    return [*wrong, *([f"{site}: {unhandled.count} errors that nobody handled"] if unhandled.count else [])]


def cells_of(site: Site, share: Share) -> Iterator[Cell]:
    """Its cells, or a share of them."""
    place = SITES.index(site)
    for row, fault in enumerate(FAULTS.values()):
        for column, chain in enumerate(CHAINS):
            for number, wire in enumerate(WIRES):
                turn = (row + column + place) % len(CHAINS)
                if share == "every fault" and (turn != number or (fault.hangs and column != place % len(CHAINS))):
                    continue
                # The sites of each half get every second fault: each of them with another chain and protocol.
                if share == "some" and (turn or (row + place // 3) % 2 or (row // 3 + place) % len(WIRES) != number):
                    continue
                yield Cell(site, wire, chain, fault)
