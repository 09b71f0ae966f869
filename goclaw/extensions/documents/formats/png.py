"""Writes a picture in shades of grey as PNG (RFC 2083), which models and `tesseract` take."""

import struct
import zlib


def grey_png(pixels: bytes, width: int, height: int, stride: int) -> bytes:
    """Return a PNG of rows of `stride` bytes, the first `width` of which are pixels."""
    rows = b"".join(b"\0" + pixels[row * stride : row * stride + width] for row in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(rows, 6)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(map(_chunk, *zip(*chunks, strict=True)))


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
