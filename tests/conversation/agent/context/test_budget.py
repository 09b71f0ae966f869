"""What holds how much of a window, in words, and what would help."""

from dataclasses import replace

import pytest

from goclaw.common.config.schema import CompactionSettings
from goclaw.conversation.agent.context.budget import ContextBudget, Share, is_due

ROOMY = ContextBudget("anthropic:claude", 200_000, 500, 7_000, 30_000)
SMALL = ContextBudget("ollama:qwen3:8b", 8_192, 500, 7_000, 2_048)


def test_a_compaction_is_due_when_the_reserve_is_touched_or_messages_are_many() -> None:
    settings = CompactionSettings(reserve_tokens=30_000, max_messages=10)
    few, many = 10, 11
    assert not is_due(few, 169_999, 200_000, settings)
    assert is_due(few, 170_000, 200_000, settings)
    assert is_due(many, 1, 200_000, settings)
    assert not is_due(many, 1, 200_000, settings.model_copy(update={"max_messages": 0}))
    assert not is_due(few, 3_000, 8_192, settings), "a small window keeps room to work in"


def test_every_part_has_its_tokens_and_its_share() -> None:
    found = ContextBudget("anthropic:claude", 200_000, 500, 7_000, 30_000, 100, Share(50_000, 12))
    assert found.text() == (
        "Context of anthropic:claude\n  Next request: 57,600 / 200,000 tokens (28.8%)\n  Prompt: 500 (0.2%)\n  Tools: "
        "7,000 (3.5%)\n  Notes: 100 (0.1%)\n  Conversation: 50,000 (25.0%), 12 messages\n  Reserve: 30,000 (15.0%), "
        "reserved for the answer\n  Free: 112,400 (56.2%)\n\nThere is enough room; you need not do anything."
    )


def test_the_core_of_the_tools_and_the_index_of_the_others_are_parts_of_their_own() -> None:
    found = replace(ROOMY, tools=1_600, index=Share(400, 24), profile="index")
    assert "  Tools: 1,600 (0.8%), the core\n  Index: 400 (0.2%), one line for each of 24 more tools\n" in found.text()
    assert found.used == ROOMY.used - 5_000 and "tools 1,600, index 400" in found.sentence()
    assert "Index" not in replace(found, index=Share(), profile="core").text()
    assert ", whole\n" in replace(found, index=Share(), profile="all").text()


def test_parts_and_what_is_free_make_the_window() -> None:
    assert ROOMY.used + ROOMY.reserve + 162_500 == ROOMY.window
    assert "  Free: 162,500 (81.2%)" in ROOMY.text()


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (SMALL, ["max_context", "Offer fewer tools"]),
        (replace(SMALL, profile="index"), ["max_context", "`tools.profile: core`", "Offer fewer tools"]),
        (ContextBudget("groq:x", 8_000, 7_000, 900, 2_000), ["`goclaw model`", "AGENTS.md"]),
        (ContextBudget("demo", 32_000, 500, 7_000, 8_000, conversation=Share(12_000)), ["/compact summarises"]),
        (ContextBudget("demo", 32_000, 500, 900, 8_000, notes=9_000), ["Delete mementos"]),
    ],
)
def test_what_would_help_is_said_the_most_useful_first(found: ContextBudget, words: list[str]) -> None:
    advice = found.advice()
    assert len(advice) == len(words)
    assert all(each in line for each, line in zip(words, advice, strict=True))


def test_one_sentence_says_what_uses_the_window() -> None:
    said = ContextBudget("demo", 32_000, 500, 900, 8_000, notes=90, conversation=Share(12_000)).sentence()
    assert said == (
        "The window of 32,000 tokens holds: prompt 500, tools 900, notes 90, conversation 12,000 and reserve 8,000."
    )
    too_small = "tokens is too small for a conversation: prompt 500, tools"
    assert SMALL.sentence() == f"The window of 8,192 {too_small} 7,000 and reserve 2,048 need 9,548."
    left = replace(SMALL, tools=5_600, conversation=Share(4_000)).sentence()
    assert left == f"The window of 8,192 {too_small} 5,600 and reserve 2,048 leave 44 for the conversation."


def test_room_for_a_question_a_call_and_an_answer_makes_a_conversation() -> None:
    assert replace(SMALL, tools=5_132).fits and not replace(SMALL, tools=5_133).fits


def test_a_window_of_nothing_is_no_crash() -> None:
    assert "(?)" in ContextBudget("demo", 0, 1, 1, 0).text()
