"""Responses as OpenAI's own client gets them, over HTTP."""

from pathlib import Path
from typing import Any

import openai
import pytest

from goclaw.common.core.messages import ToolCall
from goclaw.llm.base import Stop, Usage
from tests.gateway.servers.calling import ANN
from tests.gateway.servers.openai.calling import service, world_with
from tests.harness import Answer
from tests.parts import Trail, acting


async def test_a_response_has_its_text_its_state_and_its_tokens(tmp_path: Path) -> None:
    world = world_with(tmp_path, Answer("Hello.", usage=Usage(input=21, output=4, cache_read=20)))
    async with world.running() as core, service(world, core) as served, served.client() as client:
        found = await client.responses.create(model="goclaw", input="Hello", instructions="Be brief.")
    assert (found.output_text, found.status, found.model, found.error) == ("Hello.", "completed", "goclaw", None)
    usage = found.usage
    assert usage and (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (21, 4, 25)
    assert usage.input_tokens_details.cached_tokens == 20


async def test_events_tell_the_same_in_pieces(tmp_path: Path) -> None:
    answers = (
        Answer("I look.", thinking="Hm.", calls=(ToolCall("c", "leave", {}),)),
        Answer("It is done. Good.", deltas=5),
    )
    world = world_with(tmp_path, *answers, given=[acting("leave", Trail().leave)])
    async with world.running() as core, service(world, core) as served, served.client() as client:
        async with client.responses.stream(model="goclaw", input="Hello") as stream:
            events: list[Any] = [event async for event in stream]
            final = await stream.get_final_response()
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    thought = "".join(event.delta for event in events if event.type == "response.reasoning_summary_text.delta")
    assert text == final.output_text == "I look.\n\nIt is done. Good." and "Hm." in thought and "leave" in thought
    assert [item.type for item in final.output] == ["reasoning", "message", "reasoning", "message"]
    assert [event.sequence_number for event in events if event.type.startswith("response.")] == list(range(len(events)))
    assert events[0].type == "response.created" and events[-1].type == "response.completed"
    assert final.usage and final.usage.total_tokens == 30


async def test_a_response_is_followed_by_its_id_in_one_conversation(tmp_path: Path) -> None:
    world = world_with(tmp_path, Answer("One."), Answer("Two."), Answer("Three."))
    async with world.running() as core, service(world, core) as served, served.client() as client:
        first = await client.responses.create(model="goclaw", input="1")
        second = await client.responses.create(model="goclaw", input="2", previous_response_id=first.id)
        assert second.previous_response_id == first.id and second.output_text == "Two."
        with pytest.raises(openai.BadRequestError, match="continued since"):
            await client.responses.create(model="goclaw", input="2b", previous_response_id=first.id)
        for unknown in ("resp_123", f"resp_{'0' * 32}{b'memory:there'.hex()}", f"resp_{'0' * 32}ff", "x"):
            with pytest.raises(openai.NotFoundError) as caught:
                await client.responses.create(model="goclaw", input="2", previous_response_id=unknown)
            assert caught.value.code == "previous_response_not_found"
        assert await core.messages() == []
    async with world.running() as core, service(world, core) as served, served.client() as client:
        third = await client.responses.create(model="goclaw", input="3", previous_response_id=second.id)
    assert third.output_text == "Three."
    assert [len(request.messages) for request in world.script.requests] == [1, 3, 5]


async def test_a_conversation_is_a_session_by_its_key(tmp_path: Path) -> None:
    world = world_with(tmp_path, Answer("Kept."))
    async with world.running() as core, service(world, core) as served, served.client() as client:
        found = await client.responses.create(model="goclaw", input="Hello", conversation=ANN.key)
        assert found.conversation and found.conversation.id == ANN.key and found.output_text == "Kept."
        await core.settled()
        assert len(await core.messages()) == 2
        with pytest.raises(openai.BadRequestError, match="either"):
            await client.responses.create(
                model="goclaw", input="x", conversation={"id": ANN.key}, previous_response_id=found.id
            )
        both = await served.send(
            {"model": "goclaw", "input": "x", "conversation": ANN.key}, "/v1/responses", X_GoClaw_Session=ANN.key
        )
        assert both.status == 400


async def test_an_answer_that_was_cut_is_incomplete(tmp_path: Path) -> None:
    world = world_with(tmp_path, Answer("Once upon", stop=Stop.LENGTH))
    async with world.running() as core, service(world, core) as served, served.client() as client:
        found = await client.responses.create(model="goclaw", input="Hello")
    assert found.status == "incomplete" and found.incomplete_details
    assert found.incomplete_details.reason == "max_output_tokens"


async def test_a_stream_whose_turn_fails_ends_with_the_failure(tmp_path: Path) -> None:
    world = world_with(tmp_path)
    async with world.running() as core, service(world, core) as served, served.client() as client:
        events: list[Any] = [
            event async for event in await client.responses.create(model="goclaw", input="Hello", stream=True)
        ]
        with pytest.raises(openai.InternalServerError):
            await client.responses.create(model="goclaw", input="Hello")
    assert events[-1].type == "response.failed" and events[-1].response.error.code == "server_error"
