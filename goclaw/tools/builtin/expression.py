"""Regular expressions of `search`, checked and written for ripgrep.

Literals, `.`, `^`, `$`, `|`, groups, `[…]` with ranges, `\\d \\w \\s` and their opposites, `\\b`, and `* + ? {n,m}`,
lazy or not; no look-around, back references, flags or named groups. A pattern is not handed on as it is: to ripgrep
`\\<`, `{`, `[` in brackets, `&&` and `a)(b` mean something else, and it would find that without a word.
"""

from goclaw.common.core.records import record
from goclaw.errors import InvalidInput

MAX_CHARACTERS = 500
_MAX_REPEATED, _MAX_BYTES, _DEEPEST = 100, 500, 50
"""Of one `{n}`; of all that is repeated, written out; of groups in groups."""
_META = frozenset("\\.+*?()|[]{}^$")
_META_IN_CLASS = frozenset("\\]^-[&~")
_CLASSES = frozenset("dwsDWS")
_HELP = "to search for it as it is, put \\ before it"


def expression(pattern: str) -> str:
    """The pattern as ripgrep takes it with `--crlf`.

    Raises:
        InvalidInput: it is no regular expression, or uses an unsupported feature; the message names the place and the
            remedy.
    """
    if not pattern:
        raise InvalidInput('field "pattern": expected at least 1 character(s)')
    if len(pattern) > MAX_CHARACTERS:
        raise InvalidInput(f'field "pattern": expected at most {MAX_CHARACTERS} characters, got {len(pattern)}')
    if any(character in "\0\r\n" or "\ud800" <= character <= "\udfff" for character in pattern):
        raise InvalidInput('field "pattern": expected one line of text; a search works line by line')
    reader = _Reader(pattern)
    found = reader.alternatives(0)
    if not reader.is_at_end:
        raise reader.wrong(f"there is no ( for this ); {_HELP}")
    if found.size > _MAX_BYTES:
        raise InvalidInput('field "pattern": it repeats too much; use smaller numbers in { }')
    return found.text


def literal(text: str) -> str:
    """The expression for exactly this text."""
    return expression("".join(_escape_character(character) for character in text))


@record
class _Piece:
    """A part of an expression."""

    text: str
    size: int = 1
    repeats: bool = True
    """Whether it may be repeated."""


class _Reader:
    """Reads a pattern once, from left to right."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0

    @property
    def is_at_end(self) -> bool:
        return self._at >= len(self._pattern)

    def wrong(self, what: str) -> InvalidInput:
        """Return the error for the text at this place."""
        return InvalidInput(f'field "pattern": at character {self._at + 1}: {what}')

    def alternatives(self, depth: int) -> _Piece:
        """Up to the `)` of this group, or the end."""
        if depth > _DEEPEST:
            raise self.wrong("too many groups in groups")
        branches = [self._sequence(depth)]
        while self._peek() == "|":
            self._at += 1
            branches.append(self._sequence(depth))
        return _Piece("|".join(branch.text for branch in branches), sum(branch.size for branch in branches))

    def _sequence(self, depth: int) -> _Piece:
        pieces: list[_Piece] = []
        while not self.is_at_end and self._peek() not in "|)":
            pieces.append(self._repeat(self._atom(depth)))
        return _Piece("".join(piece.text for piece in pieces), sum(piece.size for piece in pieces))

    def _atom(self, depth: int) -> _Piece:
        character = self._next()
        match character:
            case "(":
                return self._group(depth)
            case "[":
                return self._class()
            case "\\":
                return self._escape()
            case "*" | "+" | "?":
                self._at -= 1
                raise self.wrong(f"there is nothing to repeat before {character}; {_HELP}")
            case "^" | "$":
                return _Piece(character, repeats=False)
            case ".":
                return _Piece(character)
        return _Piece(_escape_character(character))

    def _group(self, depth: int) -> _Piece:
        if self._peek() == "?":
            if not self._pattern.startswith("?:", self._at):
                raise self.wrong("only (…) and (?:…) are groups here: no look-around, no names, no flags")
            self._at += 2
        inner = self.alternatives(depth + 1)
        if self._peek() != ")":
            raise self.wrong("a ) is missing; for a ( as it is, put \\ before it")
        self._at += 1
        return _Piece(f"(?:{inner.text})", inner.size)

    def _escape(self) -> _Piece:
        character = self._next("there is nothing behind the \\")
        if character == "b" or character in _CLASSES:
            return _Piece(f"\\{character}", repeats=character != "b")
        return _Piece(_escape_character(self._plain(character)))

    def _plain(self, character: str) -> str:
        """Return the meaning of an escaped character that is no class."""
        if character == "t":
            return "\t"
        if character.isalnum():
            self._at -= 1
            raise self.wrong(f"\\{character} is not known here; known are \\d \\w \\s \\D \\W \\S \\b \\t")
        return character

    def _repeat(self, piece: _Piece) -> _Piece:
        found = self._quantifier()
        if not found:
            return piece
        text, most = found
        if not piece.repeats:
            raise self.wrong("^, $ and \\b cannot be repeated")
        if self._peek() == "?":
            self._at += 1
            text += "?"
        if self._peek() in ("*", "+") or self._peek() == "?":
            raise self.wrong("one sign of repetition after another; put ( ) around the first")
        return _Piece(f"{piece.text}{text}", piece.size * most)

    def _quantifier(self) -> tuple[str, int] | None:
        """Return the repetition sign here, and how much it repeats the preceding item; none: the brace is one."""
        sign = self._peek()
        if sign and sign in "*+?":
            self._at += 1
            return sign, 1
        if sign != "{":
            return None
        end = self._pattern.find("}", self._at)
        first, comma, last = self._pattern[self._at + 1 : end].partition(",") if end > 0 else ("", "", "")
        if not _is_number(first) or not (last == "" or _is_number(last)):
            return None
        most = int(last or first)
        if most < int(first) or most > _MAX_REPEATED:
            raise self.wrong(f"expected {{n,m}} with n <= m <= {_MAX_REPEATED}")
        self._at = end + 1
        return f"{{{first}{comma}{last}}}", max(1, most)

    def _class(self) -> _Piece:
        is_negated = self._peek() == "^"
        self._at += is_negated
        members: list[str] = []
        while not members or self._peek() != "]":
            item = self._next("a ] is missing; for a [ as it is, put \\ before it")
            if item == "[" and self._peek() in (":", ".", "="):
                raise self.wrong("[:…:] is not known here; use \\w, \\d, \\s or ranges like a-z")
            name = self._peek()
            if item == "\\" and name in _CLASSES:
                self._at += 1
                members.append(f"\\{name}")
            else:
                members.append(self._range(item))
        self._at += 1
        return _Piece(f"[{'^' if is_negated else ''}{''.join(members)}]")

    def _range(self, item: str) -> str:
        """One member of a class, or a range of them."""
        first = self._member(item)
        rest = self._pattern[self._at : self._at + 2]
        if len(rest) < 2 or rest[0] != "-" or rest[1] == "]":
            return _escape_character(first, _META_IN_CLASS)
        self._at += 1
        last = self._member(self._next())
        if last < first:
            raise self.wrong(f"the range {first}-{last} goes backwards")
        return f"{_escape_character(first, _META_IN_CLASS)}-{_escape_character(last, _META_IN_CLASS)}"

    def _member(self, item: str) -> str:
        if item != "\\":
            return item
        character = self._next("there is nothing behind the \\")
        if character in _CLASSES:
            raise self.wrong(f"\\{character} cannot end a range")
        return self._plain(character)

    def _peek(self) -> str:
        return self._pattern[self._at : self._at + 1]

    def _next(self, missing: str = "something is missing") -> str:
        if self.is_at_end:
            raise self.wrong(missing)
        self._at += 1
        return self._pattern[self._at - 1]


def _escape_character(character: str, meta: frozenset[str] = _META) -> str:
    return f"\\{character}" if character in meta else character


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 4
