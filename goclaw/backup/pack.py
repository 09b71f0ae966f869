"""Writes archives. What belongs into one is `collect`'s business."""

import gzip
import hashlib
import io
import os
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, BinaryIO

from goclaw.backup.manifest import CODEC, MANIFEST, ArchiveMember, Manifest, as_text

COMPRESSION = 6
"""Level of gzip: level 1 is 1.6 times as fast and leaves 5 % more (200 MB of conversations)."""
CHUNK = 1 << 20
SPOOLED = 8 << 20
"""Bytes of one file that are kept in memory while it is read; a longer one goes to the disk meanwhile."""


class Packer:
    """Writes one archive. Made by `pack`."""

    def __init__(self, tar: tarfile.TarFile, manifest: Manifest, spool_folder: Path) -> None:
        self._tar = tar
        self._manifest = manifest
        self._spool_folder = spool_folder

    def add(self, name: str, source: BinaryIO, mode: int, mtime: float, most: int = sys.maxsize) -> str:
        """Add a file of at most `most` bytes and return its hash.

        It may grow, shrink or change meanwhile: what was read is what is kept.
        """
        digest = hashlib.sha256()
        with tempfile.SpooledTemporaryFile(SPOOLED, "w+b", dir=str(self._spool_folder)) as spool:
            while chunk := source.read(min(CHUNK, most - spool.tell())):
                digest.update(chunk)
                spool.write(chunk)
            size = spool.tell()
            spool.seek(0)
            self._put(_info(name, mode, mtime, size), spool)
        self._manifest.members[as_text(name)] = ArchiveMember(size, digest.hexdigest())
        return digest.hexdigest()

    def add_bytes(self, name: str, content: bytes, mtime: float) -> None:
        """Add a private file whose content is at hand."""
        self.add(name, io.BytesIO(content), 0o600, mtime)

    def add_path(self, name: str, path: Path) -> str:
        """Add a private file of the state folder and return its hash."""
        with path.open("rb") as file:
            return self.add(name, file, 0o600, os.fstat(file.fileno()).st_mtime)

    def add_folder(self, name: str, mode: int, mtime: float) -> None:
        """Add a folder, so that an empty one comes back, too."""
        info = _info(name, mode, mtime)
        info.type = tarfile.DIRTYPE
        self._put(info)

    def finish(self) -> None:
        """Add the manifest."""
        text = CODEC.to_json(self._manifest).encode()
        self._put(_info(MANIFEST, 0o600, self._manifest.made_at, len(text)), io.BytesIO(text))

    def _put(self, info: tarfile.TarInfo, content: IO[bytes] | None = None) -> None:
        self._tar.addfile(info, content)
        # Kept only for queries that we never make; a million files are a gigabyte of it.
        self._tar.members = []  # type: ignore[attr-defined]  # not in the stubs, though used by tarfile's own recipes


@contextmanager
def pack(path: Path, manifest: Manifest) -> Iterator[Packer]:
    """Write a new archive (mode 0600) at `path`; it is whole and on the disk when the block has ended.

    Raises:
        OSError: the disk is full, for one.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        with (
            gzip.GzipFile("", "wb", COMPRESSION, file, manifest.made_at) as zipped,
            tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as tar,
        ):
            packer = Packer(tar, manifest, path.parent)
            yield packer
            packer.finish()
        file.flush()
        os.fsync(file.fileno())


def _info(name: str, mode: int, mtime: float, size: int = 0) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.mode, info.mtime, info.size = mode, int(mtime), size
    return info
