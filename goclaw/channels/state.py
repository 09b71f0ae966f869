"""The rows that channels keep in the store: a protocol, which `store.channel_state` implements."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Protocol


class Gathered(StrEnum):
    """The outcome for a message that is part of a group."""

    KEPT = "gathered"
    HANDED_OVER = "known"
    """Its group has been handed over with it."""
    APART = "apart"
    """Its group has ended without it: it is a message of its own."""


class ChannelState(Protocol):
    """Messages that are parts of one, previews, and facts. All methods raise `DiskError` where the store fails.

    A group of messages is being gathered, then it ends with the messages that it has, then it is handed over. Any
    number of processes may do any of it at the same time.
    """

    async def fact(self, name: str) -> Any:
        """Return the value of a fact; None: it is not known."""
        ...

    async def facts(self, name: str) -> Mapping[str, Any]:
        """Return the facts `name:PART`, by their parts."""
        ...

    async def learn(self, facts: Mapping[str, Any]) -> None:
        """Keep values that JSON can express, all or none; None forgets one. Names are listed in `store.settings`."""
        ...

    async def gather(self, name: str, chat: int, sender: int, part: int, message: bytes) -> tuple[Gathered, int]:
        """Keep a message, as JSON, that is part of a group; on disk when this returns.

        Returns what became of it, and the number of messages that are kept of the group.
        """
        ...

    async def around(self, chat: int, part: int) -> Sequence[Mapping[str, Any]]:
        """Return the groups of a chat that are not handed over, and those with a message of this id, oldest first.

        Each has `name`, `sender`, `has_ended`, `is_handed_over`, `has_part` and `first`, the JSON of its first message
        (None where that is not kept any more).
        """
        ...

    async def recent(self) -> Sequence[tuple[str, int, bool, Sequence[int]]]:
        """Return the latest groups: name, chat, whether it is handed over, the ids of its messages."""
        ...

    async def end_group(self, name: str, quiet: float, most: int) -> float:
        """Fix the members of a group, unless it got one within `quiet` seconds and has fewer than `most`.

        Returns the seconds that are left until then; 0: its members are fixed, or there is no such group.
        """
        ...

    async def messages(self, name: str, *, handed_over: bool = False) -> Sequence[Any]:
        """Return the messages of a group that has ended, ordered by id; none where it is handed over already.

        `handed_over`: of one that is, as far as they are kept.
        """
        ...

    async def hand_over(self, name: str, *, keep: bool) -> None:
        """Note that the content of a group is in the inbox, or unwanted. `keep` its messages for a while, for edits."""
        ...

    async def add_handed_over(self, groups: Mapping[str, tuple[int, Sequence[int]]]) -> None:
        """Note that groups were handed over: chat and messages by name; none that is known. On disk when it returns."""
        ...

    async def replace(self, name: str, part: int, message: bytes) -> bool:
        """Put the new version of a message into its group. False: that has no such message (any more)."""
        ...

    async def list_idle(self, idle: float) -> Sequence[tuple[str, int]]:
        """Return the names and chats of groups that got nothing for `idle` seconds and are not handed over."""
        ...

    async def note_preview(self, channel: str, session: str, key: str, message: int, *, instead_of: str = "") -> None:
        """Keep a number by its key, for the process that works on the session next.

        With `instead_of`, a key that is dropped, it is on disk when this returns.

        Raises:
            OwnershipLost: this process does not work on the session.
        """
        ...

    async def add_previews(self, channel: str, previews: Mapping[str, int]) -> None:
        """Add numbers, of no session, unless their keys are known; on disk when this returns."""
        ...

    async def previews(self, channel: str, session: str | None) -> Mapping[str, int]:
        """Return the numbers that are kept of a session; None: the latest ones of all."""
        ...
