"""One tiny question: what came back, or why nothing did."""

import pytest

from goclaw.errors import ModelError, ModelErrorKind
from goclaw.llm.probes import MAX_SHOWN, ping
from goclaw.llm.scripted import Answer, ScriptedModel


async def test_what_a_model_says_is_one_short_line() -> None:
    model = ScriptedModel([Answer("Ready.\n\x1b[31mAnd then " + "more " * 40)])
    said = await ping(model, max_output=16, seconds=30)
    assert said.startswith("Ready. ") and "\x1b" not in said and len(said) == MAX_SHOWN + 1
    (request,) = model.requests
    assert (request.max_output, request.tools) == (16, ())


async def test_why_a_model_does_not_answer_is_passed_on() -> None:
    with pytest.raises(ModelError) as failed:
        await ping(ScriptedModel(rest=Answer(error=ModelErrorKind.AUTH)), max_output=16, seconds=30)
    assert failed.value.kind is ModelErrorKind.AUTH
