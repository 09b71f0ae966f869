"""Colours of code as classes (`hl-k` …): pygments finds the words, the page's style sheet has the colours."""

from collections.abc import Iterator
from html import escape
from typing import Any

from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pygments.token import STANDARD_TYPES

MAX_CODE = 10_000
"""Characters of a block beyond which it has no colours."""
MAX_LINE = 1_000
"""The same of a line: minified code."""
PREFIX = "hl-"
CLASSES = frozenset(f"{PREFIX}{name}" for name in STANDARD_TYPES.values() if name)
LANGUAGES = (
    "bash c c# c++ cfg console cpp csharp css diff docker dockerfile go golang html ini java javascript js json jsx "
    "kotlin lua make makefile nginx patch perl php powershell py python python3 r rb rs ruby rust scala scss sh shell "
    "sql swift toml ts tsx typescript xml yaml yml zsh"
)
"""Those that models write most; each is tried with hostile code in the tests. Of pygments' 600 not all are quick."""
_KNOWN = frozenset(LANGUAGES.split())


def highlighted(code: str, language: str) -> str:
    """Return code as HTML; without colours if the language is unknown or the code is long."""
    name = language.lower()
    if name not in _KNOWN or len(code) > MAX_CODE or any(len(line) > MAX_LINE for line in code.split("\n")):
        return escape(code, quote=False)
    lexer: Lexer = get_lexer_by_name(name, stripnl=False, ensurenl=False)
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
