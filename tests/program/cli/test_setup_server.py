"""A server with OpenAI's protocol at an address that the person gives: found, listed, tried, and written as by hand."""

from pathlib import Path

import pytest

from goclaw.common.config.schema import Config
from goclaw.common.net.local_servers import LocalServer
from goclaw.errors import ConfigError
from goclaw.llm.served import CallStyle
from goclaw.program.cli.setup_dialogue import ModelChoice
from goclaw.program.cli.setup_server import choose_served_model, find_place, with_choice
from goclaw.program.cli.setup_steps import choose_model
from tests.llm.fake_provider import Received, Reply, fake_provider, lines, recorded, refusal
from tests.llm.llama_server import replays
from tests.program.cli.setup_support import dialogue, loaded, scene

pytestmark = pytest.mark.usefixtures("no_keys")

KEY = "sk-right-0123456789abcdef"
LISTED = lines({"data": [{"id": "qwen3:8b"}, {"id": "gemma"}]})
REFUSED = refusal(401, {"error": {"message": "Invalid API Key", "code": "invalid_api_key"}})
OTHER = "3"
"""The number of "another server" where nothing else is found."""


async def test_another_server_is_asked_for_its_models_and_one_of_them_is_tried(tmp_path: Path) -> None:
    async with fake_provider() as server:
        server.routes = {"/v1/models": LISTED}
        server.will(recorded("openai_text.sse"))
        with dialogue(OTHER, server.url, "", "2") as heard:
            async with scene(heard, tmp_path) as set_up:
                choice = await choose_model(set_up)
    assert choice == ModelChoice("local:qwen3:8b", base_url=f"{server.url}/v1")
    assert [asked.body["model"] for asked in server.asked] == ["qwen3:8b"]
    for words in (
        "3  another server with OpenAI's protocol",
        "1  http://127.0.0.1:1234/v1 (usual for LM Studio)",
        "2  http://127.0.0.1:8080/v1 (usual for llama.cpp)",
        "3  http://127.0.0.1:8000/v1 (usual for vLLM)",
        "1  gemma\n   2  qwen3:8b\n",
        "✓ local:qwen3:8b answers",
    ):
        assert words in heard.text


async def test_a_real_llama_server_is_understood(tmp_path: Path) -> None:
    async with fake_provider() as server:
        replays(server, "structured_call")
        with dialogue(server.url, "", "1") as heard:
            async with scene(heard, tmp_path) as set_up:
                choice = await choose_model(set_up)
    assert choice and choice.spec.startswith("local:qwen2.5-coder") and choice.calls is CallStyle.STRUCTURED


async def test_an_address_may_be_typed_at_once_and_a_name_that_is_not_listed(tmp_path: Path) -> None:
    async with fake_provider() as server:
        server.routes = {"/v1/models": lines({"data": []})}
        server.will(recorded("openai_text.sse"))
        with dialogue(f"{server.url}/v1", "", "mine") as heard:
            async with scene(heard, tmp_path) as set_up:
                assert await choose_model(set_up) == ModelChoice("local:mine", base_url=f"{server.url}/v1")


async def test_a_server_with_a_key_is_asked_again_until_it_fits(tmp_path: Path) -> None:
    def listed(received: Received) -> Reply:
        return LISTED if received.headers.get("Authorization") == f"Bearer {KEY}" else REFUSED

    async with fake_provider() as server:
        server.routes = {"/v1/models": listed}
        with dialogue(server.url, "", "sk-wrong-0123456789abcdef", KEY, "gemma") as heard:
            async with scene(heard, tmp_path) as set_up:
                choice = await choose_served_model(set_up, ())
                assert choice == ModelChoice("local:gemma", KEY, base_url=f"{server.url}/v1")
                heard.type(server.url, "", "", "")
                assert await choose_served_model(set_up, ()) is None
    assert heard.text.count("the provider refused the key") == 3 and KEY not in heard.text


def test_another_server_never_gets_the_key_of_the_one_before() -> None:
    before = Config.model_validate({"providers": {"local": {"base_url": "http://a.lan:9000/v1", "api_key": KEY}}})
    other = ModelChoice("local:", base_url="http://b.lan/v1")
    assert with_choice(before, other).providers["local"].api_key is None
    assert with_choice(before, ModelChoice("local:")).providers["local"].api_key is not None


async def test_a_server_that_answers_now_is_named_first(tmp_path: Path) -> None:
    vllm = LocalServer("vllm", "vLLM", "http://127.0.0.1:8000/v1", ("qwen",))
    with dialogue("") as heard:
        async with scene(heard, tmp_path) as set_up:
            assert await choose_served_model(set_up, [vllm]) is None
    assert heard.text.startswith("   1  http://127.0.0.1:8000/v1 (vLLM answers)\n   2  http://127.0.0.1:1234/v1 (usual")


async def test_an_address_where_nothing_answers_is_said_and_asked_for_again(tmp_path: Path) -> None:
    async with fake_provider() as server:
        server.routes = {"/v1/models": LISTED}
        with dialogue(
            "http://127.0.0.1:9", "", f"{server.url}/nowhere", "", "no address", server.url, "", "1"
        ) as heard:
            async with scene(heard, tmp_path) as set_up:
                assert await choose_served_model(set_up, ()) == ModelChoice("local:gemma", base_url=f"{server.url}/v1")
    assert heard.text.count("✗") == 3
    for words in ("cannot be reached", "does it end in /v1?", "no address: is no address"):
        assert words in heard.text


@pytest.mark.parametrize(
    ("typed", "spec", "address"),
    [
        ("http://127.0.0.1:1234/v1", "lmstudio:", ""),
        ("127.0.0.1:1234", "lmstudio:", ""),
        ("http://box:1234", "lmstudio:", "http://box:1234/v1"),
        ("http://box:8080/v1/chat/completions", "llamacpp:", "http://box:8080/v1"),
        ("https://models.example.org/v1", "local:", "https://models.example.org/v1"),
    ],
)
def test_the_port_says_which_kind_a_server_is_and_only_another_address_is_written(
    tmp_path: Path, typed: str, spec: str, address: str
) -> None:
    assert find_place(typed, loaded(tmp_path).config) == ModelChoice(spec, base_url=address)


def test_the_usual_address_is_written_where_the_configuration_has_another_one(tmp_path: Path) -> None:
    config = loaded(tmp_path, **{"providers.lmstudio.base_url": "http://box:1234"}).config
    assert find_place("http://127.0.0.1:1234", config).base_url == "http://127.0.0.1:1234/v1"
    assert find_place("http://box:1234/v1", config).base_url == ""
    with pytest.raises(ConfigError, match="is no address"):
        find_place("http://box:port", config)
