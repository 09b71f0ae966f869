"""Compaction of a window: a summary replaces the older part, the newer part stays as it is.

The summary comes from the first source that works: a checkpoint, the chain of `models.summary`, the main model, and
when no source answers, a stub that names the missing part and leaves a summary owed. Nothing is removed from the store.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum
from typing import Protocol

from goclaw.common.config.schema import CompactionSettings
from goclaw.common.core.clock import Clock
from goclaw.common.core.messages import AssistantMessage, Message, ToolResult, UserMessage, outside_sources
from goclaw.common.core.records import record
from goclaw.common.core.supervise import background
from goclaw.conversation.agent.context.key_facts import facts_in, names_in, with_names
from goclaw.conversation.agent.context.model_messages import count_of
from goclaw.conversation.agent.context.summary import (
    MAX_SUMMARY,
    Material,
    SummaryFailed,
    cut_summary,
    format_messages,
    write_summary,
)
from goclaw.conversation.agent.context.window import ContextEntry, Window, from_outside
from goclaw.durable.store.transcripts import StoredCompaction
from goclaw.llm.base import ChatModel, Finished
from goclaw.llm.token_counts import estimate_text

EMERGENCY_KEEP_PERCENT = 40
"""Share kept without a summary: larger, since nothing stands for the rest."""
FIRST_SHARE = 0.6
"""Share of the remaining time for one source while another could follow."""
CHECKPOINT_SHARE = 0.5
"""Share of the context's tokens that a checkpoint must cover to serve as its summary."""
STUB = "{count:,} earlier messages are not shown here, and no summary of them could be made yet."
ASKED = "The person's message that you are answering: {text}"
"""Below a stub that also stands for that message: the results of its turn fill the room that there is."""
ASKED_SHARE = 3
"""The message has at most a third of what a summary may have."""
PROSE_SHARE = 0.9
"""Share of a summary that is too long for its text; the rest is for the names that are kept word for word."""
_STUB = re.compile(r"([\d,]+) earlier messages are not shown here, and no summary of them could be made yet\.")
_ASKED = re.compile(f"^{ASKED.format(text='(.+)')}$", re.MULTILINE)

_OUR_LINE = re.compile(r"\A<context>[^\n]*</context>\n")


class SummarySource(StrEnum):
    """The source of a summary, in the words of `/compact`."""

    CHECKPOINT = "checkpoint"
    LLM = "LLM"
    FALLBACK = "fallback model"
    EMERGENCY = "emergency truncation"


@record
class Summarizer:
    """One source of summaries."""

    source: SummarySource
    model: ChatModel
    is_free: bool = False
    """Its answers cost nothing."""
    is_main: bool = False
    """It is the main model, too: no other one follows."""


@record
class Basis:
    """The context before the kept part: the last real summary, and every message that it does not cover."""

    summary: str
    messages: Sequence[Message]


@record
class ReadyCheckpoint:
    """A checkpoint of this context."""

    summary: str
    covers_to: int
    """Row of the last message that it covers."""


class SummaryProgress(Protocol):
    """Follows one search for a summary."""

    @property
    def clock(self) -> Clock: ...

    async def spent(self, finished: Finished) -> None:
        """Book an answer of a model."""

    def record_failure(self, source: SummarySource, reason: str) -> None:
        """Record that a source gave no summary, and why."""


@record
class CompactionGoal:
    """The goal of a compaction: how far to shorten the window."""

    tokens_before: int
    """Tokens that the window takes now, overhead included."""
    overhead: int
    """Estimated tokens of the system prompt and the tools."""
    budget: int
    """Estimated tokens that the kept messages may take at most."""
    instructions: str = ""
    """A person's instructions for the summary (`/compact keep the phone numbers`)."""
    checkpoint: ReadyCheckpoint | None = None
    first_kept: int = 0
    """Row of the first message to keep; then a summary is written or nothing is done. 0: what the settings say."""
    longest_summary: int = MAX_SUMMARY
    """Maximum estimated tokens of the summary; a longer one is cut."""


async def compact(
    window: Window,
    summarizers: Sequence[Summarizer],
    settings: CompactionSettings,
    job: CompactionGoal,
    progress: SummaryProgress,
    *,
    keep: Callable[[StoredCompaction], Awaitable[bool]],
    originals: Callable[[int], Awaitable[Basis]],
) -> StoredCompaction | None:
    """Compact `window` in place; None when there is nothing that could be left out, or it was cleared meanwhile.

    Args:
        window: the context.
        summarizers: the models to ask, first choice first.
        settings: how much to keep, and how long to wait.
        job: how far to shorten the window.
        progress: follows the search for a summary.
        keep: stores the result and shortens the window; False: the context was cleared or forgotten meanwhile.
        originals: returns the messages that a stub stands for, up to a row (not included), from the store.
    """
    entries = list(window.entries)
    if job.first_kept:
        split = next((index for index, entry in enumerate(entries) if entry.row >= job.first_kept), 0)
    else:
        split = split_at(entries, settings.keep_percent, settings.min_messages, job.budget)
    if split == 0:
        return None
    source, summary = SummarySource.EMERGENCY, ""
    if job.checkpoint and not window.owed and not job.instructions:
        split, source, summary = await _by_checkpoint(window.summary, entries, job, split, job.checkpoint)
    if not summary and summarizers:
        wanted = SummaryRequest(settings.timeout_seconds, job.instructions, job.longest_summary)
        older = [entry.message for entry in entries[:split]]
        # A stub is never summarised again: the store has the messages behind it.
        basis = await originals(entries[split].row) if window.owed else Basis(window.summary, older)
        source, summary = await summarize(basis, summarizers, wanted, progress)
    if source is SummarySource.EMERGENCY and job.first_kept:
        return None  # optional compaction: messages without a summary stay
    if source is SummarySource.EMERGENCY:
        split = split_at(entries, EMERGENCY_KEEP_PERCENT, settings.min_messages, job.budget) or split
        summary = await asyncio.to_thread(_stub, window, split, job.longest_summary)
    kept = sum(entry.tokens for entry in entries[split:])
    outside = window.outside | outside_sources(entry.message for entry in entries[:split])
    compaction = StoredCompaction(
        summary=summary,
        source=source,
        first_kept=entries[split].row,
        tokens_before=job.tokens_before,
        tokens_after=int(window.scale * (job.overhead + estimate_text(f"{from_outside(outside)}{summary}") + kept)),
        at=progress.clock.now(),
        retry_owed=source is SummarySource.EMERGENCY,
        outside=outside,
    )
    return compaction if await keep(compaction) else None


@record
class SummaryRequest:
    """A summary that is asked for."""

    seconds: float
    """Seconds in all while a person waits, else for each source."""
    wish: str = ""
    longest: int = MAX_SUMMARY
    """Estimated tokens; a summary that is longer is cut."""
    person_waits: bool = True
    """A turn waits for it."""
    in_one: bool = False
    """Use one request, whatever must be left out for it."""


async def summarize(
    basis: Basis, summarizers: Sequence[Summarizer], wanted: SummaryRequest, progress: SummaryProgress
) -> tuple[SummarySource, str]:
    """Return the first summary written in time; the source is EMERGENCY where no source wrote one.

    While a person waits, a source that could be followed by another leaves it time: peers that let a slow summariser
    use all of it never came to ask the main model.
    """
    texts = await asyncio.to_thread(format_messages, basis.messages)
    material = Material(basis.summary, texts, wanted.wish, wanted.longest, wanted.in_one)
    ends = progress.clock.monotonic() + wanted.seconds
    found: list[str] = []
    # Beside the model, which takes longer in any case.
    async with background(_note_names(basis.messages, found), "names in a conversation") as noting:
        for number, summarizer in enumerate(summarizers, 1):
            share = wanted.seconds
            if wanted.person_waits:
                left = max(0.0, ends - progress.clock.monotonic())
                share = left if number == len(summarizers) else left * FIRST_SHARE
            try:
                async with asyncio.timeout(share):
                    text = await write_summary(material, summarizer.model, progress.spent)
            except SummaryFailed as error:
                reason = str(error)
            except TimeoutError:
                reason = f"{summarizer.model.spec} took longer than {share:.0f} s"
            else:
                await noting
                return summarizer.source, await asyncio.to_thread(_limit, text, basis.summary, found, wanted.longest)
            progress.record_failure(summarizer.source, reason)
    return SummarySource.EMERGENCY, ""


async def _note_names(messages: Sequence[Message], found: list[str]) -> None:
    own = [message for message in messages if not count_of(message)]  # others' sentences must not become decisions
    found += await asyncio.to_thread(lambda: [*names_in(_list_words(messages)), *facts_in(_list_words(own))])


def split_at(entries: Sequence[ContextEntry], keep_percent: int, min_messages: int, budget: int) -> int:
    """Return the index of the first entry to keep; 0 when all must stay.

    Keeps `keep_percent` of the messages, at least `min_messages` as far as the token budget allows, and begins the
    kept part with a user's message or an answer, so that no tool result loses its call. The user's last request is
    kept within the budget as well: the model is about to answer it, or to go on with it.
    """
    wanted = max(len(entries) * keep_percent // 100, min_messages)
    if not entries:
        return 0
    split, room = len(entries), budget
    while split > 0 and len(entries) - split < wanted:
        room -= entries[split - 1].tokens
        if room < 0:
            break
        split -= 1
    split = min(split, len(entries) - 1)  # of any size, the last message is what the model must answer to
    asked = next(
        (index for index in reversed(range(len(entries))) if isinstance(entries[index].message, UserMessage)), 0
    )
    if 0 < asked < split and sum(entry.tokens for entry in entries[asked:]) <= budget:
        split = asked
    while 0 < split < len(entries) and isinstance(entries[split].message, ToolResult):
        split -= 1
    return split


async def _by_checkpoint(
    before: str, entries: Sequence[ContextEntry], job: CompactionGoal, split: int, ready: ReadyCheckpoint
) -> tuple[int, SummarySource, str]:
    """Return the checkpoint in place of a summary, if it covers enough and the rest after it fits; else nothing."""
    after = next((index for index, entry in enumerate(entries) if entry.row > ready.covers_to), len(entries))
    covered = sum(entry.tokens for entry in entries[:after])
    first = min(after, split)  # one that covers the latest messages, too, is no reason to keep fewer of them
    while first > 0 and isinstance(entries[first].message, ToolResult):
        first -= 1
    sizes = [entry.tokens for entry in entries]
    if covered < CHECKPOINT_SHARE * sum(sizes) or first == 0 or (first < split and sum(sizes[first:]) > job.budget):
        return split, SummarySource.EMERGENCY, ""
    found: list[str] = []
    await _note_names([entry.message for entry in entries[:first]], found)
    summary = await asyncio.to_thread(_limit, ready.summary, before, found, job.longest_summary)
    return first, SummarySource.CHECKPOINT, summary


def _list_words(messages: Sequence[Message]) -> list[str]:
    """Return the words of people and the assistant, latest first: results are full of names never used again."""
    said = [
        message
        for message in reversed(messages)
        if isinstance(message, UserMessage) or (isinstance(message, AssistantMessage) and not message.notice)
    ]
    # The line about time and sender is ours: its dates would be kept as if a person had named them.
    return [_OUR_LINE.sub("", message.text) for message in said]


def _limit(text: str, before: str, said: Sequence[str], tokens: int) -> str:
    """Return a summary of at most `tokens` estimated tokens, with the names (`said`, and those of `before`) to keep."""
    whole = with_names(text, before, said, tokens)
    if estimate_text(whole) <= tokens:
        return whole
    prose = cut_summary(text, int(tokens * PROSE_SHARE))
    return cut_summary(with_names(prose, before, said, tokens), tokens)


def fit_summary(window: Window, tokens: int) -> bool:
    """Cut the summary that a window shows to `tokens` estimated tokens; False: it has no more than that.

    The line about messages without a summary stays. In the store the summary stays whole.
    """
    if estimate_text(window.summary) <= tokens:
        return False
    text, line = window.summary, ""
    if window.owed and (stub := _STUB.search(text)):
        text, line = text[: stub.start()], text[stub.start() :]
    window.cut_summary(_above(text, line, tokens))
    return True


def _above(text: str, line: str, tokens: int) -> str:
    """Return a line below as much of a text as `tokens` leave room for."""
    text = cut_summary(text.strip(), max(0, tokens - estimate_text(f"\n\n{line}")))
    return f"{text}\n\n{line}".strip()


def _stub(window: Window, split: int, tokens: int) -> str:
    """Stands for messages until a summary of them is paid. An earlier stub is counted on, not piled up."""
    told_before, count = window.summary, split
    if window.owed and (earlier := _STUB.search(told_before)):
        count += int(earlier[1].replace(",", ""))
        told_before = told_before[: earlier.start()]
    lines = [STUB.format(count=count)]
    if asked := cut_summary(_left_question(window, split), tokens // ASKED_SHARE):
        lines.append(ASKED.format(text=asked))
    return _above(told_before, "\n".join(lines), tokens)


def _left_question(window: Window, split: int) -> str:
    """Return the person's own words, in one line, that the running turn answers if a split leaves them out."""
    if any(isinstance(entry.message, UserMessage) for entry in window.entries[split:]):
        return ""
    left = (entry.message for entry in reversed(window.entries[:split]))
    if asked := next((message for message in left if isinstance(message, UserMessage)), None):
        return "" if asked.foreign else " ".join(_OUR_LINE.sub("", asked.text).split())
    stub = _STUB.search(window.summary) if window.owed else None
    earlier = stub and _ASKED.search(window.summary, stub.end())
    return earlier[1] if earlier else ""
