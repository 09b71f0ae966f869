"""Everything that can go wrong with a model's server, for each protocol: what it sends, or that it does not."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from tests.conversation.sessions.failing_models import says
from tests.llm.fake_provider import Reply, frame, refusal
from tests.llm.wires import OLLAMA, OPENAI, Wire, chunk, message_start, part

Place = Literal["server", "nobody", "nowhere", "tls", "garbage", "mute"]
"""Where the model is looked for: at the server that answers as told; where nobody listens; under a name that nothing
has; with TLS where none is spoken; where nonsense comes back, or nothing before the connection is closed."""


@dataclass(frozen=True)
class ModelFault:
    """One of them."""

    name: str
    reply: Callable[[Wire], Reply] = lambda wire: Reply([])
    place: Place = "server"
    answered: bool = False
    """It is no failure: the person gets an answer, or words in its place, without another model."""

    @property
    def hangs(self) -> bool:
        """Whether it is noticed by waiting only."""
        return self.name.startswith("hangs ")


def status(code: int, words: str = "something", **headers: str) -> Callable[[Wire], Reply]:
    """An HTTP error with the protocol's own body."""
    return lambda wire: refusal(code, wire.error_body(words), **headers)


def page(code: int, **headers: str) -> Callable[[Wire], Reply]:
    """What a server in between says."""
    body = b"<html><body><h1>Bad Gateway</h1></body></html>"
    return lambda wire: Reply([body], code, "text/html", {name.replace("_", "-"): to for name, to in headers.items()})


def begun(end: Literal["clean", "cut", "hang"], *more: bytes) -> Callable[[Wire], Reply]:
    """An answer whose first word came."""
    return lambda wire: wire.shape(*wire.opening, *more, end=end)


def calling(wire: Wire, name: str, written: str, *, whole: bool = True) -> Reply:
    """A call of a tool with these arguments, as they were written; not whole: the connection breaks in the middle."""
    end: Literal["clean", "cut"] = "clean" if whole else "cut"
    if wire is OLLAMA:
        given: Any = orjson.loads(written) if written.startswith("{") and written.endswith("}") else written
        call = part(tool_calls=[])
        call["message"]["tool_calls"] = [{"function": {"name": name, "arguments": given}}]
        return wire.shape(call, *([part(done=True, done_reason="stop")] if whole else []), end=end)
    if wire is OPENAI:
        called = {"index": 0, "id": "call-1", "type": "function", "function": {"name": name, "arguments": written}}
        last = [chunk({}, "tool_calls"), *wire.ending[1:]] if whole else []
        return wire.shape(chunk({"role": "assistant", "tool_calls": [called]}), *last, end=end)
    block = {"type": "tool_use", "id": "toolu-1", "name": name, "input": {}}
    piece = {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": written}}
    stop = {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 2}}
    last = [wire.ending[0], stop, wire.ending[-1]] if whole else []
    start = {"type": "content_block_start", "index": 0, "content_block": block}
    return wire.shape(message_start(), start, piece, *last, end=end)


def counting(wire: Wire, count: Any) -> Reply:
    """A whole answer whose usage is nonsense."""
    text = says(wire, "Well counted.")
    swapped = []
    for piece in text.pieces:
        head, _, body = piece.rpartition(b"data: ")
        found = orjson.loads(body) if body.strip().startswith(b"{") else None
        if isinstance(found, dict):
            for place in (found, found.get("message")):
                if isinstance(place, dict) and "usage" in place:
                    place["usage"] = dict.fromkeys(place["usage"], count) if count != [] else []
            if wire is OLLAMA and found.get("done"):
                found |= {"prompt_eval_count": count, "eval_count": count}
            piece = orjson.dumps(found) + b"\n" if wire is OLLAMA else head + b"data: " + orjson.dumps(found) + b"\n\n"
        swapped.append(piece)
    return Reply(swapped, text.status, text.type)


def garbage(wire: Wire) -> Reply:
    """Many things that are JSON and mean nothing."""
    things = [{"type": "ping", "what": number} for number in range(300)]
    return wire.shape(*(orjson.dumps(thing) + b"\n" if wire is OLLAMA else frame(thing) for thing in things))


def no_events(wire: Wire) -> Reply:
    """Bytes that are nothing at all."""
    return Reply([b"\x00\xff\x13 nothing \r\n\r\n" * 200], type=says(wire, "x").type)


ELSEWHERE = "/elsewhere"
FAULTS: Mapping[str, ModelFault] = {
    fault.name: fault
    for fault in (
        ModelFault("connection refused", place="nobody"),
        ModelFault("no such name", place="nowhere"),
        ModelFault("no TLS there", place="tls"),
        ModelFault("garbage bytes", place="garbage"),
        ModelFault("cut before the first byte", place="mute"),
        ModelFault("400", status(400)),
        ModelFault("401", status(401)),
        ModelFault("402 without credit", status(402, "insufficient_quota")),
        ModelFault("403", status(403)),
        ModelFault("404", status(404)),
        ModelFault("408", status(408)),
        ModelFault("413", status(413)),
        ModelFault("context overflow", status(400, "prompt is too long: 250000 tokens > 200000 maximum")),
        ModelFault("429", status(429)),
        ModelFault("429 for a second", status(429, retry_after="1")),
        ModelFault("429 for hours", status(429, retry_after="7200")),
        ModelFault("500", status(500)),
        ModelFault("502 page", page(502)),
        ModelFault("503", status(503)),
        ModelFault("529", status(529)),
        ModelFault("302", page(302, location=ELSEWHERE)),
        ModelFault("307", page(307, location=ELSEWHERE)),
        ModelFault("empty body", lambda wire: Reply([], type=says(wire, "x").type)),
        ModelFault("a page instead of a stream", page(200)),
        ModelFault("malformed JSON", lambda wire: wire.shape(wire.broken)),
        ModelFault("malformed in the middle", lambda wire: wire.shape(*wire.opening, wire.broken)),
        ModelFault("cut after the headers", lambda wire: Reply([], type=says(wire, "x").type, end="cut")),
        ModelFault("cut in mid-text", begun("cut")),
        ModelFault("cut in a tool call", lambda wire: calling(wire, "look", '{"whe', whole=False)),
        ModelFault("cut before the finish", lambda wire: wire.shape(*wire.opening, *wire.more, end="cut")),
        ModelFault("ends without a finish", begun("clean")),
        ModelFault("hangs after the headers", lambda wire: Reply([], type=says(wire, "x").type, end="hang")),
        ModelFault("hangs in mid-text", begun("hang")),
        ModelFault("events that mean nothing", garbage),
        ModelFault("bytes that are no events", no_events),
        ModelFault("error in the stream", lambda wire: wire.shape(*wire.opening, wire.error)),
        ModelFault("empty answer", lambda wire: says(wire, ""), answered=True),
        ModelFault("refusal", lambda wire: says(wire, "I cannot.", refusing(wire)), answered=True),
        ModelFault("broken arguments", lambda wire: calling(wire, "look", '{"where": "he'), answered=True),
        ModelFault("arguments that are a list", lambda wire: calling(wire, "look", "[1]"), answered=True),
        ModelFault("unknown tool", lambda wire: calling(wire, "teleport", "{}"), answered=True),
        ModelFault("usage in words", lambda wire: counting(wire, "many"), answered=True),
        ModelFault("usage below nothing", lambda wire: counting(wire, -5), answered=True),
        ModelFault("usage beyond measure", lambda wire: counting(wire, 10**18), answered=True),
        ModelFault("usage that is a list", lambda wire: counting(wire, []), answered=True),
    )
}


def refusing(wire: Wire) -> str:
    """The reason to stop that says so; Ollama has none."""
    return {"anthropic": "refusal", "openai": "content_filter"}.get(wire.name, "stop")
