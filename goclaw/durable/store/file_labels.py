"""The label of files in which others may have written: made or changed while the agent had read what others wrote.

A label holds for the file as it was then: a file that changed since, while no call of ours ran, is a person's again.
"""

from collections.abc import Mapping

from sqlalchemy import and_, bindparam, delete, select

from goclaw.durable.store.database import Database, Statement, upsert_into
from goclaw.durable.store.schema import file_labels

WHOLE = "."
"""The path of a folder as a whole: too much was changed in it to say what."""
MAX_FILES = 2_000
"""Labelled files of a folder; above that the whole folder is labelled."""

_ADD = upsert_into(file_labels, ("folder", "path"), "stamp")
_OF = Statement(select(file_labels.c.path, file_labels.c.stamp).where(file_labels.c.folder == bindparam("of_folder")))
_REMOVE = Statement(
    delete(file_labels).where(
        and_(file_labels.c.folder == bindparam("of_folder"), file_labels.c.path == bindparam("of_path"))
    )
)


class FileLabels:
    """Keeps and finds the labels of a workspace's files."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: dict[str, dict[str, str]] = {}
        """The labels by folder, where no other process may change them."""

    async def of(self, folder: str) -> Mapping[str, str]:
        """Return the labelled paths in a folder, each with the stamp of the file when it was labelled."""
        if (known := self._known.get(folder)) is not None:
            return known
        rows = await self._database.read(_OF(of_folder=folder))
        found = {str(row["path"]): str(row["stamp"]) for row in rows}
        if not self._database.is_shared:
            self._known[folder] = found
        return found

    async def add(self, folder: str, stamps: Mapping[str, str]) -> None:
        """Label files, given their stamps; the whole folder, if these are too many."""
        if len(stamps) + len(await self.of(folder)) > MAX_FILES:
            stamps = {WHOLE: ""}
        await self._database.write(*(_ADD(folder=folder, path=path, stamp=stamp) for path, stamp in stamps.items()))
        if (known := self._known.get(folder)) is not None:
            known.update(stamps)

    async def remove(self, folder: str, *paths: str) -> None:
        """Remove labels; a path without one is ignored."""
        await self._database.write(*(_REMOVE(of_folder=folder, of_path=path) for path in paths))
        for path in paths:
            self._known.get(folder, {}).pop(path, None)
