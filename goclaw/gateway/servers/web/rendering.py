"""HTML of Markdown that models, people and tools wrote: no script, style, picture or frame of theirs gets into a page.

The parser knows no raw HTML, so what looks like it is text; nh3 cleans what we make all the same. Links open elsewhere
and say nothing of this page; pictures are links. A text that would take too long is shown as it was written.

Bounded by the size of the text and the steps of its parser, not by a clock: a busy machine shows the same page.
"""

import asyncio
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from html import escape
from typing import Any, TypeVar

import nh3
from markdown_it import MarkdownIt
from markdown_it.parser_inline import ParserInline
from markdown_it.renderer import RendererHTML
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

from goclaw.common.core.markdown import HAS_SCHEME, MAX_NESTING, GrowingMarkdown, new_markdown_parser
from goclaw.common.core.redact import storable
from goclaw.gateway.servers.web.highlighting import CLASSES, highlight

MAX_TEXT = 100_000
"""Characters of a text beyond which it is shown as it was written."""
MAX_OPEN = 32_000
"""The same of the unfinished end of a text that grows: it is rendered again with each piece."""
MAX_STEPS = 120_000
"""Maximum steps of the parser: the longest text needs about one per character; nested text may need many."""
LOOKED_AT = 64
"""Characters in which the parser looks for an address in the time of one try: at each `://` in all of a paragraph."""
MAX_LEVELS = 100
"""Elements within each other. Browsers stop at 512."""
MAX_TARGET = 200
"""Characters of an address that is shown as text."""
_STEPS = "steps"
_SCHEMES = frozenset({"http", "https", "mailto"})
_LOOKS_LIKE_ADDRESS = re.compile(r"\s*(?:[a-z]+://|www\.|[\w.-]+\.[a-z]{2,}(?:[/:]|\s*$))", re.IGNORECASE)
_LANGUAGE = re.compile(r"[A-Za-z0-9+#._-]{1,20}", re.ASCII)
_ALIGNED = {"text-align:right": "right", "text-align:center": "center", "text-align:left": "left"}
_TAGS = (
    "p br hr h1 h2 h3 h4 h5 h6 ul ol li blockquote pre code span em strong s a table thead tbody tr th td"  # none acts
)


T = TypeVar("T")
_WORKER = ThreadPoolExecutor(1, thread_name_prefix="rendering")
"""One thread for all pages: hostile texts take neither all processors nor the threads in which the daemon waits for
disks."""


class _TooMuch(Exception):
    """A text takes more steps, or is deeper, than is rendered."""


def render(text: str) -> str:
    """Return a text's HTML; never raises. Takes up to half a second: beyond some kilobytes not in the event loop."""
    text = storable(text)
    if len(text) > MAX_TEXT:
        return _as_written(text)
    try:
        return _html(_parser().parse(text))
    except (_TooMuch, RecursionError):
        return _as_written(text)


async def aside(work: Callable[[], T]) -> T:
    """Do some rendering outside the event loop, after earlier requests of others."""
    return await asyncio.get_running_loop().run_in_executor(_WORKER, work)


async def rendered_aside(text: str) -> str:
    """Return a text's HTML, made outside the event loop."""
    return await aside(lambda: render(text))


@dataclass(slots=True)
class GrowingHtml:
    """The HTML of a text that grows."""

    _markdown: GrowingMarkdown = field(default_factory=GrowingMarkdown)

    @property
    def open_size(self) -> int:
        """Return the characters that the next piece makes rendered again."""
        return len(self._markdown.rest)

    def append(self, text: str) -> tuple[str, str]:
        """Let the text grow; return the HTML that is to be added to the finished blocks, and that of the open end."""
        text = storable(text)
        if len(self._markdown.rest) + len(text) > MAX_OPEN:
            return self._finish(text)
        before = self._markdown.rest
        try:
            finished, open_tokens = self._markdown.append(text, _parser())
            return _html(finished), _html(open_tokens)
        except (_TooMuch, RecursionError):
            self._markdown.rest = before
            return self._finish(text)

    def _finish(self, text: str) -> tuple[str, str]:
        """Finish all there is as one text: the following text starts afresh."""
        whole = self._markdown.rest + text
        self._markdown.rest = ""
        return render(whole), ""


def _as_written(text: str) -> str:
    return f'<pre class="plain">{escape(text, quote=False)}</pre>\n'


def _html(tokens: Sequence[Token]) -> str:
    """Return the cleaned HTML of parsed blocks."""
    parser = _parser()
    if not tokens:
        return ""
    # At the limit of the parser there may have been more, which it dropped.
    if max(token.level for token in tokens) >= MAX_NESTING - 1 or _depth(tokens) > MAX_LEVELS:
        raise _TooMuch
    made = parser.renderer.render(tokens, parser.options, {})
    return _cleaner().clean(made)


def _depth(tokens: Sequence[Token]) -> int:
    """Return how many elements are within each other, at most."""
    deepest = level = 0
    for token in tokens:
        level += token.nesting
        deepest = max(deepest, level)
        inside = level
        for child in token.children or ():
            inside += child.nesting
            deepest = max(deepest, inside)
    return deepest


@cache
def _cleaner() -> nh3.Cleaner:
    return nh3.Cleaner(
        tags=set(_TAGS.split()),
        clean_content_tags=set(),
        attributes={"a": {"href", "title"}, "ol": {"start"}, "pre": {"data-language"}},
        allowed_classes={
            "span": set(CLASSES),
            "pre": {"plain"},
            "th": set(_ALIGNED.values()),
            "td": set(_ALIGNED.values()),
        },
        url_schemes=set(_SCHEMES),
        url_relative="deny",
        link_rel="noopener noreferrer nofollow",
        set_tag_attribute_values={"a": {"target": "_blank"}},
    )


class _Renderer(RendererHTML):
    """The HTML before it is cleaned; methods have the names of tokens."""

    def fence(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        """Return a block of code."""
        return _code(tokens[idx].content, tokens[idx].info)

    def code_block(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        """Return a block of code that was indented."""
        return _code(tokens[idx].content, "")

    def link_open(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        """Return the beginning of a link; none for an address that no browser should open from here."""
        link = tokens[idx]
        if not _is_web(str(link.attrs.get("href", ""))):
            return ""
        return str(self.renderToken(tokens, idx, options, env))

    def link_close(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        """Return the end of a link, and its address where its words hide that."""
        level = tokens[idx].level
        at = next(n for n in range(idx - 1, -1, -1) if tokens[n].type == "link_open" and tokens[n].level == level)
        target = str(tokens[at].attrs.get("href", ""))
        label = "".join(token.content for token in tokens[at + 1 : idx])
        if not _is_web(target):
            return _format_target(target, label)
        hides = _LOOKS_LIKE_ADDRESS.match(label) and tokens[at].info != "auto"
        return f"</a>{_format_target(target, label) if hides else ''}"

    def image(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        """Return a link to a picture: a page that loads one reveals the reader to its server."""
        token = tokens[idx]
        source = str(token.attrs.get("src", ""))
        label = self.renderInlineAsText(token.children or [], options, env)
        if not _is_web(source):
            return escape(label) + _format_target(source, label)
        return f'<a href="{escape(source)}">{escape(label or source)}</a>'

    def td_open(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        """Return the beginning of a cell: its direction as a class, as no style is allowed in a page."""
        token = tokens[idx]
        found = _ALIGNED.get(str(token.attrs.get("style", "")))
        return f'<{token.tag} class="{found}">' if found else f"<{token.tag}>"

    th_open = td_open


def _code(code: str, info: str) -> str:
    named = _LANGUAGE.match(info.strip())
    language = named[0] if named else ""
    attribute = f' data-language="{escape(language)}"' if language else ""
    return f"<pre{attribute}><code>{highlight(code, language)}</code></pre>\n"


def _is_web(target: str) -> bool:
    found = HAS_SCHEME.match(target)
    return found is not None and found[1].lower() in _SCHEMES


def _format_target(target: str, label: str) -> str:
    """Return an address as text after the words of its link, if they do not say it."""
    if not target or target == label:
        return ""
    cut = target if len(target) <= MAX_TARGET else f"{target[:MAX_TARGET]}…"
    return escape(f" ({cut})")


class _Inline(ParserInline):
    """The parser of the content of a line; methods have the library's names.

    It counts known tokens, too: of brackets within brackets each looks at all the others again.
    """

    def skipToken(self, state: StateInline) -> None:
        """Go past the next token."""
        _count(state.env)
        super().skipToken(state)


@cache
def _parser() -> MarkdownIt:
    parser = new_markdown_parser()
    parser.renderer = _Renderer()
    inline = _Inline()
    inline.ruler, inline.ruler2 = parser.inline.ruler, parser.inline.ruler2
    parser.inline = inline
    first_block, first_inline = parser.block.ruler.get_all_rules()[0], parser.inline.ruler.get_all_rules()[0]
    parser.block.ruler.before(first_block, "steps", _count_block, {"alt": ["paragraph", "reference", "blockquote"]})
    parser.inline.ruler.before(first_inline, "steps", _count_inline)
    return parser


def _count_block(state: StateBlock, startLine: int, endLine: int, silent: bool) -> bool:
    _count(state.env)
    return False


def _count_inline(state: StateInline, silent: bool) -> bool:
    may_be_address = state.src.startswith("://", state.pos)
    # All that stands before it is searched for the scheme, all behind it for the end.
    looked_at = len(state.pending) + state.posMax - state.pos if may_be_address else 0
    _count(state.env, 1 + looked_at // LOOKED_AT)
    return False


def _count(env: Any, tries: int = 1) -> None:
    env[_STEPS] = steps = env.get(_STEPS, 0) + tries
    if steps > MAX_STEPS:
        raise _TooMuch
