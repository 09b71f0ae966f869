"""Anthropic's own tool search (`tool_search_tool_bm25_20251119`, documented November 2026): tools of the index are sent
with `defer_loading`, stand in no prompt until a search names them, and are then called like all others.

What a search was and found are blocks of the answer (`server_tool_use`, `tool_search_tool_result`), which are sent back
as they came.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from goclaw.errors import ModelError, ModelErrorKind
from goclaw.llm.failures import fail
from goclaw.llm.tool_schemas import trimmed
from goclaw.specs import TOOL_CALL, TOOL_SEARCH, ToolSpec

TOOL = b'{"type":"tool_search_tool_bm25_20251119","name":"tool_search_tool_bm25"}'
WITHOUT = re.compile(r"claude-([12]\b|3|instant|(opus|sonnet|haiku)-4-([01]\b|20))")
"""Models before 4.5 do not know it."""
UNKNOWN = re.compile(r"defer_loading|tool_search_tool_(bm25|regex)")
"""In a rejection: the model, or a server that speaks the same protocol, does not know it."""
STALE = re.compile(r"tool.?reference|server_tool_use|tool_search_tool_result", re.IGNORECASE)
"""In a rejection: what was sent back names a tool that is gone since, or lost its other half to a compaction."""
RESULT, CALL = "tool_search_tool_result", "server_tool_use"


def knows(name: str) -> bool:
    """Whether the model of that name can search for tools."""
    return not WITHOUT.search(name)


def without_ours(tools: Sequence[ToolSpec]) -> Sequence[ToolSpec]:
    """Return the tools that are shown, without those by which other models search."""
    return [tool for tool in tools if tool.name not in (TOOL_SEARCH, TOOL_CALL)]


def encode_tools(tools: Sequence[ToolSpec], **more: Any) -> bytes:
    """Return the JSON list of the tools, with `more` fields in each."""
    told = [
        {"name": tool.name, "description": tool.description, "input_schema": trimmed(tool.schema), **more}
        for tool in tools
    ]
    return orjson.dumps(told)


def encode_deferred(tools: Sequence[ToolSpec]) -> bytes:
    """Return the JSON list of tools that stand in no prompt until a search names them."""
    return encode_tools(tools, defer_loading=True)


def listed(shown: bytes, deferred: bytes, search: bytes) -> bytes:
    """Return the list of all tools: `search` ends what the provider caches, for no deferred tool may be marked."""
    return b"[" + b",".join(filter(None, (shown[1:-1], search, deferred[1:-1]))) + b"]"


def searched(blocks: Iterable[Any]) -> bool:
    """Whether an answer with these blocks was given with a search."""
    return any(block.get("type") in (RESULT, CALL) for block in blocks)


def paired(blocks: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Remove searches without a result: an answer that was cut may end with one, and would be refused."""
    found = {block.get("tool_use_id") for block in blocks if block["type"] == RESULT}
    return [block for block in blocks if block["type"] != CALL or block.get("id") in found]


def refusal(error: ModelError) -> ModelError | None:
    """Return the error for people where the provider refuses to search; None: it refused something else."""
    if error.kind is not ModelErrorKind.REJECTED or STALE.search(str(error)) or not UNKNOWN.search(str(error)):
        return None
    sentence = "it takes no deferred tools; set `providers.anthropic.defer_tools: false`"
    return fail(error.kind, error.spec, str(error).removeprefix(f"{error.spec}: "), sentence=sentence)
