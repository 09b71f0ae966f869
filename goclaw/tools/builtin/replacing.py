"""Replace texts in the text of a file, and preview the changed lines for the model. It writes no file.

In the preview a line is shown once, however many places of it changed, and changed lines are never shown as context.
"""

from collections.abc import Iterator, Sequence
from itertools import islice

from goclaw.common.core.records import record
from goclaw.errors import InvalidInput, ToolError
from goclaw.tools.builtin.matching import MAX_PLACES, MAX_REPLACED, Match, MatchTier, TextSpan, find, reindent
from goclaw.tools.builtin.text import MAX_BYTES, Text, encode, readable_text

_PREVIEW_CONTEXT = 2
"""Lines shown before and after a change."""
_SHOWN_LINES, _SHOWN_WIDTH = 20, 200
_SHOWN_CHANGES = 3
MAX_COMPARED = 200_000
"""Characters of a file in which a line is looked for that differs in white space only."""
"""Of many lines or groups of lines that change, so many are shown."""


@record
class Replacement:
    """A replacement requested by a model."""

    old: str
    new: str
    every: bool = False


@record
class Replaced:
    """The outcome of a replacement."""

    body: str
    match: Match
    preview: str

    @property
    def how(self) -> str:
        """Where the text was found, if not just once and exactly; in words that follow the file's name."""
        places = f"{len(self.match.spans)} places" if len(self.match.spans) > 1 else ""
        tiers = {
            MatchTier.EXACT: "",
            MatchTier.TRAILING: "matched but for white space at the ends of lines",
            # Never rounded up to what it is not.
            MatchTier.FUZZY: f"fuzzy match, {int(self.match.likeness * 100)} % alike, indented as the file is",
        }
        said = ", ".join(filter(None, (places, tiers[self.match.tier])))
        return f" ({said})" if said else ""


def check(wanted: Replacement) -> None:
    """Check that the replacement is possible at all.

    Raises:
        InvalidInput: it says nothing, or it is no Unicode text.
    """
    if not wanted.old:
        instead = "call exec now: `echo TEXT >> FILE` adds a line, `mv` renames, `rm` deletes"
        raise InvalidInput(f"old_string cannot be empty ({instead})")
    if wanted.old == wanted.new:
        raise InvalidInput("old_string and new_string are the same: nothing to change")
    encode(wanted.old, "old_string")
    encode(wanted.new, "new_string")


def replace_text(path: str, text: Text, body: str, wanted: Replacement, *, fuzzy: bool) -> Replaced:
    """`body`, which the file `text` has or will have, with the replacement made.

    Raises:
        ToolError: there is no place for it, or more than one.
    """
    text.check_fits(path, wanted.new)
    end, match = _find_place(body, text.with_line_ends(wanted.old), fuzzy=fuzzy, every=wanted.every)
    before = body + end
    if match and len(match.spans) > MAX_REPLACED:
        raise ToolError(f"old_string stands in more than {MAX_REPLACED:,} places of {path}: use exec with sed")
    if match is None:
        raise ToolError(f"old_string not found in {path}{_nearly(body, wanted.old)}")
    if len(match.spans) > 1 and (match.tier is MatchTier.FUZZY or not wanted.every):
        raise ToolError(_not_unique(path, before, match))
    usual = text.with_line_ends(wanted.new)  # once: it looks at the whole text
    news = [_new(usual, before[span.start : span.end], wanted, match.tier) for span in match.spans]
    size = len(before) + sum(len(new) - (span.end - span.start) for span, new in zip(match.spans, news, strict=True))
    if size > MAX_BYTES:
        raise ToolError(f"{path} would have {size:,} characters, at most {MAX_BYTES:,} can be edited")
    pieces, at = [], 0
    for span, new in zip(match.spans, news, strict=True):
        pieces += [before[at : span.start], new]
        at = span.end
    after = "".join([*pieces, before[at:]])
    if end and after.removesuffix(end) == body:
        raise ToolError(f"old_string not found in {path} (its last line has no end)")
    return Replaced(after.removesuffix(end), match, preview(before, after, match.spans, news))


def _find_place(body: str, old: str, *, fuzzy: bool, every: bool) -> tuple[str, Match | None]:
    """Return the place of the text, and the line end to add to `body` for it: a last line may have none."""
    if not body or body.endswith("\n") or not old.endswith("\n") or not old.strip("\r\n"):
        return "", find(body, old, fuzzy=fuzzy, every=every)
    if not every and (match := find(body, old, fuzzy=False)):
        return "", match
    end = "\r\n" if old.endswith("\r\n") else "\n"
    return end, find(body + end, old, fuzzy=fuzzy, every=every)


def _new(usual: str, there: str, wanted: Replacement, tier: MatchTier) -> str:
    """Return the text that replaces `there`; `usual`: the new text with the line ends of the file."""
    new = wanted.new if tier is MatchTier.FUZZY else usual
    if tier is MatchTier.FUZZY:
        old, plain = (part.replace("\r\n", "\n") for part in (wanted.old, there))
        new = reindent(new.replace("\r\n", "\n"), old, plain)
        if "\r\n" in usual and not there.count("\n"):
            new = new.replace("\n", "\r\n")
    ends = there.count("\n")
    if tier is not MatchTier.EXACT and ends and there.count("\r\n") == ends:
        return new.replace("\r\n", "\n").replace("\n", "\r\n")
    return new


def _not_unique(path: str, body: str, match: Match) -> str:
    places = match.spans[:MAX_PLACES]
    lines = ", ".join(str(_line_of(body, span.start)) for span in places)
    many = len(match.spans) > MAX_PLACES
    count, more = (f"more than {MAX_PLACES}", ", …") if many else (str(len(match.spans)), "")
    how = "" if match.tier is MatchTier.EXACT else f" by {match.tier} match; give it exactly, with more lines around"
    return f"old_string is not unique: {count} matches in {path} (lines {lines}{more}){how}"


def _nearly(body: str, old: str) -> str:
    """Return where the text stands with other white space; empty: nowhere, or the body is too long to look there."""
    place = body.find(old.strip()) if old.strip() else -1
    if place >= 0:
        return f" (line {_line_of(body, place)} has it with other whitespace around)"
    letters = "".join(old.split())
    if not letters or len(body) > MAX_COMPARED or "\n" in old.strip():
        return ""
    alike = [
        (number, line)
        for number, line in enumerate(body.splitlines(), 1)
        if letters in (packed := "".join(line.split())) and len(packed) <= 2 * len(letters)
    ]
    return f" (call again with line {alike[0][0]} as it is: {alike[0][1].strip()})" if len(alike) == 1 else ""


def _line_of(body: str, place: int) -> int:
    return body.count("\n", 0, place) + 1


@record
class _Change:
    """Whole lines, with their ends, that became others."""

    old: TextSpan
    new: TextSpan
    places: int


def preview(before: str, after: str, spans: Sequence[TextSpan], news: Sequence[str]) -> str:
    """Return the changes with `-`, `+` and their numbers; unchanged lines have their new numbers.

    `spans` are the places in `before` in their order, `news` the text there in `after`.
    """
    found = list(islice(_changes(before, after, spans, news), _SHOWN_CHANGES + 1))
    wanted, rest = found[:_SHOWN_CHANGES], found[_SHOWN_CHANGES:]
    lines = [*_preview_lines(before, after, _side_by_side(wanted), rest[0].new.start if rest else len(after))]
    if (more := len(spans) - sum(change.places for change in wanted)) > 0:
        lines.append(f"     …\t({more} more places)")
    return readable_text("\n".join(lines))


def _changes(before: str, after: str, spans: Sequence[TextSpan], news: Sequence[str]) -> Iterator[_Change]:
    """Yield the changes by lines: places that share a line are one change. Of a line that has many places the end is
    looked for once: it may have megabytes."""
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
            before = groups.pop()
            old = TextSpan(before.old.start, change.old.end)
            new = TextSpan(before.new.start, change.new.end)
            change = _Change(old, new, before.places + change.places)
        groups.append(change)
    return groups


def _preview_lines(before: str, after: str, changes: Sequence[_Change], until: int) -> Iterator[str]:
    """Yield the lines of the changes with context from `after`, up to the next change that is not shown."""
    done = 0
    for change, limit in zip(changes, [*(each.new.start for each in changes[1:]), until], strict=True):
        begin = change.new.start
        for _ in range(_PREVIEW_CONTEXT):
            begin = after.rfind("\n", 0, begin - 1) + 1 if begin > done else begin
        yield from _number_lines(" ", after, TextSpan(max(begin, done), change.new.start))
        yield from _number_lines("-", before, change.old)
        yield from _number_lines("+", after, change.new)
        done = change.new.end
        for _ in range(_PREVIEW_CONTEXT):
            done = _next_line(after, done) if done < limit else done
        yield from _number_lines(" ", after, TextSpan(change.new.end, done))


def _begins_a_line(text: str, place: int) -> bool:
    return place == 0 or text[place - 1] == "\n"


def _next_line(text: str, place: int) -> int:
    return text.find("\n", place) + 1 or len(text)


def _number_lines(sign: str, text: str, span: TextSpan) -> Iterator[str]:
    if span.start >= span.end:
        return
    lines = text[span.start : span.end].removesuffix("\n").split("\n")
    for number, line in enumerate(lines[:_SHOWN_LINES], text.count("\n", 0, span.start) + 1):
        plain = line.rstrip("\r")
        yield f"{sign}{number:5}\t{plain[:_SHOWN_WIDTH]}{'…' if len(plain) > _SHOWN_WIDTH else ''}"
    if len(lines) > _SHOWN_LINES:
        yield f"{sign}    …\t({len(lines) - _SHOWN_LINES} more lines)"
