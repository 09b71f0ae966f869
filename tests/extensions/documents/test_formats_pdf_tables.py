"""Tables of PDF pages become Markdown, whole and nothing else; columns of prose, lists and charts stay text."""

import io
from collections import Counter

from goclaw.extensions.documents.formats.answer import Wanted
from goclaw.extensions.documents.formats.flow import table as markdown
from goclaw.extensions.documents.worker import extract
from tests.extensions.documents.pdf_pages import Page, pages
from tests.tables import table

PAGES = pages()


def test_the_corpus_has_as_many_pages_without_tables_as_with_some() -> None:
    counted = Counter(bool(page.tables) for page in PAGES)
    assert counted[True] >= 20 and counted[False] >= 20


@table("page", PAGES, ids=lambda page: page.name)
def test_a_page_has_its_tables_and_no_others(page: Page) -> None:
    told = "\n".join(extract(io.BytesIO(page.data), Wanted("a.pdf")).texts)
    for rows in page.tables:
        assert markdown(rows) in told
    assert sum(line.startswith("| ---") for line in told.split("\n")) == len(page.tables), told
    assert all(line in told for line in page.beside)


def test_every_word_of_a_page_with_tables_is_there_once() -> None:
    for page in PAGES:
        told = Counter("\n".join(extract(io.BytesIO(page.data), Wanted("a.pdf")).texts).split())
        assert all(told[cell] == 1 for rows in page.tables for row in rows for cell in row if cell.isalpha()), page.name
