"""One request for one tool call: what the model did, or why nothing came back."""

import pytest

from goclaw.common.core.messages import ToolCall
from goclaw.errors import ModelError, ModelErrorKind
from goclaw.llm.base import ModelPorts, Stop
from goclaw.llm.probes import MAX_SHOWN, Trial, try_call
from goclaw.llm.scripted import Answer, ScriptedModel
from goclaw.llm.served import CallStyle
from tests.llm.fake_provider import FakeProvider
from tests.llm.llama_server import open_llama, replays

WRITTEN = '{"name": "note", "arguments": {"text": "ready"}}'
STYLES = {
    "structured_call": CallStyle.STRUCTURED,
    "structured_command": CallStyle.STRUCTURED,
    "text_call": CallStyle.TEXT,
    "text_call_command": CallStyle.TEXT,
    "text": CallStyle.NONE,
    "length": CallStyle.UNTRIED,
}


@pytest.mark.parametrize("recording", STYLES)
async def test_how_a_real_server_passed_on_a_call_is_known(
    fake: FakeProvider, ports: ModelPorts, recording: str
) -> None:
    replays(fake, recording)
    trial = await try_call(open_llama(fake.url, ports), max_output=64, seconds=30)
    assert trial.calls is STYLES[recording]
    assert bool(trial.said) == (trial.calls in (CallStyle.NONE, CallStyle.UNTRIED)), "a call is shown to nobody"


@pytest.mark.parametrize(
    ("answer", "calls"),
    [
        (Answer(calls=(ToolCall("1", "note", {"text": "ready"}),)), CallStyle.STRUCTURED),
        (Answer(f"<tool_call>\n{WRITTEN}\n</tool_call>"), CallStyle.TEXT),
        (Answer(f"<think>\nI call it.\n</think>\n\n{WRITTEN}"), CallStyle.TEXT),
        (Answer(f"<think>\nI could write\n{WRITTEN}\n</think>\nThe note is ready."), CallStyle.NONE),
        (Answer("I have written the note."), CallStyle.NONE),
        (Answer("Let me think", stop=Stop.LENGTH), CallStyle.UNTRIED),
    ],
)
async def test_a_call_counts_however_it_is_written_and_words_about_one_do_not(answer: Answer, calls: CallStyle) -> None:
    assert (await try_call(ScriptedModel([answer]), max_output=64, seconds=30)).calls is calls


async def test_one_small_tool_is_offered_and_what_a_model_says_is_one_short_line() -> None:
    model = ScriptedModel([Answer("Ready.\n\x1b[31mAnd then " + "more " * 40)])
    trial = await try_call(model, max_output=16, seconds=30)
    assert trial == Trial(trial.said, CallStyle.NONE)
    assert trial.said.startswith("Ready. ") and "\x1b" not in trial.said and len(trial.said) == MAX_SHOWN + 1
    (request,) = model.requests
    assert (request.max_output, [tool.name for tool in request.tools]) == (16, ["note"])


async def test_why_a_model_does_not_answer_is_passed_on() -> None:
    with pytest.raises(ModelError) as failed:
        await try_call(ScriptedModel(rest=Answer(error=ModelErrorKind.AUTH)), max_output=16, seconds=30)
    assert failed.value.kind is ModelErrorKind.AUTH
