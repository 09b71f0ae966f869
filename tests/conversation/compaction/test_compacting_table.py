"""Every way in which a summary fails, with every source that is asked then, over real HTTP: what people are told, what
is kept, what is stored, whether the next request is one that Anthropic and OpenAI would take, and how it is made good.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from itertools import cycle, product
from pathlib import Path
from typing import Any

import orjson
import pytest
from pydantic import SecretStr

from goclaw.common.config.schema import ModelOptions, ProviderSettings
from goclaw.common.core.messages import ToolResult
from goclaw.conversation.agent.context import compaction
from goclaw.llm.base import ChatModel, ModelPorts
from goclaw.llm.chain import ModelChain
from goclaw.llm.open import find_provider
from tests.conversation.sessions.accepted import check_anthropic, check_openai
from tests.conversation.sessions.failing_models import (
    CAUSES,
    CHECKPOINT_SHOWN,
    MESSAGES,
    Cause,
    HastyClock,
    context_window,
    says,
    seed,
)
from tests.conversation.sessions.looking import HERE, SUMMARY, check_mirrors_the_store, talk, window_of
from tests.harness import OWNER, Core, World
from tests.lanes import repeats
from tests.llm.asking import model_ports
from tests.llm.fake_provider import FakeProvider, Reply, fake_provider, lines
from tests.llm.wires import ANTHROPIC, OLLAMA, OPENAI, Wire
from tests.parts import acting
from tests.ports import free_port

SPEC = "ollama:qwen2.5:7b"
KEPT = {"LLM": 9, "fallback model": 9, "checkpoint": 17, "emergency truncation": 19}
"""Messages: a fifth, two fifths in an emergency; with a checkpoint all that it does not cover."""
ROWS = MESSAGES + MESSAGES // 4
"""A call is a row of its own."""
STUB = "29 earlier messages are not shown here, and no summary of them could be made yet."


@dataclass
class Stage:
    """A core whose models are servers on loopback."""

    world: World
    core: Core
    ollama: FakeProvider
    main: FakeProvider
    wire: Wire
    ports: tuple[int, int]
    stack: AsyncExitStack

    async def mend(self) -> None:
        """Both models are well, and where nobody listened, somebody does."""
        if not self.ollama.url.endswith(f":{self.ports[0]}"):
            self.ollama = await self.stack.enter_async_context(fake_provider(self.ports[0]))
            self.ollama.routes["/api/show"] = shown(None)
        if not self.main.url.endswith(f":{self.ports[1]}"):
            self.main = await self.stack.enter_async_context(fake_provider(self.ports[1]))
        self.ollama.will(says(OLLAMA, SUMMARY))
        self.main.will(says(self.wire, "Still here, all is well."))

    async def status(self) -> str:
        """The block of `/status` about compaction."""
        return (await self.core.command("/status")).split("\n\n")[1]

    async def check_next_request(self) -> str:
        """Say something; what is sent must be valid. Returns its text."""
        await talk(self.core, "What else?")
        assert self.world.texts()[-1] == "Still here, all is well."
        body = self.main.asked[-1].body
        (check_anthropic if self.wire is ANTHROPIC else check_openai)(body)
        return orjson.dumps(body["messages"]).decode()


async def look() -> str:
    return "a cat"


def shown(cause: Cause | None) -> Reply:
    """What Ollama knows of its model."""
    # Half of what others are given: Ollama's own measure is the request alone.
    own = {"qwen2.context_length": context_window(cause) // 2}
    return lines({"capabilities": ["completion"], "model_info": own})


def chain(spec: str, url: str, ports: ModelPorts, cause: Cause | None) -> ChatModel:
    """The model as the daemon opens it: with its repetitions."""
    provider = find_provider(spec.partition(":")[0])
    settings = ProviderSettings(api_key=SecretStr("k"), base_url=url)
    known = None if provider.name == "ollama" else context_window(cause)
    model = provider.open(spec, settings, ModelOptions(max_output=1_000, context_window=known), ports)
    return ModelChain([model], ports.clock)


@asynccontextmanager
async def stage(
    folder: Path, wire: Wire, *, ollama: Cause | None, main: Cause | None, seconds: float = 30, **config: Any
) -> AsyncIterator[Stage]:
    """Servers that fail as the causes say, and a core between them."""
    async with AsyncExitStack() as stack:
        ports = await stack.enter_async_context(model_ports(HastyClock()))
        ports_of, servers = (free_port(), free_port()), []
        urls = [f"http://127.0.0.1:{port}" for port in ports_of]
        for port, cause in zip(ports_of, (ollama, main), strict=True):
            refuses = cause is not None and cause.refuses
            servers.append(await stack.enter_async_context(fake_provider(0 if refuses else port)))
        servers[0].routes["/api/show"] = shown(ollama)
        servers[0].will(ollama.of(OLLAMA) if ollama else says(OLLAMA, SUMMARY))
        servers[1].will(main.of(wire) if main else says(wire, SUMMARY))
        world = World(
            folder,
            model=chain(wire.spec, urls[1], ports, main),
            summary=chain(SPEC, urls[0], ports, ollama),
            tools=[acting("look", look)],
            compaction={"timeout_seconds": seconds},
            **config,
        )
        core = await stack.enter_async_context(world.running())
        yield Stage(world, core, servers[0], servers[1], wire, ports_of, stack)


async def check_compaction(on: Stage, source: str) -> str:
    """`/compact`, and all that must hold afterwards; returns its text."""
    await talk(on.core, "/compact")
    text = on.world.texts()[-1]
    assert text.startswith("Compaction completed!\n  Tokens before: ")
    assert text.split("\n\n")[0].endswith(f"\n  Summary source: {source}")
    window = await window_of(on.core)
    assert len(window.entries) == KEPT[source]
    assert not isinstance(window.entries[0].message, ToolResult)
    assert window.owed is (source == "emergency truncation")
    await check_mirrors_the_store(on.core)
    assert await on.core.transcripts.count(HERE) == ROWS, "nothing is deleted"
    compacted, _ = await on.core.transcripts.context(HERE)
    assert compacted and (compacted.source, compacted.summary) == (source, window.summary)
    assert "in progress" not in await on.status()
    return text


WIRES = pytest.mark.parametrize("wire", [ANTHROPIC, OPENAI], ids=lambda wire: wire.name)
FAILING = pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.name)
_ALL = list(product([ANTHROPIC, OPENAI], CAUSES))
_IN_TURNS = list(zip(cycle([ANTHROPIC, OPENAI]), CAUSES, strict=False))
OLLAMA_FAILS = pytest.mark.parametrize(("wire", "cause"), repeats(_IN_TURNS, _ALL), ids=lambda each: each.name)
"""The wire is not the one that fails: in the short lane each cause meets one of them, in turns."""


@WIRES
@pytest.mark.promise("P-context-fits")
async def test_a_summary_model_that_is_well_writes_it(tmp_path: Path, wire: Wire) -> None:
    await seed(tmp_path, with_checkpoint=False)
    async with stage(tmp_path, wire, ollama=None, main=None) as on:
        await check_compaction(on, "LLM")
        assert await on.status() == (
            "Compaction Health\n  Ollama: healthy (0/3 failures)\n  Mode: normal\n  Last attempt: 0 min ago\n"
            "  Pending retries: 0"
        )
        await on.mend()
        assert SUMMARY in await on.check_next_request()


@pytest.mark.deep
@OLLAMA_FAILS
@pytest.mark.promise("P-context-fits")
@pytest.mark.promise("P-valid-context")
async def test_the_main_model_takes_over(
    tmp_path: Path, wire: Wire, cause: Cause, monkeypatch: pytest.MonkeyPatch
) -> None:
    await seed(tmp_path, with_checkpoint=False)
    monkeypatch.setattr(compaction, "FIRST_SHARE", 0.005 if cause.name == "timeout" else compaction.FIRST_SHARE)
    async with stage(tmp_path, wire, ollama=cause, main=None) as on:
        text = await check_compaction(on, "fallback model")
        assert "The summary model does not work: " in text and cause.reason in text
        assert text.endswith("The main model writes summaries instead.")
        assert await on.status() == (
            "Compaction Health\n  Ollama: healthy (1/3 failures)\n  Mode: normal\n  Last attempt: 0 min ago\n"
            "  Pending retries: 0"
        )
        await on.mend()
        sent = await on.check_next_request()
        assert SUMMARY in sent and "Question 0 " not in sent and "Question 11 " in sent


@WIRES
@FAILING
@pytest.mark.promise("P-context-fits")
@pytest.mark.promise("P-valid-context")
async def test_when_both_fail_a_stub_stands_for_it_until_it_is_paid(tmp_path: Path, wire: Wire, cause: Cause) -> None:
    await seed(tmp_path, with_checkpoint=False)
    async with stage(tmp_path, wire, ollama=cause, main=cause, seconds=0.4 if cause.name == "timeout" else 30) as on:
        text = await check_compaction(on, "emergency truncation")
        assert "I could not summarise the conversation: " in text and cause.reason in text
        assert text.endswith("I will try again until a model can; nothing is lost.")
        stub = (await window_of(on.core)).summary
        assert stub == STUB
        assert await on.status() == (
            "Compaction Health\n  Ollama: healthy (1/3 failures)\n  Mode: normal\n  Last attempt: 0 min ago\n"
            "  Pending retries: 1"
        )
        await on.mend()
        assert stub in await on.check_next_request()
        on.world.clock.advance(60)
        await on.core.sessions.summary_retries.retry_due()
        if cause.small:
            return  # neither is, nor will be, large enough
        window = await window_of(on.core)
        assert (window.summary, window.owed) == (SUMMARY, False)
        await check_mirrors_the_store(on.core)
        assert "  Pending retries: 0" in await on.status()
        sent = await on.check_next_request()
        assert SUMMARY in sent and "not shown here" not in sent


@pytest.mark.deep
@OLLAMA_FAILS
@pytest.mark.promise("P-valid-context")
async def test_with_a_checkpoint_nobody_is_asked(tmp_path: Path, wire: Wire, cause: Cause) -> None:
    await seed(tmp_path, with_checkpoint=True)
    async with stage(tmp_path, wire, ollama=cause, main=None) as on:
        await check_compaction(on, "checkpoint")
        assert on.ollama.asked == on.main.asked == []
        assert await on.status() == (
            "Compaction Health\n  Ollama: healthy (0/3 failures)\n  Mode: normal\n  Last attempt: never\n"
            "  Pending retries: 0"
        )
        await on.mend()
        sent = await on.check_next_request()
        assert orjson.dumps(CHECKPOINT_SHOWN).decode()[1:-1] in sent and "Question 7 " not in sent


@FAILING
@pytest.mark.promise("P-commands-at-once")
async def test_after_three_failures_it_is_left_alone_for_half_an_hour(
    tmp_path: Path, cause: Cause, monkeypatch: pytest.MonkeyPatch
) -> None:
    await seed(tmp_path, with_checkpoint=False)
    monkeypatch.setattr(compaction, "FIRST_SHARE", 0.005 if cause.name == "timeout" else compaction.FIRST_SHARE)
    async with stage(tmp_path, ANTHROPIC, ollama=cause, main=None) as on:
        for _ in range(3):
            await talk(on.core, "/compact keep the cats", "more", "and more", "and still more")
        on.world.clock.advance(5 * 60)
        assert await on.status() == (
            "Compaction Health\n  Ollama: degraded (3/3 failures)\n  Mode: fallback to main model\n  Reset in: 25 min"
        )
        numbers = await on.core.gateway.status(HERE, OWNER)
        assert numbers["ollama"]["degraded"] is True and numbers["ollama"]["failures"] == 3
        asked = len(on.ollama.received)
        await talk(on.core, "/compact keep the cats")
        assert "  Summary source: fallback model" in on.world.texts()[-1] and len(on.ollama.received) == asked


@WIRES
@pytest.mark.promise("P-commands-at-once")
async def test_without_a_summary_model_the_main_model_writes_it_and_status_says_so(tmp_path: Path, wire: Wire) -> None:
    for number, (cause, source, pending) in enumerate(
        [(None, "fallback model", 0), (CAUSES[4], "emergency truncation", 1)]
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        await seed(folder, with_checkpoint=False)
        async with stage(folder, wire, ollama=None, main=cause) as on:
            on.world.models._given_summary = None  # type: ignore[attr-defined]  # as where no Ollama was found
            on.world.models.summary_specs = ()
            await check_compaction(on, source)
            assert await on.status() == (
                "Compaction Health\n  Ollama: not configured\n  Mode: main model only\n  Last attempt: 0 min ago\n"
                f"  Pending retries: {pending}"
            )
