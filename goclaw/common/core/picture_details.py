"""Pictures without their place, camera, time and author: parts that are not seen go, and nothing is decoded.

Only parts that are known to be of the picture itself stay: colours, and which way is up.
"""

import re
import struct
import zlib

_ORIENTATION = 0x0112
_MARKER = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]")
"""Ends the packed pixels of a JPEG (ITU T.81, B.1.1.5)."""
_MAX_PARTS = 10_000
_COLOURS = (b"ICC_PROFILE\0", b"Adobe", b"JFIF\0")
_SEEN = frozenset((b"tRNS", b"gAMA", b"cHRM", b"sRGB", b"iCCP", b"cICP", b"sBIT", b"bKGD", b"pHYs"))
_FRAMES = frozenset((b"acTL", b"fcTL", b"fdAT"))
"""PNG's further chunks that are of the picture; those that it cannot be shown without begin with a capital."""


def without_details(data: bytes, mime: str) -> tuple[bytes, int]:
    """Return a picture without its details, and its orientation as Exif numbers it: 1 is upright.

    The pixels stay as they are packed. A picture whose parts cannot be followed comes back as it is.
    """
    parts_of = _OF.get(mime)
    try:
        return parts_of(data) if parts_of else (data, 1)
    except (ValueError, IndexError, struct.error):
        return data, 1


def _jpeg(data: bytes) -> tuple[bytes, int]:
    kept, at, orientation = [data[:2]], 2, 1
    for _ in range(_MAX_PARTS):
        while data[at + 1] == 0xFF:
            at += 1
        marker, start = data[at + 1], at
        if data[at] != 0xFF:
            raise ValueError
        if marker == 0xD9:
            turn = b"Exif\0\0" + _exif(orientation)
            kept[1:1] = [b"\xff\xe1" + struct.pack(">H", len(turn) + 2) + turn] if orientation != 1 else []
            return b"".join((*kept, b"\xff\xd9")), orientation  # more may follow: previews, films
        at += 2 + struct.unpack_from(">H", data, at + 2)[0]
        body = data[start + 4 : at]
        if marker == 0xE1 and body.startswith(b"Exif\0\0"):
            orientation = _orientation(body[6:])
        if marker == 0xDA:
            end = _MARKER.search(data, at)
            at = end.start() if end else len(data)
            kept.append(data[start:at])
            if not end:
                data += b"\xff\xd9"
        elif not (marker == 0xFE or 0xE0 <= marker <= 0xEF) or body.startswith(_COLOURS):
            kept.append(data[start:at])
    raise ValueError


def _png(data: bytes) -> tuple[bytes, int]:
    kept, at, orientation, name = [data[:8]], 8, 1, b""
    for _ in range(_MAX_PARTS * 10):
        length, name = struct.unpack_from(">I4s", data, at)
        if name == b"eXIf":
            orientation = _orientation(data[at + 8 : at + 8 + length])
        if name[:1].isupper() or name in _SEEN or name in _FRAMES:
            kept.append(data[at : at + 12 + length])
        at += 12 + length
        if name == b"IEND":
            turn = b"eXIf" + _exif(orientation)
            chunk = struct.pack(">I", len(turn) - 4) + turn + struct.pack(">I", zlib.crc32(turn))
            kept[2:2] = [chunk] if orientation != 1 else []
            return b"".join(kept), orientation
    raise ValueError


def _webp(data: bytes) -> tuple[bytes, int]:
    kept, at, orientation = list[bytes](), 12, 1
    end = min(len(data), 8 + struct.unpack_from("<I", data, 4)[0])
    while at + 8 <= end and len(kept) < _MAX_PARTS:
        name, length = struct.unpack_from("<4sI", data, at)
        body = data[at + 8 : at + 8 + length + length % 2]
        if name == b"EXIF":
            orientation = _orientation(body.removeprefix(b"Exif\0\0"))
        elif name in (b"VP8X", b"VP8 ", b"VP8L", b"ANIM", b"ANMF", b"ALPH", b"ICCP"):
            kept.append(data[at : at + 8] + body)
        at += 8 + length + length % 2
    if kept and kept[0].startswith(b"VP8X"):
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


_OF = {"image/jpeg": _jpeg, "image/png": _png, "image/webp": _webp}
