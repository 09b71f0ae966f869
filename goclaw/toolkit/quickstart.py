"""`AGENTS_QUICKSTART.md` in a workspace: the tools, how to call them, and where to read more.

For an agent or a person who comes into the folder and knows nothing. It is made from the declarations, and replaced
only while it is what was written here last: its last line has the digest of the others.
"""

import hashlib
import json
import re
from collections.abc import Sequence

from goclaw.errors import ToolError
from goclaw.toolkit.describing import risk
from goclaw.toolkit.tool_listing import ListedTool, grouped
from goclaw.workspace import Workspace

NAME = "AGENTS_QUICKSTART.md"
_MAX_BYTES = 1 << 20
"""Bytes. No generated page is larger, so a larger file is the user's own."""
_MARK = re.compile(r"<!-- written by GoClaw, sha256:(?P<digest>[0-9a-f]{64})[^\n]*-->\n\Z")

_TEXT = """\
# Quickstart for agents

GoClaw works in this folder. These are its tools, for an agent that works here and for a person who looks around. Not
everybody may use each of them: `/tools` in the chat lists yours.

- An agent calls a tool by its name with a JSON object. Paths count from this folder.
- In a shell: `goclaw tool run NAME --input JSON`, and `goclaw tool list`.
- All about one tool, with examples, rights and risk: `/tools NAME` in the chat, `goclaw tool describe NAME` in a shell.
- What needs a person's yes is asked for; what is refused should not be tried in another way.
- `AGENTS.md` and the other files with names in capitals are what the agent is told at the beginning.
"""


def page(listed: Sequence[ListedTool]) -> str:
    """Return the whole file, with its mark."""
    lines = [_TEXT]
    for title, inside in grouped(listed):
        lines += [f"## {title.capitalize()}", ""]
        for shown in inside:
            lines.append(f"- `{_signature(shown)}`: {shown.brief} Risk: {risk(shown.tool)}.")
            lines += [f"  - {example.about}: `{json.dumps(dict(example.input), ensure_ascii=False)}`"
                      for example in shown.tool.spec.examples[:1]]  # fmt: skip
        lines.append("")
    text = "\n".join(lines)
    return f"{text}<!-- written by GoClaw, sha256:{_digest(text)}; change anything, and the file is yours -->\n"


def is_untouched(content: str) -> bool:
    """Whether a file is still what `page` made, of whatever tools."""
    mark = _MARK.search(content)
    return mark is not None and mark["digest"] == _digest(content[: mark.start()])


async def write_quickstart(workspace: Workspace, listed: Sequence[ListedTool]) -> bool:
    """Write the page to the workspace, unless the user has an own file of its name. Returns whether it was written.

    Raises:
        ToolError: the workspace takes no file.
    """
    wanted = page(listed)
    if await workspace.has_link(NAME):
        return False
    if not await workspace.exists(NAME):
        await workspace.keep_bytes(NAME, wanted.encode())  # replaces nothing, whatever appears meanwhile
        return True
    try:
        found, version = await workspace.use(
            NAME, lambda opened: (opened.file.read(_MAX_BYTES + 1), opened.stat.version)
        )
    except ToolError:
        return False  # no regular file: the user's own
    content = found.decode(errors="replace")
    if content == wanted or not is_untouched(content):
        return False
    await workspace.write_bytes(NAME, wanted.encode(), unless_changed=version)
    return True


def _signature(shown: ListedTool) -> str:
    schema = shown.tool.spec.schema
    required = schema.get("required", ())
    names = [name if name in required else f"{name}?" for name in schema.get("properties", {})]
    return f"{shown.name}({', '.join(names)})"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
