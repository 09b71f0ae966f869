"""What stands in a registry: an entry, its document on the wire and its digest.

A document is JSON. Fields that are not known here are kept and covered by the digest, but mean nothing. An entry is a
stranger's word: what uses it bounds, marks and asks (`goclaw.mcp.validation`), as of every other MCP server.
"""

import hashlib
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from goclaw.config.registries import LATEST as LATEST  # a word of the addresses, so it is found here, too
from goclaw.config.registries import EntryName, EntryVersion
from goclaw.errors import GoclawError
from goclaw.records import record

MAX_DOCUMENT = 512 * 1024
"""Bytes of one document: a toolset of a hundred tools with their schemas has a fifth of it."""
MAX_VALUES = 50_000
"""Of one document, as `values` counts them: what holds the interpreter while it is read are these, not its bytes."""
MAX_TOOLS = 500
MAX_ENTRIES = 20_000
"""Of one catalogue, all versions counted."""
MAX_BYTES = 64 << 20
"""Of all documents of one catalogue together."""
_NUMBER = r"(0|[1-9][0-9]{0,99})"
_BEFORE = r"(?:0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_SEMANTIC = re.compile(
    rf"v?{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-({_BEFORE}(?:\.{_BEFORE})*))?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)
"""https://semver.org, version 2.0.0, and the `v` that people write before one."""


class RegistryError(GoclawError):
    """A registry cannot be used as it should; the message names it, says why and what helps, and holds no token.

    `retry_after` is in seconds: asking earlier is useless. `status`: with which HTTP status it refused; 0: it did not.
    """

    def __init__(self, message: str, *, retry_after: float | None = None, status: int = 0) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.status = status


class EntryKind(StrEnum):
    """What an entry is."""

    TOOLSET = "toolset"
    AGENT = "agent"
    MCP_SERVER = "mcp-server"


SERVING = (EntryKind.TOOLSET, EntryKind.MCP_SERVER)
"""Kinds that a line of `tools.from_registry` may mean, which does not say which: one version is of one of them."""


class _Document(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class ToolEntry(_Document):
    """A tool of a toolset: what an MCP server has to say of it."""

    name: str = Field(min_length=1, max_length=128)
    title: str = ""
    description: str = ""
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None = None
    read_only: bool | None = None
    destructive: bool | None = None
    tags: tuple[str, ...] = ()


class RemoteServer(_Document):
    """An address of an MCP server."""

    type: str = "streamable-http"
    url: str = Field(min_length=1, max_length=2_000)
    headers: tuple[str, ...] = ()
    """Names of the headers that it wants; whoever uses it has their values."""


class Package(_Document):
    """A package of an MCP server, and how its program is started."""

    kind: str
    """`npm`, `pypi`, `oci` …"""
    identifier: str
    version: str = ""
    arguments: tuple[str, ...] = ()
    """Behind the package's name."""
    variables: tuple[str, ...] = ()
    """Names of the environment variables that it wants."""


class Entry(_Document):
    """One version of something that is shared."""

    kind: EntryKind
    name: EntryName
    version: EntryVersion
    description: str = Field("", max_length=10_000)
    tags: tuple[str, ...] = Field((), max_length=100)
    tools: tuple[ToolEntry, ...] = Field((), max_length=MAX_TOOLS)
    """Of a toolset."""
    toolsets: tuple[str, ...] = Field((), max_length=100)
    """Of an agent: the names of the toolsets under which it can be used."""
    remotes: tuple[RemoteServer, ...] = Field((), max_length=20)
    """Where it can be used: the MCP server of whoever published it."""
    packages: tuple[Package, ...] = Field((), max_length=20)
    """Of an MCP server: how one gets a program of one's own."""

    @field_validator("tools")
    @classmethod
    def _differ(cls, tools: tuple[ToolEntry, ...]) -> tuple[ToolEntry, ...]:
        if len({tool.name for tool in tools}) < len(tools):
            raise ValueError("two tools should not have the same name")
        return tools

    def document(self) -> dict[str, Any]:
        """As it goes over the wire."""
        return self.model_dump(mode="json", exclude_defaults=True)


@record
class Packed:
    """A document that was read: what it says, its canonical form and its digest."""

    entry: Entry
    canonical: bytes
    sha256: str


def packed(document: Mapping[str, Any]) -> Packed:
    """Read a document.

    Raises:
        ValueError: it is none; the message names what is wrong with it, and nothing of what it says.
    """
    raw = canonical(document)
    if len(raw) > MAX_DOCUMENT:
        raise ValueError(f"an entry has more than {MAX_DOCUMENT // 1024} kB")
    if values(raw) > MAX_VALUES:
        raise ValueError(f"an entry has more than {MAX_VALUES:,} values")
    return Packed(_read(raw), raw, hashlib.sha256(raw).hexdigest())


def unpacked(raw: bytes, sha256: str) -> Entry:
    """The entry in a canonical form that was kept.

    Raises:
        ValueError: that is not what it was, or was none.
    """
    if hashlib.sha256(raw).hexdigest() != sha256:
        raise ValueError("it is not what it was when it was kept")
    return _read(raw)


def entry_of(document: Mapping[str, Any]) -> Entry:
    """What a document says. Raises ValueError, as `packed` does."""
    return packed(document).entry


def canonical(document: Mapping[str, Any]) -> bytes:
    """The one form of a document that is hashed and kept: sorted keys, no spaces, UTF-8.

    Raises:
        ValueError: it holds what is no JSON.
    """
    try:
        return orjson.dumps(document, option=orjson.OPT_SORT_KEYS)
    except TypeError as error:
        raise ValueError(f"an entry should be JSON: {error}") from None


def values(raw: bytes) -> int:
    """How many values JSON has, about: never fewer than there are."""
    return raw.count(b",") + raw.count(b"[") + raw.count(b"{")


def digest(document: Mapping[str, Any]) -> str:
    """SHA-256 of the canonical form, as hexadecimal digits: what is pinned of a version. Raises ValueError."""
    return hashlib.sha256(canonical(document)).hexdigest()


def version_order(version: str, published_at: float) -> tuple[Any, ...]:
    """A key to sort versions by: semantic ones by their rules (part 11), others before them by time.

    What those rules call equal (they look past `+build`) is ordered by time, then by its letters.
    """
    found = _SEMANTIC.fullmatch(version)
    if found is None:
        return (0, published_at, version)
    major, minor, patch, before = found.groups()
    identifiers = tuple(
        (0, int(part), "") if part.isdigit() else (1, 0, part) for part in (before.split(".") if before else ())
    )
    return (1, int(major), int(minor), int(patch), before is None, identifiers, published_at, version)


def _read(raw: bytes) -> Entry:
    try:
        return Entry.model_validate_json(raw)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "the document"
        raise ValueError(f"{place}: {first['msg'].removeprefix('Value error, ')}") from None
