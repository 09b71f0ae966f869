"""Approved definitions of tools: `mcp-tools.json` in the state folder.

The first definition of a tool is the one that the operator gets with the server. A later one is a change, whatever its
cause, and its calls need approval until an admin has agreed to it. The file also records who agreed, and when.
"""

import asyncio
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from goclaw.common.core.files import Writer, lock_folder, replace_file
from goclaw.errors import StateError
from goclaw.tools.mcp.base import Definition
from goclaw.tools.mcp.untrusted import quote

log = logging.getLogger(__name__)

FILE = "mcp-tools.json"
MAX_KNOWN = 1_000
"""Tools of one server that are kept; calls of further ones need approval each time."""
_AGREED = "agreed"
"""Beside the parts of a definition: who agreed to it and when; missing for the first one."""
MAX_CHANGE = 400
"""Characters of the old and the new value of a part, for people."""


class ApprovedTools:
    """The approved definitions of all servers. Read again when `goclaw mcp approve` has changed the file."""

    def __init__(self, state: Path, writer: Writer = lock_folder) -> None:
        """`state`: the state folder. `writer`: changes the file."""
        self._writer = writer
        self._file = state / FILE
        self._read_at: tuple[int, int] = (0, 0)
        self._known: dict[str, dict[str, Any]] = {}
        self._is_unreadable = False

    def changes(self, server: str, definition: Definition) -> tuple[str, ...]:
        """Return the differences from the approved definition, a line each; empty: none, or the tool is new."""
        self._refresh()
        if self._is_unreadable:
            return (f"{FILE} cannot be read, so the approved definitions are unknown",)
        of_server = self._known.get(server, {})
        known = of_server.get(definition.name)
        if known is None and len(of_server) >= MAX_KNOWN:
            return (f"the server has offered more than {MAX_KNOWN:,} tools over time",)
        if known is None:
            return ()
        parts = {part: value for part, value in known.items() if part != _AGREED}
        if parts == _plain(definition):
            return ()
        return tuple(_differences(parts, _plain(definition))) or ("its form",)

    async def meet(self, server: str, definitions: Sequence[Definition]) -> None:
        """Store the definitions of unknown tools."""
        self._refresh()
        known = self._known.get(server, {})
        new = [each for each in definitions if each.name not in known][: max(MAX_KNOWN - len(known), 0)]
        if new and not self._is_unreadable:
            await self._remember(server, {each.name: _plain(each) for each in new})

    async def agree(self, server: str, definitions: Sequence[Definition], by: str, at: float) -> bool:
        """Approve definitions; if they cannot be written, until the process ends.

        Returns whether they are approved: nothing is while the file cannot be read, and the file stays as it is.
        Rewriting it would approve the present definitions of all other tools.

        Args:
            server: the server of the tools.
            definitions: those that were shown.
            by: the actor key of the user who agreed, already checked to be an admin.
            at: when, in epoch seconds.
        """
        self._refresh()
        if self._is_unreadable:
            return False
        agreed = {"by": by, "at": datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")}
        await self._remember(server, {each.name: {**_plain(each), _AGREED: agreed} for each in definitions})
        return True

    async def _remember(self, server: str, plain: Mapping[str, Any]) -> None:
        self._known.setdefault(server, {}).update(plain)
        try:
            await asyncio.to_thread(self._write, server, plain)
        except (OSError, StateError) as error:
            log.warning("%s cannot be written, so that its tools are new at the next start: %s", self._file, error)

    def _write(self, server: str, plain: Mapping[str, Any]) -> None:
        with self._writer(self._file):
            known = self._load()
            known.setdefault(server, {}).update(plain)
            replace_file(self._file, json.dumps(known, indent=1, ensure_ascii=False, sort_keys=True))

    def _refresh(self) -> None:
        try:
            found = self._file.stat()
        except OSError:
            return
        if (stamp := (found.st_mtime_ns, found.st_ino)) != self._read_at:
            self._known, self._read_at = self._load(), stamp

    def _load(self) -> dict[str, dict[str, Any]]:
        self._is_unreadable = False
        try:
            read = json.loads(self._file.read_text("utf-8"))
            return {server: dict(tools) for server, tools in read.items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, AttributeError, TypeError) as error:
            log.error(
                "%s cannot be read, so that every call of an MCP server's tool is asked for until it is mended, or "
                "removed to agree to all tools as they are: %s",
                self._file,
                error,
            )
            self._is_unreadable = True
            return {}


def _plain(definition: Definition) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(json.dumps(asdict(definition)))
    return plain


def _differences(was: Mapping[str, Any], now: Mapping[str, Any], name: str = "") -> Iterator[str]:
    for part in sorted({*was, *now}):
        before, after = was.get(part), now.get(part)
        if before == after:
            continue
        place = f"{name}.{part}" if name else part
        if isinstance(before, dict) and isinstance(after, dict):
            yield from _differences(before, after, place)
        else:
            yield f"{quote(place, 80)}: was {_short(before)}, is {_short(after)}"


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return "nothing" if value is None else f"“{quote(text, MAX_CHANGE)}”"
