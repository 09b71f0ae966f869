"""Documents as text: the seam between tools, uploads and searches, and the extension that reads documents.

Nothing of that extension is loaded before a document is read, and the parsers run in a process of their own.
"""

from collections.abc import Awaitable, Callable
from typing import Annotated, BinaryIO, Literal

from pydantic import Base64Bytes, BaseModel, Field

from goclaw.common.core import catalog
from goclaw.common.core.plugins import load
from goclaw.common.core.records import record
from goclaw.tools.toolkit.base import ToolEnvironment

MAX_CHARACTERS = 500_000
"""Characters of a document that are searched."""


@record
class Selection:
    """The part of a document that is wanted."""

    pages: str = ""
    """`3-7`, `1,4` or `12`; empty: from the first page on."""
    sheet: str = ""
    """`Name`, `Name!A1:D20` or `A1:D20`."""
    member: str = ""
    """The name of a file in an archive, or of an attachment of a mail."""
    characters: int = 50_000
    """Maximum characters of text."""
    scans: bool = True
    """Whether pages without text may come as pictures, or be read from them, which takes seconds."""
    seconds: float | None = None
    """Maximum seconds, once it is its turn; None: as many as any document may take."""

    @property
    def is_part(self) -> bool:
        """Whether a part of the document is named."""
        return bool(self.pages or self.sheet or self.member)


@record
class SourceFile:
    """A file to read."""

    name: str
    data: bytes | BinaryIO
    """Its bytes, or the open file at its beginning."""
    mime: str = ""


class Document(BaseModel, frozen=True):
    """A document, or a part of it, as text; the reader's process answers with it, as JSON."""

    kind: str
    """For people: `PDF`, `Word document`, `mail`."""
    unit: Literal["page", "slide", "row", "second"]
    """The unit that `total` counts."""
    total: Annotated[int, Field(ge=0, le=1 << 40)] | None = None
    """None: not counted."""
    shown: str = ""
    """The numbers of those in `text`: `1-12`; empty: the whole document."""
    rest: str = ""
    """The selector that continues it: `pages="13-24"`; empty: it ends here."""
    outline: tuple[str, ...] = ()
    text: str = ""
    notes: tuple[str, ...] = ()
    """Sentences about omissions and oddities."""
    pictures: tuple[tuple[str, Base64Bytes], ...] = ()
    """Pages without text, or the picture itself: media type and bytes."""

    @property
    def head(self) -> str:
        """Return a line that says how much there is, which part follows and how to get the rest.

        The author of the document chose words of it: its title, the names of sheets.
        """
        plural = f"{self.unit}s"
        counted = f", {self.size}" if self.size else ""
        is_whole = not self.shown or (not self.rest and self.shown == ("1" if self.total == 1 else f"1-{self.total}"))
        several = f"{plural} {self.shown} follow" if "-" in self.shown or "," in self.shown else ""
        part = "" if is_whole else f"; {several or f'{self.unit} {self.shown} follows'}"
        more = f"; for more ask with {self.rest}" if self.rest else ""
        return " ".join((f"{self.kind}{counted}{part}{more}", *(f"({note})" for note in self.notes)))

    @property
    def size(self) -> str:
        """Return the number of its parts in words, without any word of the document; empty: not counted."""
        return "" if self.total is None else f"{self.total:,} {self.unit}{'' if self.total == 1 else 's'}"

    @property
    def content(self) -> str:
        """Return the outline, if there is one, and the text."""
        outline = ("Outline:", *self.outline, "") if self.outline else ()
        return "\n".join((*outline, self.text) if self.text else outline)


@record
class DocumentsPart:
    """A line of the catalogue: the reader of documents."""

    convert: Callable[[ToolEnvironment, SourceFile, Selection], Awaitable[Document]]
    """Raises ToolError, with words for people."""


async def text_for_search(environment: ToolEnvironment, name: str, data: bytes, *, seconds: float | None = None) -> str:
    """Return the text of a document, as far as searches look into it; `seconds`: see `Selection`. Raises ToolError."""
    wanted = Selection(characters=MAX_CHARACTERS, scans=False, seconds=seconds)
    return (await read_document(environment, SourceFile(name, data), wanted)).content


async def read_document(environment: ToolEnvironment, source: SourceFile, wanted: Selection) -> Document:
    """Read a document, or the wanted part of it.

    Raises:
        ToolError: it is damaged, encrypted, too large, of a kind that is not read, or nothing here contains the reader.
    """
    part: DocumentsPart = load(catalog.DOCUMENT_READERS["documents"], DocumentsPart)
    return await part.convert(environment, source, wanted)
