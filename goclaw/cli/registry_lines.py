"""Entries of registries for people and for machines. Their words are strangers': in a terminal, on lines of ours."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from goclaw.config.schema import Config
from goclaw.redact import printable
from goclaw.registries.base import Entry, EntryKind, RemoteServer, ToolEntry
from goclaw.registries.catalog_store import OWN, StoredEntry
from goclaw.registries.resolving import commands

MAX_CHARACTERS = 100
"""Characters of a description in a line."""
MAX_WHOLE = 2_000
MAX_VERSIONS = 20
OWN_NAME = "(own)"


def summary(kept: StoredEntry) -> str:
    """Format an entry as one line."""
    entry = kept.entry
    words = [kept.registry or OWN_NAME, entry.kind.value, f"{entry.name} {entry.version}"]
    return "  ".join([*words, *([_line(entry.description, MAX_CHARACTERS)] if entry.description else [])])


def described(kept: StoredEntry, versions: Sequence[StoredEntry], config: Config) -> str:
    """Format all fields of an entry, and how to use it."""
    entry = kept.entry
    lines = [f"{entry.kind} {entry.name} {entry.version} of {kept.registry or 'this gateway itself'}"]
    lines += _about(kept, versions)
    lines += [f"runs at: {_remote(remote)}" for remote in entry.remotes]
    lines += [f"starts, where `packages: true`: {_line(' '.join(command))}" for _, command in commands(entry.packages)]
    if entry.toolsets:
        lines.append(f"toolsets: {_line(', '.join(entry.toolsets))}")
    if entry.tools:
        lines += ["tools:", *(f"  {_tool(tool)}" for tool in entry.tools)]
    return "\n  ".join([*lines, *_use(kept, config)])


def as_json(kept: StoredEntry, versions: Sequence[StoredEntry]) -> dict[str, Any]:
    """Return the entry without its document."""
    entry = kept.entry
    return {
        "registry": kept.registry or None,
        "kind": entry.kind,
        "name": entry.name,
        "version": entry.version,
        "description": entry.description,
        "tags": entry.tags,
        "tools": [tool.name for tool in entry.tools],
        "versions": [each.entry.version for each in versions],
        "sha256": kept.sha256,
        "published_at": kept.published_at or None,
        "published_by": kept.published_by or None,
        "starts": [command for _, command in commands(entry.packages)],
    }


def matches(entry: Entry, words: Sequence[str]) -> bool:
    """Whether all words are somewhere in it."""
    tools = [text for tool in entry.tools for text in (tool.name, tool.title, tool.description)]
    text = "\n".join([entry.kind, entry.name, entry.description, *entry.tags, *entry.toolsets, *tools]).casefold()
    return all(word.casefold() in text for word in words)


def _about(kept: StoredEntry, versions: Sequence[StoredEntry]) -> Iterator[str]:
    entry = kept.entry
    if entry.description:
        yield _line(entry.description, MAX_WHOLE)
    if entry.tags:
        yield f"tags: {_line(', '.join(entry.tags))}"
    named = [f"{each.entry.version}{_day(each.published_at)}" for each in versions[:MAX_VERSIONS]]
    more = f" and {len(versions) - MAX_VERSIONS} more" if len(versions) > MAX_VERSIONS else ""
    yield f"versions: {', '.join(named)}{more}"
    yield f"sha256: {kept.sha256}"
    if kept.published_by:
        yield f"published by: {_line(kept.published_by)}"
    if kept.via:
        yield f"came through: {_line(' → '.join(kept.via))}"


def _use(kept: StoredEntry, config: Config) -> Iterator[str]:
    """Yield lines on how it is used here, or could be."""
    entry, registry = kept.entry, kept.registry
    if registry == OWN or entry.kind is EntryKind.AGENT:
        return
    used = [
        name
        for name, settings in config.tools.from_registry.items()
        if (settings.registry, settings.toolset) == (registry, entry.name)
    ]
    if used:
        yield f"used here: {', '.join(f'tools.from_registry.{name}' for name in used)}"
        return
    yield "to use it, in the configuration (docs/registries.md):"
    name = entry.name.rpartition("/")[2]
    yield f"  tools: {{from_registry: {{{name}: {{registry: {registry}, toolset: {entry.name}}}}}}}"


def _tool(tool: ToolEntry) -> str:
    marks = [word for word, is_so in (("reads only", tool.read_only), ("destructive", tool.destructive)) if is_so]
    words = [_line(tool.name), *([f"({', '.join(marks)})"] if marks else []), _line(tool.description, MAX_CHARACTERS)]
    return "  ".join(word for word in words if word)


def _remote(remote: RemoteServer) -> str:
    wants = f", wants the headers {_line(', '.join(remote.headers))}" if remote.headers else ""
    return f"{_line(remote.url, MAX_WHOLE)} ({_line(remote.type)}{wants})"


def _day(moment: float) -> str:
    """Return the date in brackets; empty for a missing or invalid one."""
    try:
        return f" ({datetime.fromtimestamp(moment).astimezone():%Y-%m-%d})" if moment > 0 else ""
    except (ValueError, OverflowError, OSError):
        return ""


def _line(text: str, longest: int = MAX_WHOLE) -> str:
    """Return others' words on one line: no line end of theirs makes one that looks like ours."""
    line = " ".join(printable(text).split())
    return line if len(line) <= longest else f"{line[: longest - 1]}…"
