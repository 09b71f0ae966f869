"""The arguments of a tool call as a model wrote them: usually a JSON object, sometimes almost one."""

from typing import Any

import orjson

from goclaw.llm.base import INVALID_JSON


def read_arguments(written: str, given: object = None) -> dict[str, Any]:
    """Parse the JSON object of a call's arguments; an empty text counts as `given`, else as `{}`.

    Any other JSON or text is returned as `{INVALID_JSON: text}`: the dispatcher then reports it to the model.
    """
    if not written.strip():
        return dict(given) if isinstance(given, dict) else {}
    try:
        value = orjson.loads(written)
    except orjson.JSONDecodeError:
        return {INVALID_JSON: written}
    return value if isinstance(value, dict) else {INVALID_JSON: written}
