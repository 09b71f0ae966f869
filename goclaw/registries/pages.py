"""Parsing of a registry's pages from the wire: valid entries, and why the others are invalid.

All of it is untrusted and bounded. It is parsed in a thread, and `MAX_PARTS` bounds the time that parsing holds the
interpreter, so that no page holds up the event loop.
"""

import gc
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, overload

import orjson

from goclaw.records import record
from goclaw.redact import printable
from goclaw.registries.base import canonical, digest, values
from goclaw.registries.catalog_store import CatalogRow

MAX_PAGE = 5 << 19
"""Bytes: `goclaw registry serve` ends a page at 2 MB, behind a document of at most half a megabyte."""
MAX_PARTS = 120_000
"""Values of a page. That many of the costliest kind take 40 ms; 2 MB of toolsets have 90,000."""
MAX_CURSOR = 2_000
MAX_STATIONS = 20
"""Registries through which an entry may have come."""
MAX_ID = 100
MAX_WHY = 300
"""Characters of the reason for leaving an entry out."""

Wanted = Callable[[str], bool]
"""Whether an entry of this name is wanted."""


@record
class Wrapped:
    """An entry with its document in the canonical form, which is a tenth of what it takes unwrapped."""

    document: bytes
    published_at: float = 0.0
    latest: bool = False
    via: tuple[str, ...] = ()

    def unwrapped(self) -> CatalogRow:
        """Return the same, parsed."""
        return CatalogRow(orjson.loads(self.document), self.published_at, self.latest, self.via)


class Entries(Sequence[CatalogRow]):
    """A sequence of entries, each parsed when it is accessed."""

    def __init__(self, wrapped: Sequence[Wrapped] = ()) -> None:
        self._wrapped = tuple(wrapped)

    def without(self, registry: str) -> "Entries":
        """Return the same without entries that came through the registry with that id."""
        return Entries([each for each in self._wrapped if registry not in each.via])

    def __len__(self) -> int:
        return len(self._wrapped)

    @overload
    def __getitem__(self, index: int) -> CatalogRow: ...

    @overload
    def __getitem__(self, index: slice) -> "Entries": ...

    def __getitem__(self, index: int | slice) -> "CatalogRow | Entries":
        if isinstance(index, slice):
            return Entries(self._wrapped[index])
        return self._wrapped[index].unwrapped()


@record
class RegistryPage:
    """A parsed page."""

    entries: tuple[Wrapped, ...]
    refused: tuple[str, ...]
    """Invalid entries, each with the reason, for people."""
    cursor: str
    """The cursor of the next page; empty: this is the last."""


@contextmanager
def uncollected() -> Iterator[None]:
    """Disable garbage collection while the block runs, in a thread: a collection holds up all threads for tens of
    milliseconds, and the many new objects of a catalogue cause many."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@uncollected()
def read_page(body: bytes, wanted: Wanted) -> RegistryPage:
    """Parse a page of `GET /v1/entries`.

    Raises:
        ValueError: it is invalid; the message says why.
    """
    page = parsed(body)
    about = page.get("registry")
    registry = about.get("id") if isinstance(about, Mapping) else ""
    if not isinstance(registry, str) or len(registry) > MAX_ID:
        raise ValueError("its id is none")
    entries, refused = sorted_out(listed_in(page, "entries"), lambda item: _entry(item, registry, wanted))
    return RegistryPage(entries, refused, cursor_of(page.get("next_cursor")))


def parsed(body: bytes) -> Mapping[str, Any]:
    """Return the object of an answer. Raises ValueError."""
    if values(body) > MAX_PARTS:
        raise ValueError(f"a page has more than {MAX_PARTS:,} values")
    try:
        page = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise ValueError("it is no JSON") from None
    if not isinstance(page, dict):
        raise ValueError("it is no JSON object")
    return page


def listed_in(page: Mapping[str, Any], name: str) -> list[Any]:
    """Return the list of that name. Raises ValueError."""
    found = page.get(name)
    if not isinstance(found, list):
        raise ValueError(f"it has no list `{name}`")
    return found


def cursor_of(value: Any) -> str:
    """Return the cursor of the next page; empty: this is the last. Raises ValueError."""
    if value is None or value == "":
        return ""
    if not isinstance(value, str | int) or len(text := str(value)) > MAX_CURSOR:
        raise ValueError("it does not say where its next page begins")
    return text


def sorted_out(
    items: Sequence[Any], read: Callable[[Mapping[str, Any]], Wrapped | None]
) -> tuple[tuple[Wrapped, ...], tuple[str, ...]]:
    """Return the entries of a page, and why others are invalid. `read` returns None for unwanted ones."""
    entries: list[Wrapped] = []
    refused: list[str] = []
    for item in items:
        try:
            if not isinstance(item, Mapping):
                raise ValueError("it is no object")
            if (entry := read(item)) is not None:
                entries.append(entry)
        except ValueError as error:
            refused.append(f"{shown_name(item)}: {' '.join(printable(str(error)).split())[:MAX_WHY]}")
    return tuple(entries), tuple(refused)


def shown_name(item: Any) -> str:
    """Return the name of an item for people, whatever its form."""
    for inner in _levels(item):
        if isinstance(name := inner.get("name"), str) and name:
            return repr(name[:100])
    return "an entry without a name"


def _levels(item: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(item, Mapping):
        yield from (inner for key in ("document", "server") if isinstance(inner := item.get(key), Mapping))
        yield item


def _entry(item: Mapping[str, Any], registry: str, wanted: Wanted) -> Wrapped | None:
    document = item.get("document")
    if not isinstance(document, Mapping):
        raise ValueError("it has no document")
    if not wanted(str(document.get("name"))):
        return None
    if (said := item.get("sha256")) is not None and said != digest(document):
        raise ValueError("it is not what its `sha256` says")
    return Wrapped(
        canonical(document),
        _seconds(item.get("published_at")),
        item.get("latest") is True,
        (*_stations(item.get("via")), *((registry,) if registry else ())),
    )


def _stations(via: Any) -> tuple[str, ...]:
    stations = via if isinstance(via, list) else []
    if len(stations) > MAX_STATIONS:
        raise ValueError(f"it came through more than {MAX_STATIONS} registries")
    if not all(isinstance(each, str) and len(each) <= MAX_ID for each in stations):
        raise ValueError("it does not say through which registries it came")
    return tuple(stations)


def _seconds(value: Any) -> float:
    usable = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if usable else 0.0
