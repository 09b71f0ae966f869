"""What stands between a turn and its request: a window read from the store, and the body put together from it."""

import asyncio
import gc
import tempfile
import time
from collections.abc import Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any, cast

import aiohttp
from pydantic import SecretStr

from benchmarks.conversations import conversations, system_prompt, tools
from benchmarks.figures import Figure, Options, percentile, spread
from benchmarks.lag_probe import look
from benchmarks.stage import WIRES
from goclaw.common.config.schema import Config, ProviderSettings
from goclaw.common.core.clock import RealClock
from goclaw.common.core.messages import AssistantMessage, Message, UserMessage
from goclaw.conversation.agent.context.window import ContextEntry, Window
from goclaw.conversation.sessions.state import Contexts
from goclaw.durable.store.database import Database
from goclaw.durable.store.open import open_database
from goclaw.durable.store.settings import Settings
from goclaw.durable.store.transcripts import Origin, Transcripts, rows_of
from goclaw.errors import ModelError
from goclaw.llm.base import ChatModel, ModelPorts, Request
from goclaw.llm.open import open_model
from goclaw.llm.token_counts import estimate_text, estimate_tools

TAIL, TURNS, ROUNDS = 1_000, 50, 3
STORED, LOADINGS = 10_000, 10
SESSION = "bench:long"


class Mailbox:
    """Stands in for the HTTP client: notes when a body is posted, and lets it go no further."""

    posted = 0.0

    async def post(self, url: str, **_: Any) -> aiohttp.ClientResponse:
        self.posted = time.perf_counter()
        raise aiohttp.ClientConnectionError(url)


async def measure_request(options: Options) -> list[Figure]:
    """From the decision to ask to the whole body: the next turn of a window of 1,000 messages, and its first."""
    figures = []
    for wire in WIRES:
        rounds, first = [], []
        for _ in range(options.times(ROUNDS)):
            mailbox = Mailbox()
            model, window = _model(wire, mailbox), Window(entries=_entries(said(TAIL)))
            first.append(await _build(model, window, mailbox))
            rounds.append([await _next(model, window, mailbox) for _ in range(TURNS)])
        figures += spread(f"request from {TAIL:,} messages, {wire}", "ms", rounds, 5, 5)
        figures.append(Figure(f"request from {TAIL:,} messages, {wire}, the first", "ms", min(first), None))
    return figures


async def measure_loading(options: Options) -> list[Figure]:
    """A conversation of 10,000 messages into memory, as after a restart, and the loop meanwhile."""
    times, looks = [], list[tuple[float, float]]()
    with tempfile.TemporaryDirectory(prefix="goclaw-bench-", ignore_cleanup_errors=True) as name:
        async with open_database(Path(name) / "state.db") as database:
            transcripts, settings = Transcripts(database), Settings(database)
            await _store(said(STORED), transcripts, database)
            gc.collect()
            gc.freeze()  # as the daemon does when it has started
            watch = asyncio.create_task(look(looks))
            for _ in range(1 + options.times(LOADINGS)):
                began = time.perf_counter()
                await Contexts(transcripts, settings, RealClock()).session(SESSION)
                times.append(1000 * (time.perf_counter() - began))
            watch.cancel()
    detail = {"repetitions": len(times) - 1, "max": round(max(times[1:]), 1)}
    return [
        Figure(f"loading {STORED:,} messages, p50", "ms", percentile(times[1:], 50), 300, detail=detail),
        Figure(f"loading {STORED:,} messages, event loop lateness, max", "ms", max(late for _, late in looks), 50),
    ]


async def _store(messages: Sequence[Message], transcripts: Transcripts, database: Database) -> None:
    origin = Origin(SESSION, "turn", "step", 0.0)
    rows = [row for message in messages for row in rows_of(message, origin)]
    await database.write(transcripts.ensure_session(SESSION, 0.0), *rows)


def said(count: int) -> list[Message]:
    """So many messages of chats and of work with tools, over and over. Each is an object of its own."""
    every = [message for talk in conversations() for message in talk.messages]
    return [type(message)(**_fields(message)) for message in islice(cycle(every), count)]


def _fields(message: Message) -> dict[str, Any]:
    return {name: getattr(message, name) for name in message.__dataclass_fields__}


def _entries(messages: Sequence[Message]) -> list[ContextEntry]:
    return [ContextEntry(row, message) for row, message in enumerate(messages, 1)]


def _model(wire: str, mailbox: Mailbox) -> ChatModel:
    async def no_image(blob: str) -> bytes:
        raise FileNotFoundError(blob)

    settings = ProviderSettings(api_key=SecretStr("none"), base_url="http://127.0.0.1:1")
    # Only `post` of the client is used.
    ports = ModelPorts(cast(aiohttp.ClientSession, mailbox), no_image, RealClock())
    return open_model(f"{wire}:bench", Config(providers={wire: settings}), ports)


async def _next(model: ChatModel, window: Window, mailbox: Mailbox) -> float:
    last = window.entries[-1].row
    window.append(
        ContextEntry(last + 1, AssistantMessage("Yes, that is what I would do, and then look at the wind again."))
    )
    window.append(
        ContextEntry(last + 2, UserMessage("<context>Tuesday</context>\nWhat did we say about the harbour, and when?"))
    )
    return await _build(model, window, mailbox)


async def _build(model: ChatModel, window: Window, mailbox: Mailbox) -> float:
    """Milliseconds of what a turn does before each request, up to the body being handed to the HTTP client."""
    system, known = system_prompt(), tools()
    began = time.perf_counter()
    window.fit_results(model.context_window)
    tokens = window.tokens(estimate_text(system) + estimate_tools(known))
    request = Request(system, window.messages(), known, tokens=tokens)
    try:
        async with model.stream(request) as events:
            async for _ in events:
                pass
    except ModelError:
        return 1000 * (mailbox.posted - began)
    raise AssertionError("nothing was posted")
