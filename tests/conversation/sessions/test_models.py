"""Which models answer, and what people hear when none can be opened."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from goclaw.common.config.schema import Config
from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.messages import AssistantMessage, UserMessage
from goclaw.common.core.supervise import background
from goclaw.conversation.agent.context.compaction import SummarySource
from goclaw.conversation.sessions.models import Models
from goclaw.durable.store.open import open_database
from goclaw.durable.store.settings import Settings
from goclaw.errors import ConfigError
from goclaw.llm import open as open_room
from goclaw.llm.base import ChatModel, ModelPorts, Provider
from goclaw.llm.chain import ModelChain
from goclaw.llm.scripted import ScriptedModel
from tests.harness import World
from tests.llm.asking import ask, saying
from tests.llm.fake_provider import fake_provider
from tests.llm.ollama_server import QWEN3_8B, knows
from tests.llm.wires import OLLAMA
from tests.parts import GivenModels


async def no_image(blob: str) -> bytes:
    raise AssertionError("nobody asks for a picture here")


@asynccontextmanager
async def models_of(folder: Path, **models: Any) -> AsyncIterator[Models]:
    others = {key: models.pop(key, {}) for key in ("agents", "providers")}
    config = Config.model_validate({"state_dir": folder, "models": models, **others})
    async with aiohttp.ClientSession() as http, open_database(folder / "models.db") as database:
        ports = ModelPorts(http, no_image, SteppedClock())
        models_found = Models(config, ports, lambda line: None, Settings(database))
        async with background(models_found.resolve(), "looking for models"):
            yield models_found


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "script.json"
    path.write_text(json.dumps([{"text": "Hello"}]))
    return f"scripted:{path}"


def another(folder: Path) -> str:
    """Return a second model."""
    path = folder / "own.json"
    path.write_text(json.dumps([{"text": "A summary"}]))
    return f"scripted:{path}"


async def test_the_configured_chain_answers(tmp_path: Path, script: str) -> None:
    async with models_of(tmp_path, agent=[script], summary=[]) as models:
        assert (await models.agent()).spec == models.main == script
        assert models.sentence == f"Model: {script}, as configured in `models.agent`."
        assert [each.source for each in await models.summarizers()] == [SummarySource.FALLBACK]
        assert models.summary_specs == () and not models.is_demo


async def test_summaries_have_a_chain_of_their_own_and_the_main_model_behind_it(tmp_path: Path, script: str) -> None:
    own = another(tmp_path)
    async with models_of(tmp_path, agent=[script], summary=[own]) as models:
        assert [each.source for each in await models.summarizers()] == [SummarySource.LLM, SummarySource.FALLBACK]


async def test_a_main_model_that_is_in_the_summary_chain_is_asked_once(tmp_path: Path, script: str) -> None:
    async with models_of(tmp_path, agent=[script], summary=[script]) as models:
        (only,) = await models.summarizers()
        assert (only.source, only.is_main) == (SummarySource.LLM, True)


async def test_the_demo_model_writes_no_summaries(tmp_path: Path) -> None:
    async with models_of(tmp_path, agent=["demo"], summary=[]) as models:
        assert await models.summarizers() == [] and models.is_demo


async def test_a_model_that_cannot_be_opened_is_an_error_that_says_why(tmp_path: Path) -> None:
    async with models_of(tmp_path, agent=["scripted:nowhere.json"], summary=[]) as models:
        with pytest.raises(ConfigError, match="cannot be read"):
            await models.agent()
        assert models.main == "" and models.sentence.startswith("Model: none. scripted:nowhere.json")


async def test_another_model_than_the_summary_chain_writes_where_that_is_wanted(tmp_path: Path, script: str) -> None:
    own = another(tmp_path)
    async with models_of(tmp_path, agent=[script], summary=[]) as models:
        (only,) = await models.summarizers("", own)
        assert (only.source, only.model.spec) == (SummarySource.LLM, own), (
            "the main model stands behind it in its chain"
        )


async def test_a_model_whose_cache_cannot_follow_the_policy_is_not_chosen(
    tmp_path: Path, script: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    half = Provider("half", lambda spec, *_: ScriptedModel(spec=spec), frozenset({"after_system"}))
    monkeypatch.setattr(open_room, "find_provider", lambda name: half)
    policy = {"cache": {"after_tools": True}}
    async with models_of(tmp_path, agent=[script], summary=[], agents={"main": {"policy": policy}}) as models:
        with pytest.raises(ConfigError, match=r"agents\.main\.policy\.cache\.after_tools: the prompt cache of half"):
            await models.choose("memory:here", "half:nova")
        assert await models.choice_for("memory:here") == ""


async def test_the_window_of_an_ollama_model_is_chosen_once_before_anything_is_asked(tmp_path: Path) -> None:
    async with fake_provider() as server:
        knows(server)
        own = {"ollama": {"base_url": server.url, "max_context": 4_096}}
        async with models_of(tmp_path, agent=["ollama:qwen3:8b"], summary=["ollama:qwen3:8b"], providers=own) as models:
            assert (await models.agent()).context_window == 4_096
            (writer,) = [each.model for each in await models.summarizers()]
            assert writer.context_window == 4_096
            await models.only(["ollama:qwen3:8b"])
        assert [received.path for received in server.received].count("/api/show") == 1


async def test_a_server_that_is_away_at_the_start_is_asked_again_later(tmp_path: Path) -> None:
    async with fake_provider() as server:
        url = server.url
    own = {"ollama": {"base_url": url}}
    async with models_of(tmp_path, agent=["ollama:qwen3:8b"], summary=[], providers=own) as models:
        chain = await models.agent()
        assert chain.context_window == 32_768, "all that is known is what may be asked for"
        async with fake_provider(int(url.rpartition(":")[2])) as server:
            knows(server, QWEN3_8B | {"qwen3.context_length": 3_000})
            server.will(OLLAMA.answer())
            assert (await ask(chain, saying("hi"))).text == "Hello"
            assert chain.context_window == server.asked[0].body["options"]["num_ctx"] == 3_000


class NoModels(GivenModels):
    """No model can be opened."""

    async def agent(self, session: str = "") -> ChatModel:
        raise ConfigError("anthropic:claude needs a key: set ANTHROPIC_API_KEY")

    @property
    def main(self) -> str:
        return ""


async def test_without_a_model_people_hear_why_and_nothing_they_say_is_lost(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.models = NoModels(world.script)
    async with world.running() as core:
        await core.say("hello")
        await core.settled()
        sentence = "anthropic:claude needs a key: set ANTHROPIC_API_KEY"
        assert await core.messages() == [UserMessage("hello"), AssistantMessage(f"[{sentence}]", notice=True)]
        assert "Tokens: " in await core.command("/status")
        assert await core.command("/tool read {}") == sentence
        assert (await core.command("/compact")) == ""
        await core.settled()
    assert world.texts()[0] == sentence


async def test_a_chain_of_named_models_has_nothing_behind_it_and_is_opened_once(tmp_path: Path, script: str) -> None:
    own = tmp_path / "own.json"
    own.write_text(json.dumps([{"text": "Mine"}]))
    async with models_of(tmp_path, agent=[script], summary=[]) as models:
        found = await models.only([f"scripted:{own}"])
        assert isinstance(found, ModelChain) and [model.spec for model in found.models] == [f"scripted:{own}"]
        assert await models.only([f"scripted:{own}"]) is found
        with pytest.raises(ConfigError, match="cannot be read"):
            await models.only(["scripted:nowhere.json"])
