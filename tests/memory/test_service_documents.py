"""Documents of configured folders: found by their text once they are read, behind the notes."""

import asyncio
from pathlib import Path

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


async def found_at_last(home: Home, query: str, paths: list[str]) -> None:
    """Time passes until a search finds these files."""
    while await home.found(query) != paths:
        home.clock.advance(SETTLE)
        await asyncio.sleep(0)
