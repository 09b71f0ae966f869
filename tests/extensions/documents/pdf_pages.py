"""Made PDF pages with tables that are known, and pages whose columns are none: prose, lists, addresses, charts."""

import textwrap
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from tests.extensions.documents.made import assembled, stream

Rows = Sequence[Sequence[str]]
_PROSE = (
    "the river ran low that summer and people of the town who had always lived by its banks began to speak of moving "
    "inland where wells were deep but nobody went for the harvest was near and 12 boats still lay at the pier in 1893 "
    "while letters came slowly from the capital with news that was old before it was read aloud in the square"
)
_WORDS = _PROSE.split()


class Page(NamedTuple):
    """A page, and the tables on it: empty, it has none."""

    name: str
    data: bytes
    tables: Sequence[Rows] = ()
    beside: Sequence[str] = ()
    """Lines of text that stay outside."""


class Drawn:
    """A page that is drawn on, from its lower left corner, in points."""

    def __init__(self, size: int = 10, font: str = "Helvetica") -> None:
        """`font`: one of the standard ones."""
        self.size, self._font, self._content = size, font, list[bytes]()

    def text(self, x: float, y: float, text: str, size: int = 0) -> None:
        """Write a text."""
        escaped = text.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)").encode("cp1252")
        self._content.append(b"BT /F %d Tf 1 0 0 1 %.1f %.1f Tm (%s) Tj ET" % (size or self.size, x, y, escaped))

    def ending_at(self, x: float, y: float, text: str) -> None:
        """Write digits that end at a place."""
        self.text(x - sum(0.278 if each in ".,:- " else 0.556 for each in text) * self.size, y, text)

    def draw(self, operators: str) -> None:
        """Draw with operators of PDF."""
        self._content.append(operators.encode())

    def line(self, x0: float, y0: float, x1: float, y1: float) -> None:
        """Draw a line."""
        self.draw(f"{x0} {y0} m {x1} {y1} l S")

    def pdf(self, rotation: int = 0, codes: bytes = b"") -> bytes:
        """The page as a file. `codes`: pairs of a letter and what it stands for in UTF-16: `<41><D83DDE00>`."""
        font = b"<</Type/Font/Subtype/Type1/BaseFont/%s/Encoding/WinAnsiEncoding%s>>"
        cmap = b"1 begincodespacerange <00><FF> endcodespacerange 1 beginbfchar %s endbfchar" % codes
        page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Rotate %d/Contents 11 0 R%s>>"
        return assembled(
            {
                1: b"<</Type/Catalog/Pages 2 0 R>>",
                2: b"<</Type/Pages/Count 1/Kids[10 0 R]>>",
                3: b"<<>>",
                5: font % (self._font.encode(), b"/ToUnicode 12 0 R" if codes else b""),
                10: page % (rotation, b"/Resources<</Font<</F 5 0 R>>>>"),
                11: stream(b"\n".join(self._content)),
                12: stream(cmap),
            }
        )


def pages() -> list[Page]:
    """All of them."""
    return [
        *_ruled(),
        *_odd_grids(),
        *_aligned(),
        *_close_columns(),
        *_texts(),
        *_letters(),
        *_drawings(),
        *_lines_of_text(),
    ]


PRICES: Rows = [
    ["Item", "Pieces", "Price"],
    ["Green tea", "3", "12.50"],
    ["Cups", "12", "48.00"],
    ["Tray", "1", "9.95"],
]
STAFF: Rows = [["Name", "Role", "Town"], ["Ada Lovelace", "analyst", "London"], ["Grace Hopper", "admiral", "New York"]]
_AT = (60, 220, 330, 460)


def _fill(page: Drawn, rows: Rows, places: Sequence[float] = _AT, top: float = 700, step: float = 18) -> None:
    for row_at, row in enumerate(rows):
        for x, text in zip(places, row, strict=False):
            page.text(x + 4, top - step * row_at - 13, text)


def _grid(page: Drawn, rows: Rows, places: Sequence[float] = _AT, top: float = 700, step: float = 18) -> None:
    bottom, used = top - step * len(rows), places[: len(rows[0]) + 1]
    for at in range(len(rows) + 1):
        page.line(used[0], top - step * at, used[-1], top - step * at)
    for x in used:
        page.line(x, top, x, bottom)


def _prose(page: Drawn, x: float, y: float, width: int, lines: int, shift: int = 0) -> float:
    """Write lines of at most `width` characters; where the next one goes."""
    words = _WORDS[shift:] + _WORDS * (lines * width // 100 + 1)
    for line in textwrap.wrap(" ".join(words), width)[:lines]:
        page.text(x, y, line)
        y -= 12
    return y


def _ruled() -> Iterator[Page]:
    for code, shown in ((b"D83D", ""), (b"D83DDE00", "\U0001f600")):
        odd = Drawn()
        _fill(odd, STAFF)
        _grid(odd, STAFF)
        told = [[cell.replace("A", shown) for cell in row] for row in STAFF]
        yield Page(f"a letter that stands for {code.decode()}", odd.pdf(codes=b"<41><%s>" % code), [told])
    for name, rows in (("prices", PRICES), ("staff", STAFF)):
        page = Drawn()
        page.text(60, 760, "Above the table")
        _fill(page, rows)
        _grid(page, rows)
        page.text(60, 500, "Below the table")
        yield Page(f"grid of {name}", page.pdf(), [rows], ("Above the table", "Below the table"))
    boxes = Drawn()
    _fill(boxes, STAFF)
    for at in range(3):
        for left, right in pairwise(_AT):
            boxes.draw(f"{left} {682 - 18 * at} {right - left} 18 re S")
    yield Page("a box for each cell", boxes.pdf(), [STAFF])
    thin = Drawn()
    _fill(thin, PRICES)
    for at in range(5):
        thin.draw(f"60 {700 - 18 * at} 400 0.5 re f")
    for x in _AT:
        thin.draw(f"{x} 628 0.5 72 re f")
    yield Page("lines as thin boxes", thin.pdf(), [PRICES])
    moved = Drawn()
    moved.draw("q 1 0 0 1 20 10 cm")
    _grid(moved, PRICES)
    moved.draw("Q")
    _fill(moved, PRICES, [x + 20 for x in _AT], 710)
    yield Page("lines that are moved", moved.pdf(), [PRICES])
    wrapped = Drawn()
    rows = [["Part", "What it does"], ["Pump", "moves water up\nto the second floor"], ["Valve", "stops it"]]
    _grid(wrapped, rows, (60, 160, 400), step=36)
    for at, row in enumerate(rows):
        for x, text in zip((64, 164), row, strict=True):
            for below, line in enumerate(text.split("\n")):
                wrapped.text(x, 688 - 36 * at - 12 * below, line)
    told = [["Part", "What it does"], ["Pump", "moves water up to the second floor"], ["Valve", "stops it"]]
    yield Page("cells of several lines", wrapped.pdf(), [told])


def _odd_grids() -> Iterator[Page]:
    merged = Drawn()
    _grid(merged, PRICES[1:], top=682)
    merged.line(60, 700, 460, 700)
    merged.line(60, 682, 60, 700)
    merged.line(460, 682, 460, 700)
    merged.text(64, 687, "What was ordered in March and in April")
    _fill(merged, PRICES[1:], top=682)
    head = ["What was ordered in March and in April", "", ""]
    yield Page("a head over all columns", merged.pdf(), [[head, *PRICES[1:]]])
    frame = Drawn()
    _fill(frame, PRICES)
    for y in (700, 682, 628):
        frame.line(60, y, 460, y)
    for x in _AT:
        frame.line(x, 628, x, 700)
    yield Page("lines below the head only", frame.pdf(), [PRICES])
    two = Drawn()
    _fill(two, PRICES)
    _grid(two, PRICES)
    _fill(two, STAFF, top=500)
    _grid(two, STAFF, top=500)
    two.text(60, 560, "Between them")
    yield Page("two grids", two.pdf(), [PRICES, STAFF], ("Between them",))
    shaded = Drawn()
    for at in range(0, 4, 2):
        shaded.draw(f"0.9 g 60 {682 - 18 * at} 400 18 re f 0 g")
    _fill(shaded, PRICES)
    yield Page("shaded rows", shaded.pdf(), [PRICES])
    bar = Drawn()
    _fill(bar, [["a | b", "c"], ["1", "2"]])
    _grid(bar, [["a | b", "c"], ["1", "2"]])
    yield Page("a bar in a cell", bar.pdf(), [[["a | b", "c"], ["1", "2"]]])


def _aligned() -> Iterator[Page]:
    for size, font in ((10, "Helvetica"), (8, "Times-Roman"), (12, "Courier")):
        page = Drawn(size, font)
        y = _prose(page, 60, 800, 80 * 10 // size, 4)
        _fill(page, PRICES, top=y, step=size * 1.5)
        _prose(page, 60, 600, 80 * 10 // size, 4)
        yield Page(f"columns in {font}", page.pdf(), [PRICES], ("the river ran low",))
    right = Drawn()
    rows = [
        ["Year", "Sales", "Costs"],
        ["2023", "1,204.50", "980.00"],
        ["2024", "998.10", "1,010.75"],
        ["2025", "15.00", "7.20"],
    ]
    for at, row in enumerate(rows):
        for x, text in zip((100, 250, 400), row, strict=True):
            right.ending_at(x, 700 - 14 * at, text)
    yield Page("numbers that end at one place", right.pdf(), [rows])
    money = Drawn()
    bill = [["Tea", "3 pcs", "12,50 €"], ["Cups", "12 pcs", "48,00 €"], ["Tray", "1 pc", "9,95 €"]]
    _fill(money, [["Item", "Amount", "Price"], *bill])
    yield Page("numbers with units", money.pdf(), [[["Item", "Amount", "Price"], *bill]])
    pair = Drawn()
    rows = [["Town", "People"], ["Ulm", "128,928"], ["Bonn", "335,975"], ["Kiel", "247,717"]]
    _fill(pair, rows)
    yield Page("two columns with a head", pair.pdf(), [rows])
    holes = Drawn()
    rows = [
        ["Month", "Sun", "Rain"],
        ["May", "210", ""],
        ["June", "", "61"],
        ["July", "233", "70"],
        ["August", "220", "66"],
    ]
    _fill(holes, rows)
    yield Page("cells that are empty", holes.pdf(), [rows])
    book = Drawn()
    rows = [["Plant", "Colour", "Blooms"], ["Lupin", "blue", "in May"], ["Aster", "white", "in autumn"]]
    _fill(book, rows)
    for y in (702, 683, 640):
        book.line(55, y, 420, y)
    yield Page("words between rules", book.pdf(), [rows])
    longer = Drawn()
    _fill(
        longer,
        [
            ["Nr", "What", "Sum"],
            ["1", "Repair of the old", "120.00"],
            ["", "pump at the pier", ""],
            ["2", "Paint", "30.00"],
        ],
        step=13,
    )
    told = [["Nr", "What", "Sum"], ["1", "Repair of the old pump at the pier", "120.00"], ["2", "Paint", "30.00"]]
    yield Page("a cell that goes on below", longer.pdf(), [told])
    columnwise = Drawn()
    for x, column in zip(_AT, zip(*PRICES, strict=True), strict=False):
        for at, text in enumerate(column):
            columnwise.text(x, 700 - 15 * at, text)
    yield Page("written column by column", columnwise.pdf(), [PRICES])


def _close_columns() -> Iterator[Page]:
    tight = Drawn()
    rows = [
        ["Item", "Price", "Kept in"],
        ["Tea", "12.50 €", "a tin"],
        ["Cups", "8.00 €", "the case"],
        ["Tray", "9.95 €", "a bag"],
    ]
    for at, (item, price, place) in enumerate([*rows, ["Spoon", "1.25 €", "a box"]]):
        tight.text(60, 700 - 14 * at, item)
        tight.ending_at(200, 700 - 14 * at, price)
        tight.text(206, 700 - 14 * at, place)
    yield Page("columns that stand close", tight.pdf(), [[*rows, ["Spoon", "1.25 €", "a box"]]])
    long = Drawn()
    rows = [
        ["Item", "Price"],
        ["Tea", "12.50"],
        ["Cups", "8.00"],
        ["A tray of wood and steel", "9.95"],
        ["Spoons", "7.00"],
    ]
    for at, (item, price) in enumerate(rows):
        long.text(60, 700 - 14 * at, item)
        long.ending_at(198, 700 - 14 * at, price)
    yield Page("a long text before its number", long.pdf(), [rows])
    centred = Drawn()
    rows = [
        ["Item", "Pieces"],
        ["Green tea of the year", "120.00"],
        ["White cups of clay", "48.50"],
        ["A tray of wood", "9.95"],
    ]
    for at, (item, pieces) in enumerate(rows):
        centred.text(60 if at else 200, 700 - 14 * at, item)
        centred.text(300 if at else 420, 700 - 14 * at, pieces)
    yield Page("heads in the middle of their columns", centred.pdf(), [rows])


def _made(name: str, page: Drawn, *beside: str) -> Page:
    return Page(name, page.pdf(), (), beside)


def _texts() -> Iterator[Page]:
    for count, width in ((2, 44), (3, 27), (4, 18)):
        columns = Drawn()
        for at in range(count):
            _prose(columns, 50 + 510 / count * at, 780, width, 40, 7 * at)
        yield _made(f"prose in {count} columns", columns)
    for numbers in (False, True):
        listed = Drawn()
        for at in range(1, 9):
            listed.text(60, 760 - 24 * at, f"{at}." if numbers else "-")
            listed.text(84, 760 - 24 * at, "The pump is to be looked after by the people")
            listed.text(84, 748 - 24 * at, "of the town in every second year.")
        yield _made("a numbered list" if numbers else "a list", listed)
    contents = Drawn()
    contents.text(60, 780, "Contents", 14)
    for at, title in enumerate(("Beginnings", "The river and the town", "A hard summer", "How it ended"), 1):
        contents.text(60, 750 - 16 * at, f"{at} {title}")
        contents.ending_at(500, 750 - 16 * at, str(at * 17))
    yield _made("contents without dots", contents, "1 Beginnings")
    dotted = Drawn()
    for at, title in enumerate(("Beginnings", "The river and the town", "A hard summer"), 1):
        dotted.text(60, 750 - 16 * at, f"{title} {'.' * (90 - 2 * len(title))} {at * 17}")
    yield _made("contents with dots", dotted)


def _letters() -> Iterator[Page]:
    letter = Drawn()
    for at, (left, right) in enumerate(
        [("Ada Lovelace", "Tea & Sons"), ("12 Dorset Street", "4 High Street"), ("London W1", "York YO1")]
    ):
        letter.text(60, 780 - 14 * at, left)
        letter.text(360, 780 - 14 * at, right)
    _prose(letter, 60, 700, 85, 20)
    yield _made("addresses beside each other", letter, "Ada Lovelace")
    footer = Drawn(8)
    for at, row in enumerate(
        [
            ("Tea & Sons Ltd", "Bank of York", "Phone 01904 123456"),
            ("4 High Street", "IBAN GB29 NWBK", "tea@example.org"),
            ("York YO1 7EP", "BIC NWBKGB2L", "VAT GB 123"),
        ]
    ):
        for x, text in zip((60, 240, 420), row, strict=True):
            footer.text(x, 60 - 10 * at, text)
    yield _made("the foot of a letter", footer)
    form = Drawn()
    for at, (label, value) in enumerate([("Invoice no:", "4711"), ("Customer:", "1204"), ("Date:", "2026-03-02")]):
        form.text(60, 780 - 14 * at, label)
        form.text(160, 780 - 14 * at, value)
    yield _made("names with values", form, "4711")


def _drawings() -> Iterator[Page]:
    spaced = Drawn()
    for at in range(20):
        spaced.draw(f"{3 + at % 3} Tw")
        spaced.text(60, 780 - 12 * at, " ".join(_WORDS[at * 2 : at * 2 + 12]))
    spaced.draw("0 Tw")
    yield _made("prose with wide blanks", spaced)
    framed = Drawn()
    for x, shift in ((60, 0), (310, 9)):
        _prose(framed, x, 760, 44, 30, shift)
    for place in (
        (50, 780, 560, 780),
        (50, 380, 560, 380),
        (50, 380, 50, 780),
        (300, 380, 300, 780),
        (560, 380, 560, 780),
    ):
        framed.line(*place)
    yield _made("columns in a frame", framed)
    chart = Drawn()
    for at in range(6):
        chart.line(100, 300 + 40 * at, 500, 300 + 40 * at)
        chart.line(100 + 80 * at, 300, 100 + 80 * at, 500)
        chart.ending_at(95, 297 + 40 * at, str(at * 20))
        chart.text(95 + 80 * at, 285, str(2020 + at))
    chart.draw("100 320 m 180 400 l 260 360 l 340 470 l 420 430 l 500 480 l S")
    yield _made("a chart with a grid", chart, "2024")


def _lines_of_text() -> Iterator[Page]:
    code = Drawn(9, "Courier")
    for at, line in enumerate(
        ("def add(a, b):", "    return a + b   # both", "x  =  12", "yy =  7", "print(add(x, yy))")
    ):
        code.text(60, 780 - 11 * at, line)
    yield _made("a program", code)
    poem = Drawn()
    for at in range(12):
        poem.text(60 + 20 * (at % 2), 780 - 14 * at, " ".join(_WORDS[at * 4 : at * 4 + 5]))
    yield _made("a poem", poem)
    signed = Drawn()
    for x in (60, 320):
        signed.line(x, 200, x + 200, 200)
        signed.text(x, 188, "Place, date")
        signed.text(x, 176, "Signature")
    _prose(signed, 60, 700, 85, 20)
    yield _made("places to sign", signed, "Signature")
    speech = Drawn()
    for at in range(8):
        speech.text(60, 760 - 26 * at, ("ADA", "GRACE")[at % 2])
        speech.text(130, 760 - 26 * at, " ".join(_WORDS[at * 5 : at * 5 + 11]))
    yield _made("a play", speech)
    boxed = Drawn()
    boxed.draw("50 600 500 120 re S")
    _prose(boxed, 60, 700, 85, 8)
    yield _made("prose in a box", boxed)
    turned = Drawn()
    _fill(turned, PRICES)
    yield Page("a page on its side", turned.pdf(90), (), ("Green tea",))
    middle = Drawn()
    for at in range(4):
        for x, lines in zip(
            (60, 200, 340), (("Green tea", "of the year"), ("12.50",), ("kept in", "a tin")), strict=True
        ):
            for below, line in enumerate(lines):
                middle.text(x, 700 - 30 * at - 12 * below - (6 if len(lines) == 1 else 0), line)
    yield _made("cells in the middle of rows of two lines", middle, "12.50")
    sums = Drawn()
    for at in range(4):
        sums.text(200, 700 - 20 * at, f"a = b + {at} c")
        sums.text(480, 700 - 20 * at, f"({at + 1})")
    yield _made("numbered formulas", sums)
