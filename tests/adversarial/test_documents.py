"""Hostile documents: each is answered in words within its time, reaches nothing, and leaves nothing behind."""

import asyncio
import os
from pathlib import Path

import pytest

from goclaw.testing import Bench, open_bench
from goclaw.tools.builtin.read import read
from tests.adversarial.hostile_documents import FAMILIES, SECRET, Hostile
from tests.lanes import repeats

STEP = repeats(4, 1)
"""The short lane tries one of four of each family."""
MAX_ANSWER = 120_000
"""Characters of an answer: `tools.read.max_bytes` with line numbers and a head."""
PASSWORDS = Path("/etc/passwd").read_text().partition("\n")[0]


def test_there_are_eighty_hostile_documents() -> None:
    assert sum(len(family) for family in FAMILIES.values()) >= 80


@pytest.mark.slow
@pytest.mark.deep
@pytest.mark.sandbox
@pytest.mark.timeout(300)
@pytest.mark.promise("P-documents-contained")
@pytest.mark.parametrize("family", FAMILIES)
async def test_a_hostile_document_is_answered_in_words_and_reaches_nothing(family: str, tmp_path: Path) -> None:
    async with open_bench(tmp_path, read) as bench:
        wrong = [fault for each in FAMILIES[family][::STEP] if (fault := await fault_of(bench, each))]
        assert os.listdir(bench.folder) == []  # noqa: PTH208 -- names are enough
    assert not wrong


async def fault_of(bench: Bench, hostile: Hostile) -> str:
    """Have a document read; what is wrong with the answer, empty: nothing."""
    path = bench.folder / hostile.name
    path.write_bytes(await asyncio.to_thread(hostile.make))
    result = await bench.call("read", {"path": hostile.name, **hostile.wanted})
    path.unlink()
    told = result.content
    faults = [
        f"no {hostile.words!r}" if hostile.words not in told else "",
        "too long" if len(told) > MAX_ANSWER else "",
        "a secret is in it" if SECRET in told or PASSWORDS in told else "",
        "not the words of others" if not result.foreign else "",
        "no words" if result.is_error and hostile.name not in told else "",
    ]
    return f"{hostile.name}: {', '.join(filter(None, faults))}: {told[:300]}" if any(faults) else ""
