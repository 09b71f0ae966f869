"""Each message is mapped to a wire's form once and kept as bytes; a request's body is those bytes, joined.

A turn then costs its new part, not the length of the conversation. Kept by identity while the message lives: messages
are frozen, so the bytes stay true.
"""

import asyncio
import base64
import hashlib
import re
import weakref
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise, repeat
from typing import Any

import orjson

from goclaw.common.core.messages import AssistantMessage, Image, Message, ToolCall, ToolResult, UserMessage, shift
from goclaw.common.specs import TOOL_CALL, ToolSpec
from goclaw.llm.base import Beginning, Continued, Request
from goclaw.llm.media import AcceptedMedia

Blocks = tuple[bytes, ...]
"""JSON texts of one message: content blocks, or one whole message, depending on the wire."""
Pictures = Mapping[str, str]
"""Base64 by blob key."""
Encode = Callable[[Message, Pictures], Blocks]
AT_ONCE = 256
"""Messages that are mapped before others get a turn: after a restart ten thousand may be new."""
LARGE = 1 << 20
"""Bytes of a form, of a document say, after which others get a turn, too."""
NAME = re.compile(r"[^a-zA-Z0-9_-]")
"""Characters not allowed in ids and names of tools at Anthropic and OpenAI; other providers allow them."""
LONG, MOST_TEXTS, MOST_JOINED = 200, 64, 8 << 20
"""Messages of a beginning from which it is put together once, texts of one, and bytes of all of them: they are kept
beside the forms of the single messages. Below, putting together costs some 50 µs a request."""
RESULTS_SEEN = AssistantMessage("I have the results.")
"""A constant object, so that it is encoded once."""


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


class EncodedMessages(AcceptedMedia):
    """The encoded forms of the messages of all conversations with one model."""

    def __init__(
        self,
        encode: Encode,
        load_image: Callable[[str], Awaitable[bytes]],
        sees: Callable[[], bool] = lambda: True,
        *,
        reads: bool = False,
    ) -> None:
        super().__init__(sees, reads=reads)
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
            before = self.changes
            found[index] = self._encode(*await self._with_media(as_offered(messages[index], tools)))
            if before == self.changes:  # else another request was refused meanwhile for what may be in this form
                self.store(messages[index], found[index])
            if number % AT_ONCE == 0 or max(map(len, found[index]), default=0) > LARGE:
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

    def forget_forms(self) -> None:
        """Encode messages with pictures or documents again from now on."""
        super().forget_forms()
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

    async def _with_media(self, message: Message) -> tuple[Message, Pictures]:
        if isinstance(message, AssistantMessage) or not message.images:
            return message, {}
        return await self.load(message, self._picture)

    async def _picture(self, image: Image) -> str:
        data = await self._load_image(image.blob)
        # Several megabytes are possible: 10 ms and more.
        return await asyncio.to_thread(lambda: base64.b64encode(data).decode())


def _trim(block: bytes) -> bytes:
    """Return a copy without the room after it: orjson leaves up to 4 KB there, and twice the length of long texts."""
    return bytes(memoryview(block))


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
            foreign = (*last.foreign, *shift(message.foreign, len(text) - len(message.text)))
            merged[-1] = replace(message, text=text, images=(*last.images, *message.images), foreign=foreign)
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
        return [*before, replace(last, text=f"{last.text}\n\n{reminder}" if last.text.strip() else reminder)]
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
