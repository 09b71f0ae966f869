"""What a server wants the model to be asked, from the library's types to plain data, and the answer back.

Sampling is the protocol's word for it: a request of the server until 2025-11-25, an input that a result requires since
2026-07-28. What becomes of the request is decided in `goclaw.tools.mcp_sampling`.
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
"""Texts and pictures of one request: with as many as a message can hold it would hold up everybody for a second."""
MAX_STOPS = 20
"""Words at which an answer is to end: no provider takes more than half as many."""
REFUSED = {"refused": "goclaw"}
"""Marks an error as ours: where it ends the call, the words must not blame the server."""
_STOP = {"end": "endTurn", "length": "maxTokens", "sequence": "stopSequence"}


def refusal(message: str, code: int = types.INVALID_REQUEST) -> types.ErrorData:
    """Our no to what a server asks for."""
    return types.ErrorData(code=code, message=message, data=REFUSED)


def prompted_of(params: types.CreateMessageRequestParams) -> Prompted:
    """The request as plain data.

    Raises:
        ToolError: it wants what no server gets.
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
    """The model's answer as the server gets it."""
    content = types.TextContent(type="text", text=answer.text)
    return types.CreateMessageResult(
        role="assistant", content=content, model=answer.model, stop_reason=_STOP[answer.stop]
    )
