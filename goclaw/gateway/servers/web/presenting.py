"""The frames of one page's connection as text: as terminals get them, with HTML for Markdown texts.

`html` goes with `message` in each MessageStored, with each question, with a command's answer in Markdown, and in a
streamed text: there `done` is to be added to the finished blocks, and `open` replaces the unfinished end. A page that
goes on where it was gets in `attached.now` the content it shows already, rendered again: it replaces that. `html` is
null where the beginning of a text is unknown here; its `text` is whole.
"""

import asyncio
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import orjson

from goclaw.common.core.events import MessageStored, StreamRestarted, TextStreamed, TurnEvent, TurnFinished, TurnStarted
from goclaw.common.core.redact import reveal
from goclaw.common.core.replay_buffer import Numbered
from goclaw.common.core.wire import SERVER_FRAME, Accepted, Attached, Happened, Older, ServerFrame
from goclaw.gateway.servers.web.rendering import GrowingHtml, aside, render

MAX_KEPT = 500_000
"""Characters of HTML that are kept: some hundred messages."""
IN_LOOP = 200
"""Characters that are rendered in the event loop: hostile ones take some milliseconds."""
_ENDS_TEXT = (MessageStored, StreamRestarted, TurnStarted, TurnFinished)
"""Events after which the streamed text starts again."""
_ENDING_NAMES = frozenset(kind.__name__ for kind in _ENDS_TEXT)
_HIDDEN = ("native", "told")
"""Fields of a message that are for its model alone."""

T = TypeVar("T")


class HtmlCache:
    """The HTML of the messages that were shown last: the next page that opens need not wait for it."""

    def __init__(self, bound: int = MAX_KEPT) -> None:
        """`bound`: characters of all HTML that is kept."""
        self._bound = bound
        self._kept: dict[bytes, str] = {}
        """By the hash of the text; the most recently used entry is last."""
        self._size = 0

    def find(self, text: str) -> str | None:
        """Return the HTML of a text; None: it is not known."""
        key = _key(text)
        html = self._kept.pop(key, None)
        if html is not None:
            self._kept[key] = html
        return html

    def store(self, text: str, html: str) -> None:
        """Keep the HTML of a text, in place of the one unused for the longest time."""
        key = _key(text)
        self._size += len(html) - len(self._kept.pop(key, ""))
        self._kept[key] = html
        while self._size > self._bound:
            self._size -= len(self._kept.pop(next(iter(self._kept))))


def _key(text: str) -> bytes:
    return hashlib.sha256(text.encode(errors="surrogatepass")).digest()


class PageFrames:
    """The frames of one page."""

    def __init__(self, missed: Sequence[Numbered], known: HtmlCache) -> None:
        """`missed`: the events that the page will get first; `known`: the HTML that other pages got."""
        self._missed = missed
        self._known = known
        self._growing: GrowingHtml | None = GrowingHtml()
        """The answer that is streamed; None: its beginning is unknown."""
        self._turn = asyncio.Lock()
        """A thread renders one text of a page at a time, so that other pages need not wait for all of them."""

    async def text(self, frame: ServerFrame) -> str:
        """Return a frame as it is sent."""
        data: dict[str, Any] = SERVER_FRAME.to_data(frame)
        match frame:
            case Attached():
                await self._put_session(frame, data)
            case Older():
                await self._put_messages(data["rows"])
            case Accepted():
                acceptance = data["acceptance"]
                if frame.acceptance.markdown:
                    acceptance["html"] = await self._html_of(frame.acceptance.text)
            case Happened():
                data["event"] = await self._event(frame)
        return orjson.dumps(data).decode()

    async def rows(self, rows: Sequence[MessageStored]) -> list[dict[str, Any]]:
        """Return rows as they are sent in a frame."""
        data: list[dict[str, Any]] = SERVER_FRAME.to_data(Older(0, list(rows)))["rows"]
        await self._put_messages(data)
        return data

    async def _put_session(self, frame: Attached, data: dict[str, Any]) -> None:
        await self._put_messages(data["history"])
        now = data["now"]
        await self._put_questions(now["questions"])
        known = text_before(self._missed, frame.now.text) if frame.goes_on else frame.now.text
        self._missed = ()
        self._growing = None if known is None else GrowingHtml()
        now["html"] = None if known is None else await self._grown(known)

    async def _event(self, frame: Happened) -> dict[str, Any]:
        event = dict(frame.event)
        match frame.name:
            case "TextStreamed":
                event["html"] = await self._grown(event["text"])
            case "QuestionAsked":
                event["question"] = dict(event["question"])
                await self._put_questions([event["question"]])
            case "MessageStored":
                await self._put_messages([event])
        if frame.name in _ENDING_NAMES:
            self._growing = GrowingHtml()
        return event

    async def _grown(self, text: str) -> dict[str, str] | None:
        growing = self._growing
        if growing is None:
            return None
        done, open_end = await self._render(growing.open_size + len(text), lambda: growing.append(text))
        return {"done": done, "open": open_end}

    async def _put_messages(self, rows: Sequence[dict[str, Any]]) -> None:
        """Add the HTML of messages, and remove the parts for their models."""
        for row in rows:
            row["message"] = {name: value for name, value in row["message"].items() if name not in _HIDDEN}
            if artifacts := row["message"].get("artifacts"):
                row["message"]["artifacts"] = [await self._artifact(each) for each in artifacts]
        # An answer is Markdown; a person's message is shown as it was typed.
        texts = [str(row["message"]["text"]) if row["message"]["role"] == "assistant" else "" for row in rows]
        found = [self._known.find(text) if text else "" for text in texts]
        size = sum(len(text) for text, html in zip(texts, found, strict=True) if html is None)
        for row, text, html in zip(rows, texts, found, strict=True):
            if html is None:
                row["html"] = await self._render(size, partial(render, text))
                self._known.store(text, row["html"])
            else:
                row["html"] = html

    async def _artifact(self, artifact: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return an artifact with the HTML of its text."""
        text = str(artifact.get("text", ""))
        return {**artifact, "html": await self._html_of(text)} if text else artifact

    async def _put_questions(self, questions: Sequence[dict[str, Any]]) -> None:
        for question in questions:
            text = str(question["text"])
            # Nothing of a call that waits for approval stays hidden, as in a terminal.
            question["html"] = await self._html_of(reveal(text) if question["kind"] == "approval" else text)
            if details := str(question["details"]):
                question["details_html"] = await self._html_of(reveal(details))

    async def _html_of(self, text: str) -> str:
        return await self._render(len(text), lambda: render(text))

    async def _render(self, size: int, work: Callable[[], T]) -> T:
        """Do some rendering; outside the event loop if it may be long."""
        if size <= IN_LOOP:
            return work()
        async with self._turn:
            return await aside(work)


def text_before(missed: Sequence[Numbered], text: str) -> str | None:
    """Return the text that was streamed before the events that a client missed, given the text streamed after them;
    None if another one was streamed then."""
    events: Iterator[TurnEvent] = (numbered.event for numbered in missed)
    added = 0
    for event in events:
        if isinstance(event, TextStreamed):
            added += len(event.text)
        elif isinstance(event, _ENDS_TEXT):
            return None
    return text[: len(text) - added]
