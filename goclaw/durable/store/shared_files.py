"""Files of the state folder that a store has, too, as those who use them see it: Postgres has some, SQLite none."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from goclaw.common.auth.audit_chain import Blanking


class SharedMedia(Protocol):
    """Media in the database, in addition to those in the folder. All methods raise `DiskError` as `Database` does."""

    async def retain(self, key: str) -> None:
        """Store media that the folder has, or renew their keep time."""

    async def fetch(self, key: str) -> bool:
        """Get media into the folder; False: the database has none."""

    async def old(self, until: float) -> set[str]:
        """Return the keys of media that no process has put since a moment."""

    async def drop(self, keys: Iterable[str], until: float) -> None:
        """Remove media, but for those that any process has put since a moment."""

    async def sync(self) -> None:
        """Get all media that the folder lacks, and send those that the database lacks."""


class SharedAudits(Protocol):
    """The audit logs of all state folders. All methods raise `StateError`."""

    @property
    def chain(self) -> str:
        """The name of the folder's audit log in the database; empty for that of a gateway which was the only one."""

    async def send(self) -> None:
        """Send what came into the folder's log since it was last sent. Forgotten words are blanked before."""

    async def fetch(self) -> None:
        """Get the audit logs of other folders, each under its own name."""

    async def blank(self, wanted: Blanking) -> int:
        """Blank the words of lines in the audit logs of other folders; returns how many files that changed."""

    async def prune(self, before: float) -> Sequence[str]:
        """Remove the audit logs of other folders to which nothing was added since a moment; returns their names."""


class SharedFiles(Protocol):
    """All files of the state folder that the database has, too."""

    @property
    def media(self) -> SharedMedia:
        """Pictures and files of conversations."""

    @property
    def audits(self) -> SharedAudits:
        """The audit logs."""

    def open(self) -> AbstractAsyncContextManager["SharedFiles"]:
        """Bring folder and database together, and keep them so until the block ends; raises `StateError`."""

    def on_copy(self, call: Callable[[], Awaitable[None]]) -> None:
        """Have `call` called whenever copies of documents were replaced by what another process has changed."""

    async def copy(self, name: str) -> None:
        """Bring the copy of one document up to date now; raises `StateError` where that cannot be done."""

    async def begin(self) -> None:
        """Bring folder and database together, but for media; raises `StateError` where that cannot be done."""

    async def send_all(self) -> None:
        """Make the database equal to the folder, media too, whatever it had before."""

    async def compare(self) -> int:
        """Return how many files both have; raises StateError where they are not the same."""
