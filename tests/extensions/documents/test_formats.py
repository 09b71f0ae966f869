"""What the readers find in sixty documents of all formats; they run here without their process and its containment."""

import io
import json
from pathlib import Path

import pytest

from goclaw.extensions.documents.formats.answer import Answer, Wanted
from goclaw.extensions.documents.reading import document_of
from goclaw.extensions.documents.worker import extract
from tests.extensions.documents.corpus import Case, cases
from tests.extensions.documents.made import pdf
from tests.tables import table

CASES = cases()


def test_the_corpus_has_sixty_documents() -> None:
    assert len(CASES) >= 60


@table("case", CASES, ids=lambda case: case.name)
def test_the_facts_of_a_document_are_found(case: Case) -> None:
    told = show(extract(io.BytesIO(case.data), Wanted(case.name, **case.wanted)))  # type: ignore[arg-type]  # a table's
    missing = [fact for fact in case.facts if fact not in told]
    assert not missing, f"not in {told[:1_500]}"
    assert not [fact for fact in case.absent if fact in told]


def test_scanned_pages_are_read_from_their_pictures_only_where_that_is_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "tesseract"
    program.write_text("#!/bin/sh\ncat >/dev/null\necho Invoice 4711\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    scan = pdf([""], scanned=True)
    read, passed_over = (show(extract(io.BytesIO(scan), Wanted("a.pdf", scans=scans))) for scans in (True, False))
    assert "Invoice 4711" in read and "Invoice" not in passed_over and "[a picture without text]" in passed_over


def show(answer: Answer) -> str:
    """The answer as the daemon shows it."""
    document = document_of("it", json.dumps(answer.as_json()).encode(), 1 << 20)
    return f"{document.head}\n{document.content}"
