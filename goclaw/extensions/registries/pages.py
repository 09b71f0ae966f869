"""Parsing of a registry's pages from the wire: valid entries, and why the others are invalid.

All of it is untrusted and bounded. It is parsed in a thread, and `MAX_PARTS` bounds the time that parsing holds the
interpreter, so that no page holds up the event loop.

Besides our own format there is that of the public MCP registry, current since 2025-09 and earlier (its openapi.yaml,
server.json). A server becomes an entry of ours: name, version, description, addresses, and the packages that can be
started as described here. Addresses and packages that need input from a person (an argument without a value, a template
without a source) are left out. The digest covers this entry: any change of the conversion changes the digest of every
version.
"""

import gc
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

import orjson

from goclaw.common.core.records import record
from goclaw.common.core.redact import printable
from goclaw.extensions.registries.base import EntryKind, Package, RemoteServer, canonical, digest, entry_of, values
from goclaw.extensions.registries.catalog_store import CatalogRow

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

OFFICIAL = "io.modelcontextprotocol.registry/official"
"""The key of the registry's own data on a server, next to the publisher's."""
_HOMES = {"npm": ["npmjs", "org"], "pypi": ["pypi", "org"]}
"""The end of the host that `npx` and `uvx` use; a package of the same name elsewhere is another one."""
_HARMLESS = frozenset({"-y", "--yes"})
"""Arguments of `npx` itself, which it gets anyway."""
MAX_DEPTH = 100
"""Nesting depth of a server's values: deeper ones have no meaning, and would exhaust the interpreter's stack."""
MAX_KEY = 64
"""Characters of a key that may be one of the format's."""
MAX_FILLED_COUNT = 50
MAX_FILLED = 2_000
"""Templates in one text, and characters of it and of each value: a page of them would expand to gigabytes."""
_TEMPLATE = re.compile(r"\{([^{}]*)\}")
_CAMEL = re.compile(r"(?<=[a-z0-9])([A-Z])")


@record
class Wrapped:
    """An entry with its document in the canonical form, which takes a tenth of the room of the unwrapped one."""

    document: bytes
    published_at: float = 0.0
    latest: bool = False
    via: tuple[str, ...] = ()

    def unwrap(self) -> CatalogRow:
        """Return the same, parsed."""
        return CatalogRow(orjson.loads(self.document), self.published_at, self.latest, self.via)


@record
class RegistryPage:
    """A parsed page."""

    entries: tuple[Wrapped, ...]
    refused: tuple[str, ...]
    """Invalid entries, each with the reason, for people."""
    cursor: str
    """The cursor of the next page; empty: this is the last."""


@contextmanager
def disable_collection() -> Iterator[None]:
    """Disable garbage collection while the block runs, in a thread: a collection holds up all threads for tens of
    milliseconds, and the many new objects of a catalogue cause many."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@disable_collection()
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
    for level in (item.get("document"), item.get("server"), item) if isinstance(item, Mapping) else ():
        if isinstance(level, Mapping) and isinstance(name := level.get("name"), str) and name:
            return repr(name[:100])
    return "an entry without a name"


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


@disable_collection()
def read_public_page(body: bytes, wanted: Wanted) -> RegistryPage:
    """Parse a page of `GET /v0/servers`.

    Raises:
        ValueError: it is invalid; the message says why.
    """
    page = parsed(body)
    metadata = _section(_snake_case(page.get("metadata")))
    entries, refused = sorted_out(listed_in(page, "servers"), lambda item: _public_entry(item, wanted))
    return RegistryPage(entries, refused, cursor_of(metadata.get("next_cursor")))


def _public_entry(item: Mapping[str, Any], wanted: Wanted) -> Wrapped | None:
    inner = item.get("server")
    server = _snake_case(inner if isinstance(inner, Mapping) else item)
    detail, official = _section(server.get("version_detail")), _official(item)
    status = official.get("status") or server.get("status")
    if status == "deleted" or not wanted(str(server.get("name"))):
        return None
    entry = {
        "kind": EntryKind.MCP_SERVER.value,
        "name": server.get("name"),
        "version": server.get("version") or detail.get("version"),
        "description": server.get("description") or "",
        "remotes": [each.model_dump() for each in _usable_sections(server.get("remotes"), _remote)],
        "packages": [each.model_dump() for each in _usable_sections(server.get("packages"), _package)],
    }
    document = canonical(entry_of(entry).document())
    when = official.get("published_at") or detail.get("release_date") or server.get("created_at")
    latest = official.get("is_latest", detail.get("is_latest"))
    return Wrapped(document, _epoch_seconds(when), latest is True)


def _official(item: Mapping[str, Any]) -> Mapping[str, Any]:
    inner = item.get("server")
    for holder in (item, inner if isinstance(inner, Mapping) else {}):
        meta = holder.get("_meta")
        if isinstance(meta, Mapping) and isinstance(found := meta.get(OFFICIAL), Mapping):
            return _section(_snake_case(found))
    return {}


def _usable_sections(value: Any, read: Any) -> Iterator[Any]:
    for each in value if isinstance(value, list) else ():
        try:
            yield read(_section(each))
        except ValueError:  # it is invalid, or needs input from a person
            continue


def _remote(remote: Mapping[str, Any]) -> RemoteServer:
    kind = remote.get("type") or remote.get("transport_type")
    variables = _section(remote.get("variables"))
    return RemoteServer(
        type=str(kind),
        url=_fill(str(remote.get("url") or ""), variables),
        headers=_find_required_names(remote.get("headers")),
    )


def _package(package: Mapping[str, Any]) -> Package:
    kind = str(package.get("registry_type") or package.get("registry_name") or "")
    if kind in _HOMES and (home := package.get("registry_base_url")) and _host(home)[-2:] != _HOMES[kind]:
        raise ValueError("it is not where it would be looked for")
    if _section(package.get("transport")).get("type", "stdio") != "stdio":
        raise ValueError("it does not speak over its standard streams")
    runtime = set(_arguments(package.get("runtime_arguments")))
    if kind in _HOMES and runtime - _HARMLESS:
        raise ValueError("it wants to be started in a way of its own")
    identifier = str(package.get("identifier") or package.get("name") or "")
    if not kind or not identifier:
        raise ValueError("it does not say what it is")
    return Package(
        kind=kind,
        identifier=identifier,
        version=str(package.get("version") or ""),
        arguments=tuple(_arguments(package.get("package_arguments"))),
        variables=_find_required_names(package.get("environment_variables")),
    )


def _host(url: Any) -> list[str]:
    try:
        return (urlsplit(str(url)).hostname or "").split(".")
    except ValueError:
        return []


def _arguments(value: Any) -> Iterator[str]:
    """Yield the words of a command line; `--flag=value`, as the format has it."""
    for each in map(_section, value if isinstance(value, list) else ()):
        said = each.get("value") if each.get("value") is not None else each.get("default")
        text = None if said is None else _fill(str(said), _section(each.get("variables")))
        if each.get("type") != "named":
            if text is not None:
                yield text
            elif each.get("is_required"):
                raise ValueError("an argument has no value")
        elif not isinstance(each.get("name"), str):
            raise ValueError("an argument has no name")
        elif text is not None:
            yield f"{each.get('name')}={text}"
        elif not {"value_hint", "format", "choices", "placeholder", "variables"} & each.keys():
            yield str(each.get("name"))  # a switch
        elif each.get("is_required"):
            raise ValueError("an argument has no value")


def _fill(text: str, variables: Mapping[str, Any]) -> str:
    def value(found: re.Match[str]) -> str:
        variable = _section(variables.get(found[1]))
        said = variable.get("value") if variable.get("value") is not None else variable.get("default")
        if said is None or len(filling := str(said)) > MAX_FILLED:
            raise ValueError("nothing fills its template")
        return filling

    if len(text) > MAX_FILLED or text.count("{") > MAX_FILLED_COUNT:
        raise ValueError("it is too long")
    return _TEMPLATE.sub(value, text)


def _find_required_names(value: Any) -> tuple[str, ...]:
    """Return the names of required inputs without a value of their own."""
    return tuple(
        str(each.get("name"))
        for each in map(_section, value if isinstance(value, list) else ())
        if each.get("is_required") and each.get("value") is None and each.get("default") is None
    )


def _section(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _snake_case(value: Any, deepest: int = MAX_DEPTH) -> Any:
    """Return the same with the keys of the first format: `nextCursor` is `next_cursor`. Raises ValueError."""
    if not deepest:
        raise ValueError("it is nested too deeply")
    match value:
        case Mapping():
            return {
                _snake_case_key(name): inner if name in ("_meta", "variables") else _snake_case(inner, deepest - 1)
                for name, inner in value.items()
            }
        case list():
            return [_snake_case(inner, deepest - 1) for inner in value]
    return value


def _snake_case_key(name: str) -> str:
    return _CAMEL.sub(r"_\1", name).lower() if len(name) <= MAX_KEY else name


def _epoch_seconds(when: Any) -> float:
    try:
        return datetime.fromisoformat(str(when)).timestamp()
    except (ValueError, OverflowError, OSError):
        return 0.0
