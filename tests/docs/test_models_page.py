"""docs/models.md: its table says what the code would choose."""

import re

from goclaw.common.config.schema import ProviderSettings
from goclaw.llm.ollama_facts import Footprint, fitting_window, token_bytes
from tests import house

PAGE = house.ROOT / "docs" / "models.md"
ROW = re.compile(
    r"^\| (\d+) GB \| `(\S+)` \| ([\d.]+) \| (\d+) \| (\d+) \| (\d+) \| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \|$",
    re.MULTILINE,
)
MADE_FOR = {
    "qwen3:30b": 262_144,
    "qwen3:4b": 262_144,
    "llama3.2:1b": 131_072,
    "llama3.2:3b": 131_072,
    "gpt-oss:20b": 131_072,
}
"""Tokens, where it is not the 40,960 of Qwen 3."""


def number(text: str) -> int:
    return int(text.replace(",", ""))


def test_every_row_is_what_would_be_chosen_on_such_a_machine() -> None:
    rows = ROW.findall(PAGE.read_text("utf-8"))
    assert {int(memory) for memory, *_ in rows} == {4, 8, 16, 32, 64}
    for memory, name, size, layers, heads, head, token, window, raised in rows:
        keys = ("block_count", "attention.key_length", "attention.value_length")
        facts = {f"m.{key}": int(value) for key, value in zip(keys, (layers, head, head), strict=True)}
        assert token_bytes({"general.architecture": "m", **facts}, int(heads)) == number(token), name
        footprint, free = Footprint(number(token), int(float(size) * 10**9)), int(memory) * 3 * (1 << 30) // 4
        own = MADE_FOR.get(name, 40_960)
        usual = min(own, ProviderSettings().max_context)
        assert fitting_window(footprint, free, usual) == number(window), name
        assert fitting_window(footprint, free, min(own, 131_072)) == number(raised), name
