"""Short values under names, in one JSON file per place, for memory_read, memory_write and memory_delete."""

from collections.abc import Callable
from difflib import get_close_matches
from functools import partial

import orjson

from goclaw.errors import ToolError
from goclaw.memory.places import MemoryFolder
from goclaw.workspace import ABSENT, FileStamp, again_when_changed

FILE = "values.json"
MAX_KEY, MAX_VALUE = 100, 10_000
"""Characters: anything longer is a note, and belongs in a file."""
MAX_VALUES = 500
MAX_BYTES = 256 << 10
"""Bytes of one place's file, so that reading one value takes about a millisecond."""


class KeyValueFile:
    """The values of one place. Each change replaces the file."""

    def __init__(self, place: MemoryFolder) -> None:
        self._place = place
        self.path = place.path(FILE)

    async def all(self) -> dict[str, str]:
        """Return every value by its key.

        Raises:
            ToolError: the file cannot be read, or was changed by another program.
        """
        return (await self._read())[0]

    async def put(self, key: str, value: str) -> bool:
        """Store a value; return whether it replaced an older one.

        Raises:
            ToolError: there are too many values, or they are too large together.
        """

        def added(values: dict[str, str]) -> bool:
            is_new = key not in values
            if is_new and len(values) >= MAX_VALUES:
                raise ToolError(f"{MAX_VALUES} values are kept already: delete some with memory_delete")
            values[key] = value
            return not is_new

        return await self._change(added)

    async def drop(self, key: str) -> bool:
        """Delete a value; return False if there was none."""
        return await self._change(lambda values: values.pop(key, None) is not None, only_if=True)

    async def _change(self, change: Callable[[dict[str, str]], bool], *, only_if: bool = False) -> bool:
        """Change the values; with `only_if`, nothing is written where the change returns False."""
        await self._place.check(self.path)
        return await again_when_changed(partial(self._rewrite, change, only_if=only_if))

    async def _rewrite(self, change: Callable[[dict[str, str]], bool], *, only_if: bool) -> bool:
        values, version = await self._read()
        changed = change(values)
        if only_if and not changed:
            return False
        data = orjson.dumps(values, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
        if len(data) > MAX_BYTES:
            raise ToolError(f"the values would have {len(data):,} bytes together, {MAX_BYTES:,} are the limit")
        await self._place.workspace.write_bytes(self.path, data, unless_changed=version)
        return changed

    async def _read(self) -> tuple[dict[str, str], FileStamp]:
        workspace = self._place.workspace
        if not await workspace.exists(self.path):
            return {}, ABSENT
        version = (await workspace.stat(self.path)).version
        try:
            values = orjson.loads(await workspace.read_bytes(self.path, MAX_BYTES))
        except orjson.JSONDecodeError as error:
            raise ToolError(f"{self.path} is damaged ({error}): mend the file, or delete it") from None
        if not isinstance(values, dict) or not all(isinstance(value, str) for value in values.values()):
            raise ToolError(f"{self.path} is damaged (it has to be an object of texts): mend the file, or delete it")
        return values, version


def nearest(key: str, values: dict[str, str]) -> str:
    """Return the key that was probably meant; empty if none is near."""
    return next(iter(get_close_matches(key, values, 1)), "")
