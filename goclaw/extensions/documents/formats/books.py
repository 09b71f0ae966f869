"""EPUB: the chapters of a book, in the order of its spine."""

from collections.abc import Iterator

from goclaw.extensions.documents.formats.answer import Answer, Refused, Wanted, add_flow
from goclaw.extensions.documents.formats.markup import Package
from goclaw.extensions.documents.formats.plain import decode
from goclaw.extensions.documents.formats.web import blocks_of

_MAX_CHAPTER = 30 << 20
_PAGES = ("application/xhtml+xml", "text/html")


def extract_package(package: Package, wanted: Wanted, answer: Answer) -> None:
    """Read a book."""
    answer.kind = "EPUB book"
    if "META-INF/encryption.xml" in package.names and any(
        tag == "EncryptedKey" for _, tag, _ in package.events("META-INF/encryption.xml")
    ):
        raise Refused("is encrypted: its seller allows only its own readers")
    root = next(
        (
            given.get("full-path", "")
            for event, tag, given in package.events("META-INF/container.xml")
            if event == "start" and tag == "rootfile"
        ),
        "",
    )
    add_flow(answer, wanted, _chapters(package, root))


def _chapters(package: Package, root: str) -> Iterator[tuple[int, str]]:
    folder = root.rpartition("/")[0]
    pages, spine = dict[str, str](), list[str]()
    for event, tag, given in package.events(root):
        if event == "start" and tag == "item" and given.get("media-type") in _PAGES:
            pages[given.get("id", "")] = f"{folder}/{given.get('href', '')}".lstrip("/")
        elif event == "start" and tag == "itemref":
            spine.append(given.get("idref", ""))
    for part in (pages[each] for each in spine if each in pages):
        if part in package.names:
            yield from blocks_of(decode(package.unpack(part, _MAX_CHAPTER)))
