"""What holds how much of a window, in words, and what would help."""

import pytest

from goclaw.context.budget import ContextBudget

ROOMY = ContextBudget("anthropic:claude", 200_000, 500, 7_000, 30_000)
SMALL = ContextBudget("ollama:qwen3:8b", 8_192, 500, 7_000, 2_048)


def test_every_part_has_its_tokens_and_its_share() -> None:
    found = ContextBudget("anthropic:claude", 200_000, 500, 7_000, 30_000, 100, 50_000, 12)
    assert found.text() == (
        "Context of anthropic:claude\n"
        "  Next request: 57,600 / 200,000 tokens (28.8%)\n"
        "  Prompt: 500 (0.2%)\n"
        "  Tools: 7,000 (3.5%)\n"
        "  Notes: 100 (0.1%)\n"
        "  Conversation: 50,000 (25.0%), 12 messages\n"
        "  Reserve: 30,000 (15.0%), kept free for the answer\n"
        "  Free: 112,400 (56.2%)\n"
        "\n"
        "There is room; nothing needs to be done."
    )


def test_parts_and_what_is_free_make_the_window() -> None:
    assert ROOMY.used + ROOMY.reserve + 162_500 == ROOMY.window
    assert "  Free: 162,500 (81.2%)" in ROOMY.text()


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (SMALL, ["Nothing can be said in this window: prompt and tools take 91.6%", "max_context", "fewer tools"]),
        (ContextBudget("groq:x", 8_000, 7_000, 900, 2_000), ["Nothing can be said", "`goclaw model`", "AGENTS.md"]),
        (ContextBudget("demo", 32_000, 500, 7_000, 8_000, conversation=12_000), ["/compact sums"]),
        (ContextBudget("demo", 32_000, 500, 900, 8_000, notes=9_000), ["Forget mementos"]),
    ],
)
def test_what_would_help_is_said_the_most_useful_first(found: ContextBudget, words: list[str]) -> None:
    advice = found.advice()
    assert len(advice) == len(words)
    assert all(each in line for each, line in zip(words, advice, strict=True))


def test_a_window_of_nothing_is_no_crash() -> None:
    assert "(?)" in ContextBudget("demo", 0, 1, 1, 0).text()
