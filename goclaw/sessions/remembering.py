"""Mementos shown to the model: those of the person who speaks, and the shared ones.

They stand behind the conversation, marked as data, and are not stored: the system prompt is the same for all
users of a workspace, and a transcript is read by all participants. In a group the others would learn of the person's
own mementos through the answers, so only shared ones are shown there.
"""

from goclaw.context.untrusted_content import ContentMarkers
from goclaw.errors import GoclawError
from goclaw.memory.mementos import Memento, mementos_of
from goclaw.redact import mask
from goclaw.workspace import Workspace

TOOL = "memento"
"""Tool whose permission mementos require."""
MAX_TOLD = 20
MAX_CHARACTERS = 3_000
"""Maximum characters of all mementos together: they are sent with every request."""
ORIGIN = "your own mementos, which the tool memento reads"


async def remembered(workspace: Workspace, key: str, markers: ContentMarkers, *, own: bool) -> str:
    """Return the summaries of the latest mementos, in their marks; empty: there are none, or they cannot be read."""
    try:
        found = await mementos_of(workspace, key, own=own)
    except GoclawError:
        return ""
    lines: list[str] = []
    left = MAX_CHARACTERS
    for line in map(_line, found[:MAX_TOLD]):
        left -= len(line) + 1
        if left < 0:
            break
        lines.append(line)
    if len(lines) < len(found):
        lines.append(f"and {len(found) - len(lines)} more (action list)")
    return markers.beside(mask("\n".join(lines)), ORIGIN) if lines else ""


def _line(memento: Memento) -> str:
    shared = " (shared)" if memento.shared else ""
    return f"- {memento.name}{shared}" + (f": {memento.summary}" if memento.summary else "")
