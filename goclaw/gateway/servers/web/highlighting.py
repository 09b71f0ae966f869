"""Colours of code as classes (`hl-k` …): pygments finds the words, the page's style sheet has the colours.

Pygments' lexers are patterns, and some need minutes for a page of hostile code, without letting go of the interpreter:
nothing could end them. So only those that were tried are used (`test_highlighting.py`), for code of a
bounded size; C, Java and C# have one of our own.
"""

from collections.abc import Iterator
from html import escape
from typing import Any

from pygments.lexer import Lexer, RegexLexer, words
from pygments.lexers import get_lexer_by_name
from pygments.token import STANDARD_TYPES, Comment, Keyword, Name, Number, Operator, String, Whitespace

MAX_CODE = 8_000
"""Characters of a block beyond which it has no colours."""
MAX_LINES = 300
MAX_LINE = 160
"""The same for lines, and for the characters of one: some lexers need the square of either."""
PREFIX = "hl-"
CLASSES = frozenset(f"{PREFIX}{name}" for name in STANDARD_TYPES.values() if name)
OWN = "c c# csharp java"
"""Languages for which pygments' lexers are too slow."""
LANGUAGES = (
    "bash c++ cfg cpp css diff docker dockerfile go golang html ini javascript js json jsx kotlin lua make "
    "makefile nginx perl php powershell py python python3 r rb rs ruby rust scala scss sh shell sql swift "
    "toml ts tsx typescript xml yaml yml zsh"
)
"""The languages that models write most."""
_KNOWN = frozenset(LANGUAGES.split())
_OURS = frozenset(OWN.split())
_KEYWORDS = (
    "abstract as async await base bool boolean break byte case catch char class const continue decimal default "
    "delegate do double else enum event explicit extends extern false final finally fixed float for foreach goto "
    "if implements implicit import in inline instanceof int interface internal is lock long namespace native new "
    "null object operator out override package params private protected public readonly record ref register "
    "return sealed short signed sizeof static string struct super switch synchronized this throw throws transient "
    "true try typedef typeof union unsigned using var virtual void volatile while yield"
)


class _CFamily(RegexLexer):
    """C, Java and C#, coarsely: no pattern of it looks at a character twice."""

    tokens = {  # noqa: RUF012 - the library's
        "root": [
            (r"\s+", Whitespace),
            (r"#[^\n]*", Comment.Preproc),
            (r"//[^\n]*", Comment.Single),
            (r"/\*", Comment.Multiline, "comment"),
            (r'"', String.Double, "text"),
            (r"'(?:\\.|[^'\\\n])?'?", String.Char),
            (r"\d[\w.]*", Number),
            (words(_KEYWORDS.split(), suffix=r"\b"), Keyword),
            (r"@?\w+", Name),
            (r"[^\s\w]", Operator),
        ],
        "comment": [(r"\*/", Comment.Multiline, "#pop"), (r"[^*]+|\*", Comment.Multiline)],
        "text": [(r'"', String.Double, "#pop"), (r"\\.|[^\"\\\n]+|\\", String.Double), (r"\n", Whitespace, "#pop")],
    }


def highlight(code: str, language: str) -> str:
    """Return code as HTML; without colours if the language is unknown or the code is long."""
    name, lines = language.lower(), code.split("\n")
    is_short = len(code) <= MAX_CODE and len(lines) <= MAX_LINES and max(map(len, lines)) <= MAX_LINE
    if name not in _KNOWN | _OURS or not is_short:
        return escape(code, quote=False)
    options = {"stripnl": False, "ensurenl": False}
    lexer: Lexer = _CFamily(**options) if name in _OURS else get_lexer_by_name(name, **options)
    return "".join(_spans(lexer, code))


def _spans(lexer: Lexer, code: str) -> Iterator[str]:
    for kind, text in lexer.get_tokens(code):
        name = _short_name(kind)
        shown = escape(text, quote=False)
        yield f'<span class="{PREFIX}{name}">{shown}</span>' if name else shown


def _short_name(kind: Any) -> str:
    """Return the class of a kind of token, or of the kind that it belongs to."""
    while kind not in STANDARD_TYPES:
        kind = kind.parent
    name = STANDARD_TYPES[kind]
    return "" if name == "w" else name
