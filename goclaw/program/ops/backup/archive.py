"""Archives: the manifest with the hash of every file, writing one, and reading one of any origin.

Reading refuses names that lead elsewhere, links, devices, members that are twice there or missing, and nothing is
written outside the folder that an archive is unpacked into. What belongs into one is `collect`'s business, where things
belong afterwards `restore`'s.
"""

import gzip
import hashlib
import hmac
import io
import os
import shutil
import sys
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO

from pydantic import ValidationError

from goclaw import __version__
from goclaw.common.core import catalog
from goclaw.common.core.codec import Codec
from goclaw.common.core.plugins import load
from goclaw.common.core.records import record
from goclaw.errors import StateError

FORMAT = 1
MANIFEST = "manifest.json"
"""The last member: it is written when all hashes are known."""
DATABASE, REGISTRIES, CONFIG, USERS, PLUGINS = "goclaw.db", "registry.db", "config.yaml", "users.json", "plugins.json"
"""Members at the top of an archive. The last is the record of added plugins, which the next start installs."""
MEDIA, NOTES, SECRETS, TOOLS, PROMPT_FILES = "media", "notes", "secrets", "tools", "prompt-files"
"""Folders there. `tools` holds one-file plugins, `prompt-files` a file for each workspace in the archive, under its
name there, `/` as `-`."""
WORKSPACE, WORKSPACES = "workspace", "workspaces"
"""The configured workspace, and a folder with one for each workspace that only a user has."""
MAX_NAME = 4_096
"""PATH_MAX of Linux."""

COMPRESSION = 6
"""Level of gzip: level 1 is 1.6 times as fast and leaves 5 % more (200 MB of conversations)."""
CHUNK = 1 << 20
SPOOLED = 8 << 20
"""Bytes of one file that are kept in memory while it is read; a longer one goes to the disk meanwhile."""

MAX_MANIFEST_BYTES = 256 << 20
MAX_MEMBERS = 1_000_000
"""Limits: anything larger is no backup of ours, and would fill the memory."""
MAX_AT_ONCE = 1 << 20
"""Bytes that are read at once. A larger header is an attempt to fill the memory."""
SPARE = 100 << 20
"""Bytes of the disk that unpacking leaves free: others need some, too."""

_BROKEN = (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError, ValueError, OverflowError)
"""Errors of the standard library for bytes that are no archive."""


@record
class RegistryFilePart:
    """The line `file` of `catalog.REGISTRIES`: what a backup does with the file that registries keep."""

    copy: Callable[[Path, Path], bool]
    """Copies and checks it; returns whether there was one. Raises StateError."""
    check: Callable[[Path], None]
    """Raises StateError: it is damaged, or of a newer GoClaw."""


def registry_file() -> RegistryFilePart:
    """Load the part."""
    return load(catalog.REGISTRIES["file"], RegistryFilePart)


@record
class ArchiveMember:
    """One file of the archive."""

    size: int
    sha256: str


@dataclass(slots=True)
class Manifest:
    """The content of an archive and the time when it was made."""

    made_at: float
    schema: int
    """The version of the database."""
    format: int = FORMAT
    goclaw: str = __version__
    members: dict[str, ArchiveMember] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    """Symbolic links by name, with what they point to: made last, so that nothing is ever written through one."""
    own_workspaces: dict[str, str] = field(default_factory=dict)
    """Folders below `workspaces`, each with the key of the user whose own workspace it is."""
    config_without: list[str] = field(default_factory=list)
    """Keys of the configuration whose secrets were left out."""
    mac: str = ""
    """The seal of the installation that made it (`compute_mac`)."""

    def within(self, folder: str) -> list[ArchiveMember]:
        """Return the files below a folder of the archive."""
        return [member for name, member in self.members.items() if name.startswith(f"{folder}/")]


MANIFEST_CODEC: Codec[Manifest] = Codec(Manifest)


def compute_mac(manifest: Manifest, key: bytes) -> str:
    """Return the seal of a manifest, and so of every file that it lists."""
    return hmac.new(key, MANIFEST_CODEC.to_json(replace(manifest, mac="")).encode(), "sha256").hexdigest()


def verify_seal(manifest: Manifest, key: bytes) -> bool:
    """Whether this key sealed it."""
    return bool(key) and hmac.compare_digest(manifest.mac.encode(), compute_mac(manifest, key).encode())


def is_plain(name: str) -> bool:
    """Whether a name leads downwards, step by step, and nowhere else."""
    return 0 < len(name) <= MAX_NAME and "\0" not in name and not {"", ".", ".."} & set(name.split("/"))


def as_text(name: str) -> str:
    """Return a file's name for the manifest: bytes that are no UTF-8 are written out."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


class Packer:
    """Writes one archive. Made by `pack`."""

    def __init__(self, tar: tarfile.TarFile, manifest: Manifest, spool_folder: Path, key: bytes) -> None:
        self._tar = tar
        self._manifest = manifest
        self._spool_folder = spool_folder
        self._key = key

    def add(self, name: str, source: BinaryIO, mode: int, mtime: float, most: int = sys.maxsize) -> str:
        """Add a file of at most `most` bytes and return its hash.

        It may grow, shrink or change meanwhile: the bytes read are the bytes kept.
        """
        digest = hashlib.sha256()
        with tempfile.SpooledTemporaryFile(SPOOLED, "w+b", dir=str(self._spool_folder)) as spool:
            while chunk := source.read(min(CHUNK, most - spool.tell())):
                digest.update(chunk)
                spool.write(chunk)
            size = spool.tell()
            spool.seek(0)
            self._put(_tar_info(name, mode, mtime, size), spool)
        self._manifest.members[as_text(name)] = ArchiveMember(size, digest.hexdigest())
        return digest.hexdigest()

    def add_bytes(self, name: str, content: bytes, mtime: float) -> None:
        """Add a private file from content at hand."""
        self.add(name, io.BytesIO(content), 0o600, mtime)

    def add_path(self, name: str, path: Path) -> str:
        """Add a private file of the state folder and return its hash."""
        with path.open("rb") as file:
            return self.add(name, file, 0o600, os.fstat(file.fileno()).st_mtime)

    def add_folder(self, name: str, mode: int, mtime: float) -> None:
        """Add a folder, so that an empty one comes back, too."""
        info = _tar_info(name, mode, mtime)
        info.type = tarfile.DIRTYPE
        self._put(info)

    def finish(self) -> None:
        """Add the manifest, sealed where there is a key."""
        self._manifest.mac = compute_mac(self._manifest, self._key) if self._key else ""
        text = MANIFEST_CODEC.to_json(self._manifest).encode()
        self._put(_tar_info(MANIFEST, 0o600, self._manifest.made_at, len(text)), io.BytesIO(text))

    def _put(self, info: tarfile.TarInfo, content: IO[bytes] | None = None) -> None:
        self._tar.addfile(info, content)
        # Kept only for queries that we never make; a million files are a gigabyte of it.
        self._tar.members = []  # type: ignore[attr-defined]  # not in the stubs, though used by tarfile's own recipes


@contextmanager
def pack(path: Path, manifest: Manifest, key: bytes = b"") -> Iterator[Packer]:
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
            packer = Packer(tar, manifest, path.parent, key)
            yield packer
            packer.finish()
        file.flush()
        os.fsync(file.fileno())


def _tar_info(name: str, mode: int, mtime: float, size: int = 0) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.mode, info.mtime, info.size = mode, int(mtime), size
    return info


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
                    reader.unpack(tar, info)
                    tar.members = []  # type: ignore[attr-defined]  # see `pack`
            # The end mark is followed by padding, and that by the checksum of gzip.
            if len(zipped.read(MAX_AT_ONCE)) == MAX_AT_ONCE:
                raise _Refused("data follow after its end")
        return reader.finish()
    except (_Refused, *_BROKEN) as error:
        raise StateError(f"{path}: damaged, or not a GoClaw backup: {str(error) or 'it is incomplete'}") from error
    except OSError as error:
        raise StateError(f"{path}: cannot be read: {error.strerror or error}") from error


class _Refused(Exception):
    """The archive holds what no backup holds."""


class _Bounded(io.RawIOBase):
    """A file that refuses to read much at a time: tarfile reads each header whole, however long it says it is."""

    def __init__(self, inner: gzip.GzipFile) -> None:
        self._inner = inner

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= MAX_AT_ONCE:
            raise _Refused("a header is far too long")
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

    def unpack(self, tar: tarfile.TarFile, info: tarfile.TarInfo) -> None:
        """Check one member and unpack it; raises `_Refused` for what no backup holds."""
        name = as_text(info.name)
        if not is_plain(info.name):
            raise _Refused(f"it contains an invalid name {name[:200]!r}")
        if name in self._found or name in self._folders or self._manifest:
            raise _Refused(f"{name!r} occurs twice, or after the manifest")
        if len(self._found) + len(self._folders) >= MAX_MEMBERS:
            raise _Refused(f"it has more than {MAX_MEMBERS:,} files")
        content = tar.extractfile(info) if info.isreg() and info.sparse is None and info.size >= 0 else None
        if info.isdir():
            self._folders.add(name)
            if self._into:
                folder = self._into / info.name
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                folder.chmod(info.mode & 0o777 | 0o700)
        elif content is None:
            raise _Refused(f"{name!r} is neither a file nor a folder")
        elif name == MANIFEST:
            self._manifest = _manifest_in(content, info.size)
        else:
            self._found[name] = self._unpack_file(info, content)

    def finish(self) -> Manifest:
        """Return the manifest, if all that it lists was there and nothing else; makes the links."""
        if self._manifest is None:
            raise _Refused("it has no manifest at its end")
        listed = self._manifest.members
        for name in sorted(listed.keys() | self._found.keys()):
            if name not in self._found:
                raise _Refused(f"{name!r} is missing")
            if self._found[name] != listed.get(name):
                raise _Refused(f"{name!r} does not match the manifest")
        self._make_links(self._manifest.links)
        return self._manifest

    def _make_links(self, links: dict[str, str]) -> None:
        files = self._found.keys() | links.keys()
        folders = self._folders | {above for name in files for above in _above(name)} if links else set()
        for name, target in links.items():
            if not is_plain(name) or name in self._found or name in folders or files & _above(name):
                raise _Refused(f"it contains a link with the invalid name {name[:200]!r}")
            if not target or "\0" in target or len(target) > MAX_NAME:
                raise _Refused(f"the link {name!r} points nowhere")
            if self._into:
                path = self._into / name
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                path.symlink_to(target)

    def _unpack_file(self, info: tarfile.TarInfo, content: IO[bytes]) -> ArchiveMember:
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
                f"{self._into.parent}: too little space for the backup: {info.name!r} has {info.size:,} bytes, "
                f"{free:,} bytes are free, and {SPARE:,} of them must stay free. Make room and try again."
            )
        path = self._into / info.name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(path, flags, 0o600)
        os.fchmod(descriptor, info.mode & 0o777)
        return os.fdopen(descriptor, "wb")


def _above(name: str) -> set[str]:
    """Return the folders that a member lies in."""
    return {str(parent) for parent in PurePosixPath(name).parents}


def _manifest_in(content: IO[bytes], size: int) -> Manifest:
    if size > MAX_MANIFEST_BYTES:
        raise _Refused("its manifest is far too long")
    try:
        manifest = MANIFEST_CODEC.from_json(content.read())
    except ValidationError:
        raise _Refused("its manifest cannot be read") from None
    if manifest.format != FORMAT:
        raise StateError(f"GoClaw {manifest.goclaw} made this backup in another format. Install that version.")
    return manifest
