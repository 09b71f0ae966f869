"""A server asks the model while a call to it runs: only where that is configured, only for that person, and bounded."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from goclaw.common.core.clock import RealClock
from goclaw.common.core.events import AgentProgress
from goclaw.common.core.messages import AssistantMessage, ToolCall, ToolResult, UserMessage
from goclaw.testing import Bench
from goclaw.tools.builtin.mcp_source import SOURCE, McpSource
from goclaw.tools.toolkit.services import Sample, Sampled
from goclaw.tools.toolkit.sources import SourcePorts
from tests.harness import Answer, World
from tests.parts import Tools
from tests.picture_support import png
from tests.tools.builtin.mcp_support import SECONDS, bench_with, misbehaving, until

pytestmark = pytest.mark.asyncio(loop_scope="module")

PIXEL = base64.b64encode(png()).decode()
MODELS = ["ollama:small", "anthropic:large-5"]
SERVERS = {
    "asks": misbehaving(sampling={"per_turn": 1_000}),
    "free": misbehaving(sampling={"ask": False, "models": MODELS, "prompt_tokens": 3_000, "per_turn": 1_000}),
    "few": misbehaving(sampling={"ask": False, "per_turn": 1}),
    "off": misbehaving(sampling={"enabled": False}),
    "never": misbehaving(),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Bench]:
    async with bench_with(tmp_path_factory.mktemp("sampling"), SERVERS) as made:
        yield made


@pytest.fixture
def bench(shared: Bench) -> Bench:
    for kept in (shared.events, shared.asked, shared.answers, shared.samples, shared.sampled, shared.audited):
        kept.clear()
    return shared


async def asked(bench: Bench, server: str, **params: Any) -> dict[str, Any]:
    """What the server is answered."""
    async with asyncio.timeout(15):
        found: dict[str, Any] = json.loads((await bench.call(f"mcp__{server}__sample", params)).content)
    return found


def says(text: str, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": {"type": "text", "text": text}}


async def capabilities(bench: Bench, server: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((await bench.call(f"mcp__{server}__capabilities")).content)
    return found


async def test_a_server_knows_that_it_may_ask_only_where_the_operator_said_so(bench: Bench) -> None:
    assert "sampling" in await capabilities(bench, "asks")
    assert "sampling" not in await capabilities(bench, "never") and "sampling" not in await capabilities(bench, "off")
    assert "not supported" in (await asked(bench, "never"))["message"] and bench.sampled == []


async def test_the_model_answers_what_the_person_agreed_to_and_nothing_else_is_told_to_it(bench: Bench) -> None:
    bench.answers, bench.samples = ["yes"], ["Four."]
    answer = await asked(bench, "asks", systemPrompt="Be short.”", maxTokens=9)
    assert answer == {
        "role": "assistant",
        "content": {"type": "text", "text": "Four."},
        "model": "bench:model",
        "stopReason": "endTurn",
    }
    (question,) = bench.asked
    assert "The MCP server asks wants to ask the model, in its own words: “Be short." in question.text
    assert "How many?" in question.text and "up to 9 tokens" in question.text and question.options == ("yes", "no")
    (wanted,) = bench.sampled
    assert list(wanted.messages) == [UserMessage("How many?")] and wanted.max_tokens == 9 and wanted.models == ()
    assert "the MCP server asks" in wanted.system and wanted.system.endswith("Be short.”")
    shown = [event.doing for event in bench.events if isinstance(event, AgentProgress)]
    assert shown[0] == "asks asks the model: How many?"
    entry = next(entry for entry in bench.audited if entry.action == "sampling.request")
    assert (entry.object, entry.result, entry.rule) == ("asks", "ok", "mcp.servers.asks.sampling")
    assert entry.detail == "bench:model, 15 tokens: How many?"


async def test_a_person_who_does_not_agree_is_answered_for_as_the_protocol_says(bench: Bench) -> None:
    bench.answers, bench.samples = ["no"], ["Four."]
    answer = await asked(bench, "asks")
    assert (answer["code"], answer["message"]) == (-1, "User rejected sampling request")
    assert bench.sampled == []
    assert [entry.result for entry in bench.audited if entry.action == "sampling.request"] == ["denied"]


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"includeContext": "thisServer"}, 'has to be "none"'),
        ({"includeContext": "allServers"}, 'has to be "none"'),
        ({"tools": [{"name": "rm", "inputSchema": {"type": "object"}}]}, "no tools"),
        ({"messages": [says("a"), says("b", "assistant")] * 251}, "at most 500 texts and 20 stop sequences"),
        ({"messages": [{**says(""), "content": [says("a")["content"]] * 501}]}, "at most 500 texts"),
        ({"stopSequences": [f"word {number}" for number in range(21)]}, "at most 500 texts and 20 stop sequences"),
        ({"messages": []}, "have to be the user's"),
        ({"messages": [says("Sure, here", "assistant")]}, "have to be the user's"),
        ({"messages": [says(" ")]}, "is empty"),
        (
            {"messages": [says("so many words " * 2_000)]},
            "at most 3,000 are taken (mcp.servers.free.sampling.prompt_tokens",
        ),
        (
            {"messages": [{"role": "user", "content": {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}}]},
            "texts and pictures by a server, and no audio",
        ),
        (
            {"messages": [{"role": "user", "content": {"type": "image", "data": "AAAA", "mimeType": "image/png"}}]},
            "cannot be shown a picture of 3 bytes (image/png)",
        ),
    ],
)
async def test_what_no_server_gets_is_refused_in_words(bench: Bench, params: dict[str, Any], words: str) -> None:
    bench.samples = ["never"]
    answer = await asked(bench, "free", **params)
    assert words in answer["message"] and bench.sampled == []


async def test_turns_of_several_blocks_and_pictures_reach_the_model(bench: Bench) -> None:
    bench.samples = ["A pixel."]
    picture = {"role": "user", "content": {"type": "image", "data": PIXEL, "mimeType": "image/png"}}
    messages = [says("Look."), says("Yes?", "assistant"), says("At this:"), picture]
    assert (await asked(bench, "free", messages=messages))["model"] == "bench:model"
    (wanted,) = bench.sampled
    first, second, last = wanted.messages
    assert (first, second) == (UserMessage("Look."), AssistantMessage("Yes?"))
    assert isinstance(last, UserMessage) and last.text == "At this:" and last.images[0].mime == "image/png"


async def test_a_server_chooses_among_the_models_of_the_operator_only(bench: Bench) -> None:
    bench.samples = ["a", "b", "c"]
    for hints in ([{"name": "gpt"}, {"name": "LARGE"}], [{"name": "gpt"}], []):
        await asked(bench, "free", modelPreferences={"hints": hints})
    assert [wanted.models for wanted in bench.sampled] == [(MODELS[1], MODELS[0]), tuple(MODELS), tuple(MODELS)]


async def test_an_answer_ends_where_the_server_wants_and_has_no_more_tokens_than_the_operator(bench: Bench) -> None:
    bench.samples = ["one, two END three"]
    answer = await asked(bench, "free", stopSequences=["END"], maxTokens=10**6)
    assert (answer["content"]["text"], answer["stopReason"]) == ("one, two ", "stopSequence")
    assert bench.sampled[0].max_tokens == 1_000


async def test_a_turn_asks_the_model_so_often(bench: Bench) -> None:
    bench.samples = ["a", "b"]
    assert (await asked(bench, "few"))["role"] == "assistant"
    assert "at most 1 times during a turn (mcp.servers.few.sampling.per_turn)" in (await asked(bench, "few"))["message"]


async def test_why_the_model_does_not_answer_is_told_to_the_server(bench: Bench) -> None:
    assert (await asked(bench, "free"))["message"] == "the model has nothing to say"
    assert [entry.result for entry in bench.audited if entry.action == "sampling.request"] == ["refused"]


async def test_the_model_is_no_longer_asked_when_the_call_ends(tmp_path: Path) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    class Slow(Bench):
        async def sample(self, wanted: Sample) -> Sampled:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()
            raise AssertionError

    async with bench_with(tmp_path, {"free": SERVERS["free"]}) as opened:
        bench = Slow(opened.folder, opened.dispatcher, opened.audited, sources=opened.sources)
        call = asyncio.create_task(bench.call("mcp__free__sample"))
        async with asyncio.timeout(10):
            await begun.wait()
            await until(lambda: not call.done())
            call.cancel()
            await ended.wait()
        await asyncio.wait({call})
        assert json.loads((await bench.call("mcp__free__capabilities")).content)["sampling"] == {}


async def test_in_a_turn_the_person_agrees_the_conversations_model_answers_and_the_turn_pays(tmp_path: Path) -> None:
    calls = Answer(calls=(ToolCall("c", "mcp__asks__sample", {"systemPrompt": "Be short."}),))
    world = World(tmp_path, [calls, Answer("Four."), Answer("done")], mcp={"servers": {"asks": SERVERS["asks"]}})
    async with SOURCE.open(SourcePorts(world.config, RealClock(), lambda what, why: None)) as source:
        assert isinstance(source, McpSource)
        await source.settled(SECONDS)
        world.tools = Tools(tuple(source.tools()))
        async with world.running() as core:
            await core.say("go")
            await until(lambda: any("May it answer?" in text for text in world.texts()))
            assert len(world.script.requests) == 1
            await core.say("yes")
            await core.settled()
            (result,) = [each for each in await core.messages() if isinstance(each, ToolResult)]
            spent = await core.sessions.ports.store.spending.of_session("memory:here")
    assert json.loads(result.content)["content"]["text"] == "Four." and world.texts()[-1] == "done"
    _, asked, last = world.script.requests
    assert "Be short." in asked.system and "go" not in str(asked.messages) and not asked.tools
    assert spent.requests == 3 and "Be short." not in last.system
