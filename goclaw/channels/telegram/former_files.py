"""The state of former versions: small JSON files in the state folder, read once and put into the store.

To read a file again changes nothing: a kill before it is deleted costs nothing.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import orjson
from pydantic import TypeAdapter, ValidationError

from goclaw.channels.state import ChannelState
from goclaw.channels.telegram.chat_migrations import MOVED_FROM, moves_of
from goclaw.channels.telegram.media_groups import ALBUMS, TEXTS
from goclaw.channels.telegram.updates import CHANNEL, UNREADABLE, Json, number
from goclaw.errors import StateError

log = logging.getLogger(__name__)

T = TypeVar("T")

MESSAGE_IDS_FILE = "telegram-grown.json"
MIGRATIONS_FILE = "telegram-moved.json"
MEDIA_GROUPS_FILE = "telegram-albums.json"


@dataclass(slots=True)
class _Groups:
    open: Mapping[str, Sequence[Json]] = field(default_factory=dict)
    """The messages of those that were not handed over yet, by name."""
    ended: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """The ids of the messages of those that have ended."""


_GROUPS = TypeAdapter(_Groups)
_MESSAGES: TypeAdapter[dict[str, int]] = TypeAdapter(dict[str, int])
_MOVES: TypeAdapter[dict[int, int]] = TypeAdapter(dict[int, int])


async def import_files(folder: Path, state: ChannelState) -> None:
    """Put the files of a former version into the store, and delete them. Without the store they stay as they are."""
    names = (MIGRATIONS_FILE, MEDIA_GROUPS_FILE, MESSAGE_IDS_FILE)
    found = [folder / name for name in names if await asyncio.to_thread((folder / name).exists)]
    if not found:
        return
    try:
        await _import_groups(await _read(folder / MEDIA_GROUPS_FILE, _GROUPS, _Groups()), state)
        messages = await _read(folder / MESSAGE_IDS_FILE, _MESSAGES, {})
        await state.add_previews(CHANNEL, messages)
        moved: dict[int, int] = {}
        for old, new in (await _read(folder / MIGRATIONS_FILE, _MOVES, {})).items():
            moved.setdefault(new, old)
        await state.learn({f"{MOVED_FROM}:{new}": old for new, old in moves_of(moved).items()})
        await asyncio.to_thread(_delete, found)
    except (OSError, StateError) as error:
        log.warning("telegram: the files of the previous version will be read again at the next start: %s", error)


def _delete(paths: Sequence[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


async def _read(path: Path, shape: TypeAdapter[T], empty: T) -> T:
    """Return the stored value; `empty` where the file is missing or invalid."""
    try:
        return shape.validate_json(await asyncio.to_thread(path.read_bytes))
    except FileNotFoundError:
        return empty
    except ValidationError as error:
        log.warning("%s is ignored: %s", path, type(error).__name__)
        return empty


async def _import_groups(groups: _Groups, state: ChannelState) -> None:
    ended = {name: (_chat_of(name), parts) for name, parts in groups.ended.items() if name not in groups.open}
    await state.add_handed_over({name: (chat, parts) for name, (chat, parts) in ended.items() if chat is not None})
    for name, messages in groups.open.items():
        for message in messages:
            try:
                chat, sender = number(message["chat"]["id"]), number(message["from"]["id"])
                part = number(message["message_id"])
            except UNREADABLE:
                continue  # the file was edited
            await state.gather(name, chat, sender, part, orjson.dumps(message))
        if name in groups.ended:
            await state.end_group(name, 0.0, 0)


def _chat_of(name: str) -> int | None:
    """Return the chat in the name of a group; None: the name is not one of ours."""
    prefix = next((each for each in (ALBUMS, TEXTS) if name.startswith(each)), None)
    try:
        return int(name.removeprefix(prefix).partition(":")[0]) if prefix else None
    except ValueError:
        return None
