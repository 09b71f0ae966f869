"""HTML as text: pages that are sent as files, mails, chapters of EPUB. No script runs, nothing is fetched."""

import re
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from typing import BinaryIO, ClassVar

from goclaw.extensions.documents.formats.answer import Answer, Wanted, add_flow
from goclaw.extensions.documents.formats.flow import Flow
from goclaw.extensions.documents.formats.markup import NOTHING, Event
from goclaw.extensions.documents.formats.plain import decode

_BLOCKS = (
    "p div section article header footer main aside ul ol dl dt dd li blockquote pre figure figcaption hr form "
    "fieldset body address details summary h1 h2 h3 h4 h5 h6"
)
_MAX_HTML = 30 << 20
_CHUNK = 1 << 16
_CHARSET = re.compile(rb"""charset\s*=\s*["']?([\w-]{1,40})""", re.IGNORECASE)


class _Text(Flow):
    paragraphs = frozenset(_BLOCKS.split())
    skipped = frozenset({"script", "style", "template", "noscript", "svg", "math", "title", "iframe", "object"})
    breaks: ClassVar[Mapping[str, str]] = {"br": "\n"}
    _is_preformatted = False

    def begin(self, tag: str, given: Mapping[str, str]) -> None:
        if tag == "a":
            self.link = given.get("href", "")
        elif tag == "img" and given.get("alt"):
            self.parts.append(f"[picture: {given['alt']}]")
        elif tag == "li":
            self.is_item = True
        elif tag == "pre":
            self._is_preformatted = True
        elif len(tag) == 2 and tag in self.paragraphs and tag[1].isdigit():
            self.level = int(tag[1])

    def end(self, tag: str) -> None:
        if tag == "a":
            self.link = self.link if self.link.startswith(("http:", "https:", "mailto:")) else ""
            self.end_link()

    def end_paragraph(self) -> None:
        if not self._is_preformatted:
            # A line break in the source is a blank, `br` is a line break.
            joined = "".join(part if part == "\n" else part.replace("\n", " ") for part in self.parts)
            lines = (" ".join(line.split()) for line in joined.split("\n"))
            self.parts = ["\n".join(filter(None, lines))]
        self._is_preformatted = False
        super().end_paragraph()


def extract(file: BinaryIO, wanted: Wanted, answer: Answer) -> None:
    """Read a page."""
    answer.kind = "web page"
    data = file.read(_MAX_HTML)
    charset = _CHARSET.search(data[:2_048])
    add_flow(answer, wanted, blocks_of(decode(data, charset[1].decode() if charset else "")))


def blocks_of(html: str) -> Iterator[tuple[int, str]]:
    """Yield the paragraphs of a page: the level of a heading or 0, and the text."""
    return _Text().blocks(_events(html))


def _events(html: str) -> Iterator[Event]:
    parser = _Events()
    for start in range(0, len(html), _CHUNK):
        parser.feed(html[start : start + _CHUNK])
        yield from parser.found
        parser.found.clear()
    parser.close()
    yield from parser.found


class _Events(HTMLParser):
    """Keeps the parsed page as events."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[Event] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append(("start", tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        self.found.append(("end", tag, NOTHING))

    def handle_data(self, data: str) -> None:
        self.found.append(("text", data, NOTHING))
