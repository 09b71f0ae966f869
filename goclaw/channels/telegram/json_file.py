"""Small JSON files in the state folder for what this channel remembers over restarts."""

import asyncio
import logging
from pathlib import Path
from typing import Any, TypeVar

import orjson
from pydantic import TypeAdapter, ValidationError

from goclaw import files
from goclaw.health.faults import disk_error
from goclaw.supervise import see_through

log = logging.getLogger(__name__)

T = TypeVar("T")


def read(path: Path, shape: TypeAdapter[T], empty: T) -> T:
    """Return the stored value; `empty` where the file is missing or invalid."""
    try:
        return shape.validate_json(path.read_bytes())
    except FileNotFoundError:
        return empty
    except (OSError, ValidationError) as error:
        log.warning("%s is not used: %s", path, type(error).__name__)
        return empty


class JsonFile:
    """Writes one file, whole each time."""

    def __init__(self, path: Path, *, flush: bool) -> None:
        """Without `flush` it survives kill -9, but not a power cut."""
        self._path = path
        self._flush = flush
        self._writing = asyncio.Lock()
        self._latest: Any = None
        self._given = self._written = 0
        """Numbers of values given, and of those on disk or replaced by later ones that are."""

    async def write(self, value: Any, *, flush: bool = False) -> None:
        """Write a value to disk, or the latest of those given while it waited for the disk.

        Args:
            value: the whole content; each one includes those before it.
            flush: make it survive a power cut, regardless of the file's default.

        Raises:
            DiskError: it cannot be written.
        """
        self._latest = value
        mine = self._given = self._given + 1
        try:
            async with self._writing:
                if self._written < mine or (flush and not self._flush):
                    await self._write_latest(flush)
        except OSError as error:
            raise disk_error(error, self._path, "written") from error

    async def _write_latest(self, flush: bool) -> None:
        written, content = self._given, orjson.dumps(self._latest, option=orjson.OPT_NON_STR_KEYS)
        # To its end also when the caller is cancelled: two threads must not write the same file.
        work = asyncio.to_thread(self._replace, content, self._flush or flush)
        await see_through(work, f"writing {self._path.name}")
        self._written = written

    def _replace(self, content: bytes, flush: bool) -> None:  # to_thread takes positions
        files.replace_file(self._path, content, fsync=flush, reuse=True)
        if flush:
            files.flush(self._path.parent)
