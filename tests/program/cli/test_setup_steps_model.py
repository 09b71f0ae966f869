"""Which model answers: found, typed, tried with the key that it needs."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from goclaw.errors import ConfigError, ModelError
from goclaw.llm.open import BEST_ANTHROPIC, BEST_OPENAI
from goclaw.llm.served import CallStyle
from goclaw.program.cli.setup_dialogue import ModelChoice
from goclaw.program.cli.setup_steps import choose_model, find_ollama
from tests.llm.fake_provider import FakeProvider, fake_provider, lines, recorded, refusal
from tests.llm.llama_server import SPEC as LLAMA
from tests.llm.llama_server import replays
from tests.program.cli.setup_support import NOBODY, Heard, dialogue, scene

pytestmark = pytest.mark.usefixtures("no_keys")

OPENAI = "providers.openai-chat.base_url"
KEY = "sk-right-0123456789abcdef"
WRONG = "sk-wrong-0123456789abcdef"
REFUSED = refusal(401, {"error": {"message": f"Incorrect API key provided: {WRONG}", "code": "invalid_api_key"}})
ANSWER = recorded("openai_text.sse")
NOTHING: Mapping[str, Any] = {}


async def chosen(
    folder: Path, heard: Heard, provider: FakeProvider | None = None, settings: Mapping[str, Any] = NOTHING
) -> ModelChoice | None:
    """What the step returns, with OpenAI's place taken by `provider`."""
    server = {OPENAI: provider.url} if provider else {}
    async with scene(heard, folder, **server, **settings) as set_up:
        return await choose_model(set_up)


async def test_a_number_and_a_key_that_works_are_a_choice(tmp_path: Path) -> None:
    async with fake_provider() as provider:
        provider.will(ANSWER)
        with dialogue("2", KEY) as heard:
            assert await chosen(tmp_path, heard, provider) == ModelChoice(BEST_OPENAI, KEY)
    assert f"1  {BEST_ANTHROPIC} (needs a key)" in heard.text and "[Enter: none for now]" in heard.text
    assert f"✓ {BEST_OPENAI} answers: " in heard.text
    assert provider.received[0].headers["Authorization"] == f"Bearer {KEY}"
    assert "It answers but makes no calls: good for conversation, not for tools." in heard.text
    assert [tool["function"]["name"] for tool in provider.received[0].body["tools"]] == ["note"]
    assert KEY not in heard.text


@pytest.mark.parametrize(
    ("recording", "calls", "said"),
    [
        ("structured_call", CallStyle.STRUCTURED, "✓ It calls tools."),
        ("text_call", CallStyle.TEXT, "✓ It calls tools as text, which GoClaw reads."),
        ("text", CallStyle.NONE, "! It answers but makes no calls: good for conversation, not for tools."),
    ],
)
async def test_how_the_model_calls_tools_is_tried_and_said(
    tmp_path: Path, recording: str, calls: CallStyle, said: str
) -> None:
    async with fake_provider() as server:
        replays(server, recording)
        with dialogue() as heard:
            async with scene(heard, tmp_path, **{"providers.llamacpp.base_url": f"{server.url}/v1"}) as set_up:
                choice = await choose_model(set_up, LLAMA)
    assert choice and choice.calls is calls
    assert f"   {said}\n" in heard.text


async def test_a_wrong_key_is_said_in_words_and_asked_for_again(tmp_path: Path) -> None:
    async with fake_provider() as provider:
        provider.will(REFUSED, REFUSED, ANSWER)
        with dialogue("openai-chat:gpt", WRONG, WRONG, KEY) as heard:
            assert await chosen(tmp_path, heard, provider) == ModelChoice("openai-chat:gpt", KEY)
    assert heard.text.count("the provider refused the key") == 2
    assert WRONG not in heard.text


async def test_whoever_has_no_better_key_chooses_anew_or_skips(tmp_path: Path) -> None:
    async with fake_provider() as provider:
        provider.will(REFUSED)
        with dialogue("openai-chat:gpt", WRONG, "", "") as heard:
            assert await chosen(tmp_path, heard, provider) is None
    assert heard.text.count("Number or") == 2


async def test_what_is_not_about_the_key_leads_back_to_the_model(tmp_path: Path) -> None:
    unknown = refusal(404, {"error": {"message": "The model `gtp` does not exist", "code": "model_not_found"}})
    async with fake_provider() as provider:
        provider.will(unknown, ANSWER)
        with dialogue("openai-chat:gtp", KEY, "openai-chat:gpt", KEY) as heard:
            assert await chosen(tmp_path, heard, provider) == ModelChoice("openai-chat:gpt", KEY)
    assert "does not know this model" in heard.text


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("gpt", "write it as `provider:name`"),
        ("openai-chat:", "write it as `provider:name`"),
        ("nonsense:x", "nonsense"),
        ("vllm:x", "cannot be reached"),
    ],
)
async def test_what_cannot_be_is_said_in_words(tmp_path: Path, typed: str, words: str) -> None:
    with dialogue(typed, "", "", ends=True) as heard:
        assert await chosen(tmp_path, heard, settings={"providers.vllm.base_url": NOBODY}) is None
    assert "✗" in heard.text and words in heard.text


async def test_a_key_that_cannot_be_one_is_asked_for_again(tmp_path: Path) -> None:
    async with fake_provider() as provider:
        provider.will(ANSWER)
        with dialogue("2", "two words", KEY) as heard:
            assert await chosen(tmp_path, heard, provider) == ModelChoice(BEST_OPENAI, KEY)
    assert "one word without spaces" in heard.text and len(provider.received) == 1


async def test_a_key_that_is_known_need_not_be_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    async with fake_provider() as provider:
        provider.will(ANSWER)
        with dialogue("1", "") as heard:
            assert await chosen(tmp_path, heard, provider) == ModelChoice(BEST_OPENAI)
    assert f"1  {BEST_OPENAI} (you have a key for openai-chat)" in heard.text
    assert "[Enter: the one in env OPENAI_API_KEY]" in heard.text
    assert provider.received[0].headers["Authorization"] == f"Bearer {KEY}"


async def test_an_ollama_is_found_and_needs_no_key(tmp_path: Path) -> None:
    async with fake_provider() as server:
        tags = {"models": [{"name": "qwen3:8b", "modified_at": "2026"}]}
        server.routes = {"/api/tags": lines(tags), "/api/show": lines({"capabilities": ["completion", "tools"]})}
        server.will(recorded("ollama_text.ndjson"))
        with dialogue("1") as heard:
            found = await chosen(tmp_path, heard, settings={"providers.ollama.base_url": server.url})
    assert found == ModelChoice("ollama:qwen3:8b")


async def test_where_no_ollama_answers_the_way_without_a_key_is_told_all_the_same(tmp_path: Path) -> None:
    with dialogue("") as heard:
        assert await chosen(tmp_path, heard, settings={"providers.ollama.base_url": NOBODY}) is None
    assert all(
        words in heard.text
        for words in (f"No Ollama answers at {NOBODY}.", "llama.cpp, LM Studio, ", "`ollama pull qwen3`")
    )


async def test_an_ollama_without_a_fitting_model_is_said_to_need_one(tmp_path: Path) -> None:
    async with fake_provider() as server:
        server.routes = {"/api/tags": lines({"models": []})}
        with dialogue("") as heard:
            await chosen(tmp_path, heard, settings={"providers.ollama.base_url": server.url})
    assert "`ollama pull qwen3`" in heard.text


async def test_a_key_of_another_provider_is_pointed_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROQ_API_KEY", "gsk")
    with dialogue("") as heard:
        await chosen(tmp_path, heard)
    assert "You have a key for groq: `groq:<model>` works, too." in heard.text


async def test_what_is_configured_is_kept_with_enter(tmp_path: Path) -> None:
    with dialogue("") as heard:
        assert await chosen(tmp_path, heard, settings={"models.agent": ["demo"]}) is None
    assert "[Enter: keep demo]" in heard.text


async def test_a_model_of_the_command_line_is_tried_and_not_asked_for(tmp_path: Path) -> None:
    async with fake_provider() as provider:
        provider.will(ANSWER, REFUSED)
        with dialogue(silent=True) as heard:
            async with scene(heard, tmp_path, **{OPENAI: provider.url}) as set_up:
                assert await choose_model(set_up, "openai-chat:gpt", KEY) == ModelChoice("openai-chat:gpt", KEY)
                with pytest.raises(ModelError, match="refused the key"):
                    await choose_model(set_up, "openai-chat:gpt", KEY)


async def test_a_model_of_the_command_line_without_a_key_asks_only_for_that(tmp_path: Path) -> None:
    assert "ANTHROPIC_API_KEY" not in os.environ
    with dialogue("", silent=False) as heard:
        async with scene(heard, tmp_path) as set_up:
            with pytest.raises(ConfigError, match="no key; set ANTHROPIC_API_KEY"):
                await choose_model(set_up, "anthropic:claude")
    assert "Key for anthropic (hidden) [Enter: none]" in heard.text and "Number or" not in heard.text


async def test_an_ollama_that_is_not_at_its_usual_place_is_told_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with dialogue(silent=True) as heard:
        async with scene(heard, tmp_path) as set_up:
            assert await find_ollama(set_up) == "", "nobody answers there"
            async with fake_provider() as server:
                server.routes = {"/api/tags": lines({"models": []})}
                monkeypatch.setenv("OLLAMA_HOST", server.url)
                heard_by_variable = {"providers.ollama.base_url": None}
                async with scene(heard, tmp_path, **heard_by_variable) as by_variable:
                    assert await find_ollama(by_variable) == server.url
                    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1")
                    asked = len(server.received)
                    assert await find_ollama(by_variable) == "", "the daemon finds that one by itself"
                    assert len(server.received) == asked
