"""Vectors from sentence-transformers, which lives in another interpreter: texts go there, vectors come back.

Nothing of that package is a dependency of GoClaw; `EMBEDDING_PYTHON` names a Python that has it.
"""

import json
import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

PYTHON_VARIABLE = "EMBEDDING_PYTHON"
_WORKER = Path(__file__).with_name("worker.py")

Vectors = dict[str, bytes]
"""By text: a signed byte per dimension, as `goclaw.memory.embedders.base` says."""


def given_python() -> str:
    """The interpreter that the environment names; empty for none."""
    return os.environ.get(PYTHON_VARIABLE, "")


def embedded(python: str, texts: Iterable[str]) -> Vectors:
    """The vector of each text.

    Raises:
        RuntimeError: the worker failed; the text is its last line.
    """
    asked = list(dict.fromkeys(texts))
    done = subprocess.run([python, str(_WORKER)], input=json.dumps(asked).encode(), capture_output=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.decode(errors="replace").strip().rpartition("\n")[2])
    width = len(done.stdout) // len(asked)
    return {text: done.stdout[number * width : (number + 1) * width] for number, text in enumerate(asked)}
