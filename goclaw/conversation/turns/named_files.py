"""The files of the workspace that an answer names in Markdown links and pictures: people get them with the answer.

A file goes along if the `read` tool could read it in the same turn, for the same person, without a question. It is
copied when the answer is recorded: so it is sent once, and is later what it was then.
"""

import re
from collections.abc import Iterator
from itertools import islice
from urllib.parse import unquote

from goclaw.common.auth.audit import AuditEntry
from goclaw.common.core.messages import NAMED, Artifact
from goclaw.common.core.records import record
from goclaw.conversation.turns.turn_context import SessionPorts
from goclaw.errors import HookFailed, StateError, ToolError
from goclaw.tools.approval.policy import decide
from goclaw.tools.hooks.base import HookEvent
from goclaw.tools.toolkit.attached_files import store_file
from goclaw.tools.toolkit.scope import CallScope

MAX_FILES = 5
"""Files of one answer: more would flood a chat."""
MAX_PATH = 500
MAX_TEXT, MAX_LINKS = 200_000, 200
"""Characters of an answer that are searched, and links that are looked at: the search runs in the event loop."""
LINK = "]("
"""Every link has it: a text without it names no file."""
READ = "read"
"""The tool whose rights decide."""
RULE = "the answer names it, and `read` may read it"
"""Why a file goes along, for the audit log."""
_MARKS = re.compile("`+")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:|//|#", re.IGNORECASE)
_OF_FILES = re.compile(r"(?:file|sandbox):(?://(?=/))?", re.IGNORECASE)
"""Models write `sandbox:` before files that they made."""


@record
class NamedFiles:
    """Finds the files that answers of one turn name."""

    ports: SessionPorts
    scope: CallScope

    async def find(self, text: str) -> tuple[Artifact, ...]:
        """Return the files that a text names, in its order, as they are now; at most `MAX_FILES`."""
        found: dict[str, Artifact] = {}
        for path in dict.fromkeys(paths_in(text[:MAX_TEXT])):
            if len(found) == MAX_FILES:
                break
            if artifact := await self._file(path):
                found.setdefault(artifact.blob, artifact)
        return tuple(found.values())

    async def _file(self, path: str) -> Artifact | None:
        environment, scope = self.ports.environment, self.scope
        try:
            workspace = await environment.workspace(scope.actor, scope.session)
            if (await workspace.stat(path)).is_folder or not await self._may_read(path):
                return None
            artifact = await store_file(workspace, environment.blobs, path, NAMED)
        except (ToolError, StateError):
            return None  # many links name no file, and the answer itself is there
        given = AuditEntry(
            "file.give", artifact.name, scope.actor, scope.session, rule=RULE, result="ok", turn=scope.turn
        )
        environment.audit(given)
        return artifact

    async def _may_read(self, path: str) -> bool:
        """Whether the `read` tool could read a file in this turn unchanged, and without a question."""
        scope, access, given = self.scope, self.ports.approvals.access, {"path": path}
        tool, hooks = self.ports.dispatcher.registry.lookup(READ), self.ports.dispatcher.hooks
        decision = access.authorize(scope.actor, "tool.use", READ, given)
        if tool is None or not decision.allowed or decision.input not in (None, given):
            return False
        spec, chosen = tool.spec, scope.services.chosen_mode()
        if (
            not access.select(scope.selections, spec)
            or decide(access, scope.actor, spec, spec.risk, chosen=chosen) != "run"
        ):
            return False
        if "pre_tool" not in hooks.points:
            return True
        event = HookEvent("pre_tool", scope.session, scope.actor, READ, spec.tags, "", given)
        try:
            answer = await hooks.fire(event)
        except HookFailed:
            return False
        return not answer.deny and answer.input in (None, given)


def paths_in(text: str) -> Iterator[str]:
    """Yield the paths that the first links and pictures of a Markdown text lead to; those in code are none.

    Whether they exist, and lie in the workspace, is not looked at.
    """
    for line, at in islice(_links_in(text), MAX_LINKS):
        if path := _path_at(line, at):
            yield path


def _links_in(text: str) -> Iterator[tuple[str, int]]:
    """Yield each link outside code as its line and where its address begins there."""
    for line in _lines_outside_fences(text):
        opened, done, at = 0, 0, line.find(LINK)  # `opened`: marks that the code began with which is not closed
        while at >= 0:
            for marks in _MARKS.findall(line, done, at):
                opened = 0 if opened == len(marks) else opened or len(marks)
            if not opened:
                yield line, at + len(LINK)
            done, at = at, line.find(LINK, at + len(LINK))


def _lines_outside_fences(text: str) -> Iterator[str]:
    fence = ""
    for line in text.split("\n"):
        mark = found[1] if (found := _FENCE.match(line)) else ""
        if fence:
            is_end = mark.startswith(fence) and not line.strip().strip(fence[0])
            fence = "" if is_end else fence
        elif mark:
            fence = mark
        elif LINK in line and not line.startswith(("    ", "\t")):
            yield line


def _path_at(line: str, start: int) -> str:
    """Return the path of the link whose address begins there; empty: it leads elsewhere."""
    rest = line[start : start + MAX_PATH].lstrip()
    target = rest[1:].partition(">")[0] if rest.startswith("<") else _until_closed(rest)
    target = _OF_FILES.sub("", target, count=1) if _OF_FILES.match(target) else target
    if _SCHEME.match(target):
        return ""
    path = unquote(target.partition("#")[0])
    return path if path.isprintable() else ""


def _until_closed(text: str) -> str:
    """Return a text up to the first blank, or the bracket that closes what the link opened."""
    depth = 0
    for at, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if character.isspace() or depth < 0:
            return text[:at]
    return text
