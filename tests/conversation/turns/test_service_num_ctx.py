"""Ollama is asked for one window, by the memory that is free; where that is unknown, for what a conversation needs."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from goclaw.llm.base import ChatModel, ModelPorts
from goclaw.llm.token_counts import estimate_text
from tests.conversation.sessions.looking import talk
from tests.harness import World
from tests.llm.asking import model_ports
from tests.llm.fake_provider import FakeProvider, Reply, fake_provider, lines
from tests.llm.ollama_server import GB, QWEN3_TOKEN, QWEN3_WEIGHTS, knows
from tests.llm.wires import OLLAMA, part

pytestmark = pytest.mark.promise("P-context-fits")

TEXT = "The blue boat left at six and was back after dark. " * 150
"""About 1,800 tokens as we estimate them."""
LIMIT = 1_000


@pytest.fixture
async def fake() -> AsyncIterator[FakeProvider]:
    async with fake_provider() as server:
        server.routes["/api/show"] = lines({"capabilities": ["completion"], "model_info": {"m.context_length": 40_960}})
        yield server


@pytest.fixture
async def ports() -> AsyncIterator[ModelPorts]:
    async with model_ports() as given:
        yield given


def counting(tokens: int) -> Reply:
    return lines(part("So it is."), part(done=True, done_reason="stop", prompt_eval_count=tokens, eval_count=4))


def opened(fake: FakeProvider, ports: ModelPorts) -> ChatModel:
    """The model as a life of the daemon opens it, with no window configured."""
    return OLLAMA.open(fake.url, ports, max_output=LIMIT, context_window=None)


def asked_for(fake: FakeProvider) -> list[int]:
    return [received.body["options"]["num_ctx"] for received in fake.asked]


async def test_the_window_follows_what_the_server_counted(
    tmp_path: Path, fake: FakeProvider, ports: ModelPorts
) -> None:
    assert 1_500 < estimate_text(TEXT) < 2_000
    fake.will(counting(4_500), counting(4_600), counting(4_700))
    async with World(tmp_path, model=opened(fake, ports)).running() as core:
        await talk(core, TEXT)
        assert asked_for(fake) == [4_096], "nothing is known yet"
        await talk(core, "and?")
        assert asked_for(fake) == [4_096, 8_192], "twice as much as estimated"
    # A model that has just been opened, a window that is loaded anew: what was learnt before is still known.
    async with World(tmp_path, model=opened(fake, ports)).running() as core:
        await core.turns.restore()
        await talk(core, "and now?")
    assert asked_for(fake) == [4_096, 8_192, 8_192]


async def test_a_server_that_counts_less_is_not_asked_for_more(
    tmp_path: Path, fake: FakeProvider, ports: ModelPorts
) -> None:
    words = TEXT * 2
    assert estimate_text(words) + LIMIT > 4_096
    fake.will(counting(2_000), counting(2_100))
    async with World(tmp_path, model=opened(fake, ports)).running() as core:
        await talk(core, words)
    async with World(tmp_path, model=opened(fake, ports)).running() as core:
        await core.turns.restore()
        await talk(core, "and?")
    assert asked_for(fake) == [8_192, 4_096]


@pytest.mark.promise("P-window-fits")
async def test_one_window_that_fits_the_memory_serves_a_conversation_over_restarts(
    tmp_path: Path, fake: FakeProvider, ports: ModelPorts
) -> None:
    knows(fake)
    fake.will(*(counting(200 * turn) for turn in range(1, 5)))
    free = 8 * GB
    async with World(tmp_path, model=opened(fake, replace(ports, free_memory=lambda: free))).running() as core:
        await talk(core, "hello", TEXT, "and?")
        assert "/ 8,192" in await core.command("/status")
    # The next life finds the model in memory, and that much less of it free.
    knows(fake, loaded=8_192)
    free -= QWEN3_WEIGHTS + 8_192 * QWEN3_TOKEN
    async with World(tmp_path, model=opened(fake, replace(ports, free_memory=lambda: free))).running() as core:
        await core.turns.restore()
        await talk(core, "and now?")
    assert asked_for(fake) == [8_192] * 4
