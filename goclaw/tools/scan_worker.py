"""Finds matching lines in texts that come through a pipe: a program of its own, because `re` cannot be interrupted.

It opens nothing and is ended by whoever started it. In: a line of JSON `[pattern, ignores case, most lines]`, then for
each text its length in bytes (8, big-endian) and UTF-8. Out: for each text its matches as a line of JSON,
`[[line, column], …]`, both from 1, columns in bytes.
"""

import json
import re
import resource
import sys
from collections.abc import Iterator
from typing import BinaryIO

_MAX_MEMORY = 1 << 30
_LENGTH = 8


def main(source: BinaryIO, sink: BinaryIO) -> None:
    """Answer until the pipe ends."""
    resource.setrlimit(resource.RLIMIT_AS, (_MAX_MEMORY, _MAX_MEMORY))
    pattern, ignores_case, most = json.loads(source.readline())
    expression = re.compile(pattern, re.IGNORECASE if ignores_case else 0)
    while length := source.read(_LENGTH):
        text = source.read(int.from_bytes(length, "big")).decode(errors="replace")
        sink.write(json.dumps(list(_matches(expression, text, most))).encode() + b"\n")
        sink.flush()


def _matches(expression: re.Pattern[str], text: str, most: int) -> Iterator[tuple[int, int]]:
    line, counted, position, found = 1, 0, 0, 0
    while found < most and position < len(text) and (match := expression.search(text, position)):
        start = match.start()
        if start == len(text) and text.endswith("\n"):
            return  # behind the last line there is none
        line += text.count("\n", counted, start)
        counted = start
        begin = text.rfind("\n", 0, start) + 1
        yield line, len(text[begin:start].encode()) + 1
        found += 1
        end = text.find("\n", start)
        position = len(text) if end < 0 else end + 1


if __name__ == "__main__":
    main(sys.stdin.buffer, sys.stdout.buffer)
