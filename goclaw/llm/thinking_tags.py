"""Thinking that a model writes into its text, between tags (`<think>`), made thinking.

Templates of local servers often put the opening tag into the prompt, so that the answer has only the closing one. Then
all that came before it was thinking: views that showed it as text drop it (`Restarted`). A tag that stands later in the
answer, or in code, is a word like any other.
"""

import re
from collections.abc import Iterator
from dataclasses import replace

from goclaw.llm.base import Finished, ModelEvent, Restarted, TextDelta, ThinkingDelta

_TAGS = {
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "<thought>": "</thought>",
    "<reasoning>": "</reasoning>",
    "<seed:think>": "</seed:think>",
    "[THINK]": "[/THINK]",
    "◁think▷": "◁/think▷",
}
"""By the opening tag: DeepSeek, Qwen and most others; Granite; Gemma; Reka; Seed-OSS; Magistral; Kimi."""
_LONE = re.compile(r"(?:\A|(?<=[\n.!?。…)\]]))[ \t]*</think(?:ing)?>|</think(?:ing)?>(?=[ \t]*\n)")
"""A closing tag that ends thinking: on a separate line, or at the end of a sentence; not a quoted one."""
_OPEN_END = re.compile(r"[ \t]*</?t?h?i?n?k?i?n?g?>?[ \t]*\Z")
"""The end of a text that may become a lone closing tag."""
UNOPENED = "thinking"
"""The reason why an answer starts again: its text so far was thinking."""


class ThinkingTags:
    """Splits the events of one answer. Everything between the tags becomes `ThinkingDelta`."""

    def __init__(self) -> None:
        self._said: list[str] = []
        """Text of the answer so far, without thinking."""
        self._held = ""
        """Text whose kind is not known yet."""
        self._closing = ""
        """The tag that ends the thinking that has begun."""
        self._is_begun = False
        """Text that is no thinking has begun: an opening tag is a word from here on."""
        self._is_split = False
        self._may_be_unopened = True

    def process(self, event: ModelEvent) -> Iterator[ModelEvent]:
        """Yield the events in the place of one."""
        match event:
            case TextDelta(text) if self._is_begun and not self._held and "<" not in text:
                self._said.append(text)
                yield event
            case TextDelta(text):
                self._held += text
                yield from self._scan()
            case Restarted():
                self.__init__()  # type: ignore[misc]  # everything begins anew
                yield event
            case Finished():
                yield from self._rest()
                said = "".join(self._said)
                yield replace(event, message=replace(event.message, text=said)) if self._is_split else event
            case _:
                yield event

    def _scan(self) -> Iterator[ModelEvent]:
        while True:
            before = (self._held, self._closing, self._is_begun)
            if self._closing:
                yield from self._think()
            elif not self._is_begun:
                self._find_start()
            else:
                yield from self._speak()
            if not self._held or (self._held, self._closing, self._is_begun) == before:
                return

    def _find_start(self) -> None:
        """Find out whether the answer starts with thinking."""
        text = self._held.lstrip()
        opening = next((tag for tag in _TAGS if text.startswith(tag)), "")
        if opening:
            self._held, self._closing = text[len(opening) :], _TAGS[opening]
            self._is_split, self._may_be_unopened = True, False
        elif text and not any(tag.startswith(text) for tag in _TAGS):
            self._is_begun = True
            if self._is_split:
                self._held = text

    def _think(self) -> Iterator[ModelEvent]:
        thought, found, rest = self._held.partition(self._closing)
        if found:
            self._held, self._closing = rest.lstrip(), ""
        else:
            kept = _overlap(thought, self._closing)
            self._held = thought[len(thought) - kept :]
            thought = thought[: len(thought) - kept]
        if thought:
            yield ThinkingDelta(thought)

    def _speak(self) -> Iterator[ModelEvent]:
        open_end = _OPEN_END.search(self._held) if self._may_be_unopened else None
        if self._may_be_unopened and "</think" in self._held:
            said = "".join(self._said)
            whole = said + self._held
            if (found := _lone(whole, len(said))) and found.end() < len(whole):
                yield from self._restart_as_thinking(whole[: found.start()], whole[found.end() :])
                return
        kept = len(self._held) - open_end.start() if open_end else 0
        text, self._held = self._held[: len(self._held) - kept], self._held[len(self._held) - kept :]
        if text:
            self._said.append(text)
            yield TextDelta(text)

    def _restart_as_thinking(self, thought: str, rest: str) -> Iterator[ModelEvent]:
        """Make thinking of all that came before a closing tag."""
        if self._said:
            yield Restarted(UNOPENED)
        if thought:
            yield ThinkingDelta(thought)
        self._said.clear()
        self._held = rest.lstrip()
        self._is_begun, self._is_split, self._may_be_unopened = False, True, False

    def _rest(self) -> Iterator[ModelEvent]:
        """Yield the text held back, now that nothing follows."""
        said = "".join(self._said)
        if self._closing:
            if self._held:
                yield ThinkingDelta(self._held)
        elif self._may_be_unopened and (found := _lone(f"{said}{self._held}\n", len(said))):
            yield from self._restart_as_thinking(f"{said}{self._held}"[: found.start()], "")
        elif self._held:
            self._said.append(self._held)
            yield TextDelta(self._held)
        self._held = ""


def without_thinking(text: str) -> str:
    """Return a whole answer's text without the thinking in it."""
    tags = ThinkingTags()
    said: list[str] = []
    for event in (*tags.process(TextDelta(text)), *tags._rest()):
        if isinstance(event, Restarted):
            said.clear()
        elif isinstance(event, TextDelta):
            said.append(event.text)
    return "".join(said)


def _lone(text: str, start: int) -> re.Match[str] | None:
    """Return a closing tag that ends thinking, and ends after `start`."""
    for found in _LONE.finditer(text):
        if found.end() > start and not _in_code(text[: found.start()]):
            return found
    return None


def _overlap(text: str, tag: str) -> int:
    """Return how many characters at the end of `text` may begin `tag`."""
    return next((size for size in range(min(len(tag) - 1, len(text)), 0, -1) if text.endswith(tag[:size])), 0)


def _in_code(before: str) -> bool:
    """Whether what follows `before` stands in a block or a piece of code."""
    fences = len(re.findall(r"^[ \t]{0,3}```", before, re.MULTILINE))
    return fences % 2 == 1 or before.rpartition("\n")[2].count("`") % 2 == 1
