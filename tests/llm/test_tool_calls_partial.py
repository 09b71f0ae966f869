"""Tool calls that arrive in pieces from servers that share indexes, leave out ids, or send things twice."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from goclaw.llm.base import CallStarted, Finished
from goclaw.llm.http_streams import ServerEvent
from goclaw.llm.openai_answer import OpenAIAnswer

READ, WRITE = '{"path": "a"}', '{"path": "b"}'


def piece(name: str = "", arguments: Any = "", **more: Any) -> dict[str, Any]:
    return {"function": {"name": name or None, "arguments": arguments}, **more}


def answer(pieces: Sequence[dict[str, Any]]) -> tuple[Finished, list[str]]:
    """Return the answer with these pieces of calls, and the names that were announced."""
    chunks: list[dict[str, Any]] = [{"choices": [{"delta": {"tool_calls": [each]}}]} for each in pieces]
    chunks.append({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]})
    reader = OpenAIAnswer("local:x", "local")
    events = list(reader.decode_all(ServerEvent("message", json.dumps(chunk).encode()) for chunk in chunks))
    return reader.finish(), [each.name for each in events if isinstance(each, CallStarted)]


TWO: list[tuple[str, dict[str, Any]]] = [("read", {"path": "a"}), ("write", {"path": "b"})]
ONE = TWO[:1]
KINDS: dict[str, tuple[list[dict[str, Any]], list[tuple[str, dict[str, Any]]]]] = {
    "one index, no ids": ([piece("read", READ, index=0), piece("write", WRITE, index=0)], TWO),
    "one index, no ids, in pieces": (
        [
            piece("read", index=0),
            piece("", READ, index=0),
            piece("write", index=0),
            piece("", WRITE[:5], index=0),
            piece("", WRITE[5:], index=0),
        ],
        TWO,
    ),
    "one index, the same tool twice": (
        [piece("read", READ, index=0), piece("read", WRITE, index=0)],
        [("read", {"path": "a"}), ("read", {"path": "b"})],
    ),
    "neither index nor id": ([piece("read", READ), piece("write", WRITE)], TWO),
    "indexes of their own": ([piece("read", READ, index=0), piece("write", WRITE, index=1)], TWO),
    "the name in pieces": ([piece("re", index=0), piece("ad", index=0), piece("", READ, index=0)], ONE),
    "the name longer each time": ([piece("re", index=0), piece("read", index=0), piece("", READ, index=0)], ONE),
    "the name with every piece": ([piece("read", READ[:4], index=0), piece("read", READ[4:], index=0)], ONE),
    "the arguments once more as a whole": (
        [piece("read", READ[:4], index=0), piece("", READ[4:], index=0), piece("", READ, index=0)],
        ONE,
    ),
    "the whole call once more": ([piece("read", READ, index=0), piece("read", READ, index=0)], ONE),
    "all arguments so far with every piece": ([piece("read", READ[:4], index=0), piece("", READ, index=0)], ONE),
    "the object itself": ([piece("read", {"path": "a"}, index=0)], ONE),
    "encoded twice": ([piece("read", json.dumps(READ), index=0)], ONE),
}


@pytest.mark.parametrize("kind", KINDS)
def test_calls_in_pieces_are_put_together(kind: str) -> None:
    pieces, meant = KINDS[kind]

    done, announced = answer(pieces)

    assert [(call.name, call.input) for call in done.message.calls] == meant
    assert len({call.id for call in done.message.calls}) == len(meant)
    assert len(announced) == len(meant)


def test_arguments_that_are_followed_by_others_are_not_read() -> None:
    done, _ = answer([piece("read", READ, index=0), piece("", WRITE, index=0)])

    [call] = done.message.calls
    assert "path" not in call.input
