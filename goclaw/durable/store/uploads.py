"""Files that people sent ahead of a message: the bytes in the media store, and a record of each for one person.

A record names who may put the file into a message, and the session; it is kept for a day, so that a message that
is sent again finds it. The bytes are media like all others: the sweep removes what no message refers to.
"""

import asyncio
import logging
import re
import secrets
from pathlib import Path

from pydantic import ValidationError

from goclaw.common.core.clock import Clock
from goclaw.common.core.codec import Codec
from goclaw.common.core.files import replace_file
from goclaw.common.core.records import record
from goclaw.common.health.resources import disk_error
from goclaw.durable.store.blobs import Blobs
from goclaw.errors import StateError

log = logging.getLogger(__name__)

KEPT_SECONDS = 24 * 3600.0
COUNTED_SECONDS = 3600.0
"""Seconds for which a file counts against the limits of its person."""
MAX_FILES, MAX_BYTES = 60, 300 << 20
"""The limits of one person in that time."""
_ID = re.compile(r"[0-9a-f]{32}")


@record
class Upload:
    """A file that waits for its message."""

    owner: str
    """Actor key."""
    session: str
    blob: str
    name: str
    mime: str
    kind: str
    """As in `Attachment.kind`."""
    size: int
    at: float


class TooManyUploads(Exception):
    """A person has sent as many files as they may for now."""


_CODEC: Codec[Upload] = Codec(Upload)


class Uploads:
    """The records below one folder, which is made when first used."""

    def __init__(self, folder: Path, blobs: Blobs, clock: Clock) -> None:
        self._folder = folder
        self._blobs = blobs
        self._clock = clock
        self._adding = asyncio.Lock()

    async def add(self, owner: str, session: str, data: bytes, *, name: str, mime: str, kind: str) -> str:
        """Keep a file; returns its id. On disk when this returns.

        Raises:
            TooManyUploads: the person has to wait.
            StateError: the disk refuses.
        """
        async with self._adding:
            since, known = self._clock.now() - COUNTED_SECONDS, await asyncio.to_thread(self._load_all)
            own = [each.size for each in known if each.owner == owner and each.at > since]
            if len(own) >= MAX_FILES or sum(own) + len(data) > MAX_BYTES:
                raise TooManyUploads(f"a person may upload {MAX_FILES} files and {MAX_BYTES >> 20} MB per hour")
            blob = await self._blobs.put(data, mime)
            upload = Upload(owner, session, blob, name, mime, kind, len(data), self._clock.now())
            upload_id = secrets.token_hex(16)
            await asyncio.to_thread(self._write, upload_id, upload)
            return upload_id

    async def find(self, owner: str, session: str, upload_id: str) -> Upload | None:
        """Return a file for a person's message in a session, and renew its keep time; None: they have no such file."""
        if not _ID.fullmatch(upload_id):
            return None
        upload = await asyncio.to_thread(self._read, self._folder / upload_id)
        if upload is None or (upload.owner, upload.session) != (owner, session) or self._is_over(upload):
            return None
        return upload if await self._blobs.retain(upload.blob) else None

    def _load_all(self) -> list[Upload]:
        """Return the records, and remove those that are over."""
        found = list[Upload]()
        for path in list(self._folder.iterdir()) if self._folder.exists() else ():
            upload = self._read(path)
            if upload is None or self._is_over(upload):
                path.unlink(missing_ok=True)
            else:
                found.append(upload)
        return found

    def _read(self, path: Path) -> Upload | None:
        try:
            return _CODEC.from_json(path.read_bytes())
        except (FileNotFoundError, ValidationError):
            return None
        except OSError as error:
            raise StateError(f"an uploaded file cannot be read: {error.strerror}") from error

    def _write(self, upload_id: str, upload: Upload) -> None:
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_file(self._folder / upload_id, _CODEC.to_json(upload).encode())
        except OSError as error:
            raise disk_error(error, self._folder, "written") from error

    def _is_over(self, upload: Upload) -> bool:
        return self._clock.now() - upload.at >= KEPT_SECONDS
