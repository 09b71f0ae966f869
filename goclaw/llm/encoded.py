"""Each message is mapped to a wire's form once and kept as bytes; a request's body is those bytes, joined.

A turn then costs its new part, not the length of the conversation. Kept by identity while the message lives: messages
are frozen, so the bytes stay true. A request that a server refuses for its pictures is made once more without them
(`again_without_pictures`).
"""

import asyncio
import base64
import hashlib
import re
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Container, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from itertools import chain, pairwise, repeat
from typing import Any, TypeVar

import orjson

from goclaw.common.core.messages import (
    NO_LONGER_KEPT,
    NOT_SEEN,
    AssistantMessage,
    Image,
    Message,
    ToolCall,
    ToolResult,
    UserMessage,
)
from goclaw.common.specs import TOOL_CALL, ToolSpec
from goclaw.errors import ModelError, ModelErrorKind, ToolError
from goclaw.llm.base import Beginning, Continued, ModelEvent, Request

Blocks = tuple[bytes, ...]
"""JSON texts of one message: content blocks, or one whole message, depending on the wire."""
Pictures = Mapping[str, str]
"""Base64 by blob key."""
Encode = Callable[[Message, Pictures], Blocks]
AT_ONCE = 256
"""Messages that are mapped before others get a turn: after a restart ten thousand may be new."""
NAME = re.compile(r"[^a-zA-Z0-9_-]")
"""Characters not allowed in ids and names of tools at Anthropic and OpenAI; other providers allow them."""
LONG, MOST_TEXTS, MOST_JOINED = 200, 64, 8 << 20
"""Messages of a beginning from which it is put together once, texts of one, and bytes of all of them: they are kept
beside the forms of the single messages. Below, putting together costs some 50 µs a request."""
RESULTS_SEEN = AssistantMessage("I have the results.")
"""A constant object, so that it is encoded once."""
PicturedT = TypeVar("PicturedT", bound=UserMessage | ToolResult)


class _Kept(weakref.ref[Message]):
    """A message while it lives, and its forms: one object, for the garbage collector looks at them all."""

    __slots__ = ("blocks", "key")

    blocks: Blocks
    key: int


@dataclass(frozen=True, slots=True)
class _Unknown:
    """The placeholder of a message that is not encoded yet."""

    blocks: Blocks = ()


_UNKNOWN = _Unknown()


class _Joined:
    """The forms of a conversation's beginning, put together."""

    __slots__ = ("count", "size", "texts")

    def __init__(self) -> None:
        self.count = self.size = 0
        """Messages and bytes."""
        self.texts: list[bytes] = []

    def append(self, count: int, texts: Sequence[bytes]) -> None:
        self.count += count
        self.size += sum(map(len, texts))
        self.texts += texts
        if len(self.texts) > MOST_TEXTS:
            self.texts = [b",".join(self.texts)]


class EncodedMessages:
    """The encoded forms of the messages of all conversations with one model."""

    def __init__(
        self, encode: Encode, load_image: Callable[[str], Awaitable[bytes]], sees: Callable[[], bool] = lambda: True
    ) -> None:
        """`sees`: whether the model can be shown pictures, as far as is known; see also `drop_pictures`."""
        self._sees = sees
        self.blind = False
        """The server has refused pictures for this model."""
        self._encode = encode
        self._load_image = load_image
        self._kept: dict[int, _Kept] = {}
        self._joined: weakref.WeakKeyDictionary[Beginning, _Joined] = weakref.WeakKeyDictionary()
        self._at_the_end = self._forget

    async def blocks(self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()) -> list[Blocks]:
        """Return the forms of `messages`, in order, in a request with these tools; loads the pictures of new ones."""
        # Each request goes through all of a conversation, of which nearly all is known. A number found here is that of
        # the same message: `_forget` runs before it can belong to another one.
        found = [kept.blocks for kept in map(self._kept.get, map(id, messages), repeat(_UNKNOWN))]
        new = [index for index, blocks in enumerate(found) if not blocks] if () in found else []
        for number, index in enumerate(new, 1):
            found[index] = self._encode(*await self._with_pictures(as_offered(messages[index], tools)))
            self.store(messages[index], found[index])
            if number % AT_ONCE == 0:
                await asyncio.sleep(0)
        return found

    async def beginning(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> tuple[Sequence[bytes], int]:
        """Return the forms that a long conversation begins with, and of how many messages they are; 0: all are to do.

        For the protocols where a message is an object by itself.
        """
        if not isinstance(messages, Continued) or messages.begun not in range(LONG, len(messages)):
            return (), 0
        all_joined, until = self._joined, messages.begun
        joined = all_joined.pop(messages.beginning, None) or _Joined()
        if joined.count < until:
            # It ends with an answer: no result and no picture behind it belongs before that.
            new = results_first(messages[joined.count : until])
            joined.append(len(new), results_together(new, await self.blocks(new, tools)))
        if all_joined is not self._joined:  # forms have changed meanwhile
            return (), 0
        all_joined[messages.beginning] = joined  # used last: the last one to go
        while sum(each.size for each in all_joined.values()) > MOST_JOINED:
            del all_joined[next(iter(all_joined))]
        return (tuple(joined.texts), until) if joined.count == until else ((), 0)

    def store(self, message: Message, blocks: Blocks) -> None:
        """Use `blocks` for this message from now on."""
        if id(message) in self._kept:
            self._separate()
        kept = _Kept(message, self._at_the_end)
        kept.key, kept.blocks = id(message), tuple(map(_trim, blocks))
        self._kept[kept.key] = kept

    def leave_out_pictures(self, request: Request) -> bool:
        """Encode a request's messages without their pictures from now on; return whether that changes anything."""
        changed = False
        for message in request.messages:
            if not isinstance(message, AssistantMessage) and message.images:
                plain = as_offered(unseen(message), request.tools)
                blocks, kept = self._encode(plain, {}), self._kept.get(id(message))
                changed = changed or kept is None or kept.blocks != blocks
                self.store(message, blocks)
        return changed

    def drop_pictures(self) -> None:
        """Show the model no picture from now on, in no conversation."""
        self.blind = True
        self._separate()
        for kept in list(self._kept.values()):
            message = kept()
            if message is not None and not isinstance(message, AssistantMessage) and message.images:
                del self._kept[kept.key]

    def _separate(self) -> None:
        """Put no more together what was: a message in it has another form now."""
        self._joined = weakref.WeakKeyDictionary()

    def _forget(self, dead: "weakref.ref[Message]") -> None:
        # The number may belong to a new message by now.
        if isinstance(dead, _Kept) and self._kept.get(dead.key) is dead:
            del self._kept[dead.key]

    def __len__(self) -> int:
        return len(self._kept)

    async def _with_pictures(self, message: Message) -> tuple[Message, Pictures]:
        """Return the message with its pictures; one that is not kept any more, or damaged, is a line in its text."""
        if isinstance(message, AssistantMessage) or not message.images:
            return message, {}
        if self.blind or not self._sees():
            return unseen(message), {}
        found: dict[str, str] = {}
        for image in message.images:
            with suppress(ToolError):
                found[image.blob] = await self._picture(image)
        return without_lost(message, found.keys()), found

    async def _picture(self, image: Image) -> str:
        data = await self._load_image(image.blob)
        # Several megabytes are possible: 10 ms and more.
        return await asyncio.to_thread(lambda: base64.b64encode(data).decode())


def _trim(block: bytes) -> bytes:
    """Return a copy without the room after it: orjson leaves up to 4 KB there, and twice the length of long texts."""
    return bytes(memoryview(block))


def without_lost(message: PicturedT, found: Container[str]) -> PicturedT:
    """Return the message without the pictures that were not found; it says that there were some."""
    kept = tuple(image for image in message.images if image.blob in found)
    lost = [NO_LONGER_KEPT] * (len(message.images) - len(kept))
    return replace(_with_lines(message, lost), images=kept) if lost else message


def unseen(message: PicturedT) -> PicturedT:
    """Return the message as a model without eyes gets it: it says that there is a picture."""
    if not message.images:
        return message
    if isinstance(message, ToolResult):
        return replace(_with_lines(message, [NOT_SEEN]), images=())
    return replace(message, text=f"{NOT_SEEN}\n{message.text}".strip(), images=())  # a reminder may stand at the end


def _with_lines(message: PicturedT, lines: Sequence[str]) -> PicturedT:
    if isinstance(message, ToolResult):
        return replace(message, content="\n".join([message.content, *lines]).strip())
    return replace(message, text="\n".join([message.text, *lines]).strip())


def caption(message: ToolResult) -> str:
    """Return the text next to the pictures of a result, where a protocol takes them from a person only."""
    return f"[what {message.name} returned, call {message.call_id}]"


class EncodedTools:
    """The encoded form of the tools that were shown last; they change seldom."""

    def __init__(self, encode: Callable[[Sequence[ToolSpec]], bytes]) -> None:
        self._encode = encode
        self._tools: Sequence[ToolSpec] = ()
        self._text = b""

    def text(self, tools: Sequence[ToolSpec]) -> bytes:
        """Return the form of these tools; made again only when one of them is another object than last time."""
        same = len(tools) == len(self._tools) and all(map(lambda old, new: old is new, self._tools, tools))
        if not same or not self._text:
            self._tools, self._text = tuple(tools), self._encode(tools)
        return self._text


def as_offered(message: Message, tools: Sequence[ToolSpec]) -> Message:
    """Return the message as its model may have sent it: calls run by `tool_call` under their own names.

    Many servers know calls of the request's own tools only, and the part of an answer that they have cached goes on
    fitting.
    """
    names = {tool.name for tool in tools} if not isinstance(message, UserMessage) else set()
    if TOOL_CALL not in names:
        return message
    if isinstance(message, ToolResult):
        return message if message.name in names else replace(message, name=TOOL_CALL)
    if isinstance(message, UserMessage) or all(call.name in names for call in message.calls):
        return message
    return replace(message, calls=tuple(call if call.name in names else _indirect(call) for call in message.calls))


def _indirect(call: ToolCall) -> ToolCall:
    return replace(call, name=TOOL_CALL, input={"name": call.name, "arguments": call.input})


def results_first(messages: Sequence[Message]) -> list[Message]:
    """Move tool results before messages that a person sent while the tools ran.

    Every protocol wants them directly after the calls.
    """
    if ToolResult not in set(map(type, messages)) or (UserMessage, ToolResult) not in pairwise(map(type, messages)):
        return list(messages)
    ordered: list[Message] = []
    waiting: list[Message] = []
    for message in messages:
        if isinstance(message, UserMessage):
            waiting.append(message)
        else:
            if waiting and not isinstance(message, ToolResult):
                ordered += waiting
                waiting = []
            ordered.append(message)
    return ordered + waiting


def answer_results(messages: Sequence[Message]) -> list[Message]:
    """Return the conversation with a word of the assistant wherever a person speaks right after tool results.

    It happens when a message joins a running turn, and some models' templates refuse it.
    """
    answered: list[Message] = []
    for message in results_first(messages):
        if answered and isinstance(answered[-1], ToolResult) and isinstance(message, UserMessage):
            answered.append(RESULTS_SEEN)
        answered.append(message)
    return answered


def alternating(messages: Sequence[Message]) -> Sequence[Message]:
    """Return the messages with a person's messages in a row as one: many models' templates refuse two in a row.

    It happens after a summary, after a turn without an answer, and when a message joins another one.
    """
    if (UserMessage, UserMessage) not in pairwise(map(type, messages)):
        return messages
    merged: list[Message] = []
    for message in messages:
        last = merged[-1] if merged else None
        if isinstance(message, UserMessage) and isinstance(last, UserMessage):
            text = "\n\n".join(filter(None, (last.text, message.text)))
            merged[-1] = replace(message, text=text, images=(*last.images, *message.images))
        else:
            merged.append(message)
    return merged


def add_reminder(messages: Sequence[Message], reminder: str) -> list[Message]:
    """Return the messages in order, the reminder as a person's last words: these protocols know no other place for it.

    After tool results it is a message of its own. Words of a person are continued: some models' templates refuse two
    messages of a person after each other, and all of them a system message in the middle.
    """
    ordered = results_first(messages)
    if not reminder:
        return ordered
    *before, last = ordered or [UserMessage("")]
    if isinstance(last, UserMessage):
        return [*before, replace(last, text=f"{last.text}\n\n{reminder}".strip())]
    return [*before, last, UserMessage(reminder)]


def splice(head: Mapping[str, Any], **parts: bytes | Sequence[bytes]) -> bytes:
    """Return the JSON object with the fields of `head` and, after them, `parts`; there must be one field at least.

    Args:
        head: fields that are encoded here.
        parts: values that are JSON already, or the items of a list that are. They are copied once: a conversation may
            have megabytes.
    """
    pieces = [orjson.dumps(head)[1:-1]] if head else []
    for name, value in parts.items():
        if isinstance(value, bytes):
            pieces.append(b'"%s":%s' % (name.encode(), value))
            continue
        items = [*value] or [b""]
        items[0] = b'"%s":[%s' % (name.encode(), items[0])
        items[-1] += b"]"
        pieces += items
    pieces[0] = b"{" + pieces[0]
    pieces[-1] += b"}"
    return b",".join(pieces)


async def with_conversation(
    head: Mapping[str, Any], request: Request, messages: EncodedMessages, tools: EncodedTools
) -> bytes:
    """Return a whole body for the protocols that take the system prompt as the first message (OpenAI chat, Ollama)."""
    parts = {"tools": tools.text(request.tools)} if request.tools else {}
    begun, count = await messages.beginning(request.messages, request.tools)
    following = add_reminder(request.messages[count:], request.reminder)
    texts = [*begun, *results_together(following, await messages.blocks(following, request.tools))]
    if request.system.strip():
        texts.insert(0, orjson.dumps({"role": "system", "content": request.system}))
    return splice(head, **parts, messages=texts)


def results_together(messages: Sequence[Message], encoded: Sequence[Blocks]) -> list[bytes]:
    """Return the forms in order, but a result's followers (its pictures) after the last result of the same answer."""
    texts = list(chain.from_iterable(encoded))
    if len(texts) == len(encoded):
        return texts  # one each: no message is without a form
    ordered: list[bytes] = []
    waiting: list[bytes] = []
    for message, blocks in zip(messages, encoded, strict=True):
        if isinstance(message, ToolResult):
            ordered.append(blocks[0])
            waiting += blocks[1:]
        else:
            ordered += [*waiting, *blocks]
            waiting = []
    return ordered + waiting


def clean(name: str) -> str:
    """Return an id or name that every API takes; one that had to be changed stays unmistakable by a digest."""
    if name and not NAME.search(name):
        return name
    return f"{NAME.sub('_', name)}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"


NO_PICTURES = re.compile(
    r"multi-?modal|vision|mmproj"  # vLLM, llama.cpp
    r"|(image|picture).{0,80}(support|not allowed)|support.{0,40}(image|picture)"  # OpenAI, LM Studio, OpenRouter
    r"|missing data required for image"  # Ollama
    r"|unknown variant `?image"  # DeepSeek
    r"|content.{0,60}must be a string",  # Groq's text models
    re.IGNORECASE,
)
"""The model takes no pictures at all; the servers' own wordings, as documented or seen in 2026."""
ONE_PICTURE = re.compile(r"format|\bvalid|mime|\bsize|exceed|large|unsupported image", re.IGNORECASE)
"""Refusals of one picture, not of pictures in general: it is too large, say, or of a type the model cannot read."""
ABOUT_PICTURES = re.compile(r"image|picture", re.IGNORECASE)
PICTURE_REFUSALS = frozenset({ModelErrorKind.REJECTED, ModelErrorKind.NOT_FOUND, ModelErrorKind.SERVER})
"""Kinds of errors that servers use: 400, 404 (OpenRouter), 500 (llama.cpp, Ollama)."""


async def again_without_pictures(
    ask: Callable[[Request], AsyncGenerator[ModelEvent, None]], request: Request, messages: EncodedMessages
) -> AsyncGenerator[ModelEvent, None]:
    """Yield the events of a request; one that is refused for its pictures is made once more without them.

    The refusal is remembered while the process lives: for the model where it takes no pictures, else for
    the messages of this request, so that a conversation with a photo in it goes on.

    Raises:
        ModelError: as `ask`.
    """
    begun = False
    try:
        async with aclosing(ask(request)) as events:
            async for event in events:
                begun = True
                yield event
        return
    except ModelError as error:
        words = str(error)
        if (
            begun
            or error.kind not in PICTURE_REFUSALS
            or not (ABOUT_PICTURES.search(words) or NO_PICTURES.search(words))
        ):
            raise
        if not messages.leave_out_pictures(request):
            raise
        if NO_PICTURES.search(words) and not ONE_PICTURE.search(words):
            messages.drop_pictures()
    async with aclosing(ask(request)) as events:
        async for event in events:
            yield event
