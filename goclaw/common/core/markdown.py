"""Markdown of answers: its parser, and texts that grow while they are shown.

Rendering is the business of those who show it: `tui.markdown` makes lines, `servers.web.rendering` HTML.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, islice
from types import MethodType
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_block.table import escapedSplit, getLine, table
from markdown_it.rules_core import StateCore
from markdown_it.token import Token

HAS_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):", re.IGNORECASE)
"""An address that begins with a scheme (RFC 3986, 3.1), which is the first group."""
WWW = "www."
WITHIN_ADDRESS = frozenset(".:/\\-_@")
"""Characters before `www.` that make it a part of another address (as linkify-it's rule for bare domains)."""
_LINE_END = re.compile(r"\r\n?|\n")
"""The ends of lines as the parser counts them: `str.splitlines` knows ten more."""
MAX_NESTING = 40
"""Blocks within each other; a list counts twice. What is deeper is dropped by the parser."""


@cache
def markdown_parser() -> MarkdownIt:
    """Return the parser for the Markdown of answers. Each line stays one; raw HTML and references are text."""
    return new_markdown_parser()


def new_markdown_parser() -> MarkdownIt:
    """Return one more such parser, to which rules may be added."""
    parser = MarkdownIt("gfm-like", {"html": False, "maxNesting": MAX_NESTING}).disable("reference")
    _link_addresses_only(parser.linkify)
    parser.core.ruler.push("keep_lines", _harden_line_breaks)
    parser.block.ruler.at("table", _whole_table, {"alt": ["paragraph", "reference"]})
    return parser


def _link_addresses_only(linkify: Any) -> None:
    """Link only addresses that have a scheme, begin with `www.`, or are e-mail addresses.

    `README.md`, `run.sh` and `main.rs` end like domains of Moldova, Saint Helena and Serbia.
    """
    behind_www = re.compile(linkify.re["src_host_port_strict"] + linkify.re["src_path"], re.IGNORECASE)

    def measure(_: Any, text: str, at: int) -> int:
        inside = at > len(WWW) and text[at - len(WWW) - 1] in WITHIN_ADDRESS
        found = None if inside else behind_www.match(text, at)
        return len(found[0]) if found else 0

    def complete(_: Any, link: Any) -> None:
        link.url = f"http://{link.url}"

    linkify.set({"fuzzy_link": False})
    linkify.add("//", None)
    linkify.add(WWW, {"validate": MethodType(measure, linkify), "normalize": MethodType(complete, linkify)})


def _whole_table(state: StateBlock, first: int, end: int, silent: bool) -> bool:
    """Read a table; cells beyond the header's, which the rule drops (GFM 0.29, 4.10), go into the last of their row."""
    known = len(state.tokens)
    if not table(state, first, end, silent):
        return False
    row: list[Token] = []
    for token in state.tokens[known:]:
        if token.type == "tr_open":
            row = []
        elif token.type == "inline":
            row.append(token)
        elif token.type == "tr_close" and row and row[0].map:
            line = getLine(state, row[0].map[0]).strip()
            cells = [cell.strip() for cell in escapedSplit(line.removeprefix("|"))]
            if beyond := [cell for cell in cells[len(row) :] if cell]:
                row[-1].content = " | ".join([cells[len(row) - 1], *beyond])
    return True


def _harden_line_breaks(state: StateCore) -> None:
    for token in state.tokens:
        for child in token.children or ():
            if child.type == "softbreak":
                child.type = "hardbreak"


@dataclass(slots=True)
class GrowingMarkdown:
    """A text that grows: blocks that no further text can change are parsed once."""

    rest: str = ""
    """The text from the last block on."""

    def append(self, text: str, parser: MarkdownIt | None = None) -> tuple[Sequence[Token], Sequence[Token]]:
        """Let the text grow; return the tokens of the blocks that are finished now, and of `rest` then."""
        self.rest += text
        tokens = (parser or markdown_parser()).parse(self.rest)
        starts = [(at, token.map[0]) for at, token in enumerate(tokens) if token.level == 0 and token.map]
        last, first_line = starts[-1] if starts else (0, 0)
        ends = chain((0,), (found.end() for found in _LINE_END.finditer(self.rest)))
        growing = self.rest[next(islice(ends, first_line, None), len(self.rest)) :]
        # Until its first line is whole, what looks like a new block may yet belong to the one before (`#` and `#1`);
        # a table is one by its second line.
        if last and len(_LINE_END.findall(growing)) >= (2 if tokens[last].type == "table_open" else 1):
            self.rest = growing
            return tokens[:last], tokens[last:]
        return (), tokens
