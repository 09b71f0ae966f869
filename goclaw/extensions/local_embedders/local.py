"""sentence-transformers on this machine, in a process of its own that exists only while it is needed.

The first `embed` starts it; `memory.embedder_idle` seconds without work or too much memory end it. Where
onnxruntime is installed, a small form of the model is made once, in the state folder (`worker.exporting`). Its vectors
are as good together with the original's (docs/memory.md), so nothing records which of the two made one.
"""

import asyncio
import logging
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from goclaw.common.config.schema import Config, MemorySettings
from goclaw.common.core.clock import Backoff, Clock
from goclaw.common.core.supervise import background, ends_within, run_with_restarts
from goclaw.common.net import check_reachable
from goclaw.errors import ConfigError, EmbeddingError
from goclaw.extensions.local_embedders.local_runtime import (
    GaveUp,
    Interpreter,
    LocalModel,
    Worker,
    interpreter,
    locate_model,
    module_of,
    open_worker,
    usual_model,
)
from goclaw.extensions.local_embedders.worker.protocol import Head
from goclaw.memory.embedders.base import Embedder, EmbedderPart, prefixes, prepare

log = logging.getLogger(__name__)

KIND = "sentence-transformers"
LIBRARY = "sentence_transformers"
TO_EXPORT, TO_RUN = ("onnx", "onnxruntime", "tokenizers"), ("onnxruntime", "tokenizers")
"""Packages that make the small form, and that run it."""
EXPORT_VERSION = 1
"""Raised when `worker.exporting` makes something else of the same model."""
MAKING_SECONDS = 3_600.0
"""After which a small form that is still being made (hidden, by another process) never will be."""
BATCH = 16
"""Texts per request; the worker interrupts them for a query anyway."""
LOADING_SECONDS = 180.0
FETCHING_SECONDS = 1_800.0
ANSWER_SECONDS = 60.0
"""Time limit of each answer before the process counts as hung."""
FIRST_PAUSE, MAX_PAUSE = 1.0, 300.0
"""Seconds before a process that failed is started again: doubled at each failure, up to this."""


@dataclass(slots=True, eq=False)
class _Job:
    """A batch of texts with a waiting caller."""

    texts: Sequence[str]
    query: bool
    vectors: "asyncio.Future[list[bytes]]"
    sent_at: float | None = None
    """Time when it was sent to the present process."""


@dataclass(slots=True)
class _Run:
    """State of the present process."""

    small: bool = False
    """Whether it runs the small form."""
    ready: bool = False
    last_frame_at: float = 0.0
    outgrown: bool = False


class LocalEmbedder:
    """An `Embedder`; it works while `run` is awaited."""

    batch = BATCH

    def __init__(self, model: LocalModel, folder: Path, settings: MemorySettings, clock: Clock, python: Interpreter):
        self._model = model
        self._folder = folder
        self._exports = python.has(LIBRARY, *TO_EXPORT)
        self._settings = settings
        self._clock = clock
        self._python = python
        self._jobs: dict[int, _Job] = {}
        self._numbers = count()
        self._changed = asyncio.Event()
        self._run = _Run()
        self._backoff = Backoff(FIRST_PAUSE, MAX_PAUSE)
        self._not_before = float("-inf")
        self._trouble = ""
        self._warned_of_memory = False

    @property
    def name(self) -> str:
        """See `base.Embedder`; a model that has to be fetched first has its version then."""
        return f"{KIND}:{self._model.title}@{self._model.version or 'newest'}"

    @property
    def _export(self) -> Path:
        """Path of the small form."""
        return self._folder / self._model.file_name / f"{self._model.version}-v{EXPORT_VERSION}"

    async def embed(self, texts: Sequence[str], *, query: bool = False) -> Sequence[bytes]:
        """See `base.Embedder`."""
        if not texts:
            return []
        if (wait := self._not_before - self._clock.monotonic()) > 0:
            raise EmbeddingError(f"{self._trouble}; trying again in {wait:.0f} s", retry_after=wait)
        number = next(self._numbers)
        job = _Job(prepare(texts), query, asyncio.get_running_loop().create_future())
        self._jobs[number] = job
        self._changed.set()
        try:
            return await job.vectors
        finally:
            self._jobs.pop(number, None)
            self._changed.set()

    async def run(self) -> None:
        """While this is awaited, run a process whenever there is work."""
        while True:
            while not self._jobs:
                self._changed.clear()
                await self._changed.wait()
            self._run = _Run()
            try:
                await self._make_export()
                setup = await self._setup("serve")
                self._run = _Run(small=bool(setup["export"]), last_frame_at=self._clock.monotonic())
                async with self._worker(setup) as worker:
                    await self._serve(worker)
            except EmbeddingError as error:
                await self._fail(error)

    async def _serve(self, worker: Worker) -> None:
        """Work with one process until it is not needed, or has grown too large."""
        for job in self._jobs.values():
            job.sent_at = None
        async with background(self._receive(worker), "answers of the embedder's process") as receiving:
            while not (self._run.outgrown or receiving.done()):
                self._changed.clear()
                await self._send(worker)
                async with background(self._changed.wait(), "work for the embedder's process") as changed:
                    is_changed = await ends_within(changed, self._clock, self._patience())
                if not is_changed:
                    if not self._jobs and self._run.ready:
                        return
                    raise EmbeddingError("the embedder's process did not answer and was stopped")

    async def _receive(self, worker: Worker) -> None:
        """Handle the process's frames until it is too large. It ends with an error, or when it is stopped."""
        try:
            while not self._run.outgrown:
                head, body = await worker.receive()
                self._run.last_frame_at = self._clock.monotonic()
                self._weigh(int(head["used"]))
                if not self._model.is_here:
                    self._model = await asyncio.to_thread(locate_model, self._model.title, self._python.packages)
                self._run.ready = True
                if job := self._jobs.get(head.get("number", -1)):
                    self._answer(job, body)
                self._changed.set()
        finally:
            self._changed.set()

    async def _send(self, worker: Worker) -> None:
        if not self._run.ready:
            return  # who waits for a query is often gone when it is
        for number, job in sorted(self._jobs.items(), key=lambda each: not each[1].query):
            if job.sent_at is None and number in self._jobs:
                job.sent_at = self._clock.monotonic()
                await worker.send({"number": number, "texts": list(job.texts), "query": job.query})

    def _answer(self, job: _Job, body: bytes) -> None:
        if job.vectors.done():
            return
        size, rest = divmod(len(body), max(len(job.texts), 1))
        if rest:
            job.vectors.set_exception(EmbeddingError("the embedder's process gave vectors of several lengths"))
            return
        self._backoff.reset()
        job.vectors.set_result([body[start : start + size] for start in range(0, len(body), size or 1)])

    def _weigh(self, megabytes: int) -> None:
        """Raise EmbeddingError when the model alone is too large; note when the process has become so."""
        cap = self._settings.embedder_memory
        if megabytes <= cap:
            return
        if not self._run.ready:
            raise EmbeddingError(
                f"the model {self._model.title} uses {megabytes} MB, but memory.embedder_memory allows {cap}: raise "
                "that, or choose a smaller model in memory.embedder"
            )
        self._run.outgrown = True
        if not self._warned_of_memory:
            self._warned_of_memory = True
            log.info("the embedder's process had %d MB of the %d that it may; begun anew when needed", megabytes, cap)

    def _patience(self) -> float:
        """Return the seconds until the next deadline: of starting, of an answer, or of idling."""
        now = self._clock.monotonic()
        if not self._run.ready:
            seconds = LOADING_SECONDS if self._model.is_here else FETCHING_SECONDS
            return self._run.last_frame_at + seconds - now
        sent = [job.sent_at for job in self._jobs.values() if job.sent_at is not None]
        if sent:
            return max(self._run.last_frame_at, min(sent)) + ANSWER_SECONDS - now
        return self._run.last_frame_at + self._settings.embedder_idle - now

    async def _fail(self, error: EmbeddingError) -> None:
        """Fail all waiting callers; a retry that comes too early fails, too."""
        self._trouble = str(error)
        pause = self._backoff.next()
        self._not_before = self._clock.monotonic() + pause
        if isinstance(error, GaveUp) and self._run.small and not self._run.ready:
            # The small form cannot even be read. The original serves until the next start, which makes it anew.
            self._exports = False
            await asyncio.to_thread(shutil.rmtree, self._export, ignore_errors=True)
        for job in self._jobs.values():
            if not job.vectors.done():
                job.vectors.set_exception(EmbeddingError(str(error), retry_after=pause))
        self._jobs.clear()

    async def _make_export(self) -> None:
        """Make the small form, once. That it cannot be made is no trouble: the original serves."""
        if not (self._exports and self._model.is_here) or await asyncio.to_thread(self._export.exists):
            return
        self._exports = False
        try:
            await asyncio.to_thread(_make_room, self._export.parent, self._clock.now() - MAKING_SECONDS)
            async with self._worker(await self._setup("export")) as worker:
                async with background(worker.receive(), "the embedder's small form") as receiving:
                    if not await ends_within(receiving, self._clock, LOADING_SECONDS):
                        raise EmbeddingError(f"it was not done within {LOADING_SECONDS:g} s")
                head, _ = receiving.result()
        except (EmbeddingError, OSError) as error:
            log.info("no small form of %s: %s; the original serves", self._model.title, error)
        else:
            if why := head.get("refused"):
                log.info("no small form of %s: %s; the original serves", self._model.title, why)
            else:
                log.info("made a small form of %s, least cosine %.3f", self._model.title, head["closeness"])

    def _worker(self, setup: Head) -> AbstractAsyncContextManager[Worker]:
        return open_worker(self._python.path, setup, offline=self._model.is_here)

    async def _setup(self, task: str) -> Head:
        runs = self._python.has(*TO_RUN) and await asyncio.to_thread(self._export.exists)
        words = prefixes(self._model.title)
        return {
            "task": task,
            "model": self._model.source,
            "export": str(self._export) if runs or task == "export" else "",
            "prefixes": {"query": words.query, "document": words.document},
            "megabytes": self._settings.embedder_memory,
        }


def _make_room(folder: Path, stale: float) -> None:
    """Make a folder for the form of one model; other versions and unfinished ones from before `stale` are removed."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    for former in folder.iterdir():
        if not former.name.startswith(".") or former.stat().st_mtime < stale:
            shutil.rmtree(former, ignore_errors=True)


@asynccontextmanager
async def open_local(
    spec: str, config: Config, clock: Clock, python: Interpreter | None = None
) -> AsyncIterator[Embedder]:
    """Open the embedder for `sentence-transformers:model`, while the block runs, in `memory.embedder_python`.

    Raises:
        ConfigError: the extra is not installed, or the model is not there and may not be fetched.
    """
    name = spec.partition(":")[2]
    python = python or await _python(config, name)
    if not python.has(LIBRARY):
        raise ConfigError(f"memory.embedder: {KIND} is not installed in {python.path}; docs/memory.md says how")
    model = await asyncio.to_thread(locate_model, name, python.packages)
    if not model.is_here:
        check_reachable("the hub of models")
    embedder = LocalEmbedder(model, config.state_dir / "models", config.memory, clock, python)
    task = "the embedder on this machine"
    async with background(run_with_restarts(task, embedder.run, clock), task):
        yield embedder


async def find_local(config: Config) -> str:
    """Return the usual model, if it is on this machine together with the library.

    Raises:
        ConfigError: `memory.embedder_python` is no Python.
    """
    python = await _python(config, "")
    name = await asyncio.to_thread(usual_model, python.packages) if python.has(LIBRARY) else ""
    return f"{KIND}:{name}" if name else ""


async def _python(config: Config, name: str) -> Interpreter:
    names = {LIBRARY, *TO_EXPORT, *TO_RUN, module_of(name)} - {""}
    return await interpreter(config.memory.embedder_python, sorted(names))


EMBEDDER = EmbedderPart(KIND, find_local, open_local)
