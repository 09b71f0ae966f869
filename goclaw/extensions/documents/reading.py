"""The daemon's side: a copy of the file, a worker in the sandbox that reads it, and an answer that is checked.

The worker has no network, no workspace and no way back: a copy of the file without a name is its standard input, so
that even a parser that is taken over can change nothing. It is killed whole when it takes too long.
"""

import asyncio
import importlib.util
import io
import json
import logging
import os
import re
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import BinaryIO
from weakref import WeakKeyDictionary

from goclaw.common.config.tools import ExecSettings
from goclaw.common.core.pictures import fault_of
from goclaw.common.core.redact import mask_known
from goclaw.durable.store.blobs import image_type
from goclaw.errors import SandboxUnavailable, ToolError
from goclaw.extensions.documents.formats.answer import MAX_NOTES, MAX_OUTLINE, MAX_PICTURES
from goclaw.extensions.documents.worker import MAX_ANSWER, MEMORY, REFUSED, SECONDS
from goclaw.tools.execution.sandbox.base import NONE, Limits, Policy, Sandbox, SandboxCommand
from goclaw.tools.execution.sandbox.layout import SYSTEM
from goclaw.tools.execution.sandbox.layout import environment as system_environment
from goclaw.tools.execution.sandbox.scratch import scratch_folder
from goclaw.tools.execution.sandbox.select import OFF, open_sandbox, wait_for_tier
from goclaw.tools.toolkit.base import ToolEnvironment
from goclaw.tools.toolkit.documents import Document, DocumentsPart, Selection, SourceFile

log = logging.getLogger(__name__)

AT_ONCE = 2
"""Documents at the same time: each may take a processor, and the memory of a worker."""
_LIBRARIES = ("pypdfium2", "pypdfium2_raw", "pypdfium2_cfg", "PIL")
"""Libraries that the worker may import where they are installed."""
_BESIDE = "pillow.libs"
"""The folder next to a library that belongs to it."""
_PROCESSES = 16
_MAX_LINE = 500
"""Characters of a line of an outline, or of a note."""
_BREAKS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
BOOT = """
import json, sys
from importlib.util import spec_from_file_location
class Places:
    def find_spec(self, name, path=None, target=None):
        at = places.get(name)
        return at and spec_from_file_location(name, at + "/__init__.py", submodule_search_locations=[at])
places = json.loads(sys.argv[2])
sys.meta_path.append(Places())
from goclaw.extensions.documents.worker import main
main(sys.argv[1])
"""
"""The worker's program: packages are given one by one, because the folders that they lie in cannot be listed."""
_PACKAGE = Path(__file__).parents[2]
_rooms: "WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore]" = WeakKeyDictionary()


async def convert(environment: ToolEnvironment, source: SourceFile, wanted: Selection) -> Document:
    """Read a document; see `tools.toolkit.documents.read_document`."""
    settings = environment.config.documents
    name = source.name.rpartition("/")[2]
    seconds = SECONDS if wanted.seconds is None else min(wanted.seconds, SECONDS)
    part = {key: value for key, value in asdict(wanted).items() if key != "seconds"}
    asked = json.dumps({"name": name[-200:], "mime": source.mime[:100], **part})
    room = _rooms.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(AT_ONCE))
    async with room, AsyncExitStack() as stack:
        copy = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 -- the stack closes it
        if not await asyncio.to_thread(_copy, source.data, copy, settings.max_file_mb << 20):
            log.info("%s is not read: it is larger than documents.max_file_mb", name)
            raise ToolError(f"{name} is not read: it has more than {settings.max_file_mb} MB")
        try:
            answer = await _answer(environment, copy.fileno(), asked, name, seconds)
        except TimeoutError as error:
            raise ToolError(f"{name} is not read: it took more than {seconds:g} s; ask for a smaller part") from error
    return await asyncio.to_thread(document_of, name, answer, wanted.characters)


READER = DocumentsPart(convert)
"""The part that `DOCUMENT_READERS` of the catalogue names."""


def _copy(data: bytes | BinaryIO, copy: BinaryIO, most: int) -> bool:
    """Copy the file, to its beginning; False: it is too large."""
    source = io.BytesIO(data) if isinstance(data, bytes) else data
    while (chunk := source.read(1 << 20)) and copy.tell() <= most:
        copy.write(chunk)
    size = copy.tell()
    copy.seek(0)
    return size <= most


async def _answer(environment: ToolEnvironment, file: int, asked: str, name: str, seconds: float) -> bytes:
    """Return the worker's answer, in the sandbox or, where the configuration allows it, without one.

    Raises:
        TimeoutError: it takes too long.
    """
    try:
        async with asyncio.timeout(seconds):
            return await _run_contained(environment, file, asked)
    except SandboxUnavailable as error:
        if not environment.config.documents.unsandboxed:
            raise ToolError(
                f"{name} is not read: nothing on this machine contains the program that reads documents "
                f"({str(error)[:300]}); an admin can allow it without (docs/files.md, Hostile files)"
            ) from error
    os.lseek(file, 0, os.SEEK_SET)
    async with asyncio.timeout(seconds):
        return await _run_uncontained(file, asked)


async def _run_contained(environment: ToolEnvironment, file: int, asked: str) -> bytes:
    async with AsyncExitStack() as stack:
        sandbox = await stack.enter_async_context(_sandbox(environment))
        folder = await stack.enter_async_context(scratch_folder())
        nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        stack.callback(os.close, nowhere)
        python, readable = _program()
        command = SandboxCommand(
            (python, *_arguments(asked)), folder, {**system_environment(), "HOME": "/"}, stdin=file, stderr=nowhere
        )
        policy = Policy(
            folder,
            hidden=(environment.config.state_dir.expanduser().absolute(),),
            readable=readable,
            limits=Limits(SECONDS, MEMORY, _PROCESSES, MEMORY),
            writes=False,
        )
        process = await stack.enter_async_context(sandbox.run(command, policy))
        told = bytearray()
        async for chunk in process.output:
            told += chunk
            if len(told) > MAX_ANSWER:
                return b""  # leaving the block kills it
        await process.wait()
        return bytes(told)


@asynccontextmanager
async def _sandbox(environment: ToolEnvironment) -> AsyncIterator[Sandbox]:
    """Yield the sandbox of commands; where that contains nothing, one of the tiers that do, for the block."""
    given = environment.sandbox
    await wait_for_tier(given)
    if given.tier not in (OFF, NONE):
        yield given
        return
    async with open_sandbox(ExecSettings(sandbox="auto", network="none"), environment.clock) as own:
        await own.ready()
        yield own


async def _run_uncontained(file: int, asked: str) -> bytes:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, *_arguments(asked)),
        cwd="/",
        env=system_environment(),
        stdin=file,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return await process.stdout.read() if process.stdout else b""
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


def _arguments(asked: str) -> list[str]:
    places = {name: str(folder) for name, folder in _libraries().items()}
    return ["-I", "-S", "-B", "-c", BOOT, asked, json.dumps({"goclaw": str(_PACKAGE), **places})]


def _program() -> tuple[str, tuple[Path, ...]]:
    """Return the real path of the interpreter, and the further paths that the sandbox has to show it."""
    python = Path(sys.executable).resolve()
    folders = _libraries().values()
    beside = [folder.parent / _BESIDE for folder in folders if (folder.parent / _BESIDE).is_dir()]
    needed = {python, Path(sys.base_prefix).resolve() / "lib", _PACKAGE, *folders, *beside}
    return str(python), tuple(path for path in needed if not any(path.is_relative_to(folder) for folder in SYSTEM))


def _libraries() -> dict[str, Path]:
    """Return the folders of the libraries that are installed."""
    found = {name: importlib.util.find_spec(name) for name in _LIBRARIES}
    return {name: Path(spec.origin).parent for name, spec in found.items() if spec and spec.origin}


def document_of(name: str, answer: bytes, characters: int) -> Document:
    """Check an answer and bound it: the worker may be taken over.

    Raises:
        ToolError: the worker refused, or gave no valid answer.
    """
    if answer.startswith(REFUSED):
        raise ToolError(f"{name} {_line_of(answer.removeprefix(REFUSED).decode(errors='replace'))}")
    try:
        told = Document.model_validate_json(answer)
    except ValueError:
        raise ToolError(
            f"{name} is not read: the program that reads it broke off; it is damaged, or needs more than "
            f"{MEMORY >> 20} MB of memory"
        ) from None
    pictures = [(mime, data) for mime, data in told.pictures if image_type(data) == mime and not fault_of(data, mime)]
    return told.model_copy(
        update={
            "kind": _line_of(told.kind),
            "shown": _line_of(told.shown),
            "rest": _line_of(told.rest),
            "outline": tuple(mask_known(line[:_MAX_LINE]) for line in told.outline[: MAX_OUTLINE + 1]),
            "text": mask_known(told.text[:characters]),
            "notes": tuple(map(_line_of, told.notes[:MAX_NOTES])),
            "pictures": tuple(pictures[:MAX_PICTURES]),
        }
    )


def _line_of(text: str) -> str:
    """Return words of a document on one line of bounded length, without secrets; blanks in names stay as they are."""
    return mask_known(_BREAKS.sub(" ", text[:_MAX_LINE]))
