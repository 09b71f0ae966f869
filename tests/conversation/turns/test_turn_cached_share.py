"""How much of what is sent the provider has cached: 20 turns, on each model's own terms."""

import re
from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import dropwhile, pairwise
from json import dumps
from pathlib import Path
from typing import Any

import pytest

from goclaw.common.config.schema import Config, ModelOptions, ModelsSettings, ProviderSettings
from goclaw.common.core import catalog
from goclaw.common.core.plugins import load
from goclaw.llm.base import ModelPorts
from goclaw.llm.open import open_model
from goclaw.tools.toolkit.base import Tool
from goclaw.tools.toolkit.services import Reminder
from tests.conversation.sessions.failing_models import says
from tests.conversation.sessions.looking import HERE, talk
from tests.harness import Core, World
from tests.llm.asking import model_ports
from tests.llm.caching_provider import Asked, Blocks, caching_provider
from tests.llm.fake_provider import Reply, fake_provider, lines
from tests.llm.wires import OLLAMA, OPENAI, Wire, chunk
from tests.parts import acting

pytestmark = pytest.mark.promise("P-cache-stable")

TURNS = 20
ASKED = "The harbour master wants to know when the blue boat comes back, and who was on board of her. " * 5
"""About 120 tokens."""
ANSWER = "She left at six with Anna and Jo on board, and should be back before it is dark. " * 4
FOUND = "06:00 blue boat, two on board, out. " * 25
"""A result of just under a kilobyte."""
WITH_TOOL = range(0, TURNS, 3)
"""Turns in which the model looks something up."""
SHARE = 0.9
"""Of all input tokens, from the first request on that is long enough to be cached."""
LOOK: dict[str, Any] = {"name": "look", "arguments": {}}
"""How a tool of the index is called."""
BLOCK = rb"<system-reminder>.*?</system-reminder>"
REMINDER = re.compile(rb'\\n\\n%s|,\{"role":"user","content":"%s"\}' % (BLOCK, BLOCK))
"""At the end of a person's words, or a message of its own behind results."""


@pytest.fixture
async def ports() -> AsyncIterator[ModelPorts]:
    async with model_ports() as given:
        yield given


async def look() -> str:
    return FOUND


def world_of(folder: Path, spec: str, url: str, ports: ModelPorts, **options: Any) -> World:
    """A life with tools as they are, a core in the request and an index of the others, and a model at `url`."""
    provider = spec.partition(":")[0]
    known = ModelOptions(**{"context_window": 100_000, "max_output": 1_000, **options})
    settings = ProviderSettings.model_validate({"api_key": "sk-test-0123456789", "base_url": url})
    config = Config(providers={provider: settings}, models=ModelsSettings(options={spec: known}))
    tools = [*(load(path, Tool) for path in catalog.TOOLS.values()), acting("look", look)]
    return World(folder, tools=tools, model=open_model(spec, config, ports))


async def live(core: Core) -> None:
    for number in range(TURNS):
        await talk(core, f"{number}: {ASKED}")


def anthropic_answers() -> Iterator[Blocks]:
    for number in range(TURNS):
        if number in WITH_TOOL:
            yield [{"type": "tool_use", "id": f"toolu_{number}", "name": "tool_call", "input": LOOK}]
        yield [{"type": "text", "text": ANSWER}]


def share(asked: Sequence[Asked], shortest: int) -> float:
    """Of what was sent, from the first request on that is long enough to be cached, how much was read."""
    counted = list(dropwhile(lambda each: each.whole < shortest, asked))
    return sum(each.read for each in counted) / sum(each.whole for each in counted)


@pytest.mark.parametrize(
    ("name", "shortest"), [("claude-opus-5-5", 512), ("claude-sonnet-4-6", 2_048), ("claude-opus-4-6", 4_096)]
)
async def test_nine_tenths_of_a_conversation_are_read_from_the_cache_once_it_is_long_enough(
    tmp_path: Path, ports: ModelPorts, name: str, shortest: int
) -> None:
    async with caching_provider() as provider:
        provider.answers = list(anthropic_answers())
        async with world_of(tmp_path, f"anthropic:{name}", provider.url, ports).running() as core:
            await live(core)
        assert provider.answers == [] and len(provider.asked) == TURNS + len(WITH_TOOL)
        asked = provider.asked
        short = [each for each in asked if each.whole < shortest]
        assert all(each.written == each.read == 0 for each in short)
        assert short or shortest < 4_096, "prompt and tools alone are shorter than that"
        assert share(asked, shortest) >= SHARE
        assert all(after.goes_on(before) for before, after in pairwise(asked))


def looks(wire: Wire, number: int) -> Reply:
    """An answer that calls the tool."""
    if wire is OLLAMA:
        said = {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"function": {"name": "tool_call", "arguments": LOOK}}],
        }
        return wire.shape({"message": said, "done": False}, *wire.ending)
    call = {
        "index": 0,
        "id": f"call_{number}",
        "type": "function",
        "function": {"name": "tool_call", "arguments": dumps(LOOK)},
    }
    return wire.shape(chunk({"role": "assistant", "tool_calls": [call]}), chunk({}, "tool_calls"), *wire.ending[1:])


@pytest.mark.parametrize(
    ("spec", "wire"), [("openai-chat:gpt-6.1-sol", OPENAI), ("vllm:qwen3", OPENAI), ("ollama:qwen3:8b", OLLAMA)]
)
async def test_a_server_that_caches_by_itself_gets_what_it_has_seen_byte_for_byte(
    tmp_path: Path, ports: ModelPorts, spec: str, wire: Wire
) -> None:
    async with fake_provider() as server:
        server.routes["/api/show"] = lines({"capabilities": ["completion", "tools"], "model_info": {}})
        server.will(
            *(
                reply
                for number in range(TURNS)
                for reply in (*([looks(wire, number)] if number in WITH_TOOL else []), says(wire, ANSWER))
            )
        )
        async with world_of(tmp_path, spec, server.url, ports).running() as core:
            await live(core)
        sent = [received.raw for received in server.asked]
    assert len(sent) == TURNS + len(WITH_TOOL)
    assert all(after.startswith(before.removesuffix(b"]}")) for before, after in pairwise(sent))


async def test_what_a_model_is_reminded_of_is_all_that_such_a_server_does_not_see_again(
    tmp_path: Path, ports: ModelPorts
) -> None:
    async with fake_provider() as server:
        server.will(says(OPENAI, ANSWER), looks(OPENAI, 1), *[says(OPENAI, ANSWER)] * 3)
        async with world_of(tmp_path, OPENAI.spec, server.url, ports).running() as core:
            session = await core.sessions.contexts.session(HERE)
            session.reminders.add(Reminder("now and then", "Be kind.", min_turns_between=1, max_per_run=None))
            await talk(core, ASKED, "look", "thanks", "and now?")
        sent = [received.raw for received in server.asked]
    assert sum(bool(REMINDER.search(raw)) for raw in sent) >= 2
    plain = [REMINDER.sub(b"", raw).removesuffix(b"]}") for raw in sent]
    assert all(after.startswith(before) for before, after in pairwise(plain))
