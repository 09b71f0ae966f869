"""The preview of replacements in a text for a model: the lines that changed, as they were and are, and some around.

A line is shown once, however many places of it changed, and what changed is never shown as what stands around.
"""

from collections.abc import Iterator, Sequence
from itertools import islice

from goclaw.records import record
from goclaw.tools.matching import TextSpan
from goclaw.tools.text import shown

_CONTEXT = 2
"""Lines shown before and after a change."""
_SHOWN_LINES, _SHOWN_WIDTH = 20, 200
_SHOWN_CHANGES = 3
"""Of many lines or groups of lines that change, so many are shown."""


@record
class _Change:
    """Whole lines, with their ends, that became others."""

    old: TextSpan
    new: TextSpan
    places: int


def preview(before: str, after: str, spans: Sequence[TextSpan], news: Sequence[str]) -> str:
    """Return the changes with `-`, `+` and their numbers; unchanged lines have their new numbers.

    `spans` are the places in `before` in their order, `news` what stands there in `after`.
    """
    found = list(islice(_changes(before, after, spans, news), _SHOWN_CHANGES + 1))
    wanted, rest = found[:_SHOWN_CHANGES], found[_SHOWN_CHANGES:]
    lines = [*_shown(before, after, _side_by_side(wanted), rest[0].new.start if rest else len(after))]
    if (more := len(spans) - sum(change.places for change in wanted)) > 0:
        lines.append(f"     …\t({more} more places)")
    return shown("\n".join(lines))


def _changes(before: str, after: str, spans: Sequence[TextSpan], news: Sequence[str]) -> Iterator[_Change]:
    """Yield the changes by lines: places that share a line are one change.

    Of a line that has many places the end is looked for once: it may have megabytes.
    """
    last: _Change | None = None
    shift = 0
    for span, new in zip(spans, news, strict=True):
        shift_before, shift = shift, shift + len(new) - (span.end - span.start)
        if last and span.start < last.old.end:
            end = last.old.end if span.end < last.old.end else _end(before, span.end, after, span.end + shift)
            last = _Change(TextSpan(last.old.start, end), TextSpan(last.new.start, end + shift), last.places + 1)
            continue
        if last:
            yield last
        start = before.rfind("\n", 0, span.start) + 1
        end = _end(before, span.end, after, span.end + shift)
        last = _Change(TextSpan(start, end), TextSpan(start + shift_before, end + shift), 1)
    if last:
        yield last


def _end(before: str, place: int, after: str, new_place: int) -> int:
    """Return the end of the lines that a change touches; one that ends with a line on both sides ends there."""
    is_end = _begins_a_line(before, place) and _begins_a_line(after, new_place)
    return place if is_end else _next_line(before, place)


def _side_by_side(changes: Sequence[_Change]) -> list[_Change]:
    """Merge changes with no line between them."""
    groups: list[_Change] = []
    for change in changes:
        if groups and change.old.start == groups[-1].old.end:
            change = _together(groups.pop(), change)
        groups.append(change)
    return groups


def _together(one: _Change, other: _Change) -> _Change:
    return _Change(
        TextSpan(one.old.start, other.old.end), TextSpan(one.new.start, other.new.end), one.places + other.places
    )


def _shown(before: str, after: str, changes: Sequence[_Change], until: int) -> Iterator[str]:
    """Yield the lines of the changes with context from `after`, up to the next change that is not shown."""
    done = 0
    for change, limit in zip(changes, [*(each.new.start for each in changes[1:]), until], strict=True):
        begin = change.new.start
        for _ in range(_CONTEXT):
            begin = after.rfind("\n", 0, begin - 1) + 1 if begin > done else begin
        yield from _lines(" ", after, TextSpan(max(begin, done), change.new.start))
        yield from _lines("-", before, change.old)
        yield from _lines("+", after, change.new)
        done = change.new.end
        for _ in range(_CONTEXT):
            done = _next_line(after, done) if done < limit else done
        yield from _lines(" ", after, TextSpan(change.new.end, done))


def _begins_a_line(text: str, place: int) -> bool:
    return place == 0 or text[place - 1] == "\n"


def _next_line(text: str, place: int) -> int:
    return text.find("\n", place) + 1 or len(text)


def _lines(sign: str, text: str, span: TextSpan) -> Iterator[str]:
    if span.start >= span.end:
        return
    lines = text[span.start : span.end].removesuffix("\n").split("\n")
    for number, line in enumerate(lines[:_SHOWN_LINES], text.count("\n", 0, span.start) + 1):
        plain = line.rstrip("\r")
        yield f"{sign}{number:5}\t{plain[:_SHOWN_WIDTH]}{'…' if len(plain) > _SHOWN_WIDTH else ''}"
    if len(lines) > _SHOWN_LINES:
        yield f"{sign}    …\t({len(lines) - _SHOWN_LINES} more lines)"
