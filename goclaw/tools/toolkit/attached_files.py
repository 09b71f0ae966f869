"""Files of the workspace on their way to people: their bytes as they are now, in the blob store."""

import mimetypes

from goclaw.common.core.messages import Artifact
from goclaw.common.workspace import Workspace
from goclaw.durable.store.blobs import Blobs
from goclaw.errors import ToolError

MAX_FILE = 20 << 20
"""Bytes of a file that is handed over: as many as can be received."""


async def store_file(workspace: Workspace, blobs: Blobs, path: str, kind: str) -> Artifact:
    """Return a file of the workspace as an artifact of this kind, named by its path there.

    Raises:
        ToolError: there is no such file, or it cannot be handed over.
    """
    found = await workspace.stat(path)
    if found.size > MAX_FILE:
        size = f"{found.size / (1 << 20):.1f} MB"
        raise ToolError(f"file too large: {path} has {size}, at most {MAX_FILE >> 20} can be sent")
    content = await workspace.read_bytes(path, MAX_FILE)
    if not content:
        raise ToolError(f"file is empty: {path}")
    mime = mimetypes.guess_type(found.path)[0] or "application/octet-stream"
    return Artifact(kind, await blobs.put(content, mime), mime, found.path, len(content))
