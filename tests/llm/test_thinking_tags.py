"""Thinking between tags, in whatever pieces it comes."""

import pytest

from goclaw.common.core.messages import AssistantMessage
from goclaw.llm.base import Finished, ModelEvent, Restarted, Stop, TextDelta, ThinkingDelta, Usage
from goclaw.llm.thinking_tags import ThinkingTags, without_thinking


def read(pieces: list[str]) -> tuple[str, str]:
    """What is text, and what is thinking."""
    tags, said, thought = ThinkingTags(), "", ""
    whole = Finished(AssistantMessage("".join(pieces)), Usage(), Stop.END, "x:y")
    events: list[ModelEvent] = [*map(TextDelta, pieces), whole]
    for given in events:
        for event in tags.process(given):
            match event:
                case TextDelta(text):
                    said += text
                case ThinkingDelta(text):
                    thought += text
                case Restarted():
                    said = ""
                case Finished(message):
                    assert message.text == said
    return said, thought


@pytest.mark.parametrize(
    ("text", "said", "thought"),
    [
        ("<think>\nplan\n</think>\n\nIt is.", "It is.", "\nplan\n"),
        ("plan 78.\n</think>\n\nHi", "Hi", "plan 78.\n"),
        ("plan 78.</think>Hi", "Hi", "plan 78."),
        ("[THINK]a[/THINK]b", "b", "a"),
        ("<think>a</think><think>b</think>c", "c", "ab"),
        ("<think>only", "", "only"),
        ("x\n</think>", "", "x\n"),
        ("Use `</think>`.\n```\n</think>\n```\nend", "Use `</think>`.\n```\n</think>\n```\nend", ""),
        ("The tag </think> closes.", "The tag </think> closes.", ""),
        ("Use <think> for it", "Use <think> for it", ""),
        ("a <", "a <", ""),
    ],
)
def test_thinking_is_split_off_wherever_the_text_is_cut(text: str, said: str, thought: str) -> None:
    for at in range(len(text) + 1):
        assert read([text[:at], text[at:]]) == (said, thought)
    assert read(list(text)) == (said, thought)
    assert without_thinking(text) == said
