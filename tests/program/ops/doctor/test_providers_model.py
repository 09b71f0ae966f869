"""The doctor asks the model for one tool call, and compares its window with what every request holds."""

import re
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from goclaw.common.config.load import load_config
from goclaw.common.config.schema import Config
from goclaw.common.config.state import open_state
from goclaw.llm.served import NO_TOOLS
from goclaw.program.ops.doctor import Finding, examine
from goclaw.program.ops.doctor import providers as model_module
from tests.llm.fake_provider import FakeProvider, Reply, fake_provider, lines, refusal
from tests.llm.llama_server import SPEC as LLAMA
from tests.llm.llama_server import replay, replays
from tests.llm.ollama_server import knows
from tests.llm.wires import OLLAMA, OPENAI

SPEC = "ollama:qwen3:8b"
HOSTED = "openai-chat:gpt"


def shown(context: int) -> Reply:
    return lines({"capabilities": ["completion", "tools"], "model_info": {"qwen3.context_length": context}})


@pytest.fixture
async def fake() -> AsyncIterator[FakeProvider]:
    async with fake_provider() as server:
        server.routes["/api/show"] = shown(40_960)
        server.will(OLLAMA.answer())
        yield server


async def found(
    tmp_path: Path, given: Mapping[str, Any], told: list[str] | None = None, *, offline: bool = False
) -> list[Finding]:
    overrides = {"state_dir": str(tmp_path / "state"), "models.agent": SPEC, "memory.embedder": "none", **given}
    loaded = load_config(overrides=overrides, environ={})
    findings = await examine(loaded, (told if told is not None else []).append, offline=offline)
    return [finding for finding in findings if finding.check in ("model", "window")]


def counted(window: Finding) -> tuple[int, int]:
    """Tokens of prompt and tools, as the finding says them."""
    prompt, tools = re.findall(r"(?:prompt|tools) ([\d,]+)", window.text)
    return int(prompt.replace(",", "")), int(tools.replace(",", ""))


def at(fake: FakeProvider) -> dict[str, Any]:
    return {"providers.ollama.base_url": fake.url}


@pytest.mark.promise("P-doctor-asks")
async def test_a_dead_ollama_is_a_problem_with_what_helps(tmp_path: Path) -> None:
    model, window = await found(tmp_path, {"providers.ollama.base_url": "http://127.0.0.1:9"})
    assert model.verdict == "problem"
    assert "Ollama does not answer at http://127.0.0.1:9; start it" in model.text
    assert window.verdict == "ok", "what is configured of the window can be judged all the same"


async def test_a_model_that_answers_is_asked_for_a_few_tokens_at_most(tmp_path: Path, fake: FakeProvider) -> None:
    told: list[str] = []
    model, window = await found(tmp_path, at(fake), told)
    assert (model.verdict, window.verdict) == ("ok", "ok")
    assert "It answers: " in model.text
    assert [received.body["options"]["num_predict"] for received in fake.asked] == [model_module.MAX_OUTPUT]
    assert told == [], "one's own machine costs nothing"


async def test_what_may_cost_is_said_before_the_question(tmp_path: Path) -> None:
    settings = {"models.agent": HOSTED, "providers.openai-chat.api_key": "sk-0123456789abcdef"}
    told: list[str] = []
    model, _ = await found(tmp_path, settings, told, offline=True)
    assert (model.verdict, told) == ("ok", []) and "Not contacted (--offline)" in model.text
    model, _ = await found(tmp_path, settings, told)
    assert told == [f"asking {HOSTED} for one tool call, which may cost a little; --offline skips this"]
    assert model.verdict == "problem" and "may not be reached" in model.text, "tests reach this machine alone"


async def test_offline_asks_nobody(tmp_path: Path, fake: FakeProvider) -> None:
    model, _ = await found(tmp_path, at(fake), offline=True)
    assert model.verdict == "ok" and "Not contacted (--offline)" in model.text
    assert fake.asked == []


@pytest.mark.promise("P-doctor-asks")
async def test_a_window_that_prompt_and_tools_fill_is_a_problem_with_what_uses_it(
    tmp_path: Path, fake: FakeProvider
) -> None:
    fake.routes["/api/show"] = shown(4_096)
    model, window = await found(tmp_path, {**at(fake), "tools.profile": "all"})
    assert (model.verdict, window.verdict) == ("ok", "problem")
    assert window.text.startswith("The window of 4,096 tokens is too small for a conversation: prompt ")
    assert "providers.ollama.max_context" in window.remedy and "Offer fewer tools" in window.remedy


async def test_the_tools_that_stand_in_a_request_count_and_their_index_and_no_others(
    tmp_path: Path, fake: FakeProvider
) -> None:
    """A window of 4k holds a conversation: most tools are only found."""
    fake.routes["/api/show"] = shown(4_096)
    _, small = await found(tmp_path, at(fake))
    assert small.verdict == "ok", small
    fake.routes["/api/show"] = shown(32_768)
    _, large = await found(tmp_path, at(fake))
    _, every = await found(tmp_path, {**at(fake), "tools.profile": "all"})
    prompts, tools = zip(*map(counted, (small, large, every)), strict=True)
    assert tools[0] < tools[1] < tools[2] / 2 and sum(counted(small)) < 1_800
    assert prompts[0] == prompts[2] < prompts[1], "a line for each tool of the index"


async def test_the_workspace_files_and_the_tools_of_the_main_agent_count(tmp_path: Path, fake: FakeProvider) -> None:
    _, many = await found(tmp_path, at(fake))
    (tmp_path / "state" / "workspace").mkdir(parents=True)
    (tmp_path / "state" / "workspace" / "AGENTS.md").write_text("Be brief and kind. " * 800)
    _, few = await found(tmp_path, {**at(fake), "agents.main.tools": ["read"]})
    prompts, tools = zip(*map(counted, (many, few)), strict=True)
    assert prompts[1] > prompts[0] + 3_000 and 100 < tools[1] < tools[0] / 4


async def test_a_model_that_thought_until_its_limit_was_there(tmp_path: Path, fake: FakeProvider) -> None:
    words = "Could not finish the message because max_tokens or model output limit was reached."
    fake.will(refusal(400, {"error": words}))
    model, _ = await found(tmp_path, at(fake))
    assert model.verdict == "ok"


async def test_a_model_that_stays_silent_is_a_problem(
    tmp_path: Path, fake: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_module, "ASK_SECONDS", 0.2)
    fake.will(Reply([], end="hang"))
    model, _ = await found(tmp_path, at(fake))
    assert model.verdict == "problem" and "no answer within 0.2 s" in model.text


async def test_what_is_compared_is_what_the_model_is_shown(tmp_path: Path, fake: FakeProvider) -> None:
    shown_tools = []
    for profile in ("all", "index", "core"):
        _, window = await found(tmp_path, {**at(fake), "tools.profile": profile})
        shown_tools.append(counted(window)[1])
    assert shown_tools[0] > 2 * shown_tools[1] > 2 * shown_tools[2] > 0


async def test_a_model_is_asked_with_the_window_that_the_daemon_asks_for(tmp_path: Path, fake: FakeProvider) -> None:
    _, window = await found(tmp_path, at(fake))
    tools = counted(window)[1]
    assert [received.body["options"]["num_ctx"] for received in fake.asked] == [16_384], "its answers may have 8,192"
    assert 1_000 < tools < 8_192


async def test_a_model_that_a_daemon_works_with_is_asked_with_its_window(tmp_path: Path, fake: FakeProvider) -> None:
    knows(fake, {"qwen3.context_length": 40_960}, loaded=20_480)
    config = Config(state_dir=tmp_path / "state")
    with open_state(config):
        await found(tmp_path, at(fake))
    assert [received.body["options"]["num_ctx"] for received in fake.asked] == [20_480]


async def test_the_window_that_a_server_names_is_shown_with_its_origin(tmp_path: Path, fake: FakeProvider) -> None:
    fake.routes["/v1/models"] = Reply([b'{"data":[{"id":"qwen","max_model_len":8192}]}'], type="application/json")
    fake.will(OPENAI.answer())
    _, window = await found(tmp_path, {"models.agent": "llama.cpp:qwen", "providers.llamacpp.base_url": fake.url})
    assert "The window of 8,192 tokens" in window.text
    assert window.text.endswith("Its size: 8,192 tokens, according to the server.")


async def test_a_model_without_tools_is_a_warning(tmp_path: Path, fake: FakeProvider) -> None:
    fake.routes["/api/show"] = lines({"capabilities": ["completion"], "model_info": {"qwen3.context_length": 40_960}})
    overrides = {"state_dir": str(tmp_path / "state"), "models.agent": SPEC, "memory.embedder": "none", **at(fake)}
    findings = await examine(load_config(overrides=overrides, environ={}), lambda line: None, offline=False)
    assert [received.body.get("tools") for received in fake.asked] == [None]
    warned = [each.text for each in findings if each.verdict == "warning" and each.check == "tools"]
    assert warned == [NO_TOOLS.format(spec=SPEC)]


TRIALS = {
    "structured_call": ("ok", "calls tools"),
    "text_call": ("ok", "calls tools as text, which GoClaw reads"),
    "text": ("warning", "answers but makes no calls: good for conversation, not for tools"),
}


@pytest.mark.parametrize("recording", TRIALS)
async def test_the_doctor_says_how_a_model_calls_tools(tmp_path: Path, fake: FakeProvider, recording: str) -> None:
    replays(fake, recording)
    [tools] = await trials(tmp_path, fake)
    verdict, words = TRIALS[recording]
    assert (tools.verdict, tools.text) == (verdict, f"{LLAMA} {words}")
    assert len(fake.asked) == 1 and fake.asked[0].body["max_tokens"] == model_module.MAX_OUTPUT


async def test_text_calls_that_are_not_read_are_a_warning(tmp_path: Path, fake: FakeProvider) -> None:
    replays(fake, "text_call")
    [tools] = await trials(tmp_path, fake, **{"models.options": {LLAMA: {"text_calls": "off"}}})
    assert tools.verdict == "warning" and "reading them is off" in tools.text


async def test_a_server_that_refuses_tools_is_asked_without_them_and_that_is_said(
    tmp_path: Path, fake: FakeProvider
) -> None:
    replays(fake, "text")
    fake.will(refusal(500, {"error": {"message": "tools param requires --jinja flag"}}), replay("text"))
    [tools] = await trials(tmp_path, fake)
    assert (tools.verdict, tools.text) == ("warning", NO_TOOLS.format(spec=LLAMA))
    assert ["tools" in received.body for received in fake.asked] == [True, False]


async def test_a_trial_that_fails_says_the_servers_words(tmp_path: Path, fake: FakeProvider) -> None:
    replays(fake, "server_error")
    fake.will(refusal(400, {"error": {"message": "the weights are on strike"}}))
    assert await trials(tmp_path, fake) == []
    model, _ = await found(tmp_path, {"models.agent": LLAMA, "providers.llamacpp.base_url": f"{fake.url}/v1"})
    assert model.verdict == "problem" and "the weights are on strike" in model.text


async def trials(tmp_path: Path, fake: FakeProvider, **more: Any) -> list[Finding]:
    """The findings on the calls of a llama.cpp at the fake's address."""
    server = {"models.agent": LLAMA, "providers.llamacpp.base_url": f"{fake.url}/v1", "memory.embedder": "none"}
    overrides = {"state_dir": str(tmp_path / "state"), **server, **more}
    findings = await examine(load_config(overrides=overrides, environ={}), lambda line: None)
    return [finding for finding in findings if finding.check == "tools" and finding.text.startswith(LLAMA)]
