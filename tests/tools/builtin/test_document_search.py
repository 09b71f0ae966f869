"""`search` in documents: lines of their text, read once for each content, as the words of others."""

from pathlib import Path

import pytest

from goclaw.common.core.messages import SourceKind
from goclaw.extensions.documents import reading
from goclaw.testing import open_bench
from goclaw.tools.builtin import document_search
from goclaw.tools.builtin.search import search
from goclaw.tools.toolkit.base import ToolEnvironment
from goclaw.tools.toolkit.documents import Document, Selection, SourceFile, read_document
from tests.extensions.documents.made import docx, mail, paragraph, pdf, zipped

pytestmark = pytest.mark.sandbox
HANG = "import threading; threading.Event().wait()"
"""The program of a reader that never answers."""


@pytest.fixture(autouse=True)
def slow_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests run beside others, so that a document may take longer than a search gives it."""
    monkeypatch.setattr(document_search, "SECONDS", 9.0)


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


@pytest.fixture
def names_read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The documents that were read, in their order."""
    names: list[str] = []

    async def noted(environment: ToolEnvironment, source: SourceFile, wanted: Selection) -> Document:
        names.append(source.name)
        return await read_document(environment, source, wanted)

    monkeypatch.setattr("goclaw.tools.toolkit.documents.read_document", noted)
    return names


async def test_a_document_is_read_once_until_its_content_changes(tmp_path: Path, names_read: list[str]) -> None:
    async with open_bench(tmp_path, search) as bench:
        document = bench.folder / "a.pdf"
        document.write_bytes(pdf(["one apple"]))
        for _ in range(2):
            assert "one apple" in (await bench.call("search", {"pattern": "apple"})).content
        document.write_bytes(pdf(["two apples"]))
        assert "two apples" in (await bench.call("search", {"pattern": "apple"})).content
    assert names_read == ["a.pdf"] * 2


async def test_of_documents_that_were_read_the_latest_stay_within_a_bound_of_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names_read: list[str]
) -> None:
    monkeypatch.setattr(document_search, "_texts", document_search._Texts(1_000))
    async with open_bench(tmp_path, search) as bench:
        for name in ("a.pdf", "b.pdf"):
            (bench.folder / name).write_bytes(pdf(["\n".join(["an apple pie"] * 50)]))
            for _ in range(2):
                assert "apple" in (await bench.call("search", {"pattern": "apple", "path": name})).content
        await bench.call("search", {"pattern": "apple", "path": "a.pdf"})
    assert names_read == ["a.pdf", "b.pdf", "a.pdf"]


async def test_a_slow_document_costs_other_documents_nothing_and_is_not_waited_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names_read: list[str]
) -> None:
    async with open_bench(tmp_path, search) as bench:
        (bench.folder / "b.pdf").write_bytes(pdf(["apple"]))
        await bench.call("search", {"pattern": "apple", "path": "b.pdf"})
        (bench.folder / "a-slow.pdf").write_bytes(pdf(["a slow apple"]))
        monkeypatch.setattr(reading, "BOOT", HANG)
        monkeypatch.setattr(document_search, "SECONDS", 1.0)
        whole = await bench.call("search", {"pattern": "apple"})
        terms = await bench.call("search", {"pattern": "nothing|no such|appl.$"})
    for result in (whole, terms):
        assert "b.pdf (1 matching line)" in result.content, result.content
        assert "[not searched, cannot be read: 1 file (a-slow.pdf); name one as path to see why]" in result.content
    assert names_read == ["b.pdf", "a-slow.pdf"]


async def test_all_terms_of_a_search_share_one_time_for_documents_and_lose_no_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names_read: list[str]
) -> None:
    monkeypatch.setattr(reading, "BOOT", HANG)
    async with open_bench(tmp_path, search, tools={"search": {"timeout": 3}}) as bench:
        (bench.folder / "a.pdf").write_bytes(pdf(["an apple for all terms"]))
        (bench.folder / "a.txt").write_text("apple\n")
        result = await bench.call("search", {"pattern": "(nothing|no such|apple"})
    assert "a.txt (1 matching line)" in result.content and "the time or the room for all files" in result.content
    assert names_read == ["a.pdf"]


async def test_a_document_that_cannot_be_read_does_not_stop_a_search(tmp_path: Path) -> None:
    async with open_bench(tmp_path, search) as bench:
        (bench.folder / "a.pdf").write_bytes(pdf(["apple"], password="x"))
        (bench.folder / "b.pdf").write_bytes(pdf(["apple"]))
        result = await bench.call("search", {"pattern": "apple"})
        named = await bench.call("search", {"pattern": "apple", "path": "a.pdf"})
    assert not result.is_error and "b.pdf (1 matching line)" in result.content
    assert "[not searched, cannot be read: 1 file (a.pdf); name one as path to see why]" in result.content
    assert named.is_error and "a.pdf is encrypted" in named.content


async def test_a_search_that_reads_all_documents_says_how_much_there_is(tmp_path: Path) -> None:
    async with open_bench(tmp_path, search) as bench:
        (bench.folder / "a.pdf").write_bytes(pdf(["\n".join(f"apple {number}" for number in range(15))]))
        result = await bench.call("search", {"pattern": "apple", "context_lines": 0})
        named = await bench.call("search", {"pattern": "apple", "context_lines": 0, "path": "a.pdf"})
    assert "[10 of 15 matching lines; narrow it with path or glob" in result.content
    assert named.content.count("apple") == 15 and "narrow" not in named.content


async def test_letters_and_mails_are_searched_by_their_text_else_as_they_are(tmp_path: Path) -> None:
    async with open_bench(tmp_path, search) as bench:
        (bench.folder / "a.rtf").write_bytes(rb"{\rtf1 an \b ap\b0 ple}")
        (bench.folder / "b.eml").write_bytes(mail("Ein Apple für März"))
        (bench.folder / "c.eml").write_text("no mail, an apple\n")
        (bench.folder / "d.zip").write_bytes(zipped({"apple.txt": "an apple"}))
        result = await bench.call("search", {"pattern": "apple( für März)?", "context_lines": 0})
    assert "a.rtf (1 matching line)" in result.content and "Ein Apple für März" in result.content
    assert "c.eml (1 matching line)\n     1: no mail, an apple" in result.content and "d.zip" not in result.content


async def test_a_search_that_shows_enough_says_that_documents_are_left(tmp_path: Path) -> None:
    async with open_bench(tmp_path, search) as bench:
        for name in ("a.pdf", "b.pdf"):
            (bench.folder / name).write_bytes(pdf([f"apple of {name}"]))
        result = await bench.call("search", {"pattern": "apple", "max_results": 1})
    assert result.content.count("apple of") == 1
    assert "[1 matching lines, there are more; narrow it with path or glob" in result.content
