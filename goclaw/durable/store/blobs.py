"""Bytes kept in the state folder under their hash, and long outputs kept for the person that caused them.

`media/<sha256>` holds pictures and files (with the media type in `<sha256>.type`); `spills/` holds outputs too long for
an answer. Folders are 0700, files 0600. Above: tools, channels, context. Nothing here is in the workspace.

Where the database has media, too (`shared_files`), it gets them before anything can refer to them, and the folder gets
missing ones from there.
"""

import asyncio
import codecs
import hashlib
import logging
import os
import re
import secrets
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Set
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeVar

from goclaw.common.core.clock import Clock, RealClock
from goclaw.common.core.files import replace_file
from goclaw.common.core.supervise import finish_despite_cancel
from goclaw.common.health.resources import disk_error
from goclaw.errors import StateError, ToolError

if TYPE_CHECKING:
    from goclaw.durable.store.shared_files import SharedMedia

log = logging.getLogger(__name__)

ResultT = TypeVar("ResultT")

SPILL_BOUND = 64 << 20
"""Bytes of one output that are kept: enough for any log that a person reads, too little to fill a disk."""
SPILL_PREFIX = "output:"
SAMPLE = 8192
"""Bytes in which a NUL means "binary", as git does it."""

_IMAGES = ((b"\xff\xd8\xff", "image/jpeg"), (b"\x89PNG\r\n\x1a\n", "image/png"), (b"GIF8", "image/gif"))
_KEY = re.compile(r"[0-9a-f]{64}")
_SPILL_ID = re.compile(r"[0-9a-f]{16}")


class Spill:
    """An output while it is written. Not safe for several writers."""

    def __init__(self, spill_id: str, file: BinaryIO, bound: int) -> None:
        self.id = spill_id
        self.kept = 0
        """Bytes in the file."""
        self.truncated = False
        """More came than the bound allows; the surplus is dropped."""
        self._file = file
        self._bound = bound
        self._sample = b""

    @property
    def name(self) -> str:
        """`output:<id>`, as `read` takes it."""
        return SPILL_PREFIX + self.id

    @property
    def is_binary(self) -> bool:
        """Whether `read` refuses it."""
        return is_binary(self._sample)

    @property
    def note(self) -> str:
        """Location of the output and how to open it, in words that follow how much was left out."""
        part = f"the first {self.kept:,} bytes are" if self.truncated else "the whole is"
        if self.is_binary:
            return f"{part} binary, which read does not show; redirect it into a file and look at that with exec"
        return f'{part} kept as {self.name}, open it with read {{"path": "{self.name}"}}'

    async def write(self, chunk: bytes) -> None:
        """Append, up to the bound."""
        self._sample += chunk[: SAMPLE - len(self._sample)]
        room = self._bound - self.kept
        self.truncated = self.truncated or len(chunk) > room
        if room <= 0:
            return
        try:
            self.kept += await asyncio.to_thread(_write_all, self._file, chunk[:room])
        except OSError as error:
            # The process that made the output has ended: what fitted on the disk is kept.
            log.warning("a long output is not kept to its end: %s", error.strerror)
            self.truncated, self._bound = True, self.kept


def is_binary(sample: bytes) -> bool:
    """Whether a file with these first `SAMPLE` bytes is not text; UTF-16 with its mark counts as text."""
    return b"\0" in sample and sample[:2] not in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def image_type(data: bytes) -> str | None:
    """Return the media type of a picture that models read, by its first bytes; None: it is no such picture."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((mime for mark, mime in _IMAGES if data.startswith(mark)), None)


def has_media(folder: Path, key: str) -> bool:
    """Whether the media `key` is below the folder of a store that another process may have open."""
    return _KEY.fullmatch(key) is not None and (folder / "media" / key).exists()


class Blobs:
    """The store below one folder; make it with `open_blobs`."""

    def __init__(self, folder: Path, clock: Clock, shared: "SharedMedia | None" = None) -> None:
        self._shared = shared
        self._media = folder / "media"
        self._spills = folder / "spills"
        self._clock = clock
        self._changing = threading.Lock()
        """Held while adding, so that a new file is not removed at the same moment."""

    async def put(self, data: bytes, mime: str) -> str:
        """Keep `data` and return its key, the SHA-256 in hex. Storing the same bytes again renews the file's keep time.

        Raises:
            DiskError: there is no room for it, or disk or database do not work.
        """
        with _in_words(self._media):
            key = await asyncio.to_thread(self._put, data, mime)
        if self._shared is not None:
            await self._shared.retain(key)
        return key

    async def retain(self, key: str) -> bool:
        """Keep media as if they were put now; False: there are none (any more)."""
        if not await asyncio.to_thread(self._retain, key):
            return await self._fetch(key) and await asyncio.to_thread(self._retain, key)
        if self._shared is not None:
            await self._shared.retain(key)
        return True

    async def get(self, key: str) -> bytes:
        """Return the bytes under `key`.

        Raises:
            ToolError: there are none (any more).
        """
        try:
            return await asyncio.to_thread(self._get, key)
        except ToolError:
            if not await self._fetch(key):
                raise
        return await asyncio.to_thread(self._get, key)

    async def mime(self, key: str) -> str:
        """Return the media type that the bytes were put with; raises as `get` does."""
        path = self._media_path(key).with_suffix(".type")
        try:
            return await asyncio.to_thread(path.read_text)
        except FileNotFoundError:
            if not await self._fetch(key):
                raise _no_media(key) from None
        return await asyncio.to_thread(path.read_text)

    @asynccontextmanager
    async def open_spill(self, owner: str, bound: int = SPILL_BOUND) -> AsyncIterator[Spill]:
        """Open a new output that only the actor with the key `owner` can read; removed when the block fails.

        Raises:
            DiskError: it cannot even be begun.
        """
        spill_id = secrets.token_hex(8)
        path = self._spill_path(spill_id, owner)
        opened: list[BinaryIO] = []

        async def create() -> None:
            opened.append(await asyncio.to_thread(_create, path, buffering=0))

        try:
            with _in_words(self._spills):
                await finish_despite_cancel(
                    create(), "beginning a long output"
                )  # who is cut meanwhile leaves no file open
            yield Spill(spill_id, opened[0], bound)
            await asyncio.to_thread(opened[0].close)
            self._stamp(path)
        except BaseException:
            for file in opened:
                file.close()
                path.unlink(missing_ok=True)
            raise

    async def use_spill(self, spill_id: str, actor_key: str, reader: Callable[[BinaryIO], ResultT]) -> ResultT:
        """Return the result of `reader`, run in a thread, on the output `<id>` or `output:<id>`.

        Raises:
            ToolError: no such output, or it belongs to another person: one answer for both.
        """
        return await asyncio.to_thread(self._use_spill, spill_id, actor_key, reader)

    async def sweep(self, ttl: float, *, spill_ttl: float | None = None) -> int:
        """Remove media that were put more than `ttl` seconds ago, outputs after `spill_ttl` (default: the same).

        Returns the number of files removed.
        """
        media = await asyncio.to_thread(self._sweep, self._media, ttl)
        return media + await asyncio.to_thread(self._sweep, self._spills, ttl if spill_ttl is None else spill_ttl)

    async def old_media(self, until: float) -> set[str]:
        """Return keys of media that were last put before a moment."""
        old = await asyncio.to_thread(self._old_media, until)
        return old if self._shared is None else old | await self._shared.old(until)

    async def list_surplus(self, bound: int, spared: Set[str]) -> set[str]:
        """Return keys of the oldest media, without which `bound` bytes are left; none of them is `spared`."""
        return await asyncio.to_thread(self._list_surplus, bound, spared)

    async def remove_media(self, keys: Iterable[str], until: float) -> set[str]:
        """Remove media, but for those that were put (again) since a moment; returns these."""
        wanted = set(keys)
        left = await asyncio.to_thread(lambda: {key for key in wanted if not self._remove_media(key, until)})
        if self._shared is not None:
            await self._shared.drop(wanted - left, until)
        return left

    async def tidy(self, until: float) -> None:
        """Remove leftovers of a kill before a moment: files without their name, types without their file."""
        await asyncio.to_thread(self._tidy, until)

    async def remove_outputs(self, outputs: Iterable[tuple[str, str]]) -> None:
        """Remove long outputs, by their id and the key of the actor they belong to; those of others stay."""
        paths = [self._spill_path(bare, owner) for bare, owner in outputs if _SPILL_ID.fullmatch(bare)]
        await asyncio.to_thread(_unlink, paths)

    async def _fetch(self, key: str) -> bool:
        """Whether the folder has media by now that it lacked, or that were damaged: the database has them."""
        return self._shared is not None and _KEY.fullmatch(key) is not None and await self._shared.fetch(key)

    def _put(self, data: bytes, mime: str) -> str:
        key = hashlib.sha256(data).hexdigest()
        path = self._media / key
        with self._changing:
            # The type first: a key is never seen without it.
            replace_file(path.with_suffix(".type"), mime.encode())
            replace_file(path, data)
            self._stamp(path.with_suffix(".type"), path)
        return key

    def _retain(self, key: str) -> bool:
        path = self._media_path(key)
        with self._changing:
            if not path.exists():
                return False
            self._stamp(path.with_suffix(".type"), path)
        return True

    def _old_media(self, until: float) -> set[str]:
        old = set()
        for path in self._media.iterdir():
            with suppress(FileNotFoundError):  # another caller removed it just now
                if _KEY.fullmatch(path.name) and path.stat().st_mtime < until:
                    old.add(path.name)
        return old

    def _list_surplus(self, bound: int, spared: Set[str]) -> set[str]:
        found = list[tuple[float, int, str]]()
        for path in self._media.iterdir():
            with suppress(FileNotFoundError):  # another caller removed it just now
                if _KEY.fullmatch(path.name):
                    status = path.stat()
                    found.append((status.st_mtime, status.st_size, path.name))
        over, surplus = sum(size for _, size, _ in found) - bound, set[str]()
        for _, size, key in sorted(found):
            if over > 0 and key not in spared:
                surplus.add(key)
                over -= size
        return surplus

    def _remove_media(self, key: str, until: float) -> bool:
        path = self._media_path(key)
        with self._changing:
            if path.exists() and path.stat().st_mtime >= until:
                return False
            _unlink([path, path.with_suffix(".type")])
        return True

    def _tidy(self, until: float) -> None:
        for path in self._media.iterdir():
            if path.suffix not in (".type", ".tmp"):
                continue
            with self._changing, suppress(FileNotFoundError):
                half = path.suffix == ".tmp" or not path.with_suffix("").exists()
                if half and path.stat().st_mtime < until:
                    path.unlink()

    def _get(self, key: str) -> bytes:
        try:
            data = self._media_path(key).read_bytes()
        except FileNotFoundError:
            raise _no_media(key) from None
        if hashlib.sha256(data).hexdigest() != key:
            raise ToolError(f"damaged media: {key}")
        return data

    def _stamp(self, *paths: Path) -> None:
        # The sweep compares with this clock, not with the file system's.
        now = self._clock.now()
        for path in paths:
            os.utime(path, (now, now))

    def _media_path(self, key: str) -> Path:
        if not _KEY.fullmatch(key):
            raise _no_media(key)
        return self._media / key

    def _spill_path(self, spill_id: str, owner: str) -> Path:
        # The owner is part of the name: for other users the file does not exist.
        return self._spills / f"{spill_id}-{hashlib.sha256(owner.encode()).hexdigest()[:32]}"

    def _use_spill(self, spill_id: str, actor_key: str, reader: Callable[[BinaryIO], ResultT]) -> ResultT:
        bare = spill_id.removeprefix(SPILL_PREFIX)
        missing = ToolError(
            f"no such output: {SPILL_PREFIX}{bare[:80]} (outputs are kept for a while and for one person)"
        )
        if not _SPILL_ID.fullmatch(bare):
            raise missing
        try:
            file = self._spill_path(bare, actor_key).open("rb")
        except FileNotFoundError:
            raise missing from None
        with file:
            return reader(file)

    def _sweep(self, folder: Path, ttl: float) -> int:
        oldest = self._clock.now() - ttl
        removed = 0
        for path in folder.iterdir():
            try:
                if path.stat().st_mtime < oldest:
                    path.unlink()
                    removed += path.suffix != ".type"
            except FileNotFoundError:
                pass  # another sweep took it
        return removed


@asynccontextmanager
async def open_blobs(
    folder: Path, clock: Clock | None = None, shared: "SharedMedia | None" = None
) -> AsyncIterator[Blobs]:
    """Open the store below `folder`, which is made when missing. `shared`: the media that the database has.

    Raises:
        StateError: the folder cannot be made or used.
    """
    try:
        await asyncio.to_thread(_make_private, folder)
    except OSError as error:
        raise StateError(f"the media folder {folder} cannot be used: {error.strerror}") from error
    yield Blobs(folder, clock or RealClock(), shared)


def _make_private(folder: Path) -> None:
    for path in (folder, folder / "media", folder / "spills"):
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.chmod(0o700)


def _unlink(paths: Iterable[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


def _create(path: Path, buffering: int = -1) -> BinaryIO:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    return os.fdopen(descriptor, "wb", buffering)


def _write_all(file: BinaryIO, data: bytes) -> int:
    """Write to a file without a buffer, which may take less per call than it is given; returns how much that was."""
    left = memoryview(data)
    while left:
        left = left[file.write(left) :]
    return len(data)


@contextmanager
def _in_words(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise disk_error(error, folder, "written") from error


def _no_media(key: str) -> ToolError:
    return ToolError(f"no such media: {key[:80]}")
