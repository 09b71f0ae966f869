"""Converts one page to Markdown: a program of its own, because no parser can be interrupted, and it takes memory.

In: a line of JSON `[url]`, then HTML in UTF-8 until the pipe ends. Out: `[title, Markdown, was cut]` as JSON. It opens
nothing, reaches nothing, and is ended by its parent.
"""

import json
import os
import re
import resource
import sys
import warnings
from typing import Any, BinaryIO
from urllib.parse import urljoin, urlsplit

from bs4 import BeautifulSoup
from bs4.element import NavigableString, PreformattedString, Tag
from markdownify import MarkdownConverter

_MAX_MEMORY = 1 << 30
_MAX_SECONDS = 60
_MAX_HTML = 2_000_000
"""Characters of a page, scripts and styles left out, that are parsed: five seconds, and half a gigabyte at worst."""
_MAX_TEXT = 2_000_000
"""Characters of Markdown that are given back."""
_DEEPEST = 60
"""Elements within each other; what lies deeper keeps its text only. The library would use up the stack."""
_MAX_TITLE = 300
_DROPPED = (
    *("script", "style", "noscript", "template", "svg", "math", "canvas", "iframe", "object", "embed", "audio"),
    *("nav", "title", "meta", "link", "base", "button", "input", "select", "textarea", "dialog"),
)
_LONG_RUN = re.compile(r"[ \t]{100,}")
"""Blanks on which the library would work for minutes: it looks at each of them for all behind it."""
_SCRIPT = re.compile(r"<(script|style)\b", re.IGNORECASE)
_ENDS_OF_SCRIPTS = {name: re.compile(rf"</{name}\b[^>]{{0,1000}}>", re.IGNORECASE) for name in ("script", "style")}
_UNSEEN = re.compile(r"(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*hidden)", re.IGNORECASE)
_P = frozenset({"p"})
_ENDS = {
    **dict.fromkeys(
        (
            *("address", "article", "aside", "blockquote", "div", "dl", "fieldset", "footer", "form", "header", "hr"),
            *("h1", "h2", "h3", "h4", "h5", "h6", "main", "ol", "p", "pre", "section", "table", "ul"),
        ),
        _P,
    ),
    "li": frozenset({"li", "p"}),
    "dt": frozenset({"dt", "dd", "p"}),
    "dd": frozenset({"dt", "dd", "p"}),
    "tr": frozenset({"tr", "td", "th", "p"}),
    "td": frozenset({"td", "th", "p"}),
    "th": frozenset({"td", "th", "p"}),
    "option": frozenset({"option"}),
}
"""Elements that end an open one of these, which has no end of its own (HTML standard, "Optional tags")."""


class _Soup(BeautifulSoup):
    """The tree of a page; an element without an end does not swallow the following ones."""

    def handle_starttag(self, name: str, *given: Any, **named: Any) -> Any:
        ended = _ENDS.get(name, frozenset())
        while self.currentTag is not None and self.currentTag.name in ended:
            self.handle_endtag(self.currentTag.name)
        return super().handle_starttag(name, *given, **named)


class _Converter(MarkdownConverter):
    """Numbers of lists are counted once: the library counts again at each of them."""

    def convert_li(self, el: Any, text: str, parent_tags: Any) -> str:
        number = el.attrs.get("data-number")
        if number is None:
            made = super().convert_li(el, text, parent_tags)  # type: ignore[misc]  # its types name no converter
            return str(made)
        bullet = f"{number}. "
        return f"{bullet}{text.strip().replace(chr(10), chr(10) + ' ' * len(bullet))}\n"


def main(source: BinaryIO, sink: BinaryIO) -> None:
    """Answer once."""
    resource.setrlimit(resource.RLIMIT_AS, (_MAX_MEMORY, _MAX_MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (_MAX_SECONDS, _MAX_SECONDS))
    os.nice(10)
    warnings.simplefilter("ignore")  # the parser's opinion on a page
    (url,) = json.loads(source.readline())
    html = _LONG_RUN.sub(" ", without_scripts(source.read().decode(errors="replace")))
    title, text = markdown(html[:_MAX_HTML], url)
    cut = len(html) > _MAX_HTML or len(text) > _MAX_TEXT
    sink.write(json.dumps([title, text[:_MAX_TEXT], cut]).encode())
    sink.flush()
    os._exit(0)  # the tree of a large page takes longer to be taken down than the rest


def without_scripts(html: str) -> str:
    """Return the page without its scripts, which are most of many pages; one without an end goes to the page's end.

    The parser drops anyway those that it sees otherwise (in a comment, say).
    """
    kept, position = [], 0
    while begin := _SCRIPT.search(html, position):
        kept.append(html[position : begin.start()])
        end = _ENDS_OF_SCRIPTS[begin[1].lower()].search(html, begin.end())
        position = end.end() if end else len(html)
    return "".join([*kept, html[position:]])


def markdown(html: str, url: str) -> tuple[str, str]:
    """Title and Markdown of a page."""
    # Of an attribute that stands twice browsers obey the first (HTML 13.2.5.33): so does what looks for hidden text.
    soup = _Soup(html, "html.parser", on_duplicate_attribute="ignore")
    title = " ".join(soup.title.get_text().split())[:_MAX_TITLE] if soup.title else ""
    base = _base(soup, url)
    _drop(soup)
    _flatten(soup)
    _make_absolute(soup, base)
    _number(soup)
    text = _Converter(heading_style="ATX", bullets="-", escape_asterisks=False, escape_underscores=False).convert_soup(
        soup
    )
    lines = "\n".join(line.rstrip() for line in text.splitlines())
    return title, re.sub(r"\n{3,}", "\n\n", lines).strip()


def _base(soup: BeautifulSoup, url: str) -> str:
    found = soup.find("base", href=True)
    return _resolve(url, str(found["href"])) or url if isinstance(found, Tag) else url


def _drop(soup: BeautifulSoup) -> None:
    """Remove elements that a person does not see, and mere navigation."""
    for tag in [*soup.find_all(_DROPPED), *soup.find_all(_is_hidden)]:
        if not tag.decomposed:
            tag.decompose()
    for remark in soup.find_all(string=lambda text: isinstance(text, PreformattedString)):
        remark.extract()


def _is_hidden(tag: Tag) -> bool:
    given = tag.attrs
    return bool(given) and (
        "hidden" in given
        or given.get("aria-hidden") == "true"
        or given.get("role") == "navigation"
        or ("style" in given and _UNSEEN.search(str(given["style"])[:2_000]) is not None)
    )


def _flatten(soup: BeautifulSoup) -> None:
    waiting: list[tuple[Tag, int]] = [(soup, 0)]
    while waiting:
        tag, depth = waiting.pop()
        for child in [child for child in tag.children if isinstance(child, Tag)]:
            if depth < _DEEPEST:
                waiting.append((child, depth + 1))
            else:
                child.replace_with(NavigableString(child.get_text("\n")))


def _make_absolute(soup: BeautifulSoup, base: str) -> None:
    """Make links absolute; one that leads to no page becomes its text."""
    for name, attribute in (("a", "href"), ("img", "src")):
        for tag in soup.find_all(name):
            target = _resolve(base, str(tag.get(attribute) or ""))
            if target:
                tag[attribute] = target
            elif name == "a":
                tag.attrs.pop(attribute, None)
            else:
                tag.replace_with(NavigableString(str(tag.get("alt") or "")))


def _resolve(base: str, link: str) -> str:
    try:
        target = urljoin(base, link.strip())
        return target if urlsplit(target).scheme in ("http", "https", "mailto") and link.strip() else ""
    except ValueError:
        return ""


def _number(soup: BeautifulSoup) -> None:
    for tag in soup.find_all("ol"):
        start = str(tag.get("start") or "")
        first = int(start) if start.isascii() and start.isdigit() and len(start) < 8 else 1
        for number, item in enumerate(tag.find_all("li", recursive=False), first):
            item["data-number"] = str(number)


if __name__ == "__main__":
    main(sys.stdin.buffer, sys.stdout.buffer)
