"""What is shown of an answer while it streams, however it is cut into pieces."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goclaw.conversation.turns.answer_text import AnswerText

CALL = '{"name": "write", "arguments": {"path": "a.txt"}}'
TEXTS = [
    "Hello there\nyou",
    f"I will.\n{CALL}",
    f"```json\n{CALL}\n```",
    "Look:\n```python\nx={1:2}\n# <context>\n```\nend <b>x</b>",
    "<system-reminder>\nfoo\n</system-reminder>\n\nDone it.",
    '<material abc from="x">\nFile plan.txt created\n</material abc>\n',
    "Hi <context>a</context> you",
    "<tool_response>kept 'a'</tool_response>",
    f"I will look. <tool_call>\n{CALL}",
    "see `<tool_call>` and `<context>` here",
    '{"arguments": {"path":"a"}, "name": "write"}',
    '{"type": "object", "properties": {}}\nend',
    "<｜tool▁calls▁begin｜>x",
    "[TOOL_CALLS]write{}",
    "a < b and c <d> e [link](http://x) and [1, 2]",
    f"x\n``` js\n{CALL}\n```",
    "~~~\ncode\n~~~\n<Context.Provider>x</Context.Provider>",
    "a <material x>~~~<context>`",
    "````<context>`",
]


def shown(pieces: list[str]) -> tuple[str, str]:
    answer = AnswerText(lambda name: name == "write")
    for piece in pieces:
        answer.add(piece)
    answer.close()
    return answer.shown, answer.held


@pytest.mark.parametrize("text", TEXTS)
def test_every_cut_of_an_answer_shows_the_same(text: str) -> None:
    whole = shown([text])
    for at in range(len(text) + 1):
        assert shown([text[:at], text[at:]]) == whole
    assert shown(list(text)) == whole


PARTS = st.sampled_from(
    [
        "\n",
        "a ",
        "`",
        "```",
        "```json\n",
        "~~~",
        "<",
        "</",
        "<context>",
        "</context>",
        "<tool_call>",
        "{",
        "}",
        "[",
        "]",
        '"name": "write"',
        '"arguments": {}',
        "<material x>",
        "</tool_response>",
        "<system-reminder>",
        "</system-reminder>",
        CALL,
        "[TOOL_CALLS]",
    ]
)


@given(st.lists(PARTS, max_size=12), st.data())
def test_any_text_in_any_pieces_shows_the_same(parts: list[str], data: st.DataObject) -> None:
    text = "".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=4)))
    pieces = [text[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]

    assert shown(pieces) == shown([text])


def test_a_result_that_is_repeated_in_its_templates_marks_is_shown_without_them() -> None:
    assert shown(["<context>Sunday</context>\n<tool_response>\nkept 'a'\n</tool_response>"])[0].strip() == "kept 'a'"


def test_what_was_shown_once_stays(  # a view that only appends shows the same as one that is drawn anew
) -> None:
    for text in TEXTS:
        answer = AnswerText(lambda name: name == "write")
        said = "".join(answer.add(sign) for sign in text) + answer.close()
        assert said == answer.shown
