import pytest
from pydantic import SecretStr

from goclaw import catalog
from goclaw.config.schema import Config, ModelsSettings, ProviderSettings
from goclaw.errors import ConfigError
from goclaw.llm.ollama_probe import OllamaModel, OllamaServer
from goclaw.llm.open import BEST_ANTHROPIC, BEST_OPENAI, open_chain, open_model, pick_default, pick_summary
from tests.llm.asking import ask, model_ports, saying

QWEN = OllamaModel("qwen3:8b", "2026-11-01", ("completion", "tools"))
EMBEDDER = OllamaModel("nomic-embed-text:latest", "2026-11-02", ("embedding",))
TALKER = OllamaModel("gemma:2b", "2026-11-03", ("completion",))


def finder(*models: OllamaModel, away: bool = False) -> "Finder":
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
        ({}, finder(away=True), "demo", "Set ANTHROPIC_API_KEY"),
    ],
)
async def test_without_a_configured_model_the_best_that_is_found_answers(
    env: dict[str, str], found: Finder, chosen: str, words: str
) -> None:
    chain, sentence = await pick_default(Config(), found, env)
    assert chain == (chosen,)
    assert chosen in sentence
    assert words in sentence
    assert "models.agent" in sentence or "ollama pull" in sentence
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
        (finder(EMBEDDER, TALKER, OllamaModel("qwen2.5:7b", "", ("completion",))), ("ollama:qwen2.5:7b",)),
        (finder(EMBEDDER, TALKER, QWEN), ("ollama:gemma:2b",)),
        (finder(EMBEDDER), ()),
        (finder(away=True), ()),
    ],
)
async def test_summaries_go_to_a_local_model_that_can_chat(found: Finder, chosen: tuple[str, ...]) -> None:
    assert await pick_summary(Config(), found) == chosen
