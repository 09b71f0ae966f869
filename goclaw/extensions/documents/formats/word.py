"""DOCX: paragraphs, headings, lists, tables, links, notes and comments of a Word document."""

from collections.abc import Iterator, Mapping
from typing import ClassVar

from goclaw.extensions.documents.formats.answer import Answer, Wanted, add_flow
from goclaw.extensions.documents.formats.flow import Flow
from goclaw.extensions.documents.formats.markup import Package

DOCUMENT = "word/document.xml"
_BESIDE = {
    "header": "Header",
    "footnotes": "Footnotes",
    "endnotes": "Endnotes",
    "comments": "Comments",
    "footer": "Footer",
}
"""Parts with text of their own, by the kind of the relationship."""


class _Text(Flow):
    paragraphs = frozenset({"p"})
    table, row, cells = "tbl", "tr", frozenset({"tc"})
    text = "t"
    breaks: ClassVar[Mapping[str, str]] = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}
    # These repeat what stands elsewhere, or were deleted.
    skipped = frozenset({"Fallback", "instrText", "delText", "del", "moveFrom", "tabs"})

    def __init__(self, levels: Mapping[str, int], related: Mapping[str, tuple[str, str, bool]]) -> None:
        super().__init__()
        self._levels, self._related = levels, related

    def begin(self, tag: str, given: Mapping[str, str]) -> None:
        if tag == "pStyle":
            self.level = self._levels.get(given.get("val", ""), 0)
        elif tag == "numPr":
            self.is_item = True
        elif tag == "hyperlink":
            _, target, outside = self._related.get(given.get("id", ""), ("", "", False))
            self.link = target if outside else ""
        elif tag == "checked":
            self.parts.append("[ ] " if given.get("val") == "0" else "[x] ")

    def end(self, tag: str) -> None:
        if tag == "hyperlink":
            self.end_link()


def extract_package(package: Package, wanted: Wanted, answer: Answer) -> None:
    """Read a Word document."""
    answer.kind = "Word document"
    levels, related = _levels(package), package.relations_of(DOCUMENT)
    if any(outside and kind != "hyperlink" for kind, _, outside in related.values()):
        answer.note("it refers to files elsewhere, which are not opened")

    def blocks() -> Iterator[tuple[int, str]]:
        yield from _Text(levels, related).blocks(package.events(DOCUMENT))
        for kind, target, outside in related.values():
            if kind in _BESIDE and not outside and target in package.names:
                found = [text for _, text in _Text(levels, {}).blocks(package.events(target))]
                if found:
                    yield 0, f"[{_BESIDE[kind]}] {' / '.join(found)}"

    add_flow(answer, wanted, blocks())


def _levels(package: Package) -> dict[str, int]:
    """Return the level of a heading by the id of its style; the names of these styles are the same in all languages."""
    found: dict[str, int] = {}
    style = ""
    for event, tag, given in package.events("word/styles.xml") if "word/styles.xml" in package.names else ():
        if event == "start" and tag == "style":
            style = given.get("styleId", "")
        elif event == "start" and tag == "name":
            name = given.get("val", "").lower()
            if name == "title" or (name.startswith("heading ") and name[8:].isdigit()):
                found[style] = 1 if name == "title" else int(name[8:])
    return found
