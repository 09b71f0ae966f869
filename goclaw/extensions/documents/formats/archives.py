"""ZIP and TAR: a list of the files; with one named, that one is read. Nothing is unpacked to the disk."""

import gzip
import io
import tarfile
from collections.abc import Iterable
from typing import BinaryIO

from goclaw.extensions.documents.formats.answer import Answer, Refused, Wanted, add_flow
from goclaw.extensions.documents.formats.markup import Package
from goclaw.extensions.documents.worker import extract_inner

MAX_MEMBER = 128 << 20
"""Bytes of a file that are unpacked into the memory."""
_MAX_LISTED = 20_000


def extract_package(package: Package, wanted: Wanted, answer: Answer) -> None:
    """Read a zip file, or a file in it."""
    infos = package.zip.infolist()
    if wanted.member:
        _find(wanted.member, (info.filename for info in infos))
        extract_inner(io.BytesIO(package.unpack(wanted.member, MAX_MEMBER)), wanted, answer, wanted.member)
        return
    answer.kind = "ZIP archive"
    _list(answer, wanted, [(info.filename, info.file_size, "") for info in infos if not info.is_dir()])


def extract(file: BinaryIO, wanted: Wanted, answer: Answer) -> None:
    """Read a TAR archive, compressed or not; a single compressed file is read by its own format."""
    try:
        _extract_tar(file, wanted, answer)
    except tarfile.ReadError:
        file.seek(0)
        if file.read(2) != b"\x1f\x8b":
            raise Refused("is damaged: its list of files cannot be read") from None
        file.seek(0)
        extract_inner(io.BytesIO(_unpack(file)), wanted, answer, wanted.name.removesuffix(".gz"))
    except (EOFError, OSError, tarfile.TarError):
        raise Refused("is damaged: it ends too early, or cannot be unpacked") from None


def _extract_tar(file: BinaryIO, wanted: Wanted, answer: Answer) -> None:
    with tarfile.open(fileobj=file, mode="r:*") as archive:
        listed = []
        for info in archive:
            if wanted.member and info.name == wanted.member:
                member = archive.extractfile(info) if info.isreg() else None
                if member is None:
                    raise Refused(f"has {wanted.member[:100]} as a link or a device, which is not followed")
                if info.size > MAX_MEMBER:
                    raise Refused(f"is not opened: {wanted.member[:100]} in it has more than {MAX_MEMBER >> 20} MB")
                extract_inner(io.BytesIO(member.read()), wanted, answer, wanted.member)
                return
            if not info.isdir():
                listed.append((info.name, info.size, "" if info.isreg() else f", a link to {info.linkname[:200]}"))
            if len(listed) > _MAX_LISTED:
                break
    _find(wanted.member, (name for name, *_ in listed)) if wanted.member else None
    answer.kind = "TAR archive"
    _list(answer, wanted, listed)


def _unpack(file: BinaryIO) -> bytes:
    with gzip.open(file) as packed:
        data = packed.read(MAX_MEMBER + 1)
    if len(data) > MAX_MEMBER:
        raise Refused(f"is not opened: it unpacks to more than {MAX_MEMBER >> 20} MB")
    return data


def _find(member: str, names: Iterable[str]) -> None:
    """Raise Refused where an archive has no such file."""
    known = list(names)
    if member not in known:
        raise Refused(f"has no file {member[:100]!r}; it has {', '.join(known)[:500]}")


def _list(answer: Answer, wanted: Wanted, listed: list[tuple[str, int, str]]) -> None:
    answer.note(f"{len(listed):,} file{'' if len(listed) == 1 else 's'}; to read one give its name as member")
    if len(listed) > _MAX_LISTED:
        answer.note(f"only the first {_MAX_LISTED:,} are listed")
    lines = (f"{name} ({size:,} bytes{remark})" for name, size, remark in listed[:_MAX_LISTED])
    add_flow(answer, wanted, ((0, " ".join(line.split())) for line in lines))
