"""Rendering of Markdown to Telegram's plain text and entities, cut into messages.

The conversion itself is telegramify-markdown's; this module adds the rest: markup it would drop (raw HTML,
footnotes, links to files) is escaped first, a text that would lose words all the same is shown as it was written,
entities are put into an order that Telegram accepts, secrets that only appear without the marks are masked, and long
texts are cut where it hurts least.
"""

import heapq
import html
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING

from goclaw.channels.telegram.markdown_blocks import (
    bare_names,
    blocks_of,
    has_table,
    with_wide_punctuation_outside,
)
from goclaw.common.core import redact
from goclaw.common.core.records import record
from goclaw.common.core.redact import MASK, known_in, mask_known

if TYPE_CHECKING:
    from telegramify_markdown.entity import MessageEntity

MAX_UNITS = 4096
"""Maximum UTF-16 code units in one message (Bot API, sendMessage)."""
MAX_CAPTION_UNITS = 1024
"""Maximum UTF-16 code units in the caption of a file."""
MAX_ENTITIES = 100
"""Maximum entities in one message; later ones are shown without formatting, as Telegram itself does."""

# Code spans and fenced blocks: nothing in them is escaped. Runs of a mark are possessive: without that, each length
# of a run of n marks is tried, and each try looks to the end of the line.
_CODE = re.compile(
    r"^[ \t]*(?:(?:[>*+-]|\d+[.)])[ \t]+)*(?P<fence>`{3,}+(?![^\n]*`)|~{3,}+)[^\n]*+\n"
    r".*?(?:^[ \t>]*(?P=fence)[`~]*[ \t]*$|\Z)"
    r"|(?<!`)(?P<ticks>`++)(?:(?!\n[ \t]*\n).)+?(?<!`)(?P=ticks)(?!`)",
    re.DOTALL | re.MULTILINE,
)
# A tag or a comment (`<https://…>` is a link), a footnote, and a link that Telegram would refuse: a path, say. Its
# parts are bounded, because each of many brackets looks that far ahead.
_DROPPED = re.compile(
    r"(?<!\\)(?:\\\\)*(?:<(?=[A-Za-z/!?])(?!https?://|mailto:)"
    r"|\[(?=\^)"
    r"|\[(?=[^\[\]\n]{0,500}\]\((?!https?://|tg://|mailto:|tel:)[^)\n]{0,500}\))"
    r"|^ {0,3}\[(?=[^\]\n]+\]:))",
    re.MULTILINE,
)
# What belongs behind a fence: a language and its settings (`{1,3}`, `title=x`).
_LANGUAGE = r"[ \t]*[\w+#.-]*(?:[ \t]+(?:\{[^\n]*\}|\w+=\S+))*[ \t]*$"
# A fence with other words behind it, which the conversion hides.
_INFO = re.compile(
    r"^(?P<fence>[ \t>*+\-\d.)]*(?:`{3,}+(?![^\n]*`)|~{3,}+))(?P<info>(?!" + _LANGUAGE + r")[^\n]+)$", re.MULTILINE
)
_ESCAPED_MARKS = "`~<["
"""One of these is in everything that the patterns above find; most answers have none."""
_WORD = re.compile(r"[^\W_]{2,}")
MAX_NESTING = 10
"""Lists and quotes within each other: the conversion's time and its text grow with the square of the depth."""
_TOO_DEEP = re.compile(rf"^[ \t]*(?:(?:>|(?:[-+*]|\d{{1,9}}[.)])[ \t])[ \t]*){{{MAX_NESTING + 1}}}", re.MULTILINE)
_LINKS = ("http://", "https://", "tg://", "mailto:", "tel:")
_QUOTES = frozenset({"blockquote", "expandable_blockquote"})
_CODES = frozenset({"code", "pre"})
_LITERAL = _CODES | {"text_link"}
BETWEEN_BLOCKS = "\n\n"


@record
class Mark:
    """An entity without its place: what makes two entities the same kind."""

    type: str
    url: str | None = None
    language: str | None = None


@record
class EntitySpan:
    """A marked stretch of text, in UTF-16 units; `end` is exclusive."""

    start: int
    end: int
    mark: Mark


@record
class RenderedMessage:
    """One message."""

    text: str
    spans: tuple[EntitySpan, ...] = ()


@cache
def _conversion() -> "Callable[[str], tuple[str, list[MessageEntity]]]":
    """Return the library's conversion, with symbols of headings, lists and tasks as in a book, without pictograms."""
    from telegramify_markdown import convert
    from telegramify_markdown.config import RenderConfig

    config = RenderConfig.isolated()
    symbol = config.markdown_symbol
    symbol.heading_level_1 = symbol.heading_level_2 = symbol.heading_level_3 = symbol.heading_level_4 = ""
    symbol.unordered_list_item, symbol.task_uncompleted, symbol.task_completed = "•", "☐", "☑"
    return partial(convert, latex_escape=False, config=config)


def render(markdown: str, limit: int = MAX_UNITS) -> list[RenderedMessage]:
    """Cut `markdown` into messages of at most `limit` UTF-16 units; none for blank text."""
    text, spans = without_secrets(*convert_markdown(printable(markdown)))
    return list(split(text, spans, limit))


def plain(text: str, limit: int = MAX_UNITS) -> list[RenderedMessage]:
    """Return the same without any formatting."""
    return list(split(mask_known(printable(text)), [], limit))


def without_secrets(text: str, spans: list[EntitySpan]) -> tuple[str, list[EntitySpan]]:
    """Mask the daemon's secrets in outgoing text; each span keeps its characters, and one inside a secret goes."""
    spans = [span for span in spans if not known_in(span.mark.url or span.mark.language or "")]
    for start, end in reversed(known_in(text)):
        first, last = units(text[:start]), units(text[:end])
        text = f"{text[:start]}{MASK}{text[end:]}"
        moved = (_beside(span, first, last, len(MASK) - (last - first)) for span in spans)
        spans = [span for span in moved if span.start < span.end]
    return text, spans


def _beside(span: EntitySpan, first: int, last: int, grown: int) -> EntitySpan:
    """Return the span where `first` to `last` became `grown` units longer: around that, or cut at its edge."""
    start = span.start if span.start <= first else max(span.start, last) + grown
    end = span.end + grown if span.end >= last else min(span.end, first)
    return EntitySpan(start, end, span.mark)


def units(text: str) -> int:
    """Return the length of `text` as Telegram counts it."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2


def printable(text: str) -> str:
    """`text` without what Telegram cannot carry, a terminal would obey, or lets it read differently from what it is."""
    return redact.printable(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))


def convert_markdown(markdown: str) -> tuple[str, list[EntitySpan]]:
    """Return the whole text and its spans, as Telegram accepts them; a block that would lose words stays as written."""
    if _TOO_DEEP.search(markdown):
        return markdown, []
    whole = None if has_table(markdown) else _convert(markdown, markdown)
    text, spans = whole or _block_by_block(markdown)
    return text, tidy([*spans, *names_as_code(text, spans)])


def _block_by_block(markdown: str) -> tuple[str, list[EntitySpan]]:
    """Convert each block on its own: one that cannot be converted stays as written, and the others are formatted."""
    texts, spans, offset = list[str](), list[EntitySpan](), 0
    for block, shown in blocks_of(markdown):
        found, inside = _convert(shown, block) or (block, [])
        text = found.strip("\n")
        last, moved = offset + units(text), offset - (len(found) - len(found.lstrip("\n")))
        for span in inside:
            start, end = max(span.start + moved, offset), min(span.end + moved, last)
            spans += [EntitySpan(start, end, span.mark)] if start < end else []
        texts.append(text)
        offset += units(text) + len(BETWEEN_BLOCKS)
    text = BETWEEN_BLOCKS.join(texts)
    return (markdown, []) if hides_words(markdown, text, [span.mark for span in spans]) else (text, spans)


def _convert(markdown: str, written: str) -> tuple[str, list[EntitySpan]] | None:
    """Return the text and its spans; None if a word of the input would be lost.

    Markdown may hide some: a link's title, words after a fence.
    """
    text, entities = _conversion()(escape(markdown))
    if loses_words(written, text, entities):
        return None
    return text, list(spans_of(entities))


def names_as_code(text: str, spans: Sequence[EntitySpan]) -> Iterator[EntitySpan]:
    """Yield code for names that Telegram would link by itself (`README.md`), where they are no code or link yet."""
    for first, last in bare_names(text):
        start, end = units(text[:first]), units(text[:last])
        if not any(span.start < end and start < span.end and span.mark.type in _LITERAL for span in spans):
            yield EntitySpan(start, end, Mark("code"))


def loses_words(markdown: str, text: str, entities: "Iterable[MessageEntity]") -> bool:
    """Whether a word of `markdown` is neither in the text nor in a link or a real language of a code block."""
    if text == markdown.strip() and "&" not in markdown:
        return not text  # nothing of it was taken for a mark or a character's name
    return hides_words(markdown, text, entities)


def hides_words(markdown: str, text: str, entities: "Iterable[MessageEntity | Mark]") -> bool:
    """`loses_words` for a text that differs from its Markdown: by the words of both."""
    beside = [entity.url for entity in entities if entity.url and entity.url.startswith(_LINKS)]
    beside += [entity.language for entity in entities if entity.language and re.match(_LANGUAGE, entity.language)]
    shown = "\n".join([text, *beside])
    missing = set(_WORD.findall(html.unescape(markdown))) - set(_WORD.findall(shown))
    # Formatting inside a word (`sn**ow**`) joins its parts.
    return not text.strip() or any(word not in shown for word in missing)


def escape(markdown: str) -> str:
    """`markdown` with a backslash before everything outside code that the conversion would drop."""
    if any(mark in markdown for mark in _ESCAPED_MARKS):
        return escape_marks(markdown)
    return with_wide_punctuation_outside(markdown)


def escape_marks(markdown: str) -> str:
    """`escape` for a text with marks that may need it."""
    parts, position = [], 0
    for code in _CODE.finditer(markdown):
        parts.append(_escape_text(markdown[position : code.start()]))
        parts.append(_INFO.sub(r"\g<fence>\n\g<info>", code[0], count=1))
        position = code.end()
    return "".join([*parts, _escape_text(markdown[position:])])


def _escape_text(markdown: str) -> str:
    markdown = with_wide_punctuation_outside(markdown)
    return _DROPPED.sub(_escape_match, _INFO.sub(r"\g<fence>\n\g<info>", markdown))


def _escape_match(found: re.Match[str]) -> str:
    return f"{found[0][:-1]}\\{found[0][-1]}"


def spans_of(entities: "Iterable[MessageEntity]") -> Iterator[EntitySpan]:
    """Yield the library's entities as ours, without links that Telegram would refuse."""
    for entity in entities:
        if entity.type != "text_link" or (entity.url or "").startswith(_LINKS):
            yield EntitySpan(
                entity.offset, entity.offset + entity.length, Mark(entity.type, entity.url, entity.language)
            )


def tidy(spans: Iterable[EntitySpan]) -> list[EntitySpan]:
    """Spans that Telegram accepts: none crosses another, code holds and is held by nothing but a quote.

    Every stretch between two edges gets the marks that may stand together there; then equal neighbours grow
    together again, and what still crosses is cut.
    """
    ordered = sorted(spans, key=_outer_first)
    if all(span.end <= after.start for span, after in pairwise(ordered)):
        return ordered
    changes: dict[int, Counter[Mark]] = {}
    for span in ordered:
        changes.setdefault(span.start, Counter())[span.mark] += 1
        changes.setdefault(span.end, Counter())[span.mark] -= 1
    open_since: dict[Mark, int] = {}
    active: Counter[Mark] = Counter()
    grown: list[EntitySpan] = []
    for edge in sorted(changes):
        active.update(changes[edge])
        allowed = compatible(mark for mark, count in active.items() if count > 0)
        active = +active
        # Code holds no quote, so where a quote begins or ends, code does, too.
        goes_on = (
            set(allowed) if quotes(allowed) == quotes(open_since) else {m for m in allowed if m.type not in _CODES}
        )
        grown += [EntitySpan(since, edge, mark) for mark, since in open_since.items() if mark not in goes_on]
        open_since = {mark: open_since[mark] if mark in goes_on & open_since.keys() else edge for mark in allowed}
    return uncross(grown)


def compatible(marks: Iterable[Mark]) -> list[Mark]:
    """Return the marks that may stand on the same characters: one quote, then a link or code or any styles."""
    kept: dict[str, Mark] = {}
    for mark in marks:
        kept.setdefault("quote" if mark.type in _QUOTES else mark.type, mark)
    if "text_link" in kept:
        kept = {kind: mark for kind, mark in kept.items() if kind not in _CODES}
    code = kept.get("pre") or kept.get("code")
    if code:
        return [kept["quote"], code] if "quote" in kept else [code]
    return list(kept.values())


def quotes(marks: Iterable[Mark]) -> set[Mark]:
    """Return the quotes among them."""
    return {mark for mark in marks if mark.type in _QUOTES}


def uncross(spans: Iterable[EntitySpan]) -> list[EntitySpan]:
    """Sort spans in Telegram's order, cutting one that leaves the span around it at the end of that span."""
    waiting = [(_outer_first(span), number, span) for number, span in enumerate(spans)]
    heapq.heapify(waiting)
    around: list[EntitySpan] = []
    done: list[EntitySpan] = []
    while waiting:
        _, number, span = heapq.heappop(waiting)
        while around and around[-1].end <= span.start:
            around.pop()
        if around and span.end > around[-1].end:
            rest = EntitySpan(around[-1].end, span.end, span.mark)
            span = EntitySpan(span.start, around[-1].end, span.mark)
            heapq.heappush(waiting, (_outer_first(rest), number, rest))
        around.append(span)
        done.append(span)
    return done


def _outer_first(span: EntitySpan) -> tuple[int, int, bool, bool, str]:
    """Order by start, the longer one first; at equal places quotes are outside and code is inside."""
    return span.start, -span.end, span.mark.type not in _QUOTES, span.mark.type in _CODES, span.mark.type


def split(text: str, spans: list[EntitySpan], limit: int) -> Iterator[RenderedMessage]:
    """Cut into chunks of at most `limit` units and `MAX_ENTITIES` spans; spans over a cut go on in the next chunk."""
    offset = 0
    following = 0
    for piece in pieces(text, limit, list(blocks_of_code(text, spans))):
        end = offset + units(piece)
        # Spans are sorted by start: those before `following` that reach in here are few, the open ones.
        inside = [span for span in spans[:following] if span.end > offset]
        while following < len(spans) and spans[following].start < end:
            inside.append(spans[following])
            following += 1
        if piece.strip():
            clipped = (EntitySpan(max(s.start, offset) - offset, min(s.end, end) - offset, s.mark) for s in inside)
            yield RenderedMessage(piece, tuple(clipped)[:MAX_ENTITIES])
        offset = end


def blocks_of_code(text: str, spans: Iterable[EntitySpan]) -> Iterator[range]:
    """Yield the ranges of code blocks in `text`, in characters."""
    at_units, at = 0, 0
    for span in spans:
        if span.mark.type == "pre" and span.start >= at_units:
            start = fitting(text, at, span.start - at_units)
            at_units, at = span.end, fitting(text, start, span.end - span.start)
            yield range(start, at)


def pieces(text: str, limit: int, code: Sequence[range] = ()) -> Iterator[str]:
    """Yield `text` in pieces of at most `limit` units, cut between blocks, lines or words where one ends late enough.

    `code` are the ranges of code blocks: each of these is one block, blank lines included.
    """
    start = 0
    while start < len(text):
        end = fitting(text, start, limit)
        if end < len(text):
            end = good_cut(text, start, end, code)
        yield text[start:end]
        start = end


def fitting(text: str, start: int, limit: int) -> int:
    """Return the largest index up to which `text[start:]` has at most `limit` units."""
    end = min(start + limit, len(text))
    while units(text[start:end]) > limit:
        # Each character outside the basic plane counts twice, so half the excess has to go at least.
        end -= (units(text[start:end]) - limit + 1) // 2
    return end


def good_cut(text: str, start: int, end: int, code: Sequence[range] = ()) -> int:
    """Return the best cut in the last half before `end`: between two blocks, else lines, else words."""
    middle = start + (end - start) // 2
    if (block := last_block(text, middle, end, code)) > start:
        return block
    for separator in ("\n\n", "\n", " "):
        found = text.rfind(separator, middle, end)
        if found >= 0:
            return found + len(separator)
    return end


def last_block(text: str, middle: int, end: int, code: Sequence[range]) -> int:
    """Return the last place from `middle` on where a block ends, outside of code; 0 for none."""
    around = next((block for block in code if block.start < end < block.stop), None)
    if around is not None:
        end = around.start
        if end > middle:
            return end
    while (found := text.rfind("\n\n", middle, end)) >= 0:
        inside = next((block for block in code if block.start < found + 2 < block.stop), None)
        if inside is None:
            return found + 2
        if inside.start > middle:
            return inside.start
        end = found
    return 0
