"""Markdown of answers, block by block, as a chat on a phone shows it: wide tables become lists, bold stands next to CJK
punctuation, and names that Telegram would link by itself are found."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it.token import Token

WIDEST_TABLE = 38
"""Characters of a line of code in a message on a narrow phone."""
_TABLE = re.compile(r"^[ \t>]*\|?[ \t]*:?-+:?[ \t]*\|", re.MULTILINE)
"""The second line of a table."""
_BOLD = re.compile(r"(?<![*\\])\*\*(?P<inside>[^\s*][^*\n]*?)(?<!\s)\*\*(?!\*)")
_WIDE_PUNCTUATION = "\u3000-\u303f\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65\u2018-\u201f\u2026"
_EDGES = re.compile(rf"(?P<before>[{_WIDE_PUNCTUATION}]*)(?P<words>.*?)(?P<after>[{_WIDE_PUNCTUATION}]*)")
# Of domains with more letters the ones that files and sentences end with.
_BARE_NAME = re.compile(
    r"(?<![\w@./:\\-])[\w-]+(?:\.[\w-]+)*\.(?:[a-z]{2}|com|net|org|info|biz|name|app|dev|zip|mov|web|pro)"
    r"(?![\w@-])(?:/[^\s<>]*)?",
    re.IGNORECASE,
)


def has_table(markdown: str) -> bool:
    """Return whether there may be a table."""
    return "|" in markdown and _TABLE.search(markdown) is not None


def blocks_of(markdown: str) -> Iterator[tuple[str, str]]:
    """Yield the blocks of a text: each as it was written, and as Markdown for a phone."""
    from goclaw.common.core.markdown import markdown_parser  # its library is loaded with the first answer that needs it

    lines = re.split(r"\r\n?|\n", markdown)
    tokens = markdown_parser().parse(markdown)
    starts = [(at, token) for at, token in enumerate(tokens) if token.level == 0 and token.map]
    for number, (at, token) in enumerate(starts):
        first, end = token.map or (0, 0)
        end = (starts[number + 1][1].map or (end, end))[0] if number + 1 < len(starts) else len(lines)
        source = "\n".join(lines[first:end]).strip("\n")
        yield source, _table(tokens, at) if token.type == "table_open" else source


def _table(tokens: "list[Token]", at: int) -> str:
    """Return a table with all its cells; one that is wider than `WIDEST_TABLE` as a list for each row."""
    rows: list[list[str]] = []
    for token in tokens[at:]:
        if token.type == "table_close":
            break
        if token.type == "tr_open":
            rows.append([])
        elif token.type == "inline":
            rows[-1].append(token.content.strip())
    head, *body = rows
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    if not body or sum(widths) + 3 * (len(widths) - 1) <= WIDEST_TABLE:
        lines = [head, ["---"] * len(head), *body]
        return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)
    return "\n\n".join("\n".join(_list_of(head, row)) for row in body)


def _list_of(head: list[str], row: list[str]) -> Iterator[str]:
    """Yield the lines of a row: its first cell in bold, the others as a list. Each has the name of its column."""
    first = ": ".join(filter(None, (head[0], row[0])))
    if first:
        yield first if "*" in first else f"**{first}**"
    for name, cell in zip(head[1:], row[1:], strict=True):
        if cell:
            yield f"- {name}: {cell}" if name else f"- {cell}"


def with_wide_punctuation_outside(markdown: str) -> str:
    """Move CJK punctuation at the edges of bold words out of the bold.

    CommonMark (0.31, 6.2) takes `**` between punctuation and a letter for no end of bold, and CJK texts have no spaces.
    """
    return _BOLD.sub(_moved_out, markdown) if "**" in markdown and not markdown.isascii() else markdown


def _moved_out(found: re.Match[str]) -> str:
    edges = _EDGES.fullmatch(found["inside"])
    if edges is None or not edges["words"]:
        return found[0]
    return f"{edges['before']}**{edges['words']}**{edges['after']}"


def bare_names(text: str) -> Iterator[tuple[int, int]]:
    """Yield the places, in characters, of names without a scheme or `www.` that Telegram would make links."""
    for found in _BARE_NAME.finditer(text) if _BARE_NAME.search(text) else ():
        if not found[0].lower().startswith("www."):
            yield found.span()
