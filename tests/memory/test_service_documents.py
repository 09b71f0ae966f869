"""Documents of configured folders: found by their text once they are read, behind the notes."""

import asyncio
import os
from pathlib import Path

import pytest

from goclaw.errors import ToolError
from goclaw.memory.vector_search import SETTLE
from tests.memory.test_service import Home, at_home


async def test_documents_of_the_configured_folders_are_found_by_their_text_and_left_out_where_they_cannot_be_read(
    tmp_path: Path,
) -> None:
    given = list[str]()

    async def text_of(name: str, data: bytes) -> str:
        given.append(name)
        if b"broken" in data:
            raise ToolError("is damaged")
        return f"text of {data.decode()}"

    async with at_home(tmp_path, document_text=text_of, documents=["papers"]) as home:
        for path, text in {
            "papers/deep/a.PDF": "the blue fence",
            "papers/b.docx": "broken fence",
            "papers/c.txt": "a plain fence",
            "papers/d.jpg": "a picture of a fence",
            "elsewhere/e.pdf": "another fence",
        }.items():
            home.write(path, text)
        await found_at_last(home, "blue", ["papers/deep/a.PDF"])
        assert sorted(await home.found("fence")) == ["papers/c.txt", "papers/deep/a.PDF"]
        home.write("papers/deep/a.PDF", "the green tower")
        await found_at_last(home, "tower", ["papers/deep/a.PDF"])
        assert await home.found("blue") == []
    assert sorted(given) == ["papers/b.docx", "papers/deep/a.PDF", "papers/deep/a.PDF"]


async def test_a_document_that_is_named_among_the_notes_is_read_too(tmp_path: Path) -> None:
    async def text_of(name: str, data: bytes) -> str:
        return data.decode()

    async with at_home(tmp_path, document_text=text_of, paths=["letter.eml"]) as home:
        home.write("letter.eml", "the blue fence")
        await found_at_last(home, "blue", ["letter.eml"])


async def test_a_document_that_cannot_be_read_now_stops_no_other_one_and_is_read_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    faults: dict[str, Exception] = {}

    async def text_of(name: str, data: bytes) -> str:
        if name in faults:
            raise faults[name]
        return data.decode()

    slow = ToolError("it took more than 30 s")
    slow.__cause__ = TimeoutError()
    async with at_home(tmp_path, document_text=text_of, documents=["papers"]) as home:
        faults |= {"papers/a.pdf": OSError("no space"), "papers/b.pdf": slow}
        for name in ("a", "b", "c"):
            home.write(f"papers/{name}.pdf", "the blue fence")
        await found_at_last(home, "blue", ["papers/c.pdf"])
        assert "failed" not in caplog.text
        faults.clear()
        home.clock.advance(3600)
        await found_at_last(home, "blue", ["papers/a.pdf", "papers/b.pdf", "papers/c.pdf"])
        faults["papers/c.pdf"] = ToolError("is damaged")
        home.write("papers/c.pdf", "the red fence")
        await found_at_last(home, "blue", ["papers/a.pdf", "papers/b.pdf"])


async def test_a_folder_of_documents_is_looked_through_no_more_often_than_one_of_notes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked, scandir = list[object](), os.scandir

    def counted(folder: int) -> object:
        looked.append(folder)
        return scandir(folder)

    counts = list[int]()
    for paths, documents in ((["papers"], []), ([], ["papers"])):
        async with at_home(tmp_path, alone=True, paths=paths, documents=documents) as home:
            home.write("papers/deep/a.md", "the blue fence")
            home.write("papers/b.TXT", "the blue fence")
            with monkeypatch.context() as patch:
                patch.setattr("goclaw.common.workspace.finding.os.scandir", counted)
                found = await home.found("blue")
        assert found == (["papers/b.TXT", "papers/deep/a.md"] if documents else ["papers/deep/a.md"])
        counts.append(len(looked))
        looked.clear()
    assert counts[1] <= counts[0]


async def found_at_last(home: Home, query: str, paths: list[str]) -> None:
    """Time passes until a search finds these files."""
    async with asyncio.timeout(20):
        while sorted(await home.found(query)) != paths:
            home.clock.advance(SETTLE)
            await asyncio.sleep(0)
