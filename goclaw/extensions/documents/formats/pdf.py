"""PDF: text and tables by page, outline, links, forms; a page without text is read by `tesseract`, or shown."""

import ctypes
import shutil
import struct
import subprocess
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO

from goclaw.extensions.documents.formats.answer import MAX_PICTURES, Answer, Refused, Wanted
from goclaw.extensions.documents.formats.pdf_tables import text_with_tables

_LONGEST = 1_600
"""Pixels of a page's longer side as a picture: models see no more (Anthropic, "Vision")."""
_LONGEST_READ = 3_000
"""The same for `tesseract`, which needs about 300 pixels an inch."""
_MAX_READ = 8
"""Pages that `tesseract` reads in a call: it takes seconds for each."""
_MAX_TABLED = 50
"""Pages of a call whose tables are looked for: as many as an answer has, while a search of a whole book takes less."""
_MAX_LINKS = 100
_MAX_BYTES = 4_000
"""Of an address or a field."""


def extract(file: BinaryIO, wanted: Wanted, answer: Answer) -> None:
    """Read a PDF."""
    import pypdfium2 as pdfium  # type: ignore[import-untyped]  # it has no types; eight megabytes for one format

    try:
        pdf: Any = pdfium.PdfDocument(file.read())
    except pdfium.PdfiumError as error:
        if error.err_code in (pdfium.raw.FPDF_ERR_PASSWORD, pdfium.raw.FPDF_ERR_SECURITY):
            raise Refused("is encrypted: it opens with a password only") from None
        raise Refused("is damaged, or no PDF: it has no pages that can be found") from None
    has_form = pdf.init_forms()
    answer.kind = "PDF"
    reader = _Pages(pdf, pdfium.raw, wanted, answer, has_form=has_form)
    if title := pdf.get_metadata_value("Title").strip():
        answer.note(f"its title: {title[:200]}")
    if not wanted.pages:
        answer.add_outline(reader.outline())
    answer.add_parts(wanted, len(pdf), reader.text_of)
    if reader.unread:
        numbers = ", ".join(map(str, reader.unread))
        how = "as pictures here" if answer.pictures else "only as pictures"
        can_read = answer.pictures or not wanted.scans or shutil.which("tesseract")
        answer.note(
            f"no text on {answer.unit} {numbers}, which {'is' if len(reader.unread) == 1 else 'are'} there {how}"
            f"{'' if can_read else '; with tesseract installed it would be read'}"
        )


class _Pages:
    """The pages of one document."""

    def __init__(self, pdf: Any, raw: Any, wanted: Wanted, answer: Answer, *, has_form: bool) -> None:
        self._pdf, self._raw, self._wanted, self._answer = pdf, raw, wanted, answer
        self._has_form = has_form
        self._recognised = self._searched = 0
        self.unread: list[int] = []
        """Numbers of the pages without text."""

    def outline(self) -> Iterator[tuple[int, str, int | None]]:
        """Yield the bookmarks."""
        for mark in self._pdf.get_toc(max_depth=6):
            target = mark.get_dest()
            index = target.get_index() if target else None
            yield mark.level + 1, mark.get_title(), None if index is None else index + 1

    def text_of(self, number: int) -> str:
        """Return the text of a page with its links and fields; a broken page says so."""
        try:
            page = self._pdf[number - 1]
        except RuntimeError:
            return "[this page is damaged]"
        try:
            on_page = page.get_textpage()
            text = on_page.get_text_bounded().replace("\r\n", "\n").replace("\ufffe", "").strip()
            self._searched += 1
            if text and self._searched <= _MAX_TABLED:
                text = text_with_tables(page, on_page, self._raw) or text
            if not text:
                text = self._recognise(page, number)
            return "\n".join((text, *self._fields(page), *self._links(page)))
        except RuntimeError:
            return "[the text of this page is damaged]"
        finally:
            page.close()

    def _recognise(self, page: Any, number: int) -> str:
        """Return what `tesseract` reads on a page; else keep the page as a picture, if it has anything on it."""
        if not any(True for _ in page.get_objects(max_depth=2)):
            return "[empty]"
        program = shutil.which("tesseract")
        if program and self._wanted.scans and self._recognised < _MAX_READ:
            self._recognised += 1
            told = subprocess.run(
                [program, "stdin", "stdout"], input=_picture_of(page, _LONGEST_READ), capture_output=True, check=False
            )
            if text := told.stdout.decode(errors="replace").strip():
                self._answer.note("pages without text were read from their pictures (tesseract): letters may be wrong")
                return text
        self.unread.append(number)
        if self._wanted.scans and len(self._answer.pictures) < MAX_PICTURES:
            self._answer.pictures.append(("image/png", _picture_of(page, _LONGEST)))
        return "[a picture without text]"

    def _links(self, page: Any) -> list[str]:
        raw, found = self._raw, dict[str, None]()
        place, link = ctypes.c_int(0), raw.FPDF_LINK()
        while len(found) < _MAX_LINKS and raw.FPDFLink_Enumerate(page, ctypes.byref(place), ctypes.byref(link)):
            action = raw.FPDFLink_GetAction(link)
            if action and (size := raw.FPDFAction_GetURIPath(self._pdf, action, None, 0)) and size < _MAX_BYTES:
                buffer = ctypes.create_string_buffer(size)
                raw.FPDFAction_GetURIPath(self._pdf, action, buffer, size)
                found[buffer.value.decode(errors="replace")] = None
        return [f"[link: {address}]" for address in found]

    def _fields(self, page: Any) -> list[str]:
        if not self._has_form:
            return []
        raw, found = self._raw, list[str]()
        for index in range(min(raw.FPDFPage_GetAnnotCount(page), 500)):
            note = raw.FPDFPage_GetAnnot(page, index)
            if note and raw.FPDFAnnot_GetSubtype(note) == raw.FPDF_ANNOT_WIDGET:
                name = self._string(raw.FPDFAnnot_GetFormFieldName, note)
                found.append(f"[field {name}: {self._string(raw.FPDFAnnot_GetFormFieldValue, note) or '(empty)'}]")
            if note:
                raw.FPDFPage_CloseAnnot(note)
        return found

    def _string(self, get: Any, note: Any) -> str:
        size = get(self._pdf.formenv, note, None, 0)
        buffer = (ctypes.c_ushort * min(size // 2 + 1, _MAX_BYTES))()
        get(self._pdf.formenv, note, buffer, len(buffer) * 2)
        return bytes(buffer).decode("utf-16-le", "replace").partition("\0")[0]


def _picture_of(page: Any, longest: int) -> bytes:
    """Return a page as a PNG in shades of grey (RFC 2083), of bounded size, whatever size the page claims to have."""
    width, height = page.get_size()
    scale = min(longest / max(width, height, 1), 300 / 72)
    bitmap = page.render(scale=scale, grayscale=True)
    pixels, width, stride = bytes(bitmap.buffer), bitmap.width, bitmap.stride
    rows = b"".join(b"\0" + pixels[row * stride : row * stride + width] for row in range(bitmap.height))
    head = struct.pack(">IIBBBBB", width, bitmap.height, 8, 0, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(rows, 6)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks
    )
