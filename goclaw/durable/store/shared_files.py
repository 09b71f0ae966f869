"""Files of the state folder that a store has, too, as those who use them see it: Postgres has some, SQLite none."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Protocol

from goclaw.common.auth.audit_chain import Blanking


class SharedMedia(Protocol):
    """Media in the database, in addition to those in the folder. All methods raise `DiskError` as `Database` does."""

    async def keep(self, key: str) -> None:
        """Store media that the folder has, or renew their keep time."""
        ...

    async def fetch(self, key: str) -> bool:
        """Get media into the folder; False: the database has none."""
        ...

    async def old(self, until: float) -> set[str]:
        """Return the keys of media that no process has put since a moment."""
        ...

    async def drop(self, keys: Iterable[str], until: float) -> None:
        """Remove media, but for those that any process has put since a moment."""
        ...


class SharedFiles(SharedMedia, Protocol):
    """All files of the state folder that the database has, too."""

    @property
    def chain(self) -> str:
        """The name of the folder's audit log in the database; empty for that of a gateway which was the only one."""
        ...

    def on_fetch(self, call: Callable[[], Awaitable[None]]) -> None:
        """Have `call` called whenever files of the folder were replaced by what another process has changed."""
        ...

    async def fetch_audits(self) -> None:
        """Get the audit logs of other folders, each under its own name."""
        ...

    async def blank_audits(self, wanted: Blanking) -> int:
        """Blank the words of lines in the audit logs of other folders; returns how many files that changed."""
        ...

    async def prune_audits(self, before: float) -> Sequence[str]:
        """Remove the audit logs of other folders to which nothing was added since a moment; returns their names."""
        ...

    async def send_changes(self) -> int:
        """Send the files that changed in the folder since the last time; returns how many."""
        ...

    async def agree(self, name: str, data: bytes) -> bytes:
        """Store a small file that only its owner may read, unless the database has one of this name: return that one.

        Of several processes that make it at the same time, all get the same. The folder has it when this returns.
        """
        ...

    async def settle_file(self, name: str) -> None:
        """Bring one file together now; raises `StateError` where that cannot be done."""
        ...

    async def settle(self) -> object:
        """Bring folder and database together, but for media: what changed since they were the same counts."""
        ...

    async def settle_media(self) -> None:
        """Get all media that the folder lacks, and send those that the database lacks."""
        ...

    async def send_all(self) -> None:
        """Make the database equal to the folder, media too, whatever it had before."""
        ...

    async def compare(self) -> int:
        """Return how many files both have; raises StateError where they are not the same."""
        ...
