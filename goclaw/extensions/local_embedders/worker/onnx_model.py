"""A model as `exporting` laid it down: onnxruntime, the tokenizer and numpy. Quick to begin, and small."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnxruntime import InferenceSession, SessionOptions
from tokenizers import Tokenizer

from goclaw.extensions.local_embedders.worker.model import CHARACTERS_PER_TOKEN, THREADS

MODEL, TOKENIZER, ABOUT = "model.onnx", "tokenizer.json", "about.json"


class OnnxModel:
    """A `Model`."""

    engine = "onnx"

    def __init__(self, folder: Path) -> None:
        about = json.loads((folder / ABOUT).read_text("utf-8"))
        self._before = {"query": str(about["query"]), "document": str(about["document"])}
        self._longest = int(about["longest"])
        self._tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(self._longest)
        options = SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = THREADS
        # The memory of a long text would be kept forever otherwise.
        options.enable_cpu_mem_arena = False
        self._session = InferenceSession(str(folder / MODEL), options, providers=["CPUExecutionProvider"])

    def portion(self, texts: Sequence[str]) -> int:
        """Return 1: several together are no quicker on one thread, and each would change how the others are rounded."""
        return 1

    def embed(self, texts: Sequence[str], query: bool) -> Any:
        """See `model.Model`."""
        return np.concatenate([self._embed(text, query) for text in texts])

    def _embed(self, text: str, query: bool) -> Any:
        before = self._before["query" if query else "document"]
        tokens = self._tokenizer.encode(before + text[: self._longest * CHARACTERS_PER_TOKEN]).ids
        given = {"input_ids": np.array([tokens], np.int64), "attention_mask": np.ones((1, len(tokens)), np.int64)}
        return self._session.run(None, given)[0]
