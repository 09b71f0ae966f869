"""Entries of a registry, their documents on the wire and their digests.

A document is JSON. Unknown fields are kept and covered by the digest, but ignored. An entry is untrusted: it is
bounded, marked and approved (`goclaw.tools.mcp.validation`) like the definitions of every MCP server.
"""

import hashlib
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from goclaw.common.config.registries import LATEST as LATEST  # a word of the addresses, so it is found here, too
from goclaw.common.config.registries import EntryName, EntryVersion
from goclaw.common.core.records import record
from goclaw.errors import GoclawError

MAX_DOCUMENT = 512 * 1024
"""Bytes of one document: a toolset of a hundred tools with their schemas has a fifth of it."""
MAX_VALUES = 50_000
"""Values of one document, as `values` counts them: parsing time depends on these, not on bytes."""
MAX_TOOLS = 500
MAX_ENTRIES = 20_000
"""Entries of one catalogue, all versions counted."""
MAX_BYTES = 64 << 20
"""Bytes of all documents of one catalogue together."""
_NUMBER = r"(0|[1-9][0-9]{0,99})"
_BEFORE = r"(?:0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_SEMANTIC = re.compile(
    rf"v?{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-({_BEFORE}(?:\.{_BEFORE})*))?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)
"""https://semver.org, version 2.0.0, with the optional `v` that people write before a version."""


class RegistryError(GoclawError):
    """A fault of a registry; the message has its name, the reason and the remedy, never a token.

    `retry_after`: seconds before which a retry is useless. `status`: the HTTP status of its refusal; 0: no response.
    """

    def __init__(self, message: str, *, retry_after: float | None = None, status: int = 0) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.status = status


class EntryKind(StrEnum):
    """The kind of an entry."""

    TOOLSET = "toolset"
    AGENT = "agent"
    MCP_SERVER = "mcp-server"


SERVING = (EntryKind.TOOLSET, EntryKind.MCP_SERVER)
"""Kinds that a line of `tools.from_registry` can mean without naming one: a version exists in one of them only."""


class _Document(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class ToolEntry(_Document):
    """A tool of a toolset, with the parts of its MCP definition."""

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
    """Names of the required headers; their values come from the user's configuration."""


class Package(_Document):
    """A package of an MCP server, and how its program is started."""

    kind: str
    """`npm`, `pypi`, `oci` …"""
    identifier: str
    version: str = ""
    arguments: tuple[str, ...] = ()
    """Arguments after the package's name."""
    variables: tuple[str, ...] = ()
    """Names of the required environment variables."""


class Entry(_Document):
    """One version of a shared item."""

    kind: EntryKind
    name: EntryName
    version: EntryVersion
    description: str = Field("", max_length=10_000)
    tags: tuple[str, ...] = Field((), max_length=100)
    tools: tuple[ToolEntry, ...] = Field((), max_length=MAX_TOOLS)
    """The tools of a toolset."""
    toolsets: tuple[str, ...] = Field((), max_length=100)
    """For an agent: the names of the toolsets under which it can be used."""
    remotes: tuple[RemoteServer, ...] = Field((), max_length=20)
    """The addresses where it can be used: the publisher's MCP server."""
    packages: tuple[Package, ...] = Field((), max_length=20)
    """For an MCP server: packages to run it locally."""

    @field_validator("tools")
    @classmethod
    def _differ(cls, tools: tuple[ToolEntry, ...]) -> tuple[ToolEntry, ...]:
        if len({tool.name for tool in tools}) < len(tools):
            raise ValueError("two tools should not have the same name")
        return tools

    def document(self) -> dict[str, Any]:
        """Return the document for the wire."""
        return self.model_dump(mode="json", exclude_defaults=True)


@record
class Packed:
    """A parsed document: its content, its canonical form and its digest."""

    entry: Entry
    canonical: bytes
    sha256: str


def pack(document: Mapping[str, Any]) -> Packed:
    """Parse a document.

    Raises:
        ValueError: it is invalid; the message names the fault without repeating the content.
    """
    raw = canonical(document)
    if len(raw) > MAX_DOCUMENT:
        raise ValueError(f"an entry has more than {MAX_DOCUMENT // 1024} kB")
    if values(raw) > MAX_VALUES:
        raise ValueError(f"an entry has more than {MAX_VALUES:,} values")
    return Packed(_read(raw), raw, hashlib.sha256(raw).hexdigest())


def unpack(raw: bytes, sha256: str) -> Entry:
    """Return the entry in a stored canonical form.

    Raises:
        ValueError: the digest does not match, or it is not an entry.
    """
    if hashlib.sha256(raw).hexdigest() != sha256:
        raise ValueError("it is not what it was when it was kept")
    return _read(raw)


def entry_of(document: Mapping[str, Any]) -> Entry:
    """Return the entry in a document. Raises ValueError, as `pack` does."""
    return pack(document).entry


def canonical(document: Mapping[str, Any]) -> bytes:
    """Return the one form of a document that is hashed and stored: sorted keys, no spaces, UTF-8.

    Raises:
        ValueError: it has values that JSON cannot hold.
    """
    try:
        return orjson.dumps(document, option=orjson.OPT_SORT_KEYS)
    except TypeError as error:
        raise ValueError(f"an entry should be JSON: {error}") from None


def values(raw: bytes) -> int:
    """Estimate the number of values in JSON: never fewer than there are."""
    return raw.count(b",") + raw.count(b"[") + raw.count(b"{")


def digest(document: Mapping[str, Any]) -> str:
    """Return the SHA-256 of the canonical form in hexadecimal, which pins versions. Raises ValueError."""
    return hashlib.sha256(canonical(document)).hexdigest()


def version_order(version: str, published_at: float) -> tuple[Any, ...]:
    """Return a key to sort versions by: semantic ones by their rules (part 11), others before them by time.

    Versions equal by those rules (which ignore `+build`) are ordered by time, then by their letters.
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
