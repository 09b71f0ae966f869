"""PPTX: the text of each slide, its tables, and the speaker's notes."""

from collections.abc import Mapping
from typing import ClassVar

from goclaw.extensions.documents.formats.answer import Answer, Refused, Wanted, add_slides
from goclaw.extensions.documents.formats.flow import Flow
from goclaw.extensions.documents.formats.markup import Package

PRESENTATION = "ppt/presentation.xml"
_MAX_SLIDES = 10_000


class _Text(Flow):
    paragraphs = frozenset({"p"})
    table, row, cells = "tbl", "tr", frozenset({"tc"})
    text = "t"
    breaks: ClassVar[Mapping[str, str]] = {"br": "\n"}
    _is_title = False

    def begin(self, tag: str, given: Mapping[str, str]) -> None:
        if tag == "sp":
            self._is_title = False
        elif tag == "ph":
            self._is_title = given.get("type") in ("title", "ctrTitle")
        elif tag == "p":
            self.level = int(self._is_title)


def extract_package(package: Package, wanted: Wanted, answer: Answer) -> None:
    """Read a presentation."""
    answer.kind = "presentation"
    related = package.relations_of(PRESENTATION)
    slides = [
        related[given["id"]][1]
        for event, tag, given in package.events(PRESENTATION)
        if event == "start" and tag == "sldId" and given.get("id") in related
    ]
    if len(slides) > _MAX_SLIDES or not slides:
        raise Refused(f"has more than {_MAX_SLIDES:,} slides" if slides else "has no slides")
    add_slides(answer, wanted, len(slides), lambda number: _slide(package, slides[number - 1]))


def _slide(package: Package, part: str) -> str:
    blocks = list(_Text().blocks(package.events(part)))
    texts = [text for level, text in blocks if level] + [text for level, text in blocks if not level]
    for kind, target, outside in package.relations_of(part).values():
        if kind == "notesSlide" and not outside and target in package.names:
            notes = [text for _, text in _Text().blocks(package.events(target)) if not text.isdigit()]
            texts += [f"[Notes] {' / '.join(notes)}"] if notes else []
        elif kind == "hyperlink" and outside:
            texts.append(f"[link: {target[:500]}]")
    return "\n".join(texts) or "[no text]"
