"""Conversations of every shape for property tests: each call answered, everything else as odd as people are."""

from collections.abc import Sequence

from hypothesis import strategies as st

from goclaw.common.core.messages import AssistantMessage, Image, Message, Native, ToolCall, ToolResult, UserMessage

TEXT = st.text(max_size=20) | st.sampled_from(["", " ", "\n", "Grüß Gott 👋", '{"a": 1}', "\x00"])
NAMES = st.sampled_from(["read", "get_weather", "odd.name", "ünïcode", ""])
IDS = st.uuids().map(str) | st.integers(0, 10**6).map("call:{}|x".format)
JSON = st.recursive(st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT, st.lists, max_leaves=5)
IMAGES = st.builds(Image, st.sampled_from(["aa", "bb"]), st.sampled_from(["image/png", "image/jpeg"]))
USERS = st.builds(UserMessage, TEXT, st.lists(IMAGES, max_size=2).map(tuple))
NATIVES = st.none() | st.sampled_from(
    [
        Native("anthropic", 1, [{"type": "thinking", "thinking": "hm", "signature": "SIG=="}]),
        Native("anthropic", 99, "of another time"),
        Native("anthropic", 1, {"odd": "shape"}),
        Native("openai-chat", 1, {"reasoning": "hm", "extra": {}}),
        Native("ollama", 1, {"thinking": "hm"}),
        Native("unheard-of", 1, [1, 2]),
    ]
)


@st.composite
def exchanges(draw: st.DrawFn) -> Sequence[Message]:
    """A person's words or a model's answer; with the results of its calls, and what was said while they ran."""
    if draw(st.booleans()):
        return [draw(USERS)]
    names = draw(st.lists(st.tuples(NAMES, st.dictionaries(TEXT, JSON, max_size=3)), max_size=3))
    calls = tuple(ToolCall(draw(IDS), name, arguments) for name, arguments in names)
    answer = AssistantMessage(draw(TEXT), calls, draw(NATIVES))
    outcomes = [(call, draw(TEXT), draw(st.booleans())) for call in calls]
    results: list[Message] = [ToolResult(call.id, call.name, content, error) for call, content, error in outcomes]
    if draw(st.booleans()) and results:
        results.insert(draw(st.integers(0, len(results))), draw(USERS))
    return [answer, *results]


CONVERSATIONS = st.lists(exchanges(), max_size=6).map(lambda parts: [message for part in parts for message in part])
