"""A server's requests to the model, converted from the library's types to plain data, and the answers back.

The protocol calls this sampling: a request of the server until 2025-11-25, an input that a result requires since
2026-07-28. `goclaw.tools.mcp_sampling` decides about the request.
"""

import base64
import binascii
from collections.abc import Iterator

import mcp_types as types

from goclaw.errors import ToolError
from goclaw.mcp.base import Piece, Prompted, SamplingResult

USER_REJECTED = -1
"""The protocol's code for "User rejected sampling request" (2025-11-25, Sampling, Error Handling)."""
NOT_AGREED = "User rejected sampling request"
MAX_PARTS = 500
"""Texts and pictures of one request: as many as fit a message would hold up the event loop for a second."""
MAX_STOPS = 20
"""Stop sequences of an answer: no provider takes more than half as many."""
REFUSED = {"refused": "goclaw"}
"""Marks an error as ours: where it ends the call, the text must not blame the server."""
_STOP = {"end": "endTurn", "length": "maxTokens", "sequence": "stopSequence"}


def refusal(message: str, code: int = types.INVALID_REQUEST) -> types.ErrorData:
    """Return our refusal of a server's request."""
    return types.ErrorData(code=code, message=message, data=REFUSED)


def prompted_of(params: types.CreateMessageRequestParams) -> Prompted:
    """Return the request as plain data.

    Raises:
        ToolError: it uses features that no server gets.
    """
    if params.tools or params.tool_choice:
        raise ToolError("the model gets no tools when a server asks it: leave `tools` and `toolChoice` out")
    if params.include_context not in (None, "none"):
        raise ToolError('the model gets no context of others when a server asks it: `includeContext` has to be "none"')
    if params.task is not None:
        raise ToolError("the model answers at once, and not as a task: leave `task` out")
    parts = sum(max(1, len(message.content_as_list)) for message in params.messages)
    if parts > MAX_PARTS or len(params.stop_sequences or ()) > MAX_STOPS:
        raise ToolError(f"a request to the model has at most {MAX_PARTS} texts and {MAX_STOPS} stop sequences")
    preferences = params.model_preferences
    return Prompted(
        pieces=tuple(piece for message in params.messages for piece in _pieces(message)),
        system=params.system_prompt or "",
        most_tokens=params.max_tokens,
        hints=tuple(hint.name for hint in (preferences.hints if preferences else None) or () if hint.name),
        stops=tuple(stop for stop in params.stop_sequences or () if stop),
    )


def _pieces(message: types.SamplingMessage) -> Iterator[Piece]:
    for block in message.content_as_list:
        match block:
            case types.TextContent():
                yield Piece(block.text, role=message.role)
            case types.ImageContent():
                yield Piece(data=_bytes(block.data), mime=block.mime_type, kind="image", role=message.role)
            case _:
                raise ToolError(f"the model is given texts and pictures by a server, and no {block.type}")


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ToolError("the data of a picture are no base64") from None


def created(answer: SamplingResult) -> types.CreateMessageResult:
    """Return the model's answer in the server's form."""
    content = types.TextContent(type="text", text=answer.text)
    return types.CreateMessageResult(
        role="assistant", content=content, model=answer.model, stop_reason=_STOP[answer.stop]
    )
