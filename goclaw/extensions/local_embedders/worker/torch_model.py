"""A model by sentence-transformers, on torch: any that this library can load. Slow to begin, and large."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from sentence_transformers import SentenceTransformer

from goclaw.extensions.local_embedders.worker.model import CHARACTERS_PER_TOKEN, THREADS

TOKENS_AT_ONCE = 512
"""Tokens of a portion, its shorter texts padded: a tenth of a second."""
CHARACTERS = 3
"""That make a token, for portions: cautious for English."""
USUAL_LENGTH = 512
"""Tokens that a model reads which does not say it."""


class TorchModel:
    """A `Model`."""

    engine = "torch"

    def __init__(self, name: str, prefixes: Mapping[str, str]) -> None:
        self.library = load(name)
        self.before = prompts(self.library, prefixes)
        self.longest = self.library.max_seq_length or USUAL_LENGTH

    def portion(self, texts: Sequence[str]) -> int:
        """See `model.Model`. The texts come shortest first."""
        for count, text in enumerate(texts, 1):
            tokens = min(len(text) // CHARACTERS + 1, self.longest)
            if count * tokens > TOKENS_AT_ONCE:
                return max(1, count - 1)
        return len(texts)

    def embed(self, texts: Sequence[str], query: bool) -> Any:
        """See `model.Model`."""
        cut = [text[: self.longest * CHARACTERS_PER_TOKEN] for text in texts]
        before = self.before["query" if query else "document"]
        return self.library.encode(cut, prompt=before, batch_size=len(cut), show_progress_bar=False)


def load(name: str, **options: str) -> SentenceTransformer:
    """Return the library's own model: on the processor, running no code that comes with it."""
    torch.set_num_threads(THREADS)
    torch.set_grad_enabled(False)
    return SentenceTransformer(name, device="cpu", trust_remote_code=False, model_kwargs=options)


def prompts(library: SentenceTransformer, prefixes: Mapping[str, str]) -> dict[str, str]:
    """Return the prompts before queries and before documents: the model's own, else those known for its name."""
    own = {name: text for name, text in library.prompts.items() if text}
    if not own:
        return dict(prefixes)
    usual = own.get(library.default_prompt_name or "", "")
    document = next((own[name] for name in ("document", "passage", "corpus") if name in own), usual)
    return {"query": own.get("query", usual), "document": document}
