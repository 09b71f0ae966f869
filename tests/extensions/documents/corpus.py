"""Sixty made documents of all formats, and the facts that must be found in each."""

from collections.abc import Iterator
from typing import NamedTuple

from tests.extensions.documents.made import (
    docx,
    epub,
    gzipped,
    mail,
    opendocument,
    paragraph,
    pdf,
    pptx,
    relations,
    sheet_row,
    slide,
    tarred,
    word_part,
    word_table,
    xlsx,
    zipped,
)


class Case(NamedTuple):
    """A file, the wanted part of it, and what is found there."""

    name: str
    data: bytes
    facts: tuple[str, ...]
    wanted: dict[str, str | int] = {}  # noqa: RUF012 -- read only
    absent: tuple[str, ...] = ()


def cases() -> list[Case]:
    """All of them."""
    return [*_pdfs(), *_word(), *_slides(), *_sheets(), *_opendocument(), *_texts(), *_mails(), *_cards(), *_archives()]


def _pdfs() -> Iterator[Case]:
    many = [f"Chapter {at}\nThe number of page {at} is {at * 37}." for at in range(1, 121)]
    yield Case(
        "letter.pdf", pdf(["Invoice 4711\nTotal: 1.234,56 EUR"]), ("Invoice 4711", "Total: 1.234,56 EUR", "1 page")
    )
    yield Case("umlauts.pdf", pdf(["Größe (Übermaß) — 5 €"]), ("Größe (Übermaß)", "5 €"))
    yield Case("many.pdf", pdf(many), ("120 pages", "page 3 is 111"), {"characters": 2_000}, ("page 100 is",))
    yield Case("many.pdf", pdf(many), ("page 100 is 3700", "pages 99-101 follow"), {"pages": "99-101"}, ("page 98 is",))
    yield Case("many.pdf", pdf(many), ("page 1 is 37", "page 7 is 259"), {"pages": "1,7"}, ("page 2 is",))
    yield Case("many.pdf", pdf(many), ("page 119 is 4403", "page 120 is 4440"), {"pages": "119-"})
    parts = pdf(many, [("Beginning", 0), ("The middle part", 59)])
    yield Case("outline.pdf", parts, ("Outline:", "- The middle part (page 60)", "- Beginning (page 1)"))
    yield Case(
        "link.pdf",
        pdf(["See our page"], link="https://example.org/terms?a=1"),
        ("[link: https://example.org/terms?a=1]",),
    )
    yield Case("form.pdf", pdf(["Name"], field=("customer", "Grace Hopper")), ("[field customer: Grace Hopper]",))
    yield Case("title.pdf", pdf(["x"], title="Annual report"), ("its title: Annual report",))
    yield Case(
        "scan.pdf", pdf([""], scanned=True), ("[a picture without text]", "no text on page 1", "as pictures here")
    )
    yield Case("empty.pdf", pdf(["", "text"]), ("[empty]", "--- page 2 ---\ntext"))
    yield Case("no-ending", pdf(["Found without its name"]), ("Found without its name",))


def _word() -> Iterator[Case]:
    long = paragraph("Beginnings", "berschrift1") + "".join(
        paragraph(f"Sentence {at} of many words. " * 3) for at in range(200)
    )
    long += paragraph("Endings", "Heading2") + paragraph("The last fact is 99.")
    link = f'<w:p><w:hyperlink r:id="rId7"><w:r><w:t>our terms</w:t></w:r></w:hyperlink></w:p>{paragraph("after")}'
    deleted = (
        f"<w:p><w:del><w:r><w:delText>gone</w:delText></w:r></w:del><w:r><w:t>kept</w:t></w:r></w:p>{paragraph('b')}"
    )
    box = (
        '<w:p><mc:AlternateContent xmlns:mc="m"><mc:Choice><w:txbxContent><w:p><w:r><w:t>in the box</w:t></w:r></w:p>'
        "</w:txbxContent></mc:Choice><mc:Fallback><w:r><w:t>in the box again</w:t></w:r></mc:Fallback>"
        "</mc:AlternateContent></w:p>"
    )
    yield Case(
        "a.docx", docx(paragraph("Dear Ada,") + paragraph("the price is 12 €.")), ("Dear Ada,\nthe price is 12 €.",)
    )
    yield Case("head.docx", docx(paragraph("Summary", "berschrift1") + paragraph("short")), ("# Summary\nshort",))
    yield Case(
        "table.docx",
        docx(word_table([["Name", "Age"], ["Ada", "36"]])),
        ("| Name | Age |\n| --- | --- |\n| Ada | 36 |",),
    )
    yield Case("list.docx", docx(paragraph("one", item=True) + paragraph("two", item=True)), ("- one\n- two",))
    yield Case("long.docx", docx(long), ("Outline:", "- Beginnings (page 1)", "Sentence 1 of"), {"characters": 5_000})
    yield Case("long.docx", docx(long), ("The last fact is 99.", "## Endings"), {"pages": "5-9"})
    rels = relations(("rId7", "hyperlink", "https://example.org/terms"), outside=["rId7"])
    yield Case("link.docx", docx(link, rels=rels), ("our terms (https://example.org/terms)",))
    notes = relations(("rId1", "footnotes", "footnotes.xml"), ("rId2", "comments", "comments.xml"))
    more = {
        "word/footnotes.xml": word_part("footnotes", "the small print"),
        "word/comments.xml": word_part("comments", "please check"),
    }
    yield Case(
        "notes.docx", docx(paragraph("x"), more, notes), ("[Footnotes] the small print", "[Comments] please check")
    )
    yield Case("deleted.docx", docx(deleted), ("kept",), {}, ("gone",))
    yield Case("box.docx", docx(box), ("in the box",), {}, ("again",))
    macros = docx(paragraph("harmless"), {"word/vbaProject.bin": b"\0"})
    yield Case("macro.docm", macros, ("harmless", "it has macros; they are not run"))


def _slides() -> Iterator[Case]:
    deck = pptx(slide("Welcome", "to the plan"), slide("Costs", "20 million"), slide("Thanks"), notes="Speak slowly")
    yield Case(
        "deck.pptx",
        deck,
        ("3 slides", "- Costs (slide 2)", "--- slide 1 ---\nWelcome\nto the plan", "[Notes] Speak slowly"),
    )
    yield Case("deck.pptx", deck, ("Costs\n20 million", "slide 2 follows"), {"pages": "2"}, ("Welcome",))
    rows = pptx(slide("Numbers", table=[["Year", "Sum"], ["2025", "17"]]))
    yield Case("table.pptx", rows, ("| Year | Sum |", "| 2025 | 17 |"))
    yield Case("one.pptx", pptx(slide("Only one", "fact: 8")), ("Only one\nfact: 8",), {}, ("Outline",))


def _sheets() -> Iterator[Case]:
    rows = sheet_row(1, A="s0", B="s1") + sheet_row(2, A="Ada", B="36") + sheet_row(4, A="Sum", B="=SUM(B2:B3)|36")
    book = xlsx({"People": rows, "Empty": ""}, ["Name", "Age"])
    yield Case(
        "people.xlsx", book, ("row | A | B\n1 | Name | Age\n2 | Ada | 36\n4 | Sum | =SUM(B2:B3) → 36", "- sheet Empty")
    )
    yield Case("range.xlsx", book, ("2 | 36",), {"sheet": "People!B2:B2"}, ("Ada", "Name"))
    yield Case("range.xlsx", book, ("2 | Ada | 36",), {"sheet": "A2:B3"}, ("Sum",))
    yield Case("other.xlsx", book, ("sheet Empty: no cells are filled",), {"sheet": "Empty"})
    dates = xlsx({"D": sheet_row(1, A="date:45000", B="date:45000.5", C="0.30000000000000004")})
    yield Case("dates.xlsx", dates, ("2023-03-15 | 2023-03-15 12:00:00 | 0.3",))
    large = xlsx({"Data": "".join(sheet_row(at, A=str(at), B=f"value {at}") for at in range(1, 30_001))})
    yield Case("large.xlsx", large, ("29999 | 29999 | value 29999",), {"sheet": "A29990:B30000"}, ("value 29989",))
    yield Case("large.xlsx", large, ("1 | 1 | value 1", 'ask with sheet="A'), {"characters": 3_000})
    hidden = xlsx({"A": sheet_row(1, A="5"), "Secret": sheet_row(1, A="7")}, state=' state="hidden"')
    yield Case("hidden.xlsx", hidden, ("hidden sheets: Secret",))
    yield Case("table.csv", b"Name,Age\nAda,36\nGrace,45\n", ("1 | Name | Age", "3 | Grace | 45"))
    yield Case("german.csv", "Größe;Preis\n12;3,50\n".encode("cp1252"), ("Größe | Preis", "12 | 3,50"))
    yield Case("table.tsv", b"a\tb\n1\t2\n", ("2 | 1 | 2",))
    yield Case(
        "range.csv",
        b"".join(b"%d,%d\n" % (at, at * at) for at in range(1, 5_001)),
        ("5000 | 25000000",),
        {"sheet": "B5000:B5000"},
    )


def _opendocument() -> Iterator[Case]:
    text = '<text:h text:outline-level="2">Plan</text:h><text:p>We meet<text:s text:c="2"/>at 9.</text:p>'
    text += "<text:list><text:list-item><text:p>bring tea</text:p></text:list-item></text:list>"
    cells = "<table:table-row>" + "".join(
        f"<table:table-cell><text:p>{each}</text:p></table:table-cell>" for each in "xy"
    )
    text += f'<table:table table:name="T">{cells}</table:table-row></table:table>'
    text += '<text:p><text:a xlink:href="https://example.org/">here</text:a></text:p>'
    yield Case(
        "a.odt",
        opendocument("text", text),
        ("## Plan", "We meet  at 9.", "- bring tea", "| x | y |", "here (https://example.org/)"),
    )
    note = (
        "<text:p>body<text:note><text:note-citation>1</text:note-citation><text:p>small</text:p></text:note></text:p>"
    )
    yield Case("note.odt", opendocument("text", note), ("body", "small"))
    sheet = (
        '<table:table table:name="Costs"><table:table-row table:number-rows-repeated="3"><table:table-cell/>'
        "</table:table-row>"
        '<table:table-row><table:table-cell table:number-columns-repeated="2"><text:p>7</text:p></table:table-cell>'
        '<table:table-cell table:formula="of:=[.A4]+[.B4]"><text:p>14</text:p></table:table-cell></table:table-row>'
        '</table:table><table:table table:name="Next"><table:table-row><table:table-cell><text:p>second</text:p>'
        "</table:table-cell></table:table-row></table:table>"
    )
    yield Case("a.ods", opendocument("spreadsheet", sheet), ("4 | 7 | 7 | =[.A4]+[.B4] → 14", "- sheet Next"))
    yield Case("b.ods", opendocument("spreadsheet", sheet), ("1 | second",), {"sheet": "Next"}, ("14",))
    slides = "".join(f"<draw:page><draw:frame><text:p>Slide {at}</text:p></draw:frame></draw:page>" for at in (1, 2))
    yield Case("a.odp", opendocument("presentation", slides), ("2 slides", "--- slide 2 ---\nSlide 2"))


def _texts() -> Iterator[Case]:
    chapters = (
        "<h1>The start</h1><p>It was a dark night.</p>" + "<p>Word after word.</p>" * 300,
        "<h1>The end</h1><p>It was the butler &amp; the cook.</p>",
    )
    yield Case(
        "book.epub",
        epub("The Butler", *chapters),
        ("- The start (page 1)", "- The end (page", "dark night"),
    )
    yield Case("book.epub", epub("The Butler", *chapters), ("It was the butler & the cook.",), {"pages": "2-4"})
    rich = rb"{\rtf1\ansi\ansicpg1252{\fonttbl{\f0 Arial;}}{\*\generator X;}\f0 Gr\'fc\'dfe an \u8364? 5"
    rich += rb"\par Second \{line\}\par}"
    yield Case("a.rtf", rich, ("Grüße an € 5\nSecond {line}",), {}, ("Arial", "generator"))
    yield Case(
        "b.rtf",
        rb"{\rtf1 {\field{\*\fldinst HYPERLINK x}{\fldrslt the page}}\line{\pict 0102}end}",
        ("the page\nend",),
        {},
        ("0102",),
    )
    page = "<html><head><title>t</title><script>bad()</script></head><body><h2>Offer</h2><p>Only<br>today &euro; 5</p>"
    page += "<ul><li>tea<li>milk</ul><table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>"
    page += '<a href="https://example.org/x">buy</a><a href="file:///etc/passwd">local</a></body></html>'
    facts = (
        "## Offer",
        "Only\ntoday € 5",
        "- tea\n- milk",
        "| a | b |\n| --- | --- |\n| 1 | 2 |",
        "buy (https://example.org/x)",
    )
    yield Case("a.html", page.encode(), facts, {}, ("bad()", "passwd"))
    yield Case("b.html", '<meta charset="iso-8859-2"><p>Łódź'.encode("iso-8859-2"), ("Łódź",))


def _mails() -> Iterator[Case]:
    bill = pdf(["The bill is 77 EUR"])
    sent = mail("Please find the bill.", attachments={"bill.pdf": bill, "note.txt": b"call me"})
    facts = ("From: Ada Lovelace", "Subject: Die Rechnung für März", "attachment bill.pdf", "Please find the bill.")
    yield Case("a.eml", sent, facts)
    yield Case("a.eml", sent, ("The bill is 77 EUR", "bill.pdf in it, PDF"), {"member": "bill.pdf"})
    yield Case("a.eml", sent, ("call me",), {"member": "note.txt"})
    only = mail("", "<h1>Sale</h1><p>Now 50 %</p>")
    yield Case("b.eml", only.replace(b"text/plain", b"text/x-none"), ("Subject: Die Rechnung",))


_CALENDAR = """BEGIN:VCALENDAR
BEGIN:VTIMEZONE
TZID:Europe/Berlin
BEGIN:STANDARD
DTSTART:19701025T030000
END:STANDARD
END:VTIMEZONE
BEGIN:VEVENT
SUMMARY:Team meeting\\, weekly
DTSTART;TZID=Europe/Berlin:20260302T100000
DTEND;TZID=Europe/Berlin:20260302T110000
RRULE:FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,WE;UNTIL=20261231T000000Z
EXDATE;TZID=Europe/Berlin:20260316T100000
LOCATION:Room 5\\; second
  floor
DESCRIPTION:Bring\\ntea
ORGANIZER;CN="Lovelace: Ada":mailto:ada@example.org
ATTENDEE;PARTSTAT=ACCEPTED;CN=Bob:MAILTO:bob@example.org
BEGIN:VALARM
TRIGGER:-PT15M
DESCRIPTION:the alarm's own
END:VALARM
END:VEVENT
BEGIN:VEVENT
SUMMARY:Flight
DTSTART;TZID=Europe/Berlin:20260302T100000
DTEND;TZID=America/New_York:20260302T130000
END:VEVENT
BEGIN:VEVENT
SUMMARY:Holiday
DTSTART;VALUE=DATE:20260302
DTEND;VALUE=DATE:20260305
RRULE:FREQ=MONTHLY;BYDAY=-1FR;COUNT=10;BYSETPOS=1
END:VEVENT
BEGIN:VEVENT
SUMMARY:Walk
DTSTART:20260302T100000
DURATION:PT1H30M
RRULE:FREQ=MONTHLY;BYMONTHDAY=-10,-1
BEGIN:VALARM
TRIGGER;RELATED=END:-PT5M
END:VALARM
END:VEVENT
BEGIN:VTODO
SUMMARY:Pay
DUE;TZID=W. Europe Standard Time:20260304T120000
END:VTODO
END:VCALENDAR
"""
_CONTACTS = """BEGIN:VCARD
VERSION:2.1
N;CHARSET=UTF-8;ENCODING=QUOTED-PRINTABLE:M=C3=BCller;J=C3=B6rg
TEL;HOME;VOICE:+49 30 1
ADR;WORK;ENCODING=QUOTED-PRINTABLE;CHARSET=ISO-8859-1:;;Stra=DFe =
5;Berlin;;10115;Germany
PHOTO;ENCODING=BASE64;TYPE=JPEG:QUFB
 QkJC
BDAY:19700102
END:VCARD
BEGIN:VCARD
VERSION:4.0
FN:Grace Hopper
item1.TEL;VALUE=uri;TYPE="voice,cell":tel:+1-555
ORG:Navy;Research
NOTE:a\\, b
END:VCARD
"""


def _cards() -> Iterator[Case]:
    calendar = _CALENDAR.replace("\n", "\r\n").encode()
    meeting = (
        "calendar, 5 entries",
        "# Team meeting, weekly\nWhen: Mon 2026-03-02 10:00 to 11:00 Europe/Berlin (UTC+01:00)\n"
        "Where: Room 5; second floor\nOrganizer: Lovelace: Ada <ada@example.org>\n"
        "With: Bob <bob@example.org> (accepted)\n"
        "Repeats: every 2 weeks on Mon, Wed until Thu 2026-12-31 00:00 UTC\n"
        "Not on: Mon 2026-03-16 10:00 Europe/Berlin (UTC+01:00)\n"
        "Reminder: 15 minutes before the start\nNotes: Bring\ntea\n",
    )
    yield Case("a.ics", calendar, meeting, {}, ("the alarm's own", "1970"))
    times = (
        "10:00 Europe/Berlin (UTC+01:00) to Mon 2026-03-02 13:00 America/New_York (UTC-05:00)",
        "When: Mon 2026-03-02 to Wed 2026-03-04, all day\nRepeats: every month on last Fri 10 times (BYSETPOS=1)",
        "When: Mon 2026-03-02 10:00 to 11:30 (no time zone)\n"
        "Repeats: every month on day -10, last of the month\nReminder: 5 minutes before the end",
        "# Pay\nDue: Wed 2026-03-04 12:00 W. Europe Standard Time",
    )
    yield Case("without-an-ending", calendar, times)
    facts = (
        "# Jörg Müller\nPhone: +49 30 1 (home)\nAddress: Straße 5, Berlin, 10115, Germany (work)\n"
        "Birthday: Fri 1970-01-02\n",
        "# Grace Hopper\nOrganization: Navy, Research\nPhone: +1-555 (cell)\nNotes: a, b",
    )
    yield Case("a.vcf", _CONTACTS.encode(), facts, {}, ("QUFB",))
    yield Case("folded.ics", calendar.replace(b":", b"\r\n :"), meeting[:1])


def _archives() -> Iterator[Case]:
    notes = zipped({"a.ics": "BEGIN:VEVENT\nSUMMARY:Dentist\nEND:VEVENT", "b.vcf": "BEGIN:VCARD\nFN:Ada\nEND:VCARD"})
    yield Case("notes.zip", notes, ("# Dentist",), {"member": "a.ics"})
    yield Case("notes.zip", notes, ("# Ada",), {"member": "b.vcf"})
    files: dict[str, str | bytes] = {"docs/a.txt": "inner fact 5", "b.pdf": pdf(["zipped page"])}
    inside = zipped(files)
    yield Case("a.zip", inside, ("docs/a.txt (12 bytes)", "b.pdf", "2 files"))
    yield Case("a.zip", inside, ("inner fact 5",), {"member": "docs/a.txt"})
    yield Case("a.zip", inside, ("zipped page",), {"member": "b.pdf"})
    packed = tarred({"x/y.txt": b"from the tar"}, packed=True)
    yield Case("a.tar.gz", packed, ("x/y.txt (12 bytes)",))
    yield Case("a.tar.gz", packed, ("from the tar",), {"member": "x/y.txt"})
    yield Case("a.tar", tarred({"z.csv": b"a,b\n1,2\n"}), ("2 | 1 | 2",), {"member": "z.csv"})
    yield Case("log.txt.gz", gzipped(b"line one\nline two"), ("line one\nline two",))
