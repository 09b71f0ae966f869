"""Small things that this channel remembers over restarts: one JSON file each, in the state folder."""

import asyncio
import logging
import os
from pathlib import Path
from typing import Any, TypeVar

import orjson
from pydantic import TypeAdapter, ValidationError

from goclaw.health.faults import disk_error
from goclaw.supervise import see_through

log = logging.getLogger(__name__)

T = TypeVar("T")


def read(path: Path, shape: TypeAdapter[T], empty: T) -> T:
    """What was kept; `empty` where nothing was, or nothing that makes sense."""
    try:
        return shape.validate_json(path.read_bytes())
    except FileNotFoundError:
        return empty
    except (OSError, ValidationError) as error:
        log.warning("%s is not used: %s", path, type(error).__name__)
        return empty


class Keeper:
    """Writes one file, whole each time."""

    def __init__(self, path: Path, *, flush: bool) -> None:
        """Without `flush` it survives kill -9, but not a power cut."""
        self._path = path
        self._flush = flush
        self._writing = asyncio.Lock()

    async def write(self, value: Any, *, flush: bool = False) -> None:
        """On disk when this returns; `flush`: also after a power cut, whatever the file is for.

        Raises:
            DiskError: it cannot be written.
        """
        try:
            async with self._writing:
                content = orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS)
                # To its end also when nobody wants it any more: two threads must not write the same file.
                work = asyncio.to_thread(self._replace, content, self._flush or flush)
                await see_through(work, f"writing {self._path.name}")
        except OSError as error:
            raise disk_error(error, self._path, "written") from error

    def _replace(self, content: bytes, flush: bool) -> None:  # to_thread takes positions
        fresh = self._path.with_name(f"{self._path.name}.new")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            if flush:
                file.flush()
                os.fsync(file.fileno())
        fresh.replace(self._path)
        if flush:
            _flush_folder(self._path.parent)


def _flush_folder(folder: Path) -> None:
    """Have the names in a folder on disk, too."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
