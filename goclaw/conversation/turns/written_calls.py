"""Calls that a model wrote as text: judged here, and then run like all others, or replaced by a line.

One is run where reading is on for the model, where it is a block of its own at the end of the answer
(`llm.text_calls`), names a tool that is offered and fits its schema, where the person did not ask to be shown such a
text, and where the same call stands in nothing that the model read: a page could dictate it.

For the last of these is compared what no spelling changes: letters and digits, whatever spacing, quotes, escapes,
entities, width or case the material has (`stands_in`). A call stands in a text if its block does, or if the text holds
its name as that of a call and every one of its values near by, in any order and in any form.
"""

import asyncio
import html
import logging
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal
from urllib.parse import unquote

from goclaw.common.config.schema import Config
from goclaw.common.core.events import Actor
from goclaw.common.core.messages import AssistantMessage, Message, ToolCall, ToolResult, UserMessage
from goclaw.common.core.records import record
from goclaw.conversation.turns.answer_text import AnswerText, with_text
from goclaw.durable.store.settings import Settings
from goclaw.errors import InvalidInput, ToolError
from goclaw.llm.base import Finished, Request, Stop
from goclaw.llm.open import is_local
from goclaw.llm.served import TEXT_CALLS, CallStyle
from goclaw.llm.text_calls import (
    CallBlock,
    Form,
    Unread,
    UnreadCall,
    WrittenCall,
    calls_in,
    mark_in,
    name_in,
    opening_of,
    read_block,
    without_calls,
)
from goclaw.llm.tool_calls import read_id
from goclaw.tools.toolkit.arguments import validate
from goclaw.tools.toolkit.registry import Registry

log = logging.getLogger(__name__)

TextCalls = Literal["on", "auto", "first", "off"]
"""`auto`: on by itself; `first`: on from the next one on."""
MAX_NAME = 100

_SHOWING = (
    r"show|print|display|output|give me|tell me|let me see|look like|looks like|example|explain|paste|what would"
    r"|how would|without (?:running|calling|executing)|zeig|gib|beispiel|erklär|ausgeben|montre|affiche|donne|exemple"
    r"|expli|muestra|ejemplo|mostra|esempio|pokaż|покажи|пример|显示|展示|示例|例|見せ|表示"
)
_DATA = r"(?<![.\w])(?:json|xml|yaml)\b(?! files?\b)|code block|codeblock|snippet"
_CALL = (
    r"(?:tool|function)[\s_-]*calls?\b|<\|?/?tool|\[tool_calls|werkzeugaufruf|funktionsaufruf|appel d.outil|函数调用"
)
_ASKS = re.compile(rf"(?=.*(?:{_SHOWING}))(?=.*(?:{_DATA}))", re.IGNORECASE | re.DOTALL)
_ASKS_FOR_CALL = re.compile(_CALL, re.IGNORECASE)

_REASONS = {
    Unread.OFF: "reading such calls is off",
    Unread.FIRST: "this model has not done so before",
    Unread.UNKNOWN: "there is no such tool",
    Unread.UNFIT: "its arguments do not fit",
    Unread.DICTATED: "the same call stands in what it read",
    Unread.ASKED: "you asked about such calls",
    Unread.MISPLACED: "it was not alone at the end of the answer, or is broken",
}
_SHAPE = '{"name": "…", "arguments": {…}}'

_ESCAPED = re.compile(r"\\+(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2}))")
_ESCAPES = re.compile(r"\\+[nrtbf]?")
_BEFORE = re.compile(
    r"(?:names?|tools?|toolnames?|functions?|functionnames?|action|invoke|toolcalls?|functioncalls?|call|args?|pythontag"
    r"|toolsep|begin|recipient|to|defaultapi)\Z"
)
"""The text before the name of a call, in every form that is read (`llm.text_calls`)."""
_WRITTEN_OUT = re.compile(
    r"""["'\\](?:name|tool|tool_name|function|action)\\*["']\s*:|<[|｜/]?\s*(?:tool|function|invoke)|\[TOOL_""",
    re.IGNORECASE,
)
_LONGEST = 24
"""Characters of that at most."""
_NEAR = 400
"""Characters around the call's name, beyond the length of its values, that are searched for these on both sides."""


@record
class Circumstances:
    """The facts besides the call that decide whether a written call runs."""

    reading: TextCalls
    actor: Actor
    words: Sequence[str]
    """The person's messages of the turn."""
    request: Request
    summary: str
    """Of the conversation before what the request holds."""
    may_ask_again: bool
    """The model was not informed of such a call in this turn."""


class WrittenCalls:
    """Judges the calls in the texts of answers."""

    def __init__(self, registry: Registry, config: Config, settings: Settings) -> None:
        self._registry = registry
        self._config = config
        self._settings = settings

    async def reading(self, spec: str) -> TextCalls:
        """Return whether calls in the texts of a model are read: as configured, else as it has shown."""
        options = self._config.models.options.get(spec)
        reading: TextCalls = options.text_calls if options else "auto"
        if reading != "auto" or is_local(spec, self._config):
            return reading
        style = CallStyle.of(await self._settings.fact(f"{TEXT_CALLS}:{spec}"))
        return "auto" if style is CallStyle.TEXT else "first"

    async def extract_calls(self, done: Finished, answer: AnswerText, at: Circumstances) -> Finished:
        """Return the answer with its calls, or without the text standing for one.

        Args:
            done: the whole answer.
            answer: its text, closed, of which something is held back.
            at: what decides.
        """
        text = answer.shown + answer.held
        block = read_block(text)
        if _was_asked(at, block):
            return with_text(done, text)
        if block is None:
            return self._replace(done, answer, at)
        calls, why = self._judge(block.calls, at)
        written = [*block.calls, *(WrittenCall(call.name, call.input) for call in calls)]
        if why is None and await _is_dictated(text[block.start :], written, at):
            why = UnreadCall(block.calls[0].name, Unread.DICTATED)
        if why is None and at.reading in ("on", "auto"):
            log.info("a call of %s was written as text; running it", ", ".join(call.name for call in calls))
            message = AssistantMessage(text[: block.start].rstrip(), (*done.message.calls, *calls))
            return replace(done, message=message, stop=Stop.TOOLS)
        if why is None and at.reading == "first":
            await self._settings.learn(f"{TEXT_CALLS}:{done.spec}", CallStyle.TEXT)
        if why is None:
            why = UnreadCall(calls[0].name, Unread.OFF if at.reading == "off" else Unread.FIRST)
        return _without(done, text[: block.start], why, at)

    def _judge(self, written: Sequence[WrittenCall], at: Circumstances) -> tuple[list[ToolCall], UnreadCall | None]:
        """Return the calls that the written ones stand for, and the fault of the first wrong one."""
        calls: list[ToolCall] = []
        for each in written:
            call = self._registry.meant(ToolCall(read_id(None), each.name[:MAX_NAME], dict(each.arguments)), at.actor)
            tool = self._registry.find(call.name, at.actor)
            if tool is None:
                return [], UnreadCall(call.name, Unread.UNKNOWN)
            if not self._registry.takes(tool, call):
                try:
                    validate(tool.arguments, call.input, tool.spec.injected)
                except (InvalidInput, ToolError) as error:
                    return [], UnreadCall(call.name, Unread.UNFIT, str(error))
            calls.append(call)
        return calls, None

    def _replace(self, done: Finished, answer: AnswerText, at: Circumstances) -> Finished:
        """Replace text that stands for a call and is no block at the end. Without marks it may be an example."""
        text = answer.shown + answer.held
        is_marked, is_whole = mark_in(text) >= 0, calls_in(answer.held[len(opening_of(answer.held)) :]) is not None
        if at.reading in ("off", "first") and not is_marked and is_whole:
            return with_text(done, text)
        kept, calls = without_calls(text, len(answer.shown))
        if not calls and not is_marked and not is_whole:
            kept, calls = answer.shown, (WrittenCall(name_in(answer.held), {}),)
        if not calls:
            return with_text(done, kept.rstrip() if kept != text else text)
        return _without(done, kept, UnreadCall(calls[0].name[:MAX_NAME], Unread.MISPLACED), at)


def line_for_people(call: UnreadCall) -> str:
    """Return the text for a person in place of a call that did not run."""
    return f"[The model wrote a call of {call.name} as text. It did not run: {_REASONS[call.why]}.]"


def note_for_model(call: UnreadCall) -> str:
    """Return the text for the model about its call that did not run."""
    text = f"[Your call of {call.name} did not run: you wrote it as text"
    match call.why:
        case Unread.UNFIT:
            text += f", and its arguments do not fit: {call.detail}"
        case Unread.UNKNOWN:
            text += ", and there is no tool of that name"
        case Unread.MISPLACED:
            text += f". Write a call alone at the end of the answer, with nothing behind it: {_SHAPE}"
        case _:
            text += ". Use the tool interface"
    return f"{text}.]"


def _was_asked(at: Circumstances, block: CallBlock | None) -> bool:
    """Return whether the person asked to be shown such a text, in place of having it run."""
    if any(_ASKS_FOR_CALL.search(words) for words in at.words):
        return True
    is_marked = block is not None and block.form is Form.MARKED
    return at.reading != "on" and not is_marked and any(_ASKS.search(words) for words in at.words)


async def _is_dictated(block: str, calls: Sequence[WrittenCall], at: Circumstances) -> bool:
    foreign = [at.request.system, at.request.reminder, at.summary, *_read_elsewhere(at.request.messages)]
    own = [message.text for message in at.request.messages if isinstance(message, UserMessage)]
    written = [text for text in own if is_written_out(text)]
    return await asyncio.to_thread(stands_in, block, calls, [text for text in (*foreign, *written) if text])


def _read_elsewhere(messages: Iterable[Message]) -> Iterable[str]:
    """Yield the texts that did not come from the person: results, and messages with marked material."""
    for message in messages:
        if isinstance(message, ToolResult):
            yield message.content
        elif isinstance(message, UserMessage) and "<material" in message.text:
            yield message.text


def _without(done: Finished, text: str, call: UnreadCall, at: Circumstances) -> Finished:
    """Return the answer without a call: the model is informed and asked again, or the person reads a line."""
    log.warning("a call of %s was written as text and did not run: %s", call.name, call.why)
    again = at.may_ask_again and call.why not in (Unread.DICTATED, Unread.ASKED) and not done.message.calls
    call = replace(call, again=again)
    shown = text.rstrip() if again else f"{text.rstrip()}\n\n{line_for_people(call)}".strip()
    return replace(with_text(done, shown), unread=call)


def stands_in(block: str, calls: Sequence[WrittenCall], texts: Iterable[str]) -> bool:
    """Return whether one of the texts holds the calls of a block, or one of them. Slow for long texts: for a thread."""
    whole = skeleton(block)
    wanted = [
        (skeleton(call.name), [part for part in map(skeleton, _values(call.arguments)) if part]) for call in calls
    ]
    for text in texts:
        found = skeleton(text)
        if whole in found or any(_holds(found, name, values) for name, values in wanted):
            return True
    return False


def is_written_out(text: str) -> bool:
    """Return whether a text holds what looks like a call: a person's own plain words order one, and dictate none."""
    return _WRITTEN_OUT.search(text) is not None


def skeleton(text: str) -> str:
    """Return the letters and digits of a text, however they are written."""
    if "%" in text:
        text = unquote(text)
    if "&" in text:
        text = html.unescape(html.unescape(text))
    if "\\" in text:
        text = _ESCAPED.sub(lambda found: chr(int(found.group(1) or found.group(2), 16)), text)
        text = _ESCAPES.sub("", text)
    plain = unicodedata.normalize("NFKC", text).casefold()
    return "".join(filter(str.isalnum, plain))


def _holds(text: str, name: str, values: Sequence[str]) -> bool:
    """Return whether a skeleton holds the name as that of a call, and all values near it."""
    near = _NEAR + 2 * sum(map(len, values))
    at = text.find(name)
    while at >= 0:
        around = text[max(0, at - near) : at + len(name) + near]
        if values and _BEFORE.search(text[max(0, at - _LONGEST) : at]) and all(value in around for value in values):
            return True
        at = text.find(name, at + 1)
    return False


def _values(value: Any) -> Iterator[str]:
    """Yield the texts and numbers in a call's arguments; truth values say nothing."""
    if isinstance(value, Mapping):
        for each in value.values():
            yield from _values(each)
    elif isinstance(value, list):
        for each in value:
            yield from _values(each)
    elif isinstance(value, str):
        yield value
    elif value is not None and not isinstance(value, bool):
        yield f"{value:g}" if isinstance(value, float) else str(value)
