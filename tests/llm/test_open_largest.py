"""The most that one request can take: estimates with a margin, the longest answer, the dearest model of a chain."""

import pytest

from goclaw.common.config.schema import Config
from goclaw.common.core.clock import RealClock
from goclaw.llm.anthropic import BUDGETS
from goclaw.llm.chain import ModelChain
from goclaw.llm.open import MARGIN, MAX_THINKING, largest
from goclaw.llm.scripted import ScriptedModel

NOW = 1_750_000_000.0
CHEAP, DEAR, UNKNOWN = "openai-chat:cheap", "openai-chat:dear", "openai-chat:unknown"
OPTIONS = {
    CHEAP: {"price_input": 1, "price_output": 2, "context_window": 100_000, "max_output": 1_000},
    DEAR: {"price_input": 10, "price_output": 20, "context_window": 100_000, "max_output": 500},
    UNKNOWN: {"context_window": 100_000, "max_output": 2_000},
}
CONFIG = Config.model_validate({"models": {"options": OPTIONS}})


def test_it_is_the_prompt_with_a_margin_and_the_longest_answer() -> None:
    assert MARGIN == 1.5
    tokens, cost = largest(ScriptedModel(spec=CHEAP), 1_000, CONFIG, NOW)
    assert tokens == 1_500 + 1_000 and cost == pytest.approx((1_500 * 1 + 1_000 * 2) / 1e6)
    assert largest(ScriptedModel(spec=CHEAP), 1_000, CONFIG, NOW, 10)[0] == 1_510


def test_no_prompt_is_longer_than_the_window_unless_it_was_counted_so() -> None:
    window = ScriptedModel(spec=CHEAP).context_window
    assert largest(ScriptedModel(spec=CHEAP), window - 1, CONFIG, NOW, 1)[0] == window + 1
    assert largest(ScriptedModel(spec=CHEAP), window + 5, CONFIG, NOW, 1)[0] == window + 6


def test_of_a_chain_it_is_that_of_the_dearest_model() -> None:
    chain = ModelChain([ScriptedModel(spec=spec) for spec in (CHEAP, DEAR, UNKNOWN)], RealClock())
    tokens, cost = largest(chain, 1_000, CONFIG, NOW)
    assert tokens == 1_500 + 2_000
    assert cost == pytest.approx((1_500 * 10 + 500 * 20) / 1e6)


def test_an_unknown_price_is_no_dollars_as_in_what_was_spent() -> None:
    assert largest(ScriptedModel(spec=UNKNOWN), 1_000, CONFIG, NOW) == (3_500, 0.0)
    assert largest(ScriptedModel(spec="demo"), 1_000, CONFIG, NOW)[1] == 0.0


def test_thinking_beside_the_answer_counts_too() -> None:
    assert max(BUDGETS.values()) == MAX_THINKING
    thinking = Config.model_validate({"models": {"options": {CHEAP: {**OPTIONS[CHEAP], "thinking": "high"}}}})
    assert largest(ScriptedModel(spec=CHEAP), 1_000, thinking, NOW)[0] == 2_500 + MAX_THINKING
