"""Replaces texts in a text file, and reports the outcome. It writes no file."""

from goclaw.errors import ToolError
from goclaw.records import record
from goclaw.tools.matching import MAX_PLACES, MAX_REPLACED, Match, MatchTier, find, reindented
from goclaw.tools.preview import preview
from goclaw.tools.text import MAX_BYTES, Text, encoded


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
        ToolError: it says nothing, or it is no Unicode text.
    """
    if not wanted.old:
        raise ToolError("old_string cannot be empty")
    if wanted.old == wanted.new:
        raise ToolError("old_string and new_string are the same: nothing to change")
    encoded(wanted.old, "old_string")
    encoded(wanted.new, "new_string")


def replaced(path: str, text: Text, body: str, wanted: Replacement, *, fuzzy: bool) -> Replaced:
    """`body`, which the file `text` has or will have, with the replacement made.

    Raises:
        ToolError: there is no place for it, or more than one.
    """
    text.check_fits(path, wanted.new)
    end, match = _found(body, text.with_line_ends(wanted.old), fuzzy=fuzzy, every=wanted.every)
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


def _found(body: str, old: str, *, fuzzy: bool, every: bool) -> tuple[str, Match | None]:
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
        new = reindented(new.replace("\r\n", "\n"), old, plain)
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
    place = body.find(old.strip()) if old.strip() else -1
    return f" (line {_line_of(body, place)} has it with other whitespace around)" if place >= 0 else ""


def _line_of(body: str, place: int) -> int:
    return body.count("\n", 0, place) + 1
