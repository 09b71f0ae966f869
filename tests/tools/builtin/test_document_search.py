"""`search` in documents: lines of their text, read once for each content, as the words of others."""

from pathlib import Path

import pytest

from goclaw.common.core.messages import SourceKind
from goclaw.testing import open_bench
from goclaw.tools.builtin import document_search
from goclaw.tools.builtin.search import search
from goclaw.tools.toolkit.documents import read_document
from tests.extensions.documents.made import docx, paragraph, pdf

pytestmark = pytest.mark.sandbox


async def test_a_search_finds_lines_of_documents_below_the_workspace(tmp_path: Path) -> None:
    async with open_bench(tmp_path, search) as bench:
        (bench.folder / "deep").mkdir()
        (bench.folder / "deep" / "terms.pdf").write_bytes(pdf(["Terms", "The fine is 77 EUR\nand more"]))
        (bench.folder / "letter.docx").write_bytes(docx(paragraph("No such word")))
        (bench.folder / "a.txt").write_text("a fine day\n")
        result = await bench.call("search", {"pattern": "fine", "context_lines": 0})
        named = await bench.call("search", {"pattern": "Fine|nothing", "path": "deep/terms.pdf"})
        only = await bench.call("search", {"pattern": "fine", "glob": "*.txt"})
    assert "a.txt (1 matching line)\n     1: a fine day" in result.content
    assert "deep/terms.pdf (1 matching line)\n     4: The fine is 77 EUR" in result.content
    assert "letter.docx" not in result.content
    assert result.provenance is not None and result.provenance.kind is SourceKind.DOCUMENT
    assert "     3- --- page 2 ---\n     4: The fine is 77 EUR\n     5- and more" in named.content
    assert "terms.pdf" not in only.content
    assert only.provenance is not None and only.provenance.kind is SourceKind.FILE


async def test_a_document_is_read_once_until_its_content_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 0

    async def counted(*given: object) -> object:
        nonlocal count
        count += 1
        return await read_document(*given)  # type: ignore[arg-type]  # what it was called with

    monkeypatch.setattr(document_search, "read_document", counted)
    async with open_bench(tmp_path, search) as bench:
        document = bench.folder / "a.pdf"
        document.write_bytes(pdf(["one apple"]))
        for _ in range(2):
            assert "one apple" in (await bench.call("search", {"pattern": "apple"})).content
        document.write_bytes(pdf(["two apples"]))
        assert "two apples" in (await bench.call("search", {"pattern": "apple"})).content
    assert count == 2


async def test_a_document_that_cannot_be_read_does_not_stop_a_search(tmp_path: Path) -> None:
    async with open_bench(tmp_path, search) as bench:
        (bench.folder / "a.pdf").write_bytes(pdf(["apple"], password="x"))
        (bench.folder / "b.pdf").write_bytes(pdf(["apple"]))
        result = await bench.call("search", {"pattern": "apple"})
    assert not result.is_error and "b.pdf (1 matching line)" in result.content and "a.pdf" not in result.content


async def test_a_search_that_shows_enough_says_that_documents_are_left(tmp_path: Path) -> None:
    async with open_bench(tmp_path, search) as bench:
        for name in ("a.pdf", "b.pdf"):
            (bench.folder / name).write_bytes(pdf([f"apple of {name}"]))
        result = await bench.call("search", {"pattern": "apple", "max_results": 1})
    assert result.content.count("apple of") == 1 and "there are more" in result.content
