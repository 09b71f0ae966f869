"""The public MCP registry's format, current since 2025-09 and earlier (its openapi.yaml, server.json).

A server becomes an entry of ours: name, version, description, addresses, and the packages that can be started as
described here. Addresses and packages that need input from a person (an argument without a value, a template without a
source) are left out. The digest covers this entry: any change of the conversion changes the digest of every version.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from goclaw.registries.base import Entry, EntryKind, Package, RemoteServer, canonical, entry_of
from goclaw.registries.pages import RegistryPage, Wanted, Wrapped, cursor_of, listed_in, parsed, sorted_out, uncollected

OFFICIAL = "io.modelcontextprotocol.registry/official"
"""The key of the registry's own data on a server, beside the publisher's."""
_HOMES = {"npm": ["npmjs", "org"], "pypi": ["pypi", "org"]}
"""The end of the host that `npx` and `uvx` use; a package of the same name elsewhere is another one."""
_HARMLESS = frozenset({"-y", "--yes"})
"""Arguments of `npx` itself, which it gets anyway."""
DEEPEST = 100
"""Nesting depth of a server's values: deeper ones have no meaning, and would exhaust the interpreter's stack."""
MAX_KEY = 64
"""Characters of a key that may be one of the format's."""
MAX_FILLED_COUNT = 50
MAX_FILLED = 2_000
"""Templates in one text, and characters of it and of each value: a page of them would expand to gigabytes."""
_TEMPLATE = re.compile(r"\{([^{}]*)\}")
_CAMEL = re.compile(r"(?<=[a-z0-9])([A-Z])")


class _Unusable(ValueError):
    """An address or a package that needs input from a person."""


@uncollected()
def read_public_page(body: bytes, wanted: Wanted) -> RegistryPage:
    """Parse a page of `GET /v0/servers`.

    Raises:
        ValueError: it is invalid; the message says why.
    """
    page = parsed(body)
    metadata = _section(_plain(page.get("metadata")))
    entries, refused = sorted_out(listed_in(page, "servers"), lambda item: _wrapped(item, wanted))
    return RegistryPage(entries, refused, cursor_of(metadata.get("next_cursor")))


def _wrapped(item: Mapping[str, Any], wanted: Wanted) -> Wrapped | None:
    inner = item.get("server")
    server = _plain(inner if isinstance(inner, Mapping) else item)
    detail, official = _section(server.get("version_detail")), _official(item)
    status = official.get("status") or server.get("status")
    if status == "deleted" or not wanted(str(server.get("name"))):
        return None
    entry = {
        "kind": EntryKind.MCP_SERVER.value,
        "name": server.get("name"),
        "version": server.get("version") or detail.get("version"),
        "description": server.get("description") or "",
        "remotes": [each.model_dump() for each in _usable(server.get("remotes"), _remote)],
        "packages": [each.model_dump() for each in _usable(server.get("packages"), _package)],
    }
    known: Entry = entry_of(entry)
    when = official.get("published_at") or detail.get("release_date") or server.get("created_at")
    latest = official.get("is_latest", detail.get("is_latest"))
    return Wrapped(canonical(known.document()), _seconds(when), latest is True)


def _official(item: Mapping[str, Any]) -> Mapping[str, Any]:
    inner = item.get("server")
    for holder in (item, inner if isinstance(inner, Mapping) else {}):
        meta = holder.get("_meta")
        if isinstance(meta, Mapping) and isinstance(found := meta.get(OFFICIAL), Mapping):
            return _section(_plain(found))
    return {}


def _usable(value: Any, read: Any) -> Iterator[Any]:
    for each in value if isinstance(value, list) else ():
        try:
            yield read(_section(each))
        except ValueError:  # `_Unusable`, or an invalid section
            continue


def _remote(remote: Mapping[str, Any]) -> RemoteServer:
    kind = remote.get("type") or remote.get("transport_type")
    variables = _section(remote.get("variables"))
    return RemoteServer(
        type=str(kind),
        url=_filled(str(remote.get("url") or ""), variables),
        headers=_required(remote.get("headers")),
    )


def _package(package: Mapping[str, Any]) -> Package:
    kind = str(package.get("registry_type") or package.get("registry_name") or "")
    if kind in _HOMES and (home := package.get("registry_base_url")) and _host(home)[-2:] != _HOMES[kind]:
        raise _Unusable("it is not where it would be looked for")
    if _section(package.get("transport")).get("type", "stdio") != "stdio":
        raise _Unusable("it does not speak over its standard streams")
    runtime = set(_arguments(package.get("runtime_arguments")))
    if kind in _HOMES and runtime - _HARMLESS:
        raise _Unusable("it wants to be started in a way of its own")
    identifier = str(package.get("identifier") or package.get("name") or "")
    if not kind or not identifier:
        raise _Unusable("it does not say what it is")
    return Package(
        kind=kind,
        identifier=identifier,
        version=str(package.get("version") or ""),
        arguments=tuple(_arguments(package.get("package_arguments"))),
        variables=_required(package.get("environment_variables")),
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
        text = None if said is None else _filled(str(said), _section(each.get("variables")))
        if each.get("type") != "named":
            if text is not None:
                yield text
            elif each.get("is_required"):
                raise _Unusable("an argument has no value")
        elif not isinstance(each.get("name"), str):
            raise _Unusable("an argument has no name")
        elif text is not None:
            yield f"{each.get('name')}={text}"
        elif _is_bare(each):
            yield str(each.get("name"))
        elif each.get("is_required"):
            raise _Unusable("an argument has no value")


def _is_bare(argument: Mapping[str, Any]) -> bool:
    """Return whether it is a switch, without a value."""
    return not {"value_hint", "format", "choices", "placeholder", "variables"} & argument.keys()


def _filled(text: str, variables: Mapping[str, Any]) -> str:
    def value(found: re.Match[str]) -> str:
        variable = _section(variables.get(found[1]))
        said = variable.get("value") if variable.get("value") is not None else variable.get("default")
        if said is None or len(filling := str(said)) > MAX_FILLED:
            raise _Unusable("nothing fills its template")
        return filling

    if len(text) > MAX_FILLED or text.count("{") > MAX_FILLED_COUNT:
        raise _Unusable("it is too long")
    return _TEMPLATE.sub(value, text)


def _required(value: Any) -> tuple[str, ...]:
    """Return the names of required inputs without a value of their own."""
    return tuple(
        str(each.get("name"))
        for each in map(_section, value if isinstance(value, list) else ())
        if each.get("is_required") and each.get("value") is None and each.get("default") is None
    )


def _section(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _plain(value: Any, deepest: int = DEEPEST) -> Any:
    """Return the same with the keys of the first format: `nextCursor` is `next_cursor`. Raises ValueError."""
    if not deepest:
        raise ValueError("it is nested too deeply")
    match value:
        case Mapping():
            return {
                _key(name): inner if name in ("_meta", "variables") else _plain(inner, deepest - 1)
                for name, inner in value.items()
            }
        case list():
            return [_plain(inner, deepest - 1) for inner in value]
    return value


def _key(name: str) -> str:
    return _CAMEL.sub(r"_\1", name).lower() if len(name) <= MAX_KEY else name


def _seconds(when: Any) -> float:
    try:
        return datetime.fromisoformat(str(when)).timestamp()
    except (ValueError, OverflowError, OSError):
        return 0.0
