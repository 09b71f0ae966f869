"""Makes of a sentence-transformers model what `onnx_model` reads, once: the network with its pooling, in int8.

It is tried on sentences, and only kept if it says nearly the same as the original.
"""

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from onnxruntime.quantization import QuantType, quantize_dynamic
from sentence_transformers import SentenceTransformer

from goclaw.extensions.local_embedders.worker.onnx_model import ABOUT, MODEL, TOKENIZER, OnnxModel
from goclaw.extensions.local_embedders.worker.torch_model import USUAL_LENGTH, load, prompts

OPSET = 17
LEAST_COSINE = 0.95
"""Between the original's vector and ours, for each sentence. MiniLM has 0.985 and more."""
MAX_BYTES = 1 << 30
"""Maximum bytes of weights: more does not fit into one file of the intermediate format."""
POOLINGS = ("mean", "cls")
SENTENCES = (
    "The cat sits on the mat.",
    "WHERE did Caroline go in June 2023?",
    "2024-05-03 Melanie: I painted a lake sunrise last year, and it is special to me.",
    "config.yaml: memory.embedder_idle = 300  # seconds, see https://example.org/docs?page=3",
    "Der Zug nach Köln fährt um 7:42 Uhr von Gleis drei; Anna hat die Fahrkarten.",
    "会議は来週の火曜日に延期されました。",
    "🙂 great!!!",
    " ".join(f"Number {number} of a text that is longer than most models read." for number in range(60)),
)


class NotExported(Exception):
    """The model stays as it is; the message says why."""


class _Pooled(torch.nn.Module):  # type: ignore[misc]  # the extra is not installed where types are checked
    """The network from tokens to one vector. Its length does not matter, so nothing normalises it."""

    def __init__(self, network: Any, mean: bool) -> None:
        super().__init__()
        self._network = network
        self._mean = mean

    def forward(self, input_ids: Any, attention_mask: Any) -> Any:
        words = self._network(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        if not self._mean:
            return words[:, 0]
        kept = attention_mask.unsqueeze(-1).to(words.dtype)
        return (words * kept).sum(1) / kept.sum(1).clamp(min=1e-9)


def export(model: Path, folder: Path, prefixes: Mapping[str, str]) -> float:
    """Write the model to `folder`, whole or not at all. Returns the least cosine to the original's vectors.

    Raises:
        NotExported: it is not of the plain form, or too different afterwards.
    """
    check_form(model)
    making = folder.with_name(f".{folder.name}.{os.getpid()}")
    making.mkdir(parents=True)
    try:
        library = load(str(model), attn_implementation="eager")
        pooling = pooling_of(library)
        before = prompts(library, prefixes)
        library.tokenizer.backend_tokenizer.save(str(making / TOKENIZER))
        about = {"longest": library.max_seq_length or USUAL_LENGTH, **before}
        (making / ABOUT).write_text(json.dumps(about), "utf-8")
        closeness = _lay_down(library, pooling, making, before["document"])
        if folder.exists():
            shutil.rmtree(folder)
        making.rename(folder)
    finally:
        shutil.rmtree(making, ignore_errors=True)
    return closeness


def check_form(model: Path) -> None:
    """Check the form before anything is loaded.

    Raises:
        NotExported: not a transformer with a pooling after it, and nothing else but a normalisation; or too large.
    """
    try:
        modules = json.loads((model / "modules.json").read_text("utf-8"))
        kinds = [str(module["type"]).rpartition(".")[2] for module in modules]
        own_code = "auto_map" in json.loads((model / "config.json").read_text("utf-8"))
    except (OSError, ValueError, KeyError, TypeError):
        raise NotExported("its folder has no modules.json and config.json of sentence-transformers") from None
    if kinds not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]) or own_code:
        raise NotExported(f"it is made of {', '.join(kinds)}, not of a plain transformer and a pooling")
    weights = sum(file.stat().st_size for file in model.iterdir() if file.suffix in (".safetensors", ".bin"))
    if weights > MAX_BYTES:
        raise NotExported(f"its weights have {weights >> 20} MB")


def pooling_of(library: SentenceTransformer) -> str:
    """Return `mean` or `cls`. Raises NotExported for another one."""
    pooling = library[1]
    # Another name in each major version of the library.
    mode = str(getattr(pooling, "pooling_mode", "") or pooling.get_pooling_mode_str())
    if mode not in POOLINGS or not pooling.include_prompt:
        raise NotExported(f"its pooling is `{mode}`")
    return mode


def _lay_down(library: SentenceTransformer, pooling: str, making: Path, before: str) -> float:
    """Write the network in int8, with full range if this processor bears it (those without VNNI clip), else less."""
    wide = making / "wide.onnx"
    _write(_Pooled(library[0].auto_model, pooling == "mean").eval(), wide)
    expected = unit(library.encode(list(SENTENCES), prompt=before, show_progress_bar=False))
    closeness = 0.0
    for less in (False, True):
        quantize_dynamic(wide, making / MODEL, weight_type=QuantType.QInt8, per_channel=True, reduce_range=less)
        found = unit(OnnxModel(making).embed(SENTENCES, query=False))
        closeness = float((found * expected).sum(axis=1).min())
        if closeness >= LEAST_COSINE:
            wide.unlink()
            return closeness
    raise NotExported(f"in int8 it is too different: a cosine of {closeness:.3f}")


def _write(network: torch.nn.Module, path: Path) -> None:
    ids = torch.tensor([[101, 2023, 2003, 102], [101, 2054, 102, 102]])
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0]])
    free = {0: "texts", 1: "tokens"}
    torch.onnx.export(
        network,
        (ids, mask),
        str(path),
        opset_version=OPSET,
        input_names=["input_ids", "attention_mask"],
        output_names=["vector"],
        dynamic_axes={"input_ids": free, "attention_mask": free, "vector": {0: "texts"}},
        dynamo=False,  # the newer exporter needs one more package
    )


def unit(vectors: Any) -> Any:
    """Scale each row to length one."""
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
