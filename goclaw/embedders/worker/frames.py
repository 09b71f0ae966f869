"""The frames in the pipes between GoClaw and the worker: a head in JSON and bytes, behind the length of each."""

import json
import struct
from collections.abc import Mapping
from io import RawIOBase
from typing import Any

LENGTHS = struct.Struct(">II")
MAX_HEAD, MAX_BODY = 64 << 20, 256 << 20
"""Bytes. More than that was written by something else."""

Head = dict[str, Any]


def frame(head: Mapping[str, Any], body: bytes = b"") -> bytes:
    """Return a frame as bytes."""
    text = json.dumps(head).encode()
    return LENGTHS.pack(len(text), len(body)) + text + body


def lengths(prefix: bytes) -> tuple[int, int]:
    """Return the lengths of head and body.

    Raises:
        ValueError: this is no beginning of a frame.
    """
    head, body = LENGTHS.unpack(prefix)
    if not 2 <= head <= MAX_HEAD or body > MAX_BODY:
        raise ValueError("no frame")
    return head, body


def head_of(text: bytes) -> Head:
    """Return the head. Raises ValueError for any other text."""
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError("no frame")
    return found


def read_frame(source: RawIOBase) -> tuple[Head, bytes] | None:
    """Return the next frame; None at the end of the pipe."""
    if (prefix := _exactly(source, LENGTHS.size)) is None:
        return None
    head, body = lengths(prefix)
    text, content = _exactly(source, head), _exactly(source, body)
    return None if text is None or content is None else (head_of(text), content)


def _exactly(source: RawIOBase, size: int) -> bytes | None:
    """Read so many bytes; None where the pipe ends before."""
    found = bytearray()
    while len(found) < size:
        piece = source.read(size - len(found))
        if not piece:
            return None
        found += piece
    return bytes(found)
