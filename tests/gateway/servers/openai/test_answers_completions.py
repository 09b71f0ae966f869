"""Chat completions as OpenAI's own client gets them, over HTTP."""

from pathlib import Path
from typing import Any

import openai
import pytest

from goclaw.common.core.messages import AssistantMessage, ToolCall, UserMessage
from goclaw.common.specs import Confirmation
from goclaw.llm.base import Stop, Usage
from tests.conversation.sessions.looking import said
from tests.gateway.servers.openai.calling import HELLO, chunks, content, service, streamed, world_with
from tests.harness import Answer
from tests.parts import Trail, acting


async def test_an_answer_has_its_text_its_end_and_its_tokens(tmp_path: Path) -> None:
    world = world_with(tmp_path, Answer("Hello, Ann.", usage=Usage(input=21, output=4, cache_read=20)))
    async with world.running() as core, service(world, core) as served, served.client() as client:
        answer = await client.chat.completions.create(model="goclaw", messages=[{"role": "user", "content": "Hello"}])
    (choice,) = answer.choices
    assert (choice.message.role, choice.message.content, choice.finish_reason) == ("assistant", "Hello, Ann.", "stop")
    assert answer.id.startswith("chatcmpl-") and answer.model == "goclaw" and answer.object == "chat.completion"
    usage = answer.usage
    assert usage and (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (21, 4, 25)
    assert usage.prompt_tokens_details and usage.prompt_tokens_details.cached_tokens == 20


@pytest.mark.parametrize("include_usage", [True, False])
async def test_a_stream_has_the_same_text_in_pieces(tmp_path: Path, include_usage: bool) -> None:
    world = world_with(tmp_path, Answer("Hello, Ann. How are you?", deltas=6))
    found: list[Any] = []
    async with world.running() as core, service(world, core) as served, served.client() as client:
        options: Any = {"include_usage": True} if include_usage else openai.omit
        async for chunk in await client.chat.completions.create(
            model="goclaw", messages=[{"role": "user", "content": "Hello"}], stream=True, stream_options=options
        ):
            found.append(chunk)
    texts = [choice.delta.content for chunk in found for choice in chunk.choices if choice.delta.content]
    assert "".join(texts) == "Hello, Ann. How are you?" and len(texts) == 6
    assert [choice.finish_reason for chunk in found for choice in chunk.choices if choice.finish_reason] == ["stop"]
    usages = [chunk.usage.total_tokens for chunk in found if chunk.usage]
    assert usages == ([15] if include_usage else []) and len({chunk.id for chunk in found}) == 1


async def test_the_client_s_history_is_the_conversation_before_the_message(tmp_path: Path) -> None:
    world = world_with(tmp_path, Answer("Blue."))
    messages = [
        {"role": "system", "content": "Speak briefly."},
        {"role": "user", "content": [{"type": "text", "text": "My colour is blue."}]},
        {"role": "assistant", "content": "Noted."},
        {"role": "user", "content": "Which one?"},
    ]
    async with world.running() as core, service(world, core) as served:
        answered = await served.send({"model": "goclaw", "messages": messages})
        assert content(answered) == "Blue."
        await core.settled()
        assert await core.messages() == []
    first, second, third = world.script.requests[0].messages
    assert isinstance(first, UserMessage) and first.text == "Speak briefly.\n\nMy colour is blue."
    assert isinstance(second, AssistantMessage) and (second.text, second.calls) == ("Noted.", ())
    assert isinstance(third, UserMessage) and third.text.endswith("Which one?")


async def test_two_requests_know_nothing_of_each_other(tmp_path: Path) -> None:
    world = world_with(tmp_path, Answer("One."), Answer("Two."))
    async with world.running() as core, service(world, core) as served:
        assert [content(await served.ask()), content(await served.ask())] == ["One.", "Two."]
    assert [len(request.messages) for request in world.script.requests] == [1, 1]


async def test_tools_are_at_work_between_texts_and_stream_as_reasoning(tmp_path: Path) -> None:
    trail = Trail()
    answers = Answer("I look.", thinking="Hm.", calls=(ToolCall("c", "leave", {}),)), Answer("It is done.")
    world = world_with(tmp_path, *answers, *answers, *answers, given=[acting("leave", trail.leave)])
    async with world.running() as core, service(world, core) as served:
        whole = await served.ask()
        stream = await served.ask(stream=True)
    assert trail.times == 2
    assert content(whole) == streamed(stream.said) == "I look.\n\nIt is done."
    reasoning = streamed(stream.said, "reasoning_content")
    assert reasoning.startswith("Hm.") and "leave" in reasoning
    assert "reasoning" not in str(whole.said)


async def test_progress_can_be_left_out(tmp_path: Path) -> None:
    answers = Answer(thinking="Hm.", calls=(ToolCall("c", "leave", {}),)), Answer("Done.")
    world = world_with(tmp_path, *answers, given=[acting("leave", Trail().leave)], openai={"progress": False})
    async with world.running() as core, service(world, core) as served:
        stream = await served.ask(stream=True)
    assert streamed(stream.said) == "Done." and streamed(stream.said, "reasoning_content") == ""


@pytest.mark.promise("P-unattended")
async def test_a_call_that_would_ask_is_refused_and_the_answer_says_so(tmp_path: Path) -> None:
    trail = Trail()
    answers = Answer(calls=(ToolCall("c", "risky", {}),)), Answer("I could not.")
    risky = acting("risky", trail.leave, confirm=Confirmation("Risky", "May it run?"))
    world = world_with(tmp_path, *answers, *answers, given=[risky])
    async with world.running() as core, service(world, core) as served:
        whole, stream = content(await served.ask()), streamed((await served.ask(stream=True)).said)
        await core.settled()
        assert await core.messages() == [] and world.texts() == []
    assert trail.times == 0 and whole == stream
    assert whole == "I could not.\n\nNot done because nobody was there to approve it: risky."


async def test_an_answer_that_the_model_cut_ends_with_length(tmp_path: Path) -> None:
    world = world_with(tmp_path, *(Answer("Once upon", stop=Stop.LENGTH) for _ in range(9)))
    async with world.running() as core, service(world, core) as served:
        answered = await served.ask()
    assert answered.said["choices"][0]["finish_reason"] == "length"
    assert content(answered).startswith("Once upon\n\n[The answer ends here")


async def test_a_turn_that_fails_is_an_error_that_clients_do_not_repeat(tmp_path: Path) -> None:
    world = world_with(tmp_path)
    async with world.running() as core, service(world, core) as served:
        whole, stream = await served.ask(), await served.ask(stream=True)
        async with served.client() as client:
            with pytest.raises(openai.InternalServerError, match="script"):
                await client.with_options(max_retries=2).chat.completions.create(model="goclaw", messages=HELLO)  # type: ignore[arg-type] # plain dicts
    assert (whole.status, whole.error["code"], whole.headers["x-should-retry"]) == (500, "turn_failed", "false")
    assert stream.status == 200 and chunks(stream.said)[-1]["error"]["code"] == "turn_failed"
    assert "[DONE]" not in stream.said
    assert len(world.script.requests) == 3


async def test_an_agent_of_the_configuration_answers_under_its_name(tmp_path: Path) -> None:
    kinds = {"kinds": {"poet": {"description": "Writes poems.", "prompt": "Write in rhymes."}}}
    world = world_with(tmp_path, Answer("Roses."), agents=kinds)
    async with world.running() as core, service(world, core) as served:
        assert content(await served.send({"model": "poet", "messages": HELLO})) == "Roses."
    assert "Write in rhymes." in world.script.requests[0].system
    assert said(world.script.requests[0]).endswith("Hello")


async def test_the_rest_of_an_answer_goes_on_where_it_was_cut(tmp_path: Path) -> None:
    parts = Answer("Once upon a ti", stop=Stop.LENGTH), Answer("me it ends.")
    world = world_with(tmp_path, *parts, *parts, limits={"continue_cut": True})
    async with world.running() as core, service(world, core) as served:
        assert content(await served.ask()) == "Once upon a time it ends."
        assert streamed((await served.ask(stream=True)).said) == "Once upon a time it ends."
