"""What a channel has in common with itself on other processes, where several share a store: a protocol.

Imported only for its types: where one process has the store, a channel has files of its own.
"""

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, Protocol


class ChannelSharing(Protocol):
    """The shared state of channels. All methods that wait raise `DiskError` where the store cannot be reached."""

    takes: list[Callable[[str], Awaitable[None]]]
    """Called with each session that this process takes, before it works on it."""

    def holds(self, session: str) -> bool:
        """Whether this process works on a session, and no other can have taken it over while this one was paused."""
        ...

    async def lead(self, duty: str, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do what one process at a time does, as soon as no other one does it; until cancelled, or `run` returns.

        Raises:
            DiskError: the duty is lost.
        """
        ...

    def share(self) -> float:
        """Return the part of a service's limits that this process may use now: more than 0, at most 1."""
        ...

    async def follow(self) -> None:
        """Keep `share` up to date until cancelled."""
        ...

    def hear(self, kind: str, heard: Callable[[str], None]) -> None:
        """Have `heard` called with what any process tells of a kind, this one included. `kind`: a word."""
        ...

    async def tell(self, kind: str, words: str) -> None:
        """Tell all processes something that may get lost: at most some thousand characters."""
        ...

    async def fact(self, name: str) -> Any:
        """Return the value of a fact; None: it is not known."""
        ...

    async def learn(self, facts: Mapping[str, Any]) -> None:
        """Keep values that JSON can express, all or none; their names are listed in `store.settings`."""
        ...

    async def gather(self, name: str, chat: int, sender: int, part: int, message: bytes) -> str:
        """Keep a message, as JSON, that is part of a group of messages; on disk when this returns.

        Returns `gathered`; `known`, where it was handed over; `apart`, where the group has ended without it.
        """
        ...

    async def around(self, chat: int, part: int) -> Sequence[Mapping[str, Any]]:
        """Return the groups of a chat that are not handed over, and those with a message of this id, oldest first.

        Each has `name`, `sender`, `has_ended`, `is_handed_over`, `has_part` and `first`, the JSON of its first message
        (None where that is not kept any more).
        """
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

    async def handed_over(self, name: str, *, keep: bool) -> None:
        """Note that the content of a group is in the inbox, or unwanted. `keep` its messages for a while, for edits."""
        ...

    async def replace(self, name: str, part: int, message: bytes) -> bool:
        """Put the new version of a message into its group. False: that has no such message (any more)."""
        ...

    async def left(self, idle: float) -> Sequence[tuple[str, int]]:
        """Return the names and chats of groups that got nothing for `idle` seconds and are not handed over."""
        ...

    async def forget_old(self) -> None:
        """Delete what is too old to be asked for."""
        ...

    async def note_preview(self, channel: str, session: str, key: str, message: int, *, instead_of: str = "") -> None:
        """Keep a number by its key, for the process that takes the session; `instead_of`: a key that is dropped.

        Raises:
            OwnershipLost: this process does not work on the session.
        """
        ...

    async def previews(self, channel: str, session: str) -> Mapping[str, int]:
        """Return the numbers that are kept of a session."""
        ...
