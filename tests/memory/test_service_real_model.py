"""Memory with the real MiniLM in a process of its own, where `EMBEDDING_PYTHON` names a Python that has it.

A small form of the benchmark of recall: what was told and what is asked have next to no word in common.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from goclaw.common.config.schema import Config
from goclaw.common.core.clock import RealClock
from goclaw.common.workspace import Workspace
from goclaw.extensions.local_embedders.local_runtime import PACKAGED_MODEL
from goclaw.memory.base import MemoryPort, TranscriptQuery
from goclaw.memory.service import open_memory
from tests.acceptance.waiting import clock
from tests.memory.test_service import Transcripts

PYTHON = "EMBEDDING_PYTHON"
ANNA = "tui:anna"
BUDGET = 100
"""Tokens that are shown: a fifth of all that was told."""
TOLD = {
    "We bought a new automobile, a dark blue one.": "Which car do I drive?",
    "My little girl began to play the cello at six.": "What instrument does my daughter have lessons in?",
    "The physician prescribed pills against my high blood pressure.": "What medicine did the doctor give me?",
    "We got hitched on a beach in Portugal.": "Where was our wedding?",
    "Our terrier barks whenever the mailman comes.": "What is our dog afraid of or angry about?",
    "I quit my job at the bank to open a bakery.": "Why did I leave my former employer?",
    "The heating broke down in the coldest week of the winter.": "When was it freezing in the house?",
    "Grandpa flew fighter planes during the war.": "Was somebody of my family a pilot?",
    "I cannot stand the taste of coriander.": "Which herb do I dislike?",
    "The thief took my bicycle from the station.": "What was stolen from me?",
    "Each morning I run five miles along the river.": "How do I keep fit?",
    "The flat above ours is being rented to students.": "Who lives upstairs?",
}
SMALL_TALK = [
    f"{subject} {rest}"
    for subject in ("The weather", "That film", "The meeting", "The new shop", "Our train", "The concert")
    for rest in ("was fine in the end.", "was late as always.", "could have been better.", "was full of people.")
]

pytestmark = [pytest.mark.long, pytest.mark.timeout(180)]


@asynccontextmanager
async def remembering(tmp_path: Path, embedder: str) -> AsyncIterator[MemoryPort]:
    """A memory that was told everything, far enough apart, when all of it has its vectors."""
    said, state = Transcripts(), tmp_path / embedder.partition(":")[0]
    state.mkdir()
    for number, told in enumerate([*SMALL_TALK[:12], *TOLD, *SMALL_TALK[12:]]):
        said.say(told, session=ANNA if number % 2 else "tui:evening")
    python = os.environ[PYTHON] if embedder != "none" else None
    memory = {"embedder": embedder, "embedder_python": python, "budget": BUDGET}
    config = Config.model_validate({"state_dir": state, "workspace": tmp_path / "workspace", "memory": memory})
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(asyncio.timeout(120))
        opened = await stack.enter_async_context(open_memory(state / "memory.db", config, RealClock(), said))
        await stack.enter_async_context(Workspace(tmp_path / "workspace", [state]))
        while embedder != "none":
            status = await opened.status()
            if status.to_embed and status.embedded == status.to_embed:
                break
            await clock.sleep(0.2)
        yield opened


async def found(memory: MemoryPort) -> tuple[set[str], set[str]]:
    """Which of the questions have their answer in what is shown, and how they were searched."""
    answered, modes = set[str](), set[str]()
    for told, question in TOLD.items():
        heard = await memory.search_transcripts(TranscriptQuery(question, [ANNA, "tui:evening"]), 5)
        modes.add(heard.mode)
        if any(line.text == told for quote in heard.quotes for line in quote.lines):
            answered.add(question)
    return answered, modes


async def test_the_real_model_finds_what_no_word_leads_to(tmp_path: Path) -> None:
    if PYTHON not in os.environ:
        pytest.skip(f"{PYTHON} is not set: it would name a Python with the extra `embeddings` and {PACKAGED_MODEL}")
    (tmp_path / "workspace").mkdir()
    async with remembering(tmp_path, "none") as memory:
        by_words, modes = await found(memory)
        assert modes == {"keyword"}
    async with remembering(tmp_path, f"sentence-transformers:{PACKAGED_MODEL}") as memory:
        await found(memory)  # the first query may have to wait for the model, and go without
        by_meaning, modes = await found(memory)
        assert modes == {"hybrid"}
    assert len(by_words) <= 6, by_words
    assert len(by_meaning) >= 9, TOLD.keys() - by_meaning
