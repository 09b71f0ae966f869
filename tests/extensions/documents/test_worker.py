"""Selectors that select nothing are answered in words that say what there is."""

import io

import pytest

from goclaw.extensions.documents.formats.answer import Refused, Wanted
from goclaw.extensions.documents.worker import extract
from tests.extensions.documents.made import docx, mail, paragraph, pdf, sheet_row, xlsx, zipped

BOOK = xlsx({"People": sheet_row(1, A="5"), "Costs": sheet_row(1, A="7")})


@pytest.mark.parametrize(
    ("name", "data", "wanted", "words"),
    [
        ("a.pdf", pdf(["x", "y"]), {"pages": "3-4"}, "has 2 pages, so none in 3-4"),
        ("a.pdf", pdf(["x"]), {"pages": "two"}, "has no pages 'two'; write them as 3-7, 1,4 or 12"),
        ("a.docx", docx(paragraph("x")), {"pages": "2"}, "has 1 page, so none in 2"),
        ("a.xlsx", BOOK, {"sheet": "Nothing"}, "its sheets are People, Costs"),
        ("a.xlsx", BOOK, {"sheet": "Other!A1:B2"}, "has no sheet 'Other'; it has People, Costs"),
        ("a.zip", zipped({"a.txt": b"x"}), {"member": "b.txt"}, "has no file 'b.txt'; it has a.txt"),
        ("a.eml", mail("x", attachments={"a.txt": b"x"}), {"member": "b"}, "has no attachment 'b'; it has a.txt"),
        ("a.bin", b"\0\1\2", {}, "is of a kind that is not read"),
        ("a.pdf", b"", {}, "is empty"),
    ],
)
def test_a_selection_of_nothing_says_what_there_is(name: str, data: bytes, wanted: dict[str, str], words: str) -> None:
    with pytest.raises(Refused) as raised:
        extract(io.BytesIO(data), Wanted(name, **wanted))  # type: ignore[arg-type]  # texts only
    assert words in str(raised.value)


def test_the_next_part_that_an_answer_names_continues_it() -> None:
    rows = "".join(sheet_row(at, A=str(at), B=f"value {at}") for at in range(1, 301))
    book, seen, sheet = xlsx({"A b": rows, "C": ""}), list[str](), ""
    while sheet or not seen:
        answer = extract(io.BytesIO(book), Wanted("a.xlsx", sheet=sheet, characters=2_000))
        seen += [line for line in "\n".join(answer.texts).split("\n") if "value" in line]
        sheet = answer.rest.removeprefix('sheet="').removesuffix('"')
    assert seen == [f"{at} | {at} | value {at}" for at in range(1, 301)]
