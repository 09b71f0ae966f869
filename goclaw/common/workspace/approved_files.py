"""Approved texts of the prompt files of workspaces: `prompt-files/` of the state folder has a file for each workspace.

A prompt file is an order to the agents of all users who work there. Where several people share a workspace, a change
counts once a person with the right to do so has approved it; until then the text approved last is used, whatever lies
on the disk. Elsewhere, and the first time that a workspace is seen, the present text counts, and is kept.

The texts themselves are kept and compared: the text shown, approved and used is one and the same. All processes that
write here (the daemon, `goclaw tool run`, `goclaw prompt-files`) take turns, and each reads the others' changes.
"""

import asyncio
import hashlib
import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from goclaw.common.core.clock import Clock, RealClock
from goclaw.common.core.codec import Codec
from goclaw.common.core.files import Writer, file_version, lock_folder, replace_file
from goclaw.common.core.records import BoundedDict, record
from goclaw.errors import StateError

log = logging.getLogger(__name__)

PROMPT_FILES = ("AGENTS.md", "SOUL.md", "TOOLS.md", "IDENTITY.md", "HEARTBEAT.md", "BOOTSTRAP.md")
"""Names of the files that are orders; `USER.md` and `MEMORY.md` are material, and need no approval."""
FILE_LIMIT = 20_000
"""Maximum characters of one file in the prompt: about 5,000 tokens, so that no file can crowd the rest out."""
MAX_BYTES = 4 * FILE_LIMIT + 4
"""Bytes of a file that count: enough for one character more than the limit, in any script."""
ID_LENGTH = 16
"""Hexadecimal digits of an id."""
MAX_REFUSED = 20
"""Refused texts of one file that are remembered, the last ones."""
_MAX_AUTHORS = 1_000
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)

ResultT = TypeVar("ResultT")


@record
class FileChange:
    """A change of a prompt file that waits for its approval."""

    id: str
    """Of this text, noticed at this time; `/approve ID` and buttons contain it."""
    root: Path
    """The workspace."""
    name: str
    """Of the file."""
    before: str
    """The approved text; empty: no file."""
    after: str
    """The text on the disk; empty: the file was removed, or says nothing."""
    author: str
    """Actor key of the person whose tool call wrote it; empty: a command, an editor or another program did."""


@record
class UsedFiles:
    """The prompt files of a workspace as its prompt has them."""

    texts: Mapping[str, str]
    """By name; without those that say nothing."""
    waiting: tuple[FileChange, ...] = ()
    """Changes that count once they are approved; without those that were refused."""
    basis: tuple[object, ...] = ()
    """Where a text is not used as it is on the disk: the `ApprovedFiles.basis` of that; else empty."""


class _Unreadable(Exception):
    """The file about a workspace is damaged."""


@record
class _Noticed:
    """A text that waits."""

    text: str
    author: str
    at: float
    """When it was noticed, in epoch seconds."""


@dataclass(slots=True)
class _Kept:
    """The content of the file about one workspace."""

    workspace: str
    approved: dict[str, str] | None = None
    """Texts by name; None: the workspace was never seen."""
    waiting: dict[str, _Noticed] = field(default_factory=dict)
    """By name."""
    refused: dict[str, list[str]] = field(default_factory=dict)
    """Digests of texts, by name."""

    def text(self, name: str) -> str:
        """Return the approved text of a file."""
        return (self.approved or {}).get(name, "")

    def approve(self, name: str, text: str) -> None:
        """Have this text of a file count."""
        self.approved = {**(self.approved or {}), name: text}
        self.waiting.pop(name, None)

    def change(self, name: str) -> FileChange:
        """Return the change of a file that waits."""
        noticed = self.waiting[name]
        digest = _digest("\0".join((self.workspace, name, noticed.text, str(noticed.at))))
        return FileChange(digest[:ID_LENGTH], Path(self.workspace), name, self.text(name), noticed.text, noticed.author)


_KEPT: Codec[_Kept] = Codec(_Kept)


def effective_text(content: bytes) -> str:
    """Return the text of a prompt file as it counts; empty for one of comments only, as most templates are."""
    text = content[:MAX_BYTES].decode("utf-8", errors="replace").strip()
    return text if _COMMENT.sub("", text).strip() else ""


def place_of(folder: Path, root: Path) -> Path:
    """Return the file about a workspace in the folder of them all. Reads the disk: one folder has several names."""
    return folder / f"{_digest(os.path.realpath(root))[:32]}.json"


class ApprovedFiles:
    """The approved prompt files of all workspaces."""

    def __init__(
        self,
        folder: Path | None = None,
        is_shared: Callable[[Path], bool] = lambda root: False,
        shared_by: Callable[[], object] = lambda: None,
        clock: Clock | None = None,
        writer: Writer = lock_folder,
    ) -> None:
        """Begin with the texts on the disk.

        Args:
            folder: where the texts are kept; None: nowhere, and every file counts as it is.
            is_shared: whether changes in a workspace need approval. Reads the disk.
            shared_by: returns another object whenever `is_shared` may answer otherwise.
            clock: says when changes are noticed.
            writer: changes the file about a workspace.
        """
        self._folder = folder
        self._is_shared = is_shared
        self._shared_by = shared_by
        self._clock = clock or RealClock()
        self._writer = writer
        self._authors: BoundedDict[tuple[Path, str], str] = BoundedDict(_MAX_AUTHORS)
        """Actor keys, by the file about the workspace and the digest of the text that they wrote."""

    def is_shared(self, root: Path) -> bool:
        """Whether changes of the prompt files in a workspace need approval. Reads the disk."""
        return self._is_shared(root)

    def basis(self, root: Path) -> tuple[object, ...]:
        """Return what decides, besides the prompt files, which text is used: while it is equal, so is that."""
        return (self._shared_by(), file_version(place_of(self._folder, root))) if self._folder else ()

    async def texts_to_use(self, root: Path, found: Mapping[str, bytes]) -> UsedFiles:
        """Return the texts to use in a prompt, with the changes that wait.

        Args:
            root: the workspace.
            found: the content of each prompt file that exists now.
        """
        texts = {name: text for name in PROMPT_FILES if (text := effective_text(found.get(name, b"")))}
        return (
            await asyncio.to_thread(self._sync_texts, self._folder, root, texts) if self._folder else UsedFiles(texts)
        )

    async def wrote(self, root: Path, path: str, before: bytes, after: bytes, author: str, *, may: bool) -> None:
        """Take note that a tool has replaced a file.

        With that it is approved, if the author may approve and changed the approved text: what waits is not approved
        by an addition to it.

        Args:
            root, path: the workspace, and the relative path of the file.
            before, after: its contents; no bytes: there was no file.
            author: the actor key of the person for whom the tool ran.
            may: whether that person may approve.
        """
        if self._folder and path in PROMPT_FILES:
            await asyncio.to_thread(
                self._wrote, self._folder, root, path, effective_text(before), effective_text(after), author, may
            )

    def waiting(self) -> list[FileChange]:
        """Return the changes in all workspaces that wait, as they were noticed last. Reads the disk."""
        return [kept.change(name) for kept in self._all() for name in kept.waiting]

    def workspaces(self) -> list[Path]:
        """Return the workspaces that were seen. Reads the disk."""
        return [Path(kept.workspace) for kept in self._all()]

    def approve(self, root: Path, name: str, before: str, after: str) -> bool:
        """Have a text of a file count in place of `before`; False: another text is the approved one by now.

        Reads and writes the disk, and not the workspace.

        Raises:
            StateError: the state folder cannot be written, or the file in it is damaged.
        """

        def answer(kept: _Kept) -> bool:
            if kept.approved is None or kept.text(name) != before:
                return False
            kept.approve(name, after)
            return True

        return self._record_answer(root, answer)

    def refuse(self, change: FileChange) -> bool:
        """Do not ask for this text again; False: it does not wait any more. What lies on the disk stays.

        Raises:
            StateError: as `approve`.
        """

        def answer(kept: _Kept) -> bool:
            if change.name not in kept.waiting or kept.change(change.name) != change:
                return False
            del kept.waiting[change.name]
            known = kept.refused.get(change.name, [])
            kept.refused[change.name] = [*known, _digest(change.after)][-MAX_REFUSED:]
            return True

        return self._record_answer(change.root, answer)

    def _record_answer(self, root: Path, answer: Callable[[_Kept], bool]) -> bool:
        if self._folder is None:
            return False
        try:
            return _change(self._folder, root, self._writer, answer)[0]
        except OSError as error:
            raise StateError(f"{self._folder} cannot be written: {error.strerror}") from error
        except _Unreadable as error:
            raise StateError(str(error)) from error

    def _sync_texts(self, folder: Path, root: Path, texts: Mapping[str, str]) -> UsedFiles:
        place, shared_by = place_of(folder, root), self._shared_by()
        shared = self._is_shared(root)

        def update(kept: _Kept) -> UsedFiles:
            return self._update(kept, place, texts, shared=shared)

        try:
            version, kept = file_version(place), _load(place, root)
            before = _KEPT.to_json(kept)
            kept.workspace = os.path.realpath(root)
            used = update(kept)
            if _KEPT.to_json(kept) != before:
                used, version = self._keep(folder, root, update) or (used, version)
        except (_Unreadable, OSError) as error:
            log.error(
                "%s; until it is mended, or removed to approve what is there, shared workspaces go without", error
            )
            used, version = UsedFiles({} if shared else texts), file_version(place)
        return used if used.texts == texts else replace(used, basis=(shared_by, version))

    def _keep(
        self, folder: Path, root: Path, settle: Callable[[_Kept], UsedFiles]
    ) -> tuple[UsedFiles, tuple[int, ...]] | None:
        """Do what `_change` does; None: it cannot be kept now."""
        try:
            return _change(folder, root, self._writer, settle)
        except (OSError, StateError) as error:
            log.warning("what counts in %s cannot be kept: %s", root, error)
            return None

    def _update(self, kept: _Kept, place: Path, texts: Mapping[str, str], *, shared: bool) -> UsedFiles:
        """Bring the kept texts up to date with those on the disk; return the texts to use."""
        if kept.approved is None or not shared:
            if kept.approved is None and shared and texts:
                log.info("%s: approved as they are now: %s", kept.workspace, ", ".join(texts))
            kept.approved, kept.waiting, kept.refused = dict(texts), {}, {}
        for name in PROMPT_FILES if shared else ():
            now, digest = texts.get(name, ""), _digest(texts.get(name, ""))
            if now == kept.text(name) or digest in kept.refused.get(name, ()):
                kept.waiting.pop(name, None)
            elif (noticed := kept.waiting.get(name)) is None or noticed.text != now:
                author = self._authors.get((place, digest), "")
                kept.waiting[name] = _Noticed(now, author, self._clock.now())
        used = {name: text for name in PROMPT_FILES if (text := kept.text(name))}
        return UsedFiles(used, tuple(map(kept.change, kept.waiting)))

    def _wrote(self, folder: Path, root: Path, name: str, before: str, after: str, author: str, may: bool) -> None:
        self._authors[place_of(folder, root), _digest(after)] = author
        if may and self._is_shared(root):
            try:
                self.approve(root, name, before, after)
            except StateError as error:
                log.warning("%s in %s waits for its approval: %s", name, root, error)

    def _all(self) -> Iterator[_Kept]:
        for place in sorted(self._folder.glob("*.json")) if self._folder else ():
            try:
                yield _load(place)
            except (_Unreadable, OSError) as error:
                log.error("%s", error)


def _change(
    folder: Path, root: Path, writer: Writer, change: Callable[[_Kept], ResultT]
) -> tuple[ResultT, tuple[int, ...]]:
    """Return the result of `change` on the kept data of a workspace, and the version of the file after that.

    Raises:
        _Unreadable: the file is damaged; it stays as it is.
        OSError: it cannot be read or written.
        StateError: the store that has it, too, cannot be reached.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    place = place_of(folder, root)
    with writer(place):
        kept = _load(place, root)
        before = _KEPT.to_json(kept)
        kept.workspace = os.path.realpath(root)  # a restore may have put it elsewhere
        result = change(kept)
        if (now := _KEPT.to_json(kept)) != before:
            replace_file(place, now)
        return result, file_version(place)


def _load(place: Path, root: Path | None = None) -> _Kept:
    """Read the file about a workspace; one that is missing is about the new workspace `root`."""
    try:
        return _KEPT.from_json(place.read_bytes())
    except FileNotFoundError:
        if root is None:
            raise
        return _Kept(os.path.realpath(root))
    except ValueError as error:
        raise _Unreadable(f"{place} cannot be read: {' '.join(str(error).split())[:200]}") from error


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", errors="surrogatepass")).hexdigest()
