"""Audit logs of several state folders in one schema: each is a chain of its own, under a name of its own.

The process that goes on with one writes the file in its folder, and sends it; another one may blank words in the
database's, which the first fetches (`state_files`).
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from sqlalchemy import bindparam, or_, select

from goclaw.auth.audit_chain import Blanking, without_words
from goclaw.config.values import PostgresPlace
from goclaw.core.clock import RealClock
from goclaw.store.database import BoundStatement, ConstraintViolated, Statement
from goclaw.store.postgres.beside import read
from goclaw.store.postgres.state_folder import AUDIT, StateFolder
from goclaw.store.postgres.state_merge import is_audit
from goclaw.store.postgres.stored_files import StoredFile, StoredFiles, is_plain, state_file_pieces, stored_file

_PIECES = Statement(
    select(state_file_pieces.c.path, state_file_pieces.c.data)
    .where(or_(*(state_file_pieces.c.path.startswith(bindparam(name)) for name in ("newest", "others"))))
    .order_by(state_file_pieces.c.path, state_file_pieces.c.number)
)


def chain_of(name: str) -> str:
    """Return the name of the audit log of which a stored file is."""
    return name.removeprefix("logs/audit").partition(".jsonl")[0].removeprefix("-")


async def blank_audits(
    stored: StoredFiles,
    is_ours: Callable[[str], bool],
    wanted: Blanking,
    telling: Callable[[str], Iterable[BoundStatement]],
) -> int:
    """Blank the words of lines in the audit logs that are not this folder's; returns how many files that changed.

    Raises:
        DiskError: the database cannot be reached.
        StateError: what the database has is damaged.
    """
    changed = 0
    for name, entry in (await stored.all()).items():
        if is_audit(name) and not is_ours(name):
            changed += await _blank(stored, name, entry, wanted, telling)
    return changed


async def _blank(
    stored: StoredFiles,
    name: str,
    entry: StoredFile | None,
    wanted: Blanking,
    telling: Callable[[str], Iterable[BoundStatement]],
) -> bool:
    while entry is not None:
        try:
            data = await stored.data(name, entry)
            less = await asyncio.to_thread(without_words, data, wanted)
            if less == data:
                return False
            await stored.put(name, entry.sha256, stored_file(less, entry.mode, entry.changed_at), less, *telling(name))
        except ConstraintViolated:  # its process has added a line
            entry = await stored.get(name)
        else:
            return True
    return False


async def prune_audits(stored: StoredFiles, is_ours: Callable[[str], bool], before: float) -> Sequence[str]:
    """Remove the audit logs of other folders to which nothing was added since a moment; returns their names.

    Raises:
        DiskError: the database cannot be reached.
    """
    found = {name: each for name, each in (await stored.all()).items() if is_audit(name) and not is_ours(name)}
    last = dict[str, float]()
    for name, entry in found.items():
        last[chain_of(name)] = max(entry.changed_at, last.get(chain_of(name), 0.0))
    over = sorted(chain for chain, at in last.items() if at < before)
    for name, entry in found.items():
        if chain_of(name) in over:
            await stored.remove(name, entry.sha256)
    return over


def copy_audits(place: PostgresPlace, state_dir: Path, into: Path) -> tuple[str, Mapping[str, Path]]:
    """Write the audit logs of other folders below a folder, beside a daemon that may go on with them. Blocks.

    Returns:
        The name of this folder's log, and the newest file of each other one by its name. "" is that of a gateway which
        was the only one.

    Raises:
        StateError: Postgres cannot be used.
        OSError: the folder cannot be written.
    """
    folder = StateFolder(state_dir, RealClock())
    _, _, chain = folder.read_notes()
    folder.chain = chain or ""
    contents = dict[str, bytes]()
    [rows] = read(place, [_PIECES(newest=AUDIT, others="logs/audit-")])
    for path, data in rows:
        contents[str(path)] = contents.get(str(path), b"") + bytes(data)
    found = dict[str, Path]()
    for name, content in contents.items():
        if is_plain(name) and not folder.is_ours(name):
            newest = into / (chain_of(name) or "first") / Path(AUDIT).name
            newest.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            (newest.parent / f"{newest.name}{name.partition('.jsonl')[2]}").write_bytes(content)
            found[chain_of(name)] = newest
    return folder.chain, found
