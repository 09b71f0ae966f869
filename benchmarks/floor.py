"""`python -m benchmarks.floor --config FILE gateway`: a bare gateway, the floor that GoClaw is measured beside.

It polls Telegram, keeps each chat's messages in a list, asks the model, sends the answer. It stands on GoClaw's
libraries (python-telegram-bot over aiohttp, one SQLite file with a grouped writer, uvloop), reads the same
configuration, and loses nothing either: a message is on disk before Telegram forgets it, an answer before it is sent,
and what a crash left open is taken up at the next start. It has no users, tools, commands, previews, memory, limits,
hooks or log.
"""

import asyncio
import gc
import json
import signal
import sqlite3
import sys
from collections import deque
from collections.abc import AsyncIterator, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import uvloop
import yaml
from telegram import Bot, Update
from telegram.request import BaseRequest, RequestData

POLL_SECONDS = 30
SCHEMA = """
create table if not exists inbox (
    id integer primary key, chat integer not null, text text not null, ended integer not null default 0
);
create table if not exists messages (
    id integer primary key, chat integer not null, role text not null, text text not null
);
create index if not exists messages_of_chat on messages (chat);
create table if not exists outbox (
    turn integer primary key, chat integer not null, text text not null, receipt integer
);
"""
RECEIVE = "insert or ignore into inbox (id, chat, text) values (?, ?, ?)"
SAY = "insert into messages (chat, role, text) values (?, ?, ?)"
PROMISE = "insert into outbox (turn, chat, text) values (?, ?, ?)"
END = "update inbox set ended = 1 where id = ?"
RECEIPT = "update outbox set receipt = ? where turn = ?"
OPEN = "select id, chat, text from inbox where not ended order by id"
UNSENT = "select turn, chat, text from outbox where receipt is null order by turn"
SAID = "select role, text from messages where chat = ? order by id"

Statement = tuple[str, tuple[object, ...]]
Transaction = tuple[Sequence[Statement], asyncio.Future[None]]


class Store:
    """One connection in one thread; what waits while a commit runs is committed together with the next."""

    def __init__(self, path: Path) -> None:
        self._thread = ThreadPoolExecutor(1)
        self._waiting: asyncio.Queue[tuple[Transaction, bool]] = asyncio.Queue()
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._connection.execute("pragma journal_mode=wal")
        self._connection.executescript(SCHEMA)

    async def write(self, *statements: Statement, durable: bool = False) -> None:
        """Run the statements as one transaction; `durable`: it is on disk afterwards, whatever the power does."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.put_nowait(((statements, done), durable))
        await done

    async def read(self, sql: str, *values: object) -> list[Any]:
        """Return the rows of a query."""
        query = self._connection.execute
        rows: list[Any] = await self._run(lambda: query(sql, values).fetchall())
        return rows

    async def commit_forever(self) -> None:
        """Commit what is handed in, in groups."""
        while True:
            group = [await self._waiting.get()]
            while not self._waiting.empty():
                group.append(self._waiting.get_nowait())
            durable = any(durable for _, durable in group)
            transactions = [transaction for transaction, _ in group]
            await self._run(lambda: self._commit(transactions, durable))  # noqa: B023  # awaited in this round
            for _, done in transactions:
                done.set_result(None)

    def _commit(self, transactions: Sequence[Transaction], durable: bool) -> None:
        execute = self._connection.execute
        execute(f"pragma synchronous={'full' if durable else 'normal'}")
        execute("begin immediate")
        for statements, _ in transactions:
            for sql, values in statements:
                execute(sql, values)
        execute("commit")

    async def _run(self, function: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, function)


class AiohttpRequest(BaseRequest):
    """python-telegram-bot's transport over aiohttp."""

    def __init__(self, http: aiohttp.ClientSession) -> None:
        self._http = http

    @property
    def read_timeout(self) -> float:
        """Seconds for an answer."""
        return 20.0

    async def initialize(self) -> None:
        """Nothing: the session is another's."""

    async def shutdown(self) -> None:
        """Nothing: the session is another's."""

    async def do_request(
        self,
        url: str,
        method: str,
        request_data: RequestData | None = None,
        read_timeout: Any = None,
        write_timeout: Any = None,
        connect_timeout: Any = None,
        pool_timeout: Any = None,
    ) -> tuple[int, bytes]:
        """Send a form; return the answer's status and body."""
        seconds = read_timeout if isinstance(read_timeout, int | float) else self.read_timeout
        form = request_data.json_parameters if request_data else None
        async with self._http.request(method, url, data=form, timeout=aiohttp.ClientTimeout(seconds)) as answer:
            return answer.status, await answer.read()


class Model:
    """An OpenAI-compatible chat model, streamed."""

    def __init__(self, http: aiohttp.ClientSession, spec: str, base_url: str, key: str) -> None:
        self._http, self._name, self._url = http, spec.partition(":")[2], f"{base_url}/chat/completions"
        self._headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}

    async def ask(self, messages: Sequence[dict[str, str]]) -> str:
        """Return the whole answer."""
        body = {"model": self._name, "messages": messages, "stream": True, "stream_options": {"include_usage": True}}
        pieces = []
        async with self._http.post(self._url, data=json.dumps(body).encode(), headers=self._headers) as answer:
            answer.raise_for_status()
            async for line in answer.content:
                if line.startswith(b"data: {"):
                    for choice in json.loads(line[6:])["choices"]:
                        pieces.append(choice["delta"].get("content") or "")
        return "".join(pieces).strip()


class Gateway:
    """Between Telegram, the model and the disk. Chats are independent; in a chat one turn follows the other."""

    def __init__(self, store: Store, bot: Bot, model: Model) -> None:
        self._store, self._bot, self._model = store, bot, model
        self._said: dict[int, list[dict[str, str]]] = {}
        self._lanes: dict[int, deque[tuple[int, str]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def work(self) -> list[Coroutine[Any, Any, None]]:
        """Return what goes on side by side for as long as the gateway runs."""
        return [self._store.commit_forever(), self.poll_forever()]

    async def resume(self) -> None:
        """Take up what the last process left open."""
        for turn, chat, text in await self._store.read(UNSENT):
            self._start(self._deliver(turn, chat, text))
        for turn, chat, text in await self._store.read(OPEN):
            self._enqueue(turn, chat, text)

    async def poll_forever(self) -> None:
        """Receive messages: Telegram is told that they arrived by the next poll, after they are on disk."""
        offset = 0
        while True:
            updates = await self._bot.get_updates(offset, timeout=POLL_SECONDS, allowed_updates=[Update.MESSAGE])
            received = [
                (update.update_id, update.message.chat_id, update.message.text)
                for update in updates
                if update.message and update.message.text
            ]
            if received:
                await self._store.write(*((RECEIVE, row) for row in received), durable=True)
            for row in received:
                self._enqueue(*row)
            offset = updates[-1].update_id + 1 if updates else offset

    def _enqueue(self, turn: int, chat: int, text: str) -> None:
        if chat in self._lanes:
            self._lanes[chat].append((turn, text))
        else:
            self._lanes[chat] = deque([(turn, text)])
            self._start(self._drain(chat))

    async def _drain(self, chat: int) -> None:
        lane = self._lanes[chat]
        while lane:
            await self._answer(chat, *lane.popleft())
        del self._lanes[chat]

    async def _answer(self, chat: int, turn: int, text: str) -> None:
        if chat not in self._said:
            self._said[chat] = [{"role": role, "content": said} for role, said in await self._store.read(SAID, chat)]
        said = self._said[chat]
        said.append({"role": "user", "content": text})
        answer = await self._model.ask(said)
        said.append({"role": "assistant", "content": answer})
        kept = [(SAY, (chat, "user", text)), (SAY, (chat, "assistant", answer))]
        await self._store.write(*kept, (PROMISE, (turn, chat, answer)), (END, (turn,)), durable=True)
        await self._deliver(turn, chat, answer)

    async def _deliver(self, turn: int, chat: int, text: str) -> None:
        sent = await self._bot.send_message(chat, text)
        await self._store.write((RECEIPT, (sent.message_id, turn)))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


@asynccontextmanager
async def open_gateway(path: Path) -> AsyncIterator[Gateway]:
    """Open everything that the configuration in `path` names."""
    config = await asyncio.to_thread(lambda: yaml.safe_load(path.read_text("utf-8")))
    telegram, (spec, *_) = config["telegram"], config["models"]["agent"]
    provider = config["providers"][spec.partition(":")[0]]
    store = Store(Path(config["state_dir"]) / "floor.db")
    async with aiohttp.ClientSession(
        timeout=aiohttp.ClientTimeout(total=None),
        cookie_jar=aiohttp.DummyCookieJar(),
        connector=aiohttp.TCPConnector(limit=0),
    ) as http:
        request = AiohttpRequest(http)
        base = telegram["base_url"]
        bot = Bot(telegram["token"], f"{base}/bot", f"{base}/file/bot", request=request, get_updates_request=request)
        yield Gateway(store, bot, Model(http, spec, provider["base_url"], provider["api_key"]))


async def serve(path: Path) -> None:
    """Run until SIGTERM."""
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    async with open_gateway(path) as gateway:
        work = [asyncio.create_task(work) for work in gateway.work()]
        await gateway.resume()
        gc.freeze()
        stopped = asyncio.create_task(stopping.wait())
        done, _ = await asyncio.wait([*work, stopped], return_when=asyncio.FIRST_COMPLETED)
        for task in done - {stopped}:
            task.result()  # it never ends but by an error, which ends the program


if __name__ == "__main__":
    uvloop.run(serve(Path(sys.argv[sys.argv.index("--config") + 1])))
