"""Documents that are made for tests, by hand and without the libraries that read them."""

import gzip
import hashlib
import io
import re
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from email.message import EmailMessage
from xml.sax.saxutils import escape

OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_RELATIONS = "http://schemas.openxmlformats.org/package/2006/relationships"
_WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_DRAWING = "http://schemas.openxmlformats.org/drawingml/2006/main"
_SLIDES = "http://schemas.openxmlformats.org/presentationml/2006/main"


def zipped(files: Mapping[str, str | bytes], packed: bool = True) -> bytes:
    """A zip file with these files."""
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED) as made:
        for name, content in files.items():
            made.writestr(name, content)
    return sink.getvalue()


def relations(*of: tuple[str, str, str], outside: Sequence[str] = ()) -> str:
    """The relationships of a part: id, kind and target of each; the ids in `outside` lie elsewhere."""
    external = ' TargetMode="External"'
    rows = "".join(
        f'<Relationship Id="{id_}" Type="{OFFICE}/{kind}" Target="{escape(target)}"'
        f"{external if id_ in outside else ''}/>"
        for id_, kind, target in of
    )
    return f'<?xml version="1.0"?><Relationships xmlns="{_RELATIONS}">{rows}</Relationships>'


# --- Word


def paragraph(text: str, style: str = "", item: bool = False) -> str:
    """A paragraph of a Word document."""
    properties = (f'<w:pStyle w:val="{style}"/>' if style else "") + ("<w:numPr/>" if item else "")
    return f"<w:p><w:pPr>{properties}</w:pPr><w:r><w:t>{escape(text)}</w:t></w:r></w:p>"


def word_table(rows: Sequence[Sequence[str]]) -> str:
    """A table of a Word document."""
    cells = ("".join(f"<w:tc>{paragraph(cell)}</w:tc>" for cell in row) for row in rows)
    return f"<w:tbl>{''.join(f'<w:tr>{row}</w:tr>' for row in cells)}</w:tbl>"


def docx(body: str, more: Mapping[str, str | bytes] | None = None, rels: str | None = None) -> bytes:
    """A Word document with this body; `more` are further files."""
    styles = "".join(
        f'<w:style w:styleId="{id_}"><w:name w:val="{name}"/></w:style>'
        for id_, name in (("berschrift1", "heading 1"), ("Heading2", "heading 2"), ("Title", "Title"))
    )
    return zipped(
        {
            "[Content_Types].xml": "<Types/>",
            "word/document.xml": f'<w:document xmlns:w="{_WORD}" xmlns:r="{OFFICE}"><w:body>{body}</w:body>'
            "</w:document>",
            "word/styles.xml": f'<w:styles xmlns:w="{_WORD}">{styles}</w:styles>',
            "word/_rels/document.xml.rels": rels or relations(),
            **(more or {}),
        }
    )


def word_part(root: str, text: str) -> str:
    """A part beside the body: `footnotes`, `comments`."""
    return f'<w:{root} xmlns:w="{_WORD}">{paragraph(text)}</w:{root}>'


# --- Excel


def xlsx(
    sheets: Mapping[str, str],
    strings: Sequence[str] = (),
    more: Mapping[str, str | bytes] | None = None,
    state: str = "",
) -> bytes:
    """A workbook of sheets, each the XML of its rows; the last sheet has `state`."""
    names = list(sheets)
    listed = "".join(
        f'<sheet name="{escape(name)}" sheetId="{at}" r:id="rId{at}"{state if name == names[-1] else ""}/>'
        for at, name in enumerate(names, 1)
    )
    shared = "".join(f"<si><t>{escape(each)}</t></si>" for each in strings)
    return zipped(
        {
            "[Content_Types].xml": "<Types/>",
            "xl/workbook.xml": f'<workbook xmlns="{_SHEET}" xmlns:r="{OFFICE}"><sheets>{listed}</sheets></workbook>',
            "xl/_rels/workbook.xml.rels": relations(
                *((f"rId{at}", "worksheet", f"worksheets/sheet{at}.xml") for at in range(1, len(names) + 1))
            ),
            "xl/sharedStrings.xml": f'<sst xmlns="{_SHEET}">{shared}</sst>',
            "xl/styles.xml": f'<styleSheet xmlns="{_SHEET}"><numFmts><numFmt numFmtId="170" formatCode="dd.mm.yyyy"/>'
            '</numFmts><cellXfs><xf numFmtId="0"/><xf numFmtId="14"/><xf numFmtId="170"/></cellXfs></styleSheet>',
            **{
                f"xl/worksheets/sheet{at}.xml": f'<worksheet xmlns="{_SHEET}"><sheetData>{sheets[name]}</sheetData>'
                "</worksheet>"
                for at, name in enumerate(names, 1)
            },
            **(more or {}),
        }
    )


def sheet_row(number: int, **cells: str) -> str:
    """A row of numbers, by column; `=A1+B1|3` is a formula with its value, `s5` the shared string 5, others texts."""
    made = []
    for column, value in cells.items():
        at = f'r="{column}{number}"'
        if value.startswith("="):
            formula, _, result = value[1:].partition("|")
            made.append(f"<c {at}><f>{escape(formula)}</f><v>{result}</v></c>")
        elif value.startswith("date:"):
            made.append(f'<c {at} s="2"><v>{value[5:]}</v></c>')
        elif value[:1] == "s" and value[1:].isdigit():
            made.append(f'<c {at} t="s"><v>{value[1:]}</v></c>')
        elif value.replace(".", "").isdigit():
            made.append(f"<c {at}><v>{value}</v></c>")
        else:
            made.append(f'<c {at} t="inlineStr"><is><t>{escape(value)}</t></is></c>')
    return f'<row r="{number}">{"".join(made)}</row>'


# --- PowerPoint


def slide(title: str, *texts: str, table: Sequence[Sequence[str]] = ()) -> str:
    """A slide."""

    def shape(text: str, placeholder: str = "") -> str:
        kind = f'<p:nvSpPr><p:nvPr><p:ph type="{placeholder}"/></p:nvPr></p:nvSpPr>' if placeholder else ""
        return f"<p:sp>{kind}<p:txBody><a:p><a:r><a:t>{escape(text)}</a:t></a:r></a:p></p:txBody></p:sp>"

    cell = "<a:tc><a:txBody><a:p><a:r><a:t>{}</a:t></a:r></a:p></a:txBody></a:tc>"
    rows = "".join(f"<a:tr>{''.join(cell.format(escape(each)) for each in row)}</a:tr>" for row in table)
    tables = f"<p:graphicFrame><a:tbl>{rows}</a:tbl></p:graphicFrame>" if table else ""
    shapes = "".join(map(shape, texts)) + shape(title, "title") + tables
    return f'<p:sld xmlns:p="{_SLIDES}" xmlns:a="{_DRAWING}"><p:cSld><p:spTree>{shapes}</p:spTree></p:cSld></p:sld>'


def pptx(*slides: str, notes: str = "", more: Mapping[str, str | bytes] | None = None) -> bytes:
    """A presentation; `notes` are the speaker's for the first slide."""
    listed = "".join(f'<p:sldId id="{255 + at}" r:id="rId{at}"/>' for at in range(1, len(slides) + 1))
    files: dict[str, str | bytes] = {
        "[Content_Types].xml": "<Types/>",
        "ppt/presentation.xml": f'<p:presentation xmlns:p="{_SLIDES}" xmlns:r="{OFFICE}"><p:sldIdLst>{listed}'
        "</p:sldIdLst></p:presentation>",
        # Slides lie in another order than their numbers.
        "ppt/_rels/presentation.xml.rels": relations(
            *((f"rId{at}", "slide", f"slides/slide{100 - at}.xml") for at in range(1, len(slides) + 1))
        ),
        **{f"ppt/slides/slide{100 - at}.xml": each for at, each in enumerate(slides, 1)},
    }
    if notes:
        files["ppt/slides/_rels/slide99.xml.rels"] = relations(("rId1", "notesSlide", "../notesSlides/notes1.xml"))
        files["ppt/notesSlides/notes1.xml"] = slide("7", notes)
    return zipped(files | dict(more or {}))


# --- OpenDocument


def opendocument(kind: str, body: str, more: Mapping[str, str | bytes] | None = None) -> bytes:
    """An OpenDocument file: `text`, `spreadsheet` or `presentation`."""
    spaces = "".join(
        f' xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
        for name in ("office", "text", "table", "draw")
    )
    links = ' xmlns:xlink="http://www.w3.org/1999/xlink" xmlns:presentation="urn:x:presentation"'
    return zipped(
        {
            "mimetype": f"application/vnd.oasis.opendocument.{kind}",
            "content.xml": f"<office:document-content{spaces}{links}>"
            # Styles have elements of the same names.
            "<office:automatic-styles><text:text/></office:automatic-styles>"
            f"<office:body><office:{kind}>{body}</office:{kind}>"
            "</office:body></office:document-content>",
            **(more or {}),
        }
    )


# --- EPUB


def epub(title: str, *chapters: str, more: Mapping[str, str | bytes] | None = None) -> bytes:
    """A book of chapters, each the HTML of its body."""
    items = "".join(
        f'<item id="c{at}" href="c{at}.xhtml" media-type="application/xhtml+xml"/>' for at in range(len(chapters))
    )
    spine = "".join(f'<itemref idref="c{at}"/>' for at in reversed(range(len(chapters))))
    return zipped(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": '<container><rootfile full-path="OEBPS/book.opf"/></container>',
            "OEBPS/book.opf": f'<package xmlns:dc="x"><metadata><dc:title>{escape(title)}</dc:title></metadata>'
            f"<manifest>{items}</manifest><spine>{spine}</spine></package>",
            **{
                f"OEBPS/c{at}.xhtml": f"<html><head><title>no</title></head><body>{each}</body></html>"
                # The spine goes backwards, so that an order by names is seen to be wrong.
                for at, each in enumerate(reversed(chapters))
            },
            **(more or {}),
        }
    )


# --- PDF


def pdf(
    pages: Sequence[str],
    outline: Sequence[tuple[str, int]] = (),
    link: str = "",
    field: tuple[str, str] | None = None,
    title: str = "",
    password: str | None = None,
    scanned: bool = False,
    size: tuple[int, int] = (595, 842),
) -> bytes:
    """A PDF with these pages of lines.

    Args:
        pages: the text of each page.
        outline: titles with their pages, from 0 on.
        link: an address that the first page links to.
        field: name and value of a field of a form on the first page.
        title: the document's.
        password: the user's, which it is encrypted with.
        scanned: each page is a picture without text.
        size: of each page.
    """
    objects: dict[int, bytes] = {}
    first, fonts = 10, 5
    for at, text in enumerate(pages):
        lines = b" T* ".join(b"(%s) Tj" % _escaped(line) for line in text.split("\n"))
        drawn = b"q 500 0 0 700 40 60 cm /I Do Q" if scanned else b"BT /F 11 Tf 14 TL 50 780 Td " + lines + b" ET"
        page, content = first + 2 * at, first + 2 * at + 1
        notes = (b" 6 0 R" if link and not at else b"") + (b" 7 0 R" if field and not at else b"")
        objects[page] = (
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 %d %d]/Contents %d 0 R/Annots[%s]/Resources<</Font<</F %d 0 R>>"
            b"/XObject<</I 8 0 R>>>>>>" % (*size, content, notes, fonts)
        )
        objects[content] = stream(drawn)
    kids = b" ".join(b"%d 0 R" % (first + 2 * at) for at in range(len(pages)))
    objects[2] = b"<</Type/Pages/Count %d/Kids[%s]>>" % (len(pages), kids)
    objects[fonts] = b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>"
    objects[6] = b"<</Type/Annot/Subtype/Link/Rect[50 700 200 720]/A<</S/URI/URI(%s)>>>>" % link.encode()
    objects[8] = stream(
        bytes((x * y) % 256 for y in range(64) for x in range(64)),
        b"/Type/XObject/Subtype/Image/Width 64/Height 64/ColorSpace/DeviceGray/BitsPerComponent 8",
    )
    form = b""
    if field:
        name, value = (each.encode() for each in field)
        widget = b"<</Type/Annot/Subtype/Widget/FT/Tx/T(%s)/V(%s)/Rect[50 600 200 620]/DA(/F 11 Tf)/P %d 0 R>>"
        objects[7] = widget % (name, value, first)
        form = b"/AcroForm<</Fields[7 0 R]/DR<</Font<</F %d 0 R>>>>/DA(/F 11 Tf)>>" % fonts
    if outline:
        marks = first + 2 * len(pages)
        form += b"/Outlines %d 0 R" % marks
        objects |= _outline(outline, marks, first)
    objects[1] = b"<</Type/Catalog/Pages 2 0 R%s>>" % form
    objects[3] = b"<</Title(%s)>>" % title.encode("latin-1")
    return assembled(objects, password)


def _outline(outline: Sequence[tuple[str, int]], marks: int, first: int) -> dict[int, bytes]:
    """The objects of bookmarks from number `marks` on; `first` is the object of the first page."""
    ends = (marks + 1, marks + len(outline), len(outline))
    objects = {marks: b"<</Type/Outlines/First %d 0 R/Last %d 0 R/Count %d>>" % ends}
    for at, (title, page) in enumerate(outline, 1):
        near = b"/Prev %d 0 R" % (marks + at - 1) if at > 1 else b""
        near += b"/Next %d 0 R" % (marks + at + 1) if at < len(outline) else b""
        values = (title.encode("latin-1"), marks, near, first + 2 * page)
        objects[marks + at] = b"<</Title(%s)/Parent %d 0 R%s/Dest[%d 0 R/Fit]>>" % values
    return objects


def _escaped(line: str) -> bytes:
    return re.sub(rb"([\\()])", rb"\\\1", line.encode("cp1252"))


def stream(data: bytes, head: bytes = b"") -> bytes:
    """A stream object, packed."""
    packed = zlib.compress(data)
    return b"<<%s/Filter/FlateDecode/Length %d>>\nstream\n%s\nendstream" % (head, len(packed), packed)


def assembled(objects: Mapping[int, bytes], password: str | None = None) -> bytes:
    """A PDF file of objects; 1 is the catalogue, 3 the information."""
    told, places = bytearray(b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n"), dict[int, int]()
    trailer = b"/Root 1 0 R/Info 3 0 R"
    if password is not None:
        # Revision 2 of the standard handler (ISO 32000-1, 7.6.3): a reader that does not know the password stops here.
        padding = bytes.fromhex("28BF4E5E4E758A4164004E56FFFA01082E2E00B6D0683E802F0CA9FE6453697A")
        padded = (password.encode() + padding)[:32]
        owner = _rc4(hashlib.md5(padded, usedforsecurity=False).digest()[:5], padded)
        key = hashlib.md5(padded + owner + struct.pack("<i", -4) + b"id", usedforsecurity=False).digest()[:5]
        user = _rc4(key, padding)
        objects = {
            **objects,
            4: b"<</Filter/Standard/V 1/R 2/P -4/O<%s>/U<%s>>>" % (owner.hex().encode(), user.hex().encode()),
        }
        trailer += b"/Encrypt 4 0 R/ID[(id)(id)]"
    for number, content in objects.items():
        places[number] = len(told)
        told += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    start, size = len(told), max(objects) + 1
    told += b"xref\n0 %d\n0000000000 65535 f \n" % size
    for number in range(1, size):
        told += b"%010d 00000 n \n" % places[number] if number in places else b"0000000000 65535 f \n"
    return bytes(told + b"trailer\n<</Size %d%s>>\nstartxref\n%d\n%%%%EOF\n" % (size, trailer, start))


def _rc4(key: bytes, data: bytes) -> bytes:
    state, at = list(range(256)), 0
    for step in range(256):
        at = (at + state[step] + key[step % len(key)]) % 256
        state[step], state[at] = state[at], state[step]
    told, i, j = bytearray(), 0, 0
    for byte in data:
        i = (i + 1) % 256
        j = (j + state[i]) % 256
        state[i], state[j] = state[j], state[i]
        told.append(byte ^ state[(state[i] + state[j]) % 256])
    return bytes(told)


# --- mails, archives, pictures


def mail(text: str, html: str = "", attachments: Mapping[str, bytes] | None = None) -> bytes:
    """A mail."""
    made = EmailMessage()
    made["From"], made["To"] = "Ada Lovelace <ada@example.org>", "Charles <charles@example.org>"
    made["Subject"], made["Date"] = "Die Rechnung für März", "Mon, 02 Mar 2026 10:00:00 +0100"
    made.set_content(text)
    if html:
        made.add_alternative(html, subtype="html")
    for name, data in (attachments or {}).items():
        made.add_attachment(data, maintype="application", subtype="octet-stream", filename=name)
    return made.as_bytes()


def tarred(files: Mapping[str, bytes], packed: bool = False, link: tuple[str, str] | None = None) -> bytes:
    """A TAR archive, perhaps compressed, perhaps with a link to a target."""
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w:gz" if packed else "w") as made:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            made.addfile(info, io.BytesIO(data))
        if link:
            info = tarfile.TarInfo(link[0])
            info.type, info.linkname = tarfile.SYMTYPE, link[1]
            made.addfile(info)
    return sink.getvalue()


def bmp(width: int, height: int, pixels: bytes | None = None) -> bytes:
    """A picture in shades of grey; without pixels only the head claims that there are some."""
    data = bytes(((width + 3) // 4 * 4) * height) if pixels is None else pixels
    palette = b"".join(bytes((at, at, at, 0)) for at in range(256))
    head = struct.pack("<IiiHHIIiiII", 40, width, height, 1, 8, 0, len(data), 2835, 2835, 256, 0)
    start = 14 + len(head) + len(palette)
    return struct.pack("<2sIHHI", b"BM", start + len(data), 0, 0, start) + head + palette + data


def gzipped(data: bytes) -> bytes:
    """The data, compressed."""
    return gzip.compress(data, mtime=0)
