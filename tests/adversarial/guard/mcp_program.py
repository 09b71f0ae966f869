"""A small MCP server without any library: `python -S mcp_program.py ANSWER HEARD`.

`lookup` answers with the text of the file ANSWER, `post` and `count` take a text and write it to HEARD; `count` says of
itself that it only reads.
"""

import json
import sys
from pathlib import Path
from typing import Any

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
READS = {"readOnlyHint": True}
TOOLS = [
    {"name": "lookup", "description": "Look a ticket up.", "inputSchema": {"type": "object"}, "annotations": READS},
    {"name": "post", "description": "Put a text on the board.", "inputSchema": TEXT},
    {"name": "count", "description": "Count the words of a text.", "inputSchema": TEXT, "annotations": READS},
]


def result(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    """The answer to a request; None: there is no such one."""
    if method == "initialize":
        server = {"name": "small", "version": "1"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": server}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method != "tools/call":
        return None
    given = params.get("arguments") or {}
    if params["name"] == "lookup":
        said = Path(sys.argv[1]).read_text()
    else:
        said = "done"
        with Path(sys.argv[2]).open("a") as heard:
            heard.write(f"{params['name']} {given.get('text', '')}\n")
    return {"content": [{"type": "text", "text": said}]}


for line in sys.stdin:
    message = json.loads(line)
    if message.get("id") is None:
        continue
    answered = result(message.get("method", ""), message.get("params") or {})
    unknown = {"error": {"code": -32601, "message": "Method not found"}}
    sys.stdout.write(
        json.dumps({"jsonrpc": "2.0", "id": message["id"], **({"result": answered} if answered else unknown)})
    )
    sys.stdout.write("\n")
    sys.stdout.flush()
