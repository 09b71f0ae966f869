"""The real MiniLM in its process, where `EMBEDDING_PYTHON` names a Python with it and the extra `embeddings`."""

import asyncio
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from goclaw.common.config.schema import Config
from goclaw.common.core.clock import RealClock
from goclaw.extensions.local_embedders.local import LIBRARY, TO_EXPORT, open_local
from goclaw.extensions.local_embedders.local_runtime import PACKAGED_MODEL, Interpreter, interpreter, module_of
from goclaw.memory.embedding import open_embedder

PYTHON = "EMBEDDING_PYTHON"
SPEC = f"sentence-transformers:{PACKAGED_MODEL}"
ABOUT = {
    "When did they go hiking?": "Anna: We walked up the mountain last Saturday, what a trail!",
    "Which food does he like?": "Ben: Nothing beats a bowl of noodles with peanut sauce.",
    "How is the deploy started?": "The release is rolled out by a script in the folder ops.",
}

pytestmark = [pytest.mark.long, pytest.mark.timeout(180)]


@pytest.fixture
async def python() -> Interpreter:
    """The Python that is named."""
    path = os.environ.get(PYTHON, "")
    if not path:
        pytest.skip(f"{PYTHON} is not set: it would name a Python with the extra `embeddings` and {PACKAGED_MODEL}")
    found = await interpreter(Path(path), (LIBRARY, *TO_EXPORT, module_of(PACKAGED_MODEL)))
    if not found.has(LIBRARY, module_of(PACKAGED_MODEL)):
        pytest.skip(f"{PYTHON} names a Python without sentence-transformers or {PACKAGED_MODEL}")
    return found


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The state folder of all tests: the small form is made once."""
    return tmp_path_factory.mktemp("state")


def compared(some: list[bytes], others: list[bytes]) -> "np.ndarray[tuple[int, int], np.dtype[np.float64]]":
    """The cosine of each with each."""
    rows, columns = (np.array([np.frombuffer(one, np.int8) for one in vectors], float) for vectors in (some, others))
    rows, columns = (each / np.linalg.norm(each, axis=1, keepdims=True) for each in (rows, columns))
    found: np.ndarray[tuple[int, int], np.dtype[np.float64]] = rows @ columns.T
    return found


def settings(state: Path, python: Interpreter, **memory: Any) -> Config:
    """A configuration with this Python."""
    return Config.model_validate({"state_dir": state, "memory": {"embedder_python": python.path, **memory}})


async def test_what_means_the_same_is_near_by_torch_and_by_the_small_form_and_across(
    python: Interpreter, state: Path
) -> None:
    alone = replace(python, packages={name: at for name, at in python.packages.items() if name not in TO_EXPORT})
    ways = [alone, python] if python.has(*TO_EXPORT) else [alone]
    questions, answers, names = [], [], set()
    for way in ways:
        async with open_local(SPEC, settings(state, python), RealClock(), way) as embedder:
            names.add(embedder.name)
            answers.append(list(await embedder.embed(list(ABOUT.values()))))
            questions.append(list(await embedder.embed(list(ABOUT), query=True)))
    assert len(names) == 1
    for asked in questions:
        for told in answers:
            assert compared(asked, told).argmax(axis=1).tolist() == [0, 1, 2]
    assert compared(answers[0], answers[-1]).diagonal().min() >= 0.97


async def test_the_small_form_is_made_once_and_runs_without_torch(python: Interpreter, state: Path) -> None:
    if not python.has(*TO_EXPORT):
        pytest.skip(f"{PYTHON} names a Python without onnx and onnxruntime")
    async with open_embedder(SPEC, settings(state, python), RealClock()) as embedder:
        (first,) = await embedder.embed(["the same text"])
    made = {path: path.stat().st_mtime_ns for path in (state / "models").rglob("*")}
    assert {path.suffix for path in made if path.is_file()} == {".onnx", ".json"}
    # Torch alone would be more than these 200 MB.
    narrow = settings(state, python, embedder_memory=200)
    async with asyncio.timeout(20), open_embedder(SPEC, narrow, RealClock()) as embedder:
        found = await embedder.embed(["the same text", "another " * 400, *(f"text {number}" for number in range(40))])
    assert found[0] == first and {len(vector) for vector in found} == {384}
    assert {path: path.stat().st_mtime_ns for path in (state / "models").rglob("*")} == made
