"""Answers in the form of the two protocols, whole and as streams of server-sent events (API reference, "Chat" and
"Responses").

The id of a response names its turn and its session, so that `previous_response_id` finds both without a table.
"""

import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any, Literal

from aiohttp import web

from goclaw.common.core.clock import Clock
from goclaw.durable.store.spending import Spent
from goclaw.gateway.servers.event_stream import EventStream, StreamEvent, with_pauses
from goclaw.gateway.servers.openai.asking import Answered
from goclaw.gateway.servers.openai.errors import ApiError
from goclaw.gateway.servers.openai.places import TURN, Place
from goclaw.gateway.servers.openai.reading import Delta

DONE = "[DONE]"
"""The data of a stream's last event."""
_ID = re.compile(r"resp_([0-9a-f]{32})((?:[0-9a-f]{2}){1,400})")


class Completion:
    """Forms a chat completion."""

    def __init__(self, turn: str, model: str, created: float, *, include_usage: bool = False) -> None:
        """`include_usage`: whether a stream ends with a chunk that has the tokens."""
        self._head = {"id": f"chatcmpl-{turn.removeprefix(TURN)}", "created": int(created), "model": model}
        self._include_usage = include_usage

    def whole(self, text: str, end: Answered) -> Any:
        """Return the body of an answer that is not streamed."""
        message = {"role": "assistant", "content": text, "refusal": None}
        choice = {
            "index": 0,
            "message": message,
            "logprobs": None,
            "finish_reason": "stop" if end.is_whole else "length",
        }
        return {
            **self._head,
            "object": "chat.completion",
            "choices": [choice],
            "usage": _usage_of_completion(end.spent),
        }

    def start(self) -> Sequence[StreamEvent]:
        """Return the first chunk: who speaks."""
        return [self._chunk({"role": "assistant", "content": ""})]

    def piece(self, delta: Delta) -> Sequence[StreamEvent]:
        """Return the chunk for a piece; reasoning stands where DeepSeek has it, which clients know."""
        return [self._chunk({"content" if delta.kind == "text" else "reasoning_content": delta.text})]

    def end(self, end: Answered) -> Sequence[StreamEvent]:
        """Return the last chunks."""
        usage = {**self._body(), "choices": [], "usage": _usage_of_completion(end.spent)}
        counted = [StreamEvent("", usage)] if self._include_usage else []
        return [self._chunk({}, _finish_reason(end)), *counted, StreamEvent("", DONE)]

    def fail(self, error: ApiError) -> Sequence[StreamEvent]:
        """Return the error as clients of OpenAI expect it in a stream."""
        return [StreamEvent("", error.data())]

    def _body(self) -> dict[str, Any]:
        body = {**self._head, "object": "chat.completion.chunk"}
        return {**body, "usage": None} if self._include_usage else body

    def _chunk(self, delta: dict[str, str], reason: str | None = None) -> StreamEvent:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        return StreamEvent("", {**self._body(), "choices": [choice]})


def _finish_reason(end: Answered) -> str:
    return "stop" if end.is_whole else "length"


def _usage_of_completion(spent: Spent) -> dict[str, Any]:
    return {
        "prompt_tokens": spent.input,
        "completion_tokens": spent.output,
        "total_tokens": spent.input + spent.output,
        "prompt_tokens_details": {"cached_tokens": spent.cache_read},
    }


def named_by(identity: str) -> tuple[str, str]:
    """Return the turn and the session that an id names; empty: it is no id of ours. Rights are another matter."""
    found = _ID.fullmatch(identity)
    try:
        return (f"{TURN}{found[1]}", bytes.fromhex(found[2]).decode()) if found else ("", "")
    except UnicodeDecodeError:
        return "", ""


class Response:
    """Forms a response."""

    def __init__(self, turn: str, place: Place, model: str, created: float, previous: str | None) -> None:
        self._digits = turn.removeprefix(TURN)
        conversation = {"id": place.session} if place.is_kept and previous is None else None
        self._head = {
            "id": f"resp_{self._digits}{place.session.encode().hex()}",
            "object": "response",
            "created_at": int(created),
            "background": False,
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "metadata": {},
            "model": model,
            "parallel_tool_calls": True,
            "previous_response_id": previous,
            "conversation": conversation,
            "temperature": None,
            "text": {"format": {"type": "text"}},
            "tool_choice": "auto",
            "tools": [],
            "top_p": None,
            "truncation": "disabled",
        }
        self._number = 0
        """Of the next event."""
        self._items: list[dict[str, Any]] = []
        """The items that are complete."""
        self._kind: Literal["text", "reasoning", ""] = ""
        """The kind of the item that is open; empty: none."""
        self._text: list[str] = []
        """Its pieces."""

    def whole(self, text: str, end: Answered) -> Any:
        """Return the body of an answer that is not streamed."""
        self._kind = "text"
        status = "completed" if end.is_whole else "incomplete"
        return self._response(status, [self._item(text, "completed")], end.spent)

    def start(self) -> Sequence[StreamEvent]:
        """Return the first events."""
        started = {"response": self._response("in_progress", [])}
        return [self._event("response.created", started), self._event("response.in_progress", started)]

    def piece(self, delta: Delta) -> Sequence[StreamEvent]:
        """Return the events for a piece; another kind of piece begins another item."""
        opened = [] if delta.kind == self._kind else [*self._close(), *self._open(delta.kind)]
        self._text.append(delta.text)
        name = "output_text" if delta.kind == "text" else "reasoning_summary_text"
        return [*opened, self._event(f"response.{name}.delta", {**self._where(), "delta": delta.text})]

    def end(self, end: Answered) -> Sequence[StreamEvent]:
        """Return the last events."""
        closed, status = self._close(), "completed" if end.is_whole else "incomplete"
        done = self._response(status, self._items, end.spent)
        return [*closed, self._event(f"response.{status}", {"response": done})]

    def fail(self, error: ApiError) -> Sequence[StreamEvent]:
        """Return the end of an answer that fails in the middle."""
        closed = self._close("incomplete")
        failed = self._response("failed", self._items)
        failed["error"] = {"code": "server_error", "message": str(error)}
        return [*closed, self._event("response.failed", {"response": failed})]

    def _response(self, status: str, output: list[dict[str, Any]], spent: Spent | None = None) -> dict[str, Any]:
        details = {"reason": "max_output_tokens"} if status == "incomplete" else None
        usage = _usage_of_response(spent) if spent else None
        return {**self._head, "status": status, "incomplete_details": details, "output": [*output], "usage": usage}

    def _event(self, name: str, data: dict[str, Any]) -> StreamEvent:
        event = {"type": name, "sequence_number": self._number, **data}
        self._number += 1
        return StreamEvent(name, event)

    def _item_id(self) -> str:
        return f"{'msg' if self._kind == 'text' else 'rs'}_{self._digits}{len(self._items)}"

    def _item(self, text: str | None, status: str) -> dict[str, Any]:
        """Return the open item; `text` None: as it begins."""
        if self._kind == "reasoning":
            summary = [] if text is None else [{"type": "summary_text", "text": text}]
            return {"id": self._item_id(), "type": "reasoning", "summary": summary, "status": status}
        content = [] if text is None else [_part(text)]
        return {"id": self._item_id(), "type": "message", "role": "assistant", "status": status, "content": content}

    def _where(self) -> dict[str, Any]:
        of_text = {"content_index": 0, "logprobs": []}
        place = of_text if self._kind == "text" else {"summary_index": 0}
        return {"item_id": self._item_id(), "output_index": len(self._items), **place}

    def _open(self, kind: Literal["text", "reasoning"]) -> list[StreamEvent]:
        self._kind = kind
        item = {"output_index": len(self._items), "item": self._item(None, "in_progress")}
        return [self._event("response.output_item.added", item), self._part_event("added", "")]

    def _part_event(self, what: str, text: str) -> StreamEvent:
        where = {key: value for key, value in self._where().items() if key != "logprobs"}
        if self._kind == "text":
            return self._event(f"response.content_part.{what}", {**where, "part": _part(text)})
        part = {"type": "summary_text", "text": text}
        return self._event(f"response.reasoning_summary_part.{what}", {**where, "part": part})

    def _close(self, status: str = "completed") -> list[StreamEvent]:
        """End the open item, if there is one."""
        if not self._kind:
            return []
        text = "".join(self._text)
        name = "output_text" if self._kind == "text" else "reasoning_summary_text"
        item = self._item(text, status)
        events = [
            self._event(f"response.{name}.done", {**self._where(), "text": text}),
            self._part_event("done", text),
            self._event("response.output_item.done", {"output_index": len(self._items), "item": item}),
        ]
        self._items.append(item)
        self._kind, self._text = "", []
        return events


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _usage_of_response(spent: Spent) -> dict[str, Any]:
    return {
        "input_tokens": spent.input,
        "input_tokens_details": {"cached_tokens": spent.cache_read},
        "output_tokens": spent.output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": spent.input + spent.output,
    }


Form = Completion | Response


async def stream(
    response: EventStream, form: Form, pieces: AsyncGenerator[Delta | Answered, None], clock: Clock
) -> web.StreamResponse:
    """Send an answer piece by piece.

    Raises:
        ApiError: it was refused before anything was sent.
    """
    has_begun = False
    try:
        async with aclosing(with_pauses(pieces, clock)) as paced:
            async for piece in paced:
                if piece is None:
                    await response.wait()
                    continue
                if not has_begun:
                    has_begun = True
                    await response.send(form.start())
                await response.send(form.end(piece) if isinstance(piece, Answered) else form.piece(piece))
    except ApiError as error:
        if not response.response.prepared:
            raise
        await response.send([*(() if has_begun else form.start()), *form.fail(error)])
    await response.response.write_eof()
    return response.response
