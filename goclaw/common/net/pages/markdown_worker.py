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
from functools import partial
from typing import Any, BinaryIO
from urllib.parse import urljoin

import nh3
from bs4 import BeautifulSoup
from bs4.element import NavigableString, Tag
from markdownify import MarkdownConverter

_MAX_MEMORY = 1 << 30
_MAX_SECONDS = 60
_MAX_HTML = 2_000_000
"""Characters of a page, cleaned, that are parsed: five seconds, and half a gigabyte at worst."""
_MAX_TEXT = 2_000_000
"""Characters of Markdown that are given back."""
_DEEPEST = 60
"""Elements within each other; what lies deeper keeps its text only. The library would use up the stack."""
_MAX_TITLE = 300
_DROPPED = frozenset(
    (
        *("script", "style", "noscript", "template", "svg", "math", "canvas", "iframe", "object", "embed", "audio"),
        *("nav", "link", "button", "input", "select", "textarea", "dialog"),
    )
)
_ATTRIBUTES = {
    "*": {"hidden", "aria-hidden", "role", "style"},
    "a": {"href", "title"},
    "img": {"src", "alt", "title"},
    "video": {"src", "poster"},
    "ol": {"start"},
    "td": {"colspan"},
    "th": {"colspan"},
}
"""Attributes that decide whether a person sees an element, and the Markdown shows it."""
_NAME = re.compile(r"<([a-z][^\s/>]*)", re.IGNORECASE)
_BASE = re.compile(r"<base\s[^>]{0,1000}?href\s*=\s*[\"']?([^\s\"'>]+)", re.IGNORECASE)
_LONG_RUN = re.compile(r"[ \t]{100,}")
"""Blanks on which the library would work for minutes: it looks at each of them for all behind it."""
_UNSEEN = re.compile(r"(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*hidden)", re.IGNORECASE)


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
    html = clean(source.read().decode(errors="replace"), url)
    title, text = markdown(html[:_MAX_HTML])
    cut = len(html) > _MAX_HTML or len(text) > _MAX_TEXT
    sink.write(json.dumps([title, text[:_MAX_TEXT], cut]).encode())
    sink.flush()
    os._exit(0)  # the tree of a large page takes longer to be taken down than the rest


def clean(html: str, url: str) -> str:
    """Return the page as the HTML standard reads it: no scripts, every element with its end, links absolute or gone."""
    cleaned = nh3.clean(
        html,
        tags={name.lower() for name in _NAME.findall(html)} - _DROPPED,
        clean_content_tags=set(_DROPPED),
        attributes=_ATTRIBUTES,
        url_schemes={"http", "https", "mailto"},
        url_relative=partial(_resolve, _base(html, url)),
        link_rel=None,
    )
    return _LONG_RUN.sub(" ", cleaned)


def _base(html: str, url: str) -> str:
    found = _BASE.search(html)
    base = _resolve(url, found[1]) if found else None
    return base if base and base.startswith(("http://", "https://")) else url


def _resolve(base: str, link: str) -> str | None:
    try:
        return urljoin(base, link)
    except ValueError:
        return None


def markdown(html: str) -> tuple[str, str]:
    """Return title and Markdown of a cleaned page."""
    soup = BeautifulSoup(html, "html.parser")
    title = " ".join(soup.title.get_text().split())[:_MAX_TITLE] if soup.title else ""
    for tag in [*soup.find_all("title"), *soup.find_all(_is_hidden)]:
        if not tag.decomposed:
            tag.decompose()
    for image in soup.find_all("img", src=False):
        image.replace_with(NavigableString(str(image.get("alt") or "")))
    _flatten(soup)
    _number(soup)
    text = _Converter(heading_style="ATX", bullets="-", escape_asterisks=False, escape_underscores=False).convert_soup(
        soup
    )
    lines = "\n".join(line.rstrip() for line in text.splitlines())
    return title, re.sub(r"\n{3,}", "\n\n", lines).strip()


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


def _number(soup: BeautifulSoup) -> None:
    for tag in soup.find_all("ol"):
        start = str(tag.get("start") or "")
        first = int(start) if start.isascii() and start.isdigit() and len(start) < 8 else 1
        for number, item in enumerate(tag.find_all("li", recursive=False), first):
            item["data-number"] = str(number)


if __name__ == "__main__":
    main(sys.stdin.buffer, sys.stdout.buffer)
