"""The regular expressions that `search` takes: what ripgrep and Python's `re` both have, written for each of them.

Literals, `.`, `^`, `$`, `|`, groups, `[…]` with ranges, `\\d \\w \\s` and their opposites, `\\b`, and `* + ? {n,m}`,
lazy or not. No look-around, back references, flags or named groups: ripgrep's engine, which never takes long, has none.
A search works line by line, so nothing here matches the end of a line. `\\w` is a letter, a number or `_` of any
script; where a `\\b` is beside a combining mark, the two may differ.
"""

from goclaw.errors import InvalidInput
from goclaw.records import record

MAX_CHARACTERS = 500
_MAX_REPEATED, _MAX_BYTES, _DEEPEST = 100, 500, 50
"""Of one `{n}`; of all that is repeated, written out; of groups in groups."""
_META = frozenset("\\.+*?()|[]{}^$")
_META_IN_CLASS = frozenset("\\]^-[&~")
_SPACES = " \t\x0b\x0c\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_CLASSES = {"d": ("\\d", "\\d"), "w": ("\\w", "\\p{L}\\p{N}_"), "s": (_SPACES, _SPACES)}
"""What stands in brackets for each, for Python and for ripgrep."""
_NO_END = "\r\n"
_HELP = "to search for it as it is, put \\ before it"


@record
class Expression:
    """One expression for each engine; both mean the same."""

    python: str
    """For a text whose lines end in LF, without flags but case."""
    ripgrep: str
    """For ripgrep with `--crlf`."""


def expression(pattern: str) -> Expression:
    """The expression.

    Raises:
        InvalidInput: it is none, or more than both engines have; the message says what, and what helps.
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
    return Expression(found.python, found.ripgrep)


def literal(text: str) -> Expression:
    """The expression for exactly this text."""
    return expression("".join(f"\\{character}" if character in _META else character for character in text))


@record
class _Piece:
    """A part of an expression, for both engines."""

    python: str
    ripgrep: str
    size: int = 1
    repeats: bool = True
    """Whether it may be repeated."""


def _same(text: str, *, repeats: bool = True) -> _Piece:
    return _Piece(text, text, repeats=repeats)


_ATOMS = {
    ".": _same(f"[^{_NO_END}]"),
    # Both take a lone CR for the end of a line.
    "^": _Piece(f"(?<![^{_NO_END}])", "^", repeats=False),
    "$": _Piece(f"(?![^{_NO_END}])", "$", repeats=False),
}


class _Reader:
    """Reads a pattern once, from left to right."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0

    @property
    def is_at_end(self) -> bool:
        return self._at >= len(self._pattern)

    def wrong(self, what: str) -> InvalidInput:
        """The error for what stands here."""
        return InvalidInput(f'field "pattern": at character {self._at + 1}: {what}')

    def alternatives(self, depth: int) -> _Piece:
        """Up to the `)` of this group, or the end."""
        if depth > _DEEPEST:
            raise self.wrong("too many groups in groups")
        branches = [self._sequence(depth)]
        while self._peek() == "|":
            self._at += 1
            branches.append(self._sequence(depth))
        return _Piece(
            "|".join(branch.python for branch in branches),
            "|".join(branch.ripgrep for branch in branches),
            sum(branch.size for branch in branches),
        )

    def _sequence(self, depth: int) -> _Piece:
        pieces: list[_Piece] = []
        while not self.is_at_end and self._peek() not in "|)":
            pieces.append(self._repeated(self._atom(depth)))
        return _Piece(
            "".join(piece.python for piece in pieces),
            "".join(piece.ripgrep for piece in pieces),
            sum(piece.size for piece in pieces),
        )

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
        return _ATOMS.get(character) or _same(_escaped(character))

    def _group(self, depth: int) -> _Piece:
        if self._peek() == "?":
            if not self._pattern.startswith("?:", self._at):
                raise self.wrong("only (…) and (?:…) are groups here: no look-around, no names, no flags")
            self._at += 2
        inner = self.alternatives(depth + 1)
        if self._peek() != ")":
            raise self.wrong("a ) is missing; for a ( as it is, put \\ before it")
        self._at += 1
        return _Piece(f"(?:{inner.python})", f"(?:{inner.ripgrep})", inner.size)

    def _escape(self) -> _Piece:
        character = self._next("there is nothing behind the \\")
        if character.lower() in _CLASSES:
            python, ripgrep = _CLASSES[character.lower()]
            if character.islower():
                return _Piece(f"[{python}]", f"[{ripgrep}]")
            return _Piece(f"[^{python}{_NO_END}]", f"[^{ripgrep}{_NO_END}]")
        if character == "b":
            return _same("\\b", repeats=False)
        return _same(_escaped(self._plain(character)))

    def _plain(self, character: str) -> str:
        """What an escaped character means that is no class."""
        if character == "t":
            return "\t"
        if character.isalnum():
            self._at -= 1
            raise self.wrong(f"\\{character} is not known here; known are \\d \\w \\s \\D \\W \\S \\b \\t")
        return character

    def _repeated(self, piece: _Piece) -> _Piece:
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
        return _Piece(f"{piece.python}{text}", f"{piece.ripgrep}{text}", piece.size * most)

    def _quantifier(self) -> tuple[str, int] | None:
        """The sign of repetition that stands here, and how much it makes of what is before; none: the brace is one."""
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
        python, ripgrep, without = "", "", list[tuple[str, str]]()
        is_first = True
        while is_first or self._peek() != "]":
            item = self._next("a ] is missing; for a [ as it is, put \\ before it")
            if item == "[" and self._peek() in (":", ".", "="):
                raise self.wrong("[:…:] is not known here; use \\w, \\d, \\s or ranges like a-z")
            if item == "\\" and (name := self._peek()) and name.lower() in _CLASSES:
                self._at += 1
                if name.islower():
                    python, ripgrep = python + _CLASSES[name][0], ripgrep + _CLASSES[name][1]
                else:
                    without.append(_CLASSES[name.lower()])
            else:
                members = self._range(item)
                python, ripgrep = python + members, ripgrep + members
            is_first = False
        self._at += 1
        if is_negated and without:
            raise self.wrong("\\D, \\W and \\S cannot stand in [^…]")
        if is_negated:
            return _Piece(f"[^{python}{_NO_END}]", f"[^{ripgrep}{_NO_END}]")
        parts = [(f"[{python}]", f"[{ripgrep}]")] if python else []
        parts += [(f"[^{one}{_NO_END}]", f"[^{other}{_NO_END}]") for one, other in without]
        if len(parts) == 1:
            return _Piece(*parts[0])
        ones, others = ("|".join(each) for each in zip(*parts, strict=True))
        return _Piece(f"(?:{ones})", f"(?:{others})", len(parts))

    def _range(self, item: str) -> str:
        """One member of a class, or a range of them."""
        first = self._member(item)
        rest = self._pattern[self._at : self._at + 2]
        if len(rest) < 2 or rest[0] != "-" or rest[1] == "]":
            return _escaped(first, _META_IN_CLASS)
        self._at += 1
        last = self._member(self._next())
        if last < first:
            raise self.wrong(f"the range {first}-{last} goes backwards")
        return f"{_escaped(first, _META_IN_CLASS)}-{_escaped(last, _META_IN_CLASS)}"

    def _member(self, item: str) -> str:
        if item != "\\":
            return item
        character = self._next("there is nothing behind the \\")
        if character.lower() in _CLASSES:
            raise self.wrong(f"\\{character} cannot end a range")
        return self._plain(character)

    def _peek(self) -> str:
        return self._pattern[self._at : self._at + 1]

    def _next(self, missing: str = "something is missing") -> str:
        if self.is_at_end:
            raise self.wrong(missing)
        self._at += 1
        return self._pattern[self._at - 1]


def _escaped(character: str, meta: frozenset[str] = _META) -> str:
    return f"\\{character}" if character in meta else character


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 4
