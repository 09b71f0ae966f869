import asyncio
import json
from pathlib import Path

import pytest

from goclaw.common.config.schema import ModelOptions, ProviderSettings
from goclaw.common.core.messages import ToolCall, ToolResult, UserMessage
from goclaw.errors import ConfigError, ModelErrorKind
from goclaw.llm.base import Finished, ModelEvent, Request, Stop
from goclaw.llm.scripted import PROVIDER, Answer, ScriptedModel
from tests.llm.asking import ask, model_ports

QUESTION = Request("", (UserMessage("hi"),))


async def play(model: ScriptedModel, request: Request = QUESTION) -> list[ModelEvent]:
    async with model.stream(request) as stream:
        return [event async for event in stream]


async def test_answers_are_given_in_order_and_requests_are_remembered() -> None:
    call = ToolCall("c1", "read", {"path": "a"})
    model = ScriptedModel([Answer("one"), Answer(calls=(call,))])
    first, second = (await play(model))[-1], (await play(model))[-1]
    assert isinstance(first, Finished)
    assert isinstance(second, Finished)
    assert (first.message.text, first.stop) == ("one", Stop.END)
    assert (second.message.calls, second.stop) == ((call,), Stop.TOOLS)
    assert model.requests == [QUESTION, QUESTION]


async def test_an_error_comes_after_the_text_that_was_streamed() -> None:
    model = ScriptedModel([Answer("half", error=ModelErrorKind.TRUNCATED)])
    heard = await ask(model, QUESTION)
    assert heard.text == "half"
    assert (heard.failed.kind, heard.failed.partial) == (ModelErrorKind.TRUNCATED, True)


async def test_without_an_answer_left_the_model_fails_and_says_why() -> None:
    heard = await ask(ScriptedModel(), QUESTION)
    assert heard.failed.kind is ModelErrorKind.REJECTED
    assert "no answer left" in str(heard.failed)


async def test_a_closed_gate_stalls_the_answer_after_its_first_piece() -> None:
    gate = asyncio.Event()
    model = ScriptedModel([Answer("abcd")], gate=gate)
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        playing = group.create_task(play(model))
        await model.streaming.wait()
        await asyncio.sleep(0)
        assert not playing.done()
        gate.set()
    assert isinstance(playing.result()[-1], Finished)


async def test_leaving_the_stream_early_closes_it() -> None:
    model = ScriptedModel([Answer("abcd")])
    async with model.stream(QUESTION) as stream:
        await anext(stream)
    assert model.closed == 1


async def test_a_script_file_answers_by_what_was_said_last(tmp_path: Path) -> None:
    path = tmp_path / "script.json"
    answers = [{"text": "first"}, {"when": "sunny", "text": "Take a hat."}]
    path.write_text(json.dumps({"answers": answers, "rest": {"text": "again"}}))
    async with model_ports() as ports:
        model = PROVIDER.open(f"scripted:{path}", ProviderSettings(), ModelOptions(), ports)
        assert isinstance(model, ScriptedModel)
        texts = []
        for message in (UserMessage("a"), ToolResult("c", "weather", "sunny"), UserMessage("sunny?"), UserMessage("b")):
            last = (await play(model, Request("", (message,))))[-1]
            assert isinstance(last, Finished)
            texts.append(last.message.text)
    assert texts == ["first", "Take a hat.", "Take a hat.", "again"]


@pytest.mark.parametrize("content", ["{", '[{"texxt": 1}]', '{"answers": [{"error": "unheard of"}]}'])
async def test_a_file_that_is_no_script_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "script.json"
    path.write_text(content)
    async with model_ports() as ports:
        with pytest.raises(ConfigError, match="is not a script"):
            PROVIDER.open(f"scripted:{path}", ProviderSettings(), ModelOptions(), ports)
