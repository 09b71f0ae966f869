"""Reading of archives of any origin.

Names that lead elsewhere, links, devices, members that are twice there or missing are refused, and nothing is written
outside the folder that an archive is unpacked into. Where things belong afterwards is `restore`'s business.
"""

import gzip
import hashlib
import io
import os
import shutil
import tarfile
import zlib
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO

from pydantic import ValidationError

from goclaw.backup.manifest import CODEC, FORMAT, MANIFEST, MAX_NAME, ArchiveMember, Manifest, as_text, is_plain
from goclaw.errors import StateError

MAX_MANIFEST_BYTES = 256 << 20
MAX_MEMBERS = 1_000_000
"""Limits: anything larger is no backup of ours, and would fill the memory."""
MAX_AT_ONCE = 1 << 20
"""Bytes that are read at once. A larger header is an attempt to fill the memory."""
SPARE = 100 << 20
"""Bytes of the disk that unpacking leaves free: others need some, too."""

_BROKEN = (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError, ValueError, OverflowError)
"""Errors of the standard library for bytes that are no archive."""


def read_archive(path: Path, into: Path | None = None) -> Manifest:
    """Check an archive from its first byte to its last, and unpack it into the empty, private folder `into` if given.

    Raises:
        StateError: it is damaged, no backup, of a newer GoClaw, or holds what no backup holds; or the disk is full.
    """
    try:
        with path.open("rb") as file, gzip.GzipFile(fileobj=file) as zipped:
            reader = _Reader(into)
            with tarfile.open(fileobj=_Bounded(zipped), mode="r:") as tar:
                while info := tar.next():
                    reader.take(tar, info)
                    tar.members = []  # type: ignore[attr-defined]  # see `pack`
            # The end mark is followed by padding, and that by the checksum of gzip.
            if len(zipped.read(MAX_AT_ONCE)) == MAX_AT_ONCE:
                raise _Refused("more follows behind its end")
        return reader.finish()
    except (_Refused, *_BROKEN) as error:
        raise StateError(f"{path}: damaged, or no backup of GoClaw: {str(error) or 'it is cut off'}") from error
    except OSError as error:
        raise StateError(f"{path}: cannot be read: {error.strerror or error}") from error


class _Refused(Exception):
    """The archive holds what no backup holds."""


class _Bounded(io.RawIOBase):
    """A file that refuses to read much at once: tarfile reads each header whole, however long it says it is."""

    def __init__(self, inner: gzip.GzipFile) -> None:
        self._inner = inner

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= MAX_AT_ONCE:
            raise _Refused("it has a header of absurd length")
        return self._inner.read(size)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self._inner.seek(offset, whence)

    def tell(self) -> int:
        return self._inner.tell()


class _Reader:
    """Takes one member after the other, and knows at the end whether that was all."""

    def __init__(self, into: Path | None) -> None:
        self._into = into
        self._found: dict[str, ArchiveMember] = {}
        self._folders: set[str] = set()
        self._manifest: Manifest | None = None

    def take(self, tar: tarfile.TarFile, info: tarfile.TarInfo) -> None:
        """Check one member and unpack it; raises `_Refused` for what no backup holds."""
        name = as_text(info.name)
        if not is_plain(info.name):
            raise _Refused(f"it has a member with the name {name[:200]!r}")
        if name in self._found or name in self._folders or self._manifest:
            raise _Refused(f"{name!r} is there twice, or behind the manifest")
        if len(self._found) + len(self._folders) >= MAX_MEMBERS:
            raise _Refused(f"it has more than {MAX_MEMBERS:,} files")
        content = tar.extractfile(info) if info.isreg() and info.sparse is None and info.size >= 0 else None
        if info.isdir():
            self._folders.add(name)
            self._make_folder(info.name, info.mode)
        elif content is None:
            raise _Refused(f"{name!r} is neither a file nor a folder")
        elif name == MANIFEST:
            self._manifest = _manifest_in(content, info.size)
        else:
            self._found[name] = self._take_file(info, content)

    def finish(self) -> Manifest:
        """Return the manifest, if all that it lists was there and nothing else; makes the links."""
        if self._manifest is None:
            raise _Refused("it has no manifest at its end")
        listed = self._manifest.members
        for name in sorted(listed.keys() | self._found.keys()):
            if name not in self._found:
                raise _Refused(f"{name!r} is missing")
            if self._found[name] != listed.get(name):
                raise _Refused(f"{name!r} is not what the manifest says")
        self._make_links(self._manifest.links)
        return self._manifest

    def _make_links(self, links: dict[str, str]) -> None:
        files = self._found.keys() | links.keys()
        folders = self._folders | {above for name in files for above in _above(name)} if links else set()
        for name, target in links.items():
            if not is_plain(name) or name in self._found or name in folders or files & _above(name):
                raise _Refused(f"it has a link with the name {name[:200]!r}")
            if not target or "\0" in target or len(target) > MAX_NAME:
                raise _Refused(f"the link {name!r} points nowhere")
            self._make_link(name, target)

    def _take_file(self, info: tarfile.TarInfo, content: IO[bytes]) -> ArchiveMember:
        digest, size = hashlib.sha256(), 0
        with self._create(info) as file:
            while chunk := content.read(MAX_AT_ONCE):
                digest.update(chunk)
                size += len(chunk)
                file.write(chunk)
        if self._into:
            os.utime(self._into / info.name, (info.mtime, info.mtime))
        return ArchiveMember(size, digest.hexdigest())

    def _create(self, info: tarfile.TarInfo) -> BinaryIO:
        if self._into is None:
            return Path(os.devnull).open("wb")
        free = shutil.disk_usage(self._into).free
        if info.size > free - SPARE:
            raise StateError(
                f"{self._into.parent}: too little room for the backup: {info.name!r} has {info.size:,} bytes, "
                f"{free:,} are free, and {SPARE:,} of those stay free for others. Make room and try again."
            )
        path = self._into / info.name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(path, flags, 0o600)
        os.fchmod(descriptor, info.mode & 0o777)
        return os.fdopen(descriptor, "wb")

    def _make_folder(self, name: str, mode: int) -> None:
        if self._into:
            path = self._into / name
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.chmod(mode & 0o777 | 0o700)

    def _make_link(self, name: str, target: str) -> None:
        if self._into:
            path = self._into / name
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.symlink_to(target)


def _above(name: str) -> set[str]:
    """Return the folders that a member lies in."""
    return {str(parent) for parent in PurePosixPath(name).parents}


def _manifest_in(content: IO[bytes], size: int) -> Manifest:
    if size > MAX_MANIFEST_BYTES:
        raise _Refused("its manifest is of absurd length")
    try:
        manifest = CODEC.from_json(content.read())
    except ValidationError:
        raise _Refused("its manifest cannot be read") from None
    if manifest.format != FORMAT:
        raise StateError(f"the backup was made by GoClaw {manifest.goclaw}, in another form. Install that version.")
    return manifest
