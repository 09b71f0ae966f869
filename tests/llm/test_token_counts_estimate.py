"""The estimate of tokens: a sum over characters, as good for one script as for another. How good: `benchmarks`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goclaw.common.core.messages import AssistantMessage, Image, Message, ToolCall, ToolResult, UserMessage
from goclaw.common.specs import ToolSpec
from goclaw.llm.base import Request
from goclaw.llm.token_counts import PER_IMAGE, PER_MESSAGE, estimate_message, estimate_request, estimate_text

# What o200k, Llama 3, Qwen, Mistral, DeepSeek and Claude's old tokenizer say on average.
COUNTED = {
    "The harbour is closed until Friday, so the boats stay outside and we wait for the wind to turn.": 21,
    "Der Hafen bleibt bis Freitag geschlossen, deshalb warten die Boote draußen auf besseren Wind.": 25,
    "Порт закрыт до пятницы, поэтому лодки стоят на рейде и ждут хорошего ветра.": 29,
    "港口关闭到星期五，所以船都停在外面等风向改变。": 19,
    "def total(prices: list[float]) -> float:\n    return sum(price * 1.19 for price in prices)\n": 27,
    '{"id": 4711, "name": "lobster", "tags": ["red", "large"], "price": 19.5}': 32,
}


@pytest.mark.parametrize("text", COUNTED, ids=lambda text: text[:12])
def test_it_is_near_what_real_tokenizers_count(text: str) -> None:
    assert estimate_text(text) == pytest.approx(COUNTED[text], rel=0.3)


def test_nothing_has_no_tokens_and_anything_has_one() -> None:
    assert estimate_text("") == 0
    assert estimate_text(".") == 1


@given(st.text(), st.text())
def test_parts_weigh_what_the_whole_weighs(first: str, second: str) -> None:
    whole, parts = estimate_text(first + second), estimate_text(first) + estimate_text(second)
    assert whole <= parts <= whole + 1


def test_half_a_character_is_no_trouble() -> None:
    assert estimate_text("\ud83d") == 1


def test_everything_that_is_sent_counts() -> None:
    call = ToolCall("c", "write", {"path": "a.txt", "content": "word " * 100})
    said: list[Message] = [
        UserMessage("hello", (Image("0" * 64, "image/png"),)),
        AssistantMessage("so", (call,)),
        ToolResult("c", "write", "written"),
    ]
    tool = ToolSpec("write", "Writes a file.", {"type": "object", "properties": {"path": {"type": "string"}}})
    request = Request("Be brief.", said, [tool])
    without = Request("Be brief.", said)
    assert estimate_message(said[0]) > PER_IMAGE
    assert estimate_message(said[1]) > 80
    assert estimate_request(without) == PER_MESSAGE + estimate_text("Be brief.") + sum(map(estimate_message, said))
    assert estimate_request(request) > estimate_request(without) + 15
