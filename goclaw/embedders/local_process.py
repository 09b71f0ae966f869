"""The worker's process from outside: started with an environment of its own, controlled by frames, always ended."""

import asyncio
import os
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from goclaw.embedders.worker.frames import LENGTHS, Head, frame, head_of, lengths
from goclaw.errors import EmbeddingError
from goclaw.redact import mask, printable
from goclaw.supervise import background

_ROOT = Path(__file__).parents[2]
_BEGIN = """\
import runpy, sys
sys.path.append(sys.argv[1])
runpy.run_module("goclaw.embedders.worker", run_name="__main__")
"""
"""Isolated from our environment (`-I`), another Python finds this package here."""
PASSED_ON = (
    *("HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR"),
    *("XDG_CACHE_HOME", "HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "SENTENCE_TRANSFORMERS_HOME"),
    *("HF_HUB_OFFLINE", "HF_ENDPOINT"),
)
"""Variables that the worker may see: where things are. Tokens are none."""
PROXIES = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "NO_PROXY", "no_proxy")
"""Passed on where they hold no password."""
ITS_OWN = {
    "OMP_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1",
}
LAST_WORDS = 4_000
"""Bytes of its errors that are kept."""
WORDS_LIMIT = 300
END_SECONDS = 5.0
"""Time limit for a process whose output has ended to exit."""


class GaveUp(EmbeddingError):
    """The process ended by itself: its libraries raised something."""


class Worker:
    """A running process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin and process.stdout and process.stderr  # noqa: S101  # three pipes were asked for
        self._input, self._output, self._error = process.stdin, process.stdout, process.stderr
        self._process = process
        self._errors: deque[bytes] = deque(maxlen=4)

    async def send(self, head: Head) -> None:
        """Send a frame. Raises EmbeddingError when the process has ended."""
        try:
            self._input.write(frame(head))
            await self._input.drain()
        except (ConnectionError, RuntimeError):
            raise await self._death() from None

    async def receive(self) -> tuple[Head, bytes]:
        """Return the next frame. Raises EmbeddingError when the process has ended, or says something else."""
        try:
            head, body = lengths(await self._output.readexactly(LENGTHS.size))
            return head_of(await self._output.readexactly(head)), await self._output.readexactly(body)
        except (asyncio.IncompleteReadError, ConnectionError):
            raise await self._death() from None
        except ValueError:
            raise EmbeddingError("the embedder's process says what nobody can read") from None

    async def listen_to_errors(self) -> None:
        """Keep its last errors. A pipe that is not read would hold up the process."""
        while piece := await self._error.read(LAST_WORDS):
            self._errors.append(piece)

    async def _death(self) -> EmbeddingError:
        with suppress(TimeoutError):
            async with asyncio.timeout(END_SECONDS):
                await self._process.wait()
        code = self._process.returncode
        if code is not None and code < 0:
            return EmbeddingError(f"the embedder's process was killed (signal {-code}); perhaps memory ran out")
        lines = b"".join(self._errors).decode(errors="replace").strip().splitlines()
        words = printable(mask(lines[-1]))[:WORDS_LIMIT] if lines else f"exit code {code}"
        return GaveUp(f"the embedder's process ended: {words}")


@asynccontextmanager
async def open_worker(python: str, setup: Head, *, offline: bool) -> AsyncIterator[Worker]:
    """Run a worker by that Python with this setup (see `worker.__main__`); it is dead when the block ends.

    `offline`: its libraries send no requests.

    Raises:
        EmbeddingError: it cannot be started.
    """
    pipe = asyncio.subprocess.PIPE
    try:
        process = await asyncio.create_subprocess_exec(
            *(python, "-I", "-c", _BEGIN, str(_ROOT)),
            cwd="/",
            env=environment(os.environ, offline=offline),
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            start_new_session=True,
        )
    except OSError as error:
        raise EmbeddingError(f"the embedder's process cannot be started ({error.strerror})") from None
    worker = Worker(process)
    try:
        async with background(worker.listen_to_errors(), "errors of the embedder's process"):
            await worker.send(setup)
            yield worker
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


def environment(ours: Mapping[str, str], *, offline: bool) -> dict[str, str]:
    """Return the part of our environment that the worker gets."""
    passed = {name: ours[name] for name in PASSED_ON if name in ours}
    proxies = {name: ours[name] for name in PROXIES if "@" not in ours.get(name, "@")}
    return {**passed, **proxies, **ITS_OWN, **({"HF_HUB_OFFLINE": "1"} if offline else {})}
