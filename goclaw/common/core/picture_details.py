"""Pictures without their place, camera, time and author: parts that are not seen go, and nothing is decoded.

Only parts that are known to be of the picture itself stay: colours, and which way is up.
"""

import re
import struct
import zlib

from goclaw.common.core.pictures import ALONE

_ORIENTATION = 0x0112
_MARKER = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]")
"""Ends the packed pixels of a JPEG (ITU T.81, B.1.1.5)."""
_PART = re.compile(rb"\xff[^\x00\xff]")
"""Begins a part of a JPEG; decoders skip what is between parts."""
_MAX_PARTS = 10_000
_COLOURS = {0xE2: b"ICC_PROFILE\0", 0xEE: b"Adobe"}
_IEND = b"\0\0\0\0IEND\xaeB`\x82"
_SEEN = frozenset((b"tRNS", b"gAMA", b"cHRM", b"sRGB", b"iCCP", b"cICP", b"sBIT", b"bKGD", b"pHYs"))
_FRAMES = frozenset((b"acTL", b"fcTL", b"fdAT"))
"""PNG's further chunks that are of the picture; those that it cannot be shown without begin with a capital."""


def without_details(data: bytes) -> tuple[bytes, int]:
    """Return a picture without its details, and its orientation as Exif numbers it: 1 is upright.

    The pixels stay as they are packed. A picture ends where its parts cannot be followed any more. What does not begin
    as a JPEG, PNG or WebP comes back as it is.
    """
    parts_of = next((parts_of for begins, parts_of in _OF.items() if re.match(begins, data)), None)
    return parts_of(data) if parts_of else (data, 1)


def _jpeg(data: bytes) -> tuple[bytes, int]:
    kept, at, orientation = [data[:2]], 2, 1
    for _ in range(_MAX_PARTS):
        part = _PART.search(data, at)
        if part is None or part[0] == b"\xff\xd9":
            break  # more may follow the end: previews, films
        start, at, marker = part.start(), part.end(), part[0][1]
        if marker in ALONE:
            continue
        at += int.from_bytes(data[at : at + 2])
        body = data[start + 4 : at]
        if marker == 0xE1 and body.startswith(b"Exif\0\0"):
            orientation = _orientation(body[6:])
        if marker == 0xDA:
            end = _MARKER.search(data, at)
            at = end.start() if end else len(data)
        if marker == 0xE0 and body.startswith(b"JFIF\0"):
            kept.append(b"\xff\xe0\0\x10" + body[:12].ljust(14, b"\0"))  # without its preview
        elif 0xC0 <= marker < 0xE0 or (marker in _COLOURS and body.startswith(_COLOURS[marker])):
            kept.append(data[start:at])
    turn = b"Exif\0\0" + _exif(orientation)
    kept[1:1] = [b"\xff\xe1" + struct.pack(">H", len(turn) + 2) + turn] if orientation != 1 else []
    return b"".join((*kept, b"\xff\xd9")), orientation


def _png(data: bytes) -> tuple[bytes, int]:
    kept, at, orientation, name = [data[:8]], 8, 1, b""
    for _ in range(_MAX_PARTS * 10):
        if len(data) < at + 8 or name == b"IEND":
            break
        length, name = struct.unpack_from(">I4s", data, at)
        if name == b"eXIf":
            orientation = _orientation(data[at + 8 : at + 8 + length])
        if (name[:1].isupper() and name != b"IEND") or name in _SEEN or name in _FRAMES:
            kept.append(data[at : at + 12 + length])
        at += 12 + length
    turn = b"eXIf" + _exif(orientation)
    chunk = struct.pack(">I", len(turn) - 4) + turn + struct.pack(">I", zlib.crc32(turn))
    kept[2:2] = [chunk] if orientation != 1 else []
    return b"".join((*kept, _IEND)), orientation


def _webp(data: bytes) -> tuple[bytes, int]:
    kept, at, orientation = list[bytes](), 12, 1
    end = min(len(data), 8 + int.from_bytes(data[4:8], "little"))
    while at + 8 <= end and len(kept) < _MAX_PARTS:
        name, length = struct.unpack_from("<4sI", data, at)
        body = data[at + 8 : at + 8 + length + length % 2]
        if name == b"EXIF":
            orientation = _orientation(body.removeprefix(b"Exif\0\0"))
        elif name in (b"VP8X", b"VP8 ", b"VP8L", b"ANIM", b"ANMF", b"ALPH", b"ICCP"):
            kept.append(data[at : at + 8] + body)
        at += 8 + length + length % 2
    if kept and kept[0].startswith(b"VP8X") and len(kept[0]) > 8:
        head = bytearray(kept[0])
        head[8] = head[8] & ~0x0C | (0x08 if orientation != 1 else 0)  # whether Exif and XMP follow
        turn = _exif(orientation)
        kept = [bytes(head), *kept[1:], *([struct.pack("<4sI", b"EXIF", len(turn)) + turn] if orientation != 1 else [])]
    body = b"WEBP" + b"".join(kept)
    return b"RIFF" + struct.pack("<I", len(body)) + body, orientation


def _orientation(tiff: bytes) -> int:
    """Return the orientation that Exif states in its first directory; 1: none that there is."""
    order = "<" if tiff[:2] == b"II" else ">"
    try:
        (place,) = struct.unpack_from(f"{order}I", tiff, 4)
        (count,) = struct.unpack_from(f"{order}H", tiff, place)
        for at in range(place + 2, place + 2 + 12 * min(count, 500), 12):
            tag, kind, _, value = struct.unpack_from(f"{order}HHIH", tiff, at)
            if (tag, kind) == (_ORIENTATION, 3) and 1 <= value <= 8:
                return int(value)
    except struct.error:
        pass
    return 1


def _exif(orientation: int) -> bytes:
    return struct.pack(">2sHIHHHIHHI", b"MM", 42, 8, 1, _ORIENTATION, 3, 1, orientation, 0, 0)


_OF = {rb"\xff\xd8\xff": _jpeg, rb"\x89PNG\r\n\x1a\n": _png, rb"(?s)RIFF....WEBP": _webp}
