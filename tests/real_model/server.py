"""A real llama-server as a process of its own: started, loading, paused, killed. Made by `scripts/_real_model.py`."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from tests.acceptance.waiting import clock
from tests.ports import free_port

FOLDER_VARIABLE = "REAL_MODEL"
"""Names the folder with `bin/llama-server` and `models/*.gguf`."""
CODER = "qwen2.5-coder-1.5b"
BASE = "gemma3-270m"
"""A model that was never trained to talk: it runs away."""
THREADS = 2
LOAD_SECONDS = 120.0
END_SECONDS = 20.0
LOOK_SECONDS = 0.2
DETERMINISTIC = ("--temp", "0", "--seed", "1")
"""The server's own defaults for requests that name neither."""
TEMPLATE = ("--chat-template-file", str(Path(__file__).with_name("structured.jinja")))
"""With it the server reads this model's calls and hands them on as such: the weights' own names a form of call that the
model does not keep to."""


def folder() -> Path:
    """Return where server and models are. Raises KeyError where `scripts/test --model` has named none."""
    return Path(os.environ[FOLDER_VARIABLE])


@dataclass
class RealServer:
    """One llama-server on a port of its own, which it keeps over restarts.

    It stays in the session of the lane, and so ends with the lane's process group.
    """

    model: str
    window: int
    log: Path
    port: int = field(default_factory=free_port)
    more: Sequence[str] = ()
    process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    async def spawn(self) -> None:
        """Start it and wait for nothing: it says 503 until the model is loaded."""
        assert self.process is None, "one process at a time"
        path = folder()
        weights = str(path / "models" / f"{self.model}.gguf")
        where = ["--host", "127.0.0.1", "--port", str(self.port)]
        size = ["-c", str(self.window), "-t", str(THREADS), "-np", "1", "-ngl", "0"]
        command = [
            "-m",
            weights,
            "--alias",
            self.model,
            *where,
            *size,
            "--jinja",
            "--slots",
            *DETERMINISTIC,
            *self.more,
        ]
        with self.log.open("ab") as output:
            self.process = await asyncio.create_subprocess_exec(
                str(path / "bin" / "llama-server"),
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    async def start(self) -> None:
        """Start it and wait until the model is loaded."""
        await self.spawn()
        async with asyncio.timeout(LOAD_SECONDS), aiohttp.ClientSession() as session:
            while not await self._is_ready(session):
                assert self.process is not None and self.process.returncode is None, self.log.read_text()[-2000:]
                await clock.sleep(LOOK_SECONDS)

    async def _is_ready(self, session: aiohttp.ClientSession) -> bool:
        try:
            async with session.get(f"{self.url}/health") as response:
                return response.status == 200
        except aiohttp.ClientError:
            return False

    async def kill(self) -> None:
        """kill -9, at once."""
        if self.process is not None and self.process.returncode is None:
            self.process.kill()
        await self._wait()

    def pause(self) -> None:
        """Stop the process where it is, as a machine that swaps does; its connections stay open."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        self._signal(signal.SIGCONT)

    async def stop(self) -> None:
        """Ask it to end; kill it when it does not."""
        if self.process is not None and self.process.returncode is None:
            self.process.terminate()
        try:
            await self._wait()
        except TimeoutError:
            await self.kill()

    def _signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    async def _wait(self) -> None:
        if self.process is not None:
            async with asyncio.timeout(END_SECONDS):
                await self.process.wait()
            self.process = None


@asynccontextmanager
async def real_server(model: str, window: int, log: Path, *more: str) -> AsyncIterator[RealServer]:
    """Run one until the block ends; it has loaded the model when the block begins."""
    server = RealServer(model, window, log, more=more)
    try:
        await server.start()
        yield server
    finally:
        await server.kill()


async def tokens_of(server: RealServer, text: str) -> int:
    """Return how many tokens a text is, by the model's own tokenizer."""
    asked = {"content": text, "add_special": False}
    async with aiohttp.ClientSession() as session, session.post(f"{server.url}/tokenize", json=asked) as response:
        return len((await response.json())["tokens"])


async def fetch(url: str) -> Any:
    """Return the JSON of one answer."""
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return await response.json()
