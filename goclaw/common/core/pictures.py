"""Detection of pictures that providers accept, by their format. Nothing is decoded.

A provider refuses a request with any other data, and every later one of that conversation, which holds it too. So a
picture has to be valid: whole, and of a size that models accept.
"""

import struct
import zlib
from collections.abc import Iterator

MAX_SIDE = 8_000
"""Pixels (Anthropic, "Vision": 8000x8000; others shrink what is larger)."""
_PNG = b"\x89PNG\r\n\x1a\n"
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""JPEG's markers that say how large the picture is (ITU T.81, table B.1)."""
ALONE = frozenset((0x01, *range(0xD0, 0xD9)))
"""JPEG's markers without a length."""


def fault_of(data: bytes, mime: str) -> str:
    """Return why this is no valid picture of that kind, in words; empty: it is one."""
    try:
        width, height = _SIZES[mime](data)
    except (ValueError, IndexError, struct.error):
        return "it is damaged or cut off, or something else that begins like a picture"
    except KeyError:
        return f"models take no {mime}"
    if not width or not height:
        return "it has no width or no height"
    if max(width, height) > MAX_SIDE:
        return f"it has {width:,} x {height:,} pixels, at most {MAX_SIDE:,} on a side are taken; make it smaller"
    return ""


def _png(data: bytes) -> tuple[int, int]:
    chunks = list(_chunks(data))
    kinds = [kind for kind, _ in chunks]
    if kinds[0] != b"IHDR" or kinds[-1] != b"IEND" or b"IDAT" not in kinds:
        raise ValueError
    width, height = struct.unpack(">II", chunks[0][1][:8])
    return width, height


def _chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield every part of a PNG up to its end, with its checksum looked at."""
    at, kind = len(_PNG), b""
    while kind != b"IEND":
        length, kind = struct.unpack_from(">I4s", data, at)
        body = data[at + 8 : at + 8 + length]
        (checksum,) = struct.unpack_from(">I", data, at + 8 + length)
        if zlib.crc32(kind + body) != checksum:
            raise ValueError
        yield kind, body
        at += 12 + length


def _gif(data: bytes) -> tuple[int, int]:
    """Check block by block up to the end, with a picture among them (GIF89a, appendix A)."""
    if data[:6] not in (b"GIF87a", b"GIF89a"):
        raise ValueError
    width, height, flags = struct.unpack_from("<HHB", data, 6)
    at, pictures = 13 + _colours(flags), 0
    while data[at] != 0x3B:
        match data[at]:
            case 0x21:
                at += 2
            case 0x2C:
                at += 11 + _colours(data[at + 9])
                pictures += 1
            case _:
                raise ValueError
        while data[at]:
            at += 1 + data[at]
        at += 1
    if not pictures:
        raise ValueError
    return width, height


def _colours(flags: int) -> int:
    """Return bytes of a table of colours, where there is one."""
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0


def _jpeg(data: bytes) -> tuple[int, int]:
    """Check marker by marker up to the picture itself, which has to have an end."""
    size, at = (0, 0), 2
    while True:
        if data[at] != 0xFF:
            raise ValueError
        marker = data[at + 1]
        if marker == 0xFF:
            at += 1
            continue
        if marker == 0xDA:
            break
        if marker in _FRAMES:
            height, width = struct.unpack_from(">HH", data, at + 5)
            size = width, height
        at += 2 if marker in ALONE else 2 + struct.unpack_from(">H", data, at + 2)[0]
    if size == (0, 0) or b"\xff\xd9" not in data[at:]:
        raise ValueError
    return size


def _webp(data: bytes) -> tuple[int, int]:
    (length,) = struct.unpack_from("<I", data, 4)
    if length + 8 > len(data):
        raise ValueError
    match data[12:16]:
        case b"VP8 " if data[23:26] == b"\x9d\x01\x2a":
            width, height = struct.unpack_from("<HH", data, 26)
            return width & 0x3FFF, height & 0x3FFF
        case b"VP8L" if data[20] == 0x2F:
            (bits,) = struct.unpack_from("<I", data, 21)
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8X":
            width, height = (int.from_bytes(data[at : at + 3], "little") + 1 for at in (24, 27))
            return width, height
    raise ValueError


_SIZES = {"image/png": _png, "image/gif": _gif, "image/jpeg": _jpeg, "image/webp": _webp}
