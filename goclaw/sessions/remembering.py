"""Which mementos the model is told of: those of the person who speaks, and the shared ones.

They stand behind the conversation, in the marks of what is no instruction, and are stored nowhere: the system prompt is
the same for all who work in a workspace, and a transcript is read by all who take part. In a group the others would
learn of the person's own ones through the answers, so that only shared ones are told there.
"""

from goclaw.context.untrusted_content import ContentMarkers
from goclaw.errors import GoclawError
from goclaw.memory.mementos import Memento, mementos_of
from goclaw.redact import mask
from goclaw.workspace import Workspace

TOOL = "memento"
"""Whoever may not use it is told of none."""
MAX_TOLD = 20
MAX_CHARACTERS = 3_000
"""Characters of all together: they are told with every request."""
ORIGIN = "your own mementos, which the tool memento reads"


async def remembered(workspace: Workspace, key: str, markers: ContentMarkers, *, own: bool) -> str:
    """The summaries of the latest mementos, in their marks; empty: there are none, or they cannot be read."""
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
