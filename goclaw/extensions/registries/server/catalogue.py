"""The catalogue of this gateway's registry, in pages: entries published here, and those shared from other registries.

A name belongs to one registry: names published here to this one, others to the first registry that has them. Otherwise
any publisher of `data-tools 99.0.0` elsewhere would replace the newest of ours.
"""

import base64
import hashlib
import threading
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from goclaw.common.core.records import record
from goclaw.extensions.registries.base import LATEST, values
from goclaw.extensions.registries.catalog_store import OWN, CatalogStore, Key, StoredLine

PAGE_ENTRIES = 100
PAGE_BYTES = 2 << 20
PAGE_VALUES = 100_000
"""Values that a client holds and parses at once; a page has at least one entry, whatever its size."""
MAX_CURSOR = 1_000

Name = tuple[str, str]
"""Kind and name."""


@record
class Index:
    """The catalogue at one moment, without its documents."""

    revision: str
    lines: Sequence[StoredLine]
    """By kind, name and version."""
    newest: Mapping[Name, StoredLine]
    tag: str
    """A tag that changes with the catalogue."""


class Catalogue:
    """A reader of the catalogue store. All methods block (call them in a thread) and raise `StateError` as the store
    does."""

    def __init__(self, store: CatalogStore, shared: Sequence[str]) -> None:
        self._store = store
        self._sources = (OWN, *shared)
        self._index: Index | None = None
        self._reading = threading.Lock()

    def tag(self, kind: str) -> str:
        """Return the ETag of the listing of one kind; empty: of all."""
        return f'"{self._current().tag}{f"-{kind}" if kind else ""}"'

    def page(self, kind: str, cursor: str, limit: int) -> dict[str, Any]:
        """Return a part of the listing, and the cursor of the next one.

        Raises:
            ValueError: the cursor is invalid.
        """
        index = self._current()
        lines = [line for line in index.lines if kind in ("", line.key[0])]
        begin = bisect_right(lines, _key_of(cursor), key=lambda line: line.key) if cursor else 0
        wanted = lines[begin : begin + min(max(limit, 1), PAGE_ENTRIES)]
        items, taken = self._items(index, wanted)
        is_last = begin + taken == len(lines)
        return {"entries": items, "next_cursor": "" if is_last else _cursor_of(lines[begin + taken - 1].key)}

    def versions(self, kind: str, name: str) -> tuple[list[dict[str, Any]], bool]:
        """Return the versions of an entry, the newest first, as many as fit a page; and whether these are all."""
        index = self._current()
        found = sorted(_lines_of(index, kind, name), key=lambda line: line.order, reverse=True)
        items, taken = self._items(index, found)
        return items, taken == len(found)

    def version(self, kind: str, name: str, version: str) -> dict[str, Any] | None:
        """Return one version; `latest`: the newest."""
        index = self._current()
        newest = index.newest.get((kind, name))
        lines = [newest] if version == LATEST and newest else _lines_of(index, kind, name)
        for line in lines:
            if version in (LATEST, line.key[2]) and (document := self._store.documents([line])[0]) is not None:
                return _item(index, line, document)
        return None

    def _items(self, index: Index, lines: Sequence[StoredLine]) -> tuple[list[dict[str, Any]], int]:
        """Return the first of these, as many as fit a page; and the number of lines read."""
        items: list[dict[str, Any]] = []
        wanted = list(_fitting(lines))
        parts = taken = 0
        for line, document in zip(wanted, self._store.documents(wanted), strict=True):
            if document is not None:  # else it was withdrawn a moment ago
                parts += values(document)
                if items and parts > PAGE_VALUES:
                    break
                items.append(_item(index, line, document))
            taken += 1
        return items, taken

    def _current(self) -> Index:
        with self._reading:
            revision = self._store.revision()
            if self._index is None or self._index.revision != revision:
                self._index = self._load(revision)
            return self._index

    def _load(self, revision: str) -> Index:
        # By name alone: users of `data-tools` do not say whether it is a toolset or an MCP server.
        of = {name.lower(): OWN for _, name in self._store.list_own()}
        newest: dict[Name, StoredLine] = {}
        chosen: list[StoredLine] = []
        for source in self._sources:
            for line in self._store.lines(source):
                name = line.key[:2]
                if of.setdefault(name[1].lower(), source) != source:
                    continue
                chosen.append(line)
                if name not in newest or newest[name].order < line.order:
                    newest[name] = line
        chosen.sort(key=lambda line: line.key)
        said = [(line.key, line.sha256, line.published_at, line.latest, line.via) for line in chosen]
        return Index(revision, chosen, newest, hashlib.sha256(orjson.dumps(said)).hexdigest()[:32])


def _lines_of(index: Index, kind: str, name: str) -> Sequence[StoredLine]:
    begin = bisect_right(index.lines, (kind, name, ""), key=lambda line: line.key)
    end = bisect_right(index.lines, (kind, f"{name}\0", ""), key=lambda line: line.key)
    return index.lines[begin:end]


def _fitting(lines: Sequence[StoredLine]) -> Iterator[StoredLine]:
    """Yield the first lines with documents that fit a page. The rest is not even read."""
    size = 0
    for at, line in enumerate(lines[:PAGE_ENTRIES]):
        size += line.size
        if at and size > PAGE_BYTES:
            return
        yield line


def _item(index: Index, line: StoredLine, document: bytes) -> dict[str, Any]:
    return {
        "document": orjson.Fragment(document),
        "sha256": line.sha256,
        "published_at": line.published_at,
        "latest": index.newest.get(line.key[:2]) == line,
        "via": line.via,
    }


def _cursor_of(key: Key) -> str:
    return base64.urlsafe_b64encode(orjson.dumps(key)).decode().rstrip("=")


def _key_of(cursor: str) -> Key:
    """Return the key in a cursor. Raises ValueError."""
    if len(cursor) > MAX_CURSOR:
        raise ValueError("the cursor is none of ours")
    try:
        kind, name, version = orjson.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, TypeError):
        raise ValueError("the cursor is none of ours") from None
    if not isinstance(kind, str) or not isinstance(name, str) or not isinstance(version, str):
        raise ValueError("the cursor is none of ours")
    return kind, name, version
