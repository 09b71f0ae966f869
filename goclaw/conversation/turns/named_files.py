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
from goclaw.common.workspace import FileStamp, Workspace
from goclaw.conversation.turns.turn_context import SessionPorts
from goclaw.errors import HookFailed, StateError, ToolError
from goclaw.tools.approval.policy import decide
from goclaw.tools.hooks.base import HookEvent
from goclaw.tools.toolkit.attached_files import store_file
from goclaw.tools.toolkit.scope import CallScope

MAX_FILES, MAX_LOOKED_AT = 5, 10
"""Files of one answer (more would flood a chat), and those that are looked at for it."""
MAX_PATH = 500
MAX_TEXT, MAX_LINKS = 200_000, 200
"""Characters of an answer that are searched, and links that are looked at: the search runs in the event loop."""
LINK = "]("
"""Every link has it: a text without it names no file."""
READ = "read"
"""The tool with the rights that decide."""
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
    viewer: str
    """The person whose private notes may be among them; empty: no person's."""

    async def find(self, text: str) -> tuple[Artifact, ...]:
        """Return the files that a text names, in its order, as they are now; at most `MAX_FILES`.

        Raises:
            StateError: a file cannot be copied now.
        """
        paths = tuple(dict.fromkeys(paths_in(text[:MAX_TEXT])))
        workspace = await self._workspace() if paths else None
        if workspace is None:
            return ()
        found, seen = dict[str, Artifact](), set[FileStamp]()
        for path in paths:
            if len(found) == MAX_FILES or len(seen) == MAX_LOOKED_AT:
                break
            artifact = await self._file(workspace, path, seen)
            if artifact and artifact.blob not in found:
                found[artifact.blob] = artifact
                self._record(artifact)
        return tuple(found.values())

    async def _workspace(self) -> Workspace | None:
        """Return the workspace of the turn, also for an owner without the private notes of others."""
        try:
            workspace = await self.ports.environment.workspace(self.scope.actor, self.scope.session)
        except (ToolError, StateError):
            return None  # there is none, and the answer itself is there
        return workspace.seen_by(self.viewer)

    async def _file(self, workspace: Workspace, path: str, seen: set[FileStamp]) -> Artifact | None:
        """Return a copy of a file that may go along; `seen`: the versions of files looked at, which gets its own."""
        try:
            found = await workspace.stat(path)
            if found.is_folder or found.version in seen:
                return None
            seen.add(found.version)
            if not await self._may_read(path):
                return None
            return await store_file(workspace, self.ports.environment.blobs, path, NAMED)
        except ToolError:
            return None  # many links name no file, and the answer itself is there

    def _record(self, given: Artifact) -> None:
        scope = self.scope
        self.ports.environment.audit(
            AuditEntry("file.give", given.name, scope.actor, scope.session, rule=RULE, result="ok", turn=scope.turn)
        )

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
        # After the tool a hook may keep what was read from the model, and no model reads a file that is given.
        if hooks.has_any(HookEvent("post_tool", scope.session, scope.actor, READ, spec.tags)):
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
