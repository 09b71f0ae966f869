from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from goclaw.common.config.schema import Config, ModelOptions, ModelsSettings, ProviderSettings
from goclaw.common.core import catalog
from goclaw.common.core.container import daemon_command
from goclaw.common.net.ollama import OllamaServer, PulledModel
from goclaw.errors import ConfigError
from goclaw.llm.base import Usage
from goclaw.llm.data import ANTHROPIC_WINDOW, DEFAULT_WINDOW, LOCAL_WINDOW
from goclaw.llm.open import (
    BEST_ANTHROPIC,
    BEST_OPENAI,
    check_caching,
    cost,
    open_chain,
    open_model,
    pick_default,
    pick_summary,
)
from tests.llm.asking import ask, model_ports, saying
from tests.llm.fake_provider import fake_provider, lines
from tests.llm.wires import OLLAMA

QWEN = PulledModel("qwen3:8b", "2026-11-01", ("completion", "tools"))
EMBEDDER = PulledModel("nomic-embed-text:latest", "2026-11-02", ("embedding",))
TALKER = PulledModel("gemma:2b", "2026-11-03", ("completion",))


def finder(*models: PulledModel, away: bool = False) -> "Finder":
    return Finder(None if away else OllamaServer("http://127.0.0.1:11434", models))


class Finder:
    """Answers like a probe, and knows whether it was asked."""

    def __init__(self, server: OllamaServer | None) -> None:
        self.server = server
        self.asked = 0

    async def __call__(self) -> OllamaServer | None:
        self.asked += 1
        return self.server


async def test_the_demo_opens_without_anything() -> None:
    async with model_ports() as ports:
        heard = await ask(open_chain(["demo"], Config(), ports), saying("hi"))
    assert heard.finished.spec == "demo"


@pytest.mark.parametrize("spec", ["", "anthropic", "anthropic:", "claude-opus-5"])
async def test_a_spec_without_a_model_is_refused_with_an_example(spec: str) -> None:
    async with model_ports() as ports:
        with pytest.raises(ConfigError, match="write it as `provider:name`, such as anthropic:"):
            open_model(spec, Config(), ports)


async def test_a_new_provider_is_one_line_of_the_catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(catalog.PROVIDERS, "parrot", "goclaw.llm.demo:PROVIDER")
    async with model_ports() as ports:
        assert open_model("parrot:grey", Config(), ports).spec == "parrot:grey"


@pytest.mark.promise("P-model-choice")
@pytest.mark.parametrize(
    ("env", "found", "chosen", "words"),
    [
        ({"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k"}, finder(QWEN), BEST_ANTHROPIC, "Anthropic key"),
        ({"OPENAI_API_KEY": "k"}, finder(QWEN), BEST_OPENAI, "OpenAI key"),
        ({}, finder(TALKER, QWEN), "ollama:qwen3:8b", "Ollama answers at http://127.0.0.1:11434"),
        ({}, finder(TALKER), "demo", "no model that can call tools"),
        ({}, finder(away=True), "demo", "`goclaw setup` connects one"),
    ],
)
async def test_without_a_configured_model_the_best_that_is_found_answers(
    env: dict[str, str], found: Finder, chosen: str, words: str
) -> None:
    chain, sentence = await pick_default(Config(), found, env)
    assert chain == (chosen,)
    assert chosen in sentence
    assert words in sentence
    assert "`goclaw model`" in sentence or daemon_command("restart") in sentence, "the command that helps"
    assert found.asked == (0 if env else 1)


async def test_a_key_in_the_configuration_counts_and_is_not_shown() -> None:
    config = Config(providers={"anthropic": ProviderSettings(api_key=SecretStr("sk-secret"))})
    chain, sentence = await pick_default(config, finder(away=True), {})
    assert chain == (BEST_ANTHROPIC,)
    assert "sk-secret" not in sentence


async def test_a_configured_chain_is_taken_as_it_is_and_nobody_is_asked() -> None:
    found = finder(QWEN)
    config = Config(models=ModelsSettings(agent=("groq:x", "demo")))
    assert (await pick_default(config, found, {"ANTHROPIC_API_KEY": "k"}))[0] == ("groq:x", "demo")
    assert found.asked == 0


@pytest.mark.parametrize(
    ("found", "chosen"),
    [
        (finder(EMBEDDER, TALKER, PulledModel("qwen2.5:7b", "", ("completion",))), ("ollama:qwen2.5:7b",)),
        (finder(EMBEDDER, TALKER, QWEN), ("ollama:gemma:2b",)),
        (finder(EMBEDDER), ()),
        (finder(away=True), ()),
    ],
)
async def test_summaries_go_to_a_local_model_that_can_chat(found: Finder, chosen: tuple[str, ...]) -> None:
    assert await pick_summary(Config(), found) == chosen


@pytest.mark.parametrize(
    ("spec", "configured", "largest", "own", "window"),
    [
        ("anthropic:claude-sonnet-4-5", 50_000, None, None, 50_000),
        ("anthropic:claude-sonnet-4-5", None, None, None, 200_000),
        ("anthropic:unheard-of", None, None, None, ANTHROPIC_WINDOW),
        ("openai-chat:unheard-of", None, None, None, DEFAULT_WINDOW),
        ("vllm:unheard-of", None, None, None, LOCAL_WINDOW),
        ("vllm:unheard-of", 16_000, None, None, 16_000),
        ("ollama:m", None, None, 8_192, 8_192),
        ("ollama:m", None, None, 262_144, 32_768),
        ("ollama:m", None, 131_072, 262_144, 131_072),
        ("ollama:m", 65_536, None, 262_144, 65_536),
        ("ollama:m", 65_536, None, 8_192, 8_192),
        ("ollama:m", None, None, None, 32_768),
    ],
)
async def test_a_window_is_what_is_configured_else_known_else_asked_for_else_guessed(
    spec: str, configured: int | None, largest: int | None, own: int | None, window: int
) -> None:
    """`own` is what Ollama says of its model, None: nothing; no setting makes a model's own window larger."""
    provider, options = spec.partition(":")[0], ModelOptions(context_window=configured)
    async with fake_provider() as server, model_ports() as ports:
        server.routes["/api/show"] = lines({"model_info": {"m.context_length": own} if own else {}})
        server.will(OLLAMA.answer())
        known: dict[str, Any] = {"max_context": largest} if largest else {}
        settings = ProviderSettings(api_key=SecretStr("k"), base_url=server.url, **known)
        config = Config(providers={provider: settings}, models=ModelsSettings(options={spec: options}))
        model = open_model(spec, config, ports)
        if provider == "ollama":
            await ask(model, saying("hi"))
        assert model.context_window == window


async def test_the_agents_own_model_answers_first_with_the_chain_behind_it() -> None:
    config = Config.model_validate({"agents": {"main": {"model": "demo"}}, "models": {"agent": ["ollama:a", "demo"]}})
    specs, sentence = await pick_default(config, finder(away=True), {})
    assert specs == ("demo", "ollama:a")
    assert sentence == "demo, as configured in `agents.main.model`."


def half_cached(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A provider whose cache takes a mark after the system prompt only."""
    source = (
        "from goclaw.llm.base import Provider\nfrom goclaw.llm.scripted import ScriptedModel\n"
        'PROVIDER = Provider("half", lambda spec, *_: ScriptedModel(spec=spec), frozenset({"after_system"}))\n'
    )
    (tmp_path / "half_cached.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(catalog.PROVIDERS, "half", "half_cached:PROVIDER")


def cached(**agent: Any) -> Config:
    policy = {"cache": {"after_system": True, "after_tools": True}}
    return Config.model_validate({"agents": {"kinds": {"reader": {"policy": policy, **agent}}}})


def test_a_mark_that_a_provider_cannot_place_is_refused_with_agent_provider_and_key(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    half_cached(monkeypatch, tmp_path)
    with pytest.raises(ConfigError) as refused:
        check_caching(cached(model="half:nova"))
    (problem,) = refused.value.problems
    assert problem.startswith("agents.kinds.reader.policy.cache.after_tools: the prompt cache of half allows no mark")


@pytest.mark.parametrize("model", ["anthropic:claude-opus-5-5", "ollama:qwen3", "openai-chat:gpt-6", "demo"])
def test_a_provider_that_can_place_marks_does_and_one_without_such_a_cache_ignores_them(model: str) -> None:
    check_caching(cached(model=model))


def test_what_nobody_asked_for_needs_no_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    half_cached(monkeypatch, tmp_path)
    check_caching(Config.model_validate({"agents": {"main": {"model": "half:nova"}}}))


USED = Usage(input=1_000_000, output=1_000_000)


@pytest.mark.parametrize(
    ("spec", "settings", "dollars"),
    [
        ("ollama:qwen3:8b", {}, 0.0),
        ("ollama:qwen3:8b", {"providers": {"ollama": {"base_url": "http://gpu-box:11434"}}}, 0.0),
        ("vllm:mine", {}, 0.0),
        ("openai-chat:mine", {"providers": {"openai-chat": {"base_url": "http://127.0.0.1:8000/v1"}}}, 0.0),
        ("ollama:qwen3:8b", {"models": {"options": {"ollama:qwen3:8b": {"price_input": 2}}}}, 2.0),
        ("ollama:gpt-oss:120b-cloud", {}, None),
        ("ollama:kimi-k2:cloud", {}, None),
        ("ollama:qwen3:8b", {"providers": {"ollama": {"base_url": "https://ollama.com"}}}, None),
        ("openai-chat:mine", {}, None),
        ("openai-chat:mine", {"providers": {"openai-chat": {"base_url": "https://models.example.org/v1"}}}, None),
    ],
)
def test_what_runs_on_ones_own_machine_costs_nothing_and_the_rest_is_not_guessed(
    spec: str, settings: dict[str, Any], dollars: float | None
) -> None:
    assert cost(spec, USED, Config.model_validate(settings), 0.0) == dollars


def test_a_price_in_the_data_holds_for_a_server_on_this_machine_that_hands_requests_on() -> None:
    here = Config.model_validate({"providers": {"openai-chat": {"base_url": "http://127.0.0.1:4000"}}})
    assert cost("openai-chat:gpt-4o", USED, here, 0.0) == cost("openai-chat:gpt-4o", USED, Config(), 0.0) != 0.0
