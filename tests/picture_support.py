"""Pictures of one pixel and more, made by hand: whole ones, as any program would take them."""

import base64
import struct
import zlib


def png(width: int = 1, height: int = 1) -> bytes:
    """A black picture of that size."""
    rows = zlib.compress(b"".join(b"\0" * (1 + width) for _ in range(min(height, 100))))
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", rows) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def jpeg(width: int = 1, height: int = 1) -> bytes:
    """The parts that a picture of that size has; there is no light in it."""
    frame = b"\xff\xc0" + struct.pack(">HBHHB", 11, 8, height, width, 1) + b"\x01\x11\0"
    return b"\xff\xd8\xff\xe0\0\x04ab\xff" + frame + b"\xff\xda\0\x08\x01\x01\0\0\x3f\0data\xff\xd9"


GIF = base64.b64decode("R0lGODlhAQABAIAAAP///wAAACH5BAEAAAAALAAAAAABAAEAAAICRAEAOw==")
WEBP = base64.b64decode("UklGRiIAAABXRUJQVlA4IBYAAAAwAQCdASoBAAEADsD+JaQAA3AAAAAA")
LOSSLESS = base64.b64decode("UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA==")
