"""`goclaw model`: one key of the configuration changes, and names are completed from what providers list."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from goclaw.common.config.load import load_config
from goclaw.durable.store.open import stored_fact
from goclaw.llm.served import TEXT_CALLS, CallStyle, style_words
from goclaw.program.cli.model import completions
from goclaw.program.cli.program import run
from tests import house
from tests.llm.fake_provider import FakeProvider, fake_provider, lines, refusal
from tests.llm.llama_server import SPEC as LLAMA
from tests.llm.llama_server import replays

TAGS = {
    "models": [
        {"name": "qwen3:8b", "modified_at": "2", "capabilities": ["completion", "tools"]},
        {"name": "qwen3:30b", "modified_at": "1", "capabilities": ["completion", "tools"]},
        {"name": "gemma3:latest", "modified_at": "1", "capabilities": ["completion"]},
        {"name": "nomic-embed-text:latest", "modified_at": "1", "capabilities": ["embedding"]},
    ]
}
STYLES = {"text": CallStyle.NONE, "text_call": CallStyle.TEXT, "structured_call": CallStyle.STRUCTURED}
BEFORE = """\
# mine
models:
  # who answers
  agent:
    - ollama:gemma3  # the small one
    # when it fails
    - demo
  summary: []
"""


@pytest.fixture
async def ollama() -> AsyncIterator[FakeProvider]:
    async with fake_provider() as server:
        server.routes = {"/api/tags": lines(TAGS)}
        server.will(refusal(404, {"error": "nothing here"}))
        yield server


@pytest.fixture
def state(tmp_path: Path, ollama: FakeProvider, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in os.environ:
        if name.endswith("_API_KEY") or (name.startswith("GOCLAW_") and name != "GOCLAW_LOOPBACK_ONLY"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GOCLAW_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("OLLAMA_HOST", ollama.url)
    (tmp_path / "state").mkdir(mode=0o700)
    return tmp_path / "state"


def names(state: Path) -> list[str]:
    """What is in the state folder."""
    return sorted(path.name for path in state.iterdir())


def configured(state: Path, text: str, mode: int = 0o600) -> Path:
    """The configuration file with this text."""
    file = state / "config.yaml"
    file.write_text(text)
    file.chmod(mode)
    return file


async def goclaw(*arguments: str) -> int:
    """The command in a thread: it brings its own loop, and the fake server is served by this one."""
    return await asyncio.to_thread(run, arguments)


async def test_the_main_model_changes_and_every_comment_stays(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = configured(state, BEFORE, 0o640)
    assert await goclaw("model", "qwen3:8b") == 0
    assert file.read_text() == BEFORE.replace("ollama:gemma3 ", '"ollama:qwen3:8b" ')
    old = state / "config.yaml.old"
    assert (old.read_text(), old.stat().st_mode & 0o777, file.stat().st_mode & 0o777) == (BEFORE, 0o640, 0o640)
    assert capsys.readouterr().out.splitlines() == [
        "state/config.yaml: models.agent is now ollama:qwen3:8b, then demo, ollama:gemma3, then demo before",
        "state/config.yaml.old: the previous file",
        "Asking ollama:qwen3:8b for one tool call …",
    ]
    assert load_config().config.models.agent == ("ollama:qwen3:8b", "demo")


async def test_a_chosen_model_is_tried_once_and_the_result_is_kept(
    state: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with fake_provider() as server:
        monkeypatch.setenv("GOCLAW_PROVIDERS__LLAMACPP__BASE_URL", f"{server.url}/v1")
        for recording, style in STYLES.items():
            replays(server, recording)
            assert await goclaw("model", LLAMA) == 0
            assert capsys.readouterr().out.splitlines()[-1] == f"{LLAMA} {style_words(style, reads_text=True)}"
            assert stored_fact(state / "goclaw.db", f"{TEXT_CALLS}:{LLAMA}") == style
        assert len(server.asked) == len(STYLES)
        assert all([tool["function"]["name"] for tool in asked.body["tools"]] == ["note"] for asked in server.asked)


async def test_a_chosen_model_that_does_not_answer_is_chosen_and_its_servers_words_are_said(
    state: Path, ollama: FakeProvider, capsys: pytest.CaptureFixture[str]
) -> None:
    ollama.will(refusal(400, {"error": "the weights are on strike"}))
    assert await goclaw("model", "qwen3:8b") == 0
    assert load_config().config.models.agent == ("ollama:qwen3:8b",)
    error = capsys.readouterr().err
    assert "chosen, but it does not answer" in error and "the weights are on strike" in error
    assert names(state) == ["config.yaml"]


async def test_a_new_installation_gets_a_file_with_that_key_alone(state: Path) -> None:
    assert await goclaw("model", "ollama:gem") == 0
    assert (state / "config.yaml").read_text() == 'models:\n  agent: ["ollama:gemma3:latest"]\n'
    assert names(state) == ["config.yaml"]


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("qwen3", "'qwen3' matches several models:\ngoclaw: ollama:qwen3:30b\ngoclaw: ollama:qwen3:8b\n"),
        ("ollama:qwen4:8b", "no provider offers a model 'ollama:qwen4:8b'; did you mean ollama:qwen3:8b?"),
        ("embed", "no provider offers a model 'embed'"),
        ("openai-chat:gpt", "no key; set OPENAI_API_KEY"),
        ("nonsense:x", "nonsense"),
    ],
)
async def test_what_fits_no_model_or_several_changes_nothing(
    state: Path, capsys: pytest.CaptureFixture[str], typed: str, said: str
) -> None:
    assert await goclaw("model", typed) != 0
    assert said in capsys.readouterr().err
    assert names(state) == []


async def test_the_own_model_of_the_main_agent_is_what_changes_where_it_has_one(state: Path) -> None:
    configured(state, "agents:\n  main:\n    model: demo\nmodels: {agent: [demo]}\n")
    assert await goclaw("model", "qwen3:8b") == 0
    assert load_config().config.agents.main.model == "ollama:qwen3:8b"
    assert load_config().config.models.agent == ("demo",)


async def test_a_compatible_server_lists_its_models_with_the_key_that_is_known(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with fake_provider() as server:
        server.lists = True
        server.will(lines({"data": [{"id": "models/flash"}, {"id": "models/pro"}]}))
        text = f"providers:\n  gemini:\n    base_url: {server.url}/v1\n    api_key: gm-0123456789abcdef\n"
        configured(state, text)
        assert await goclaw("model", "pro") == 0
        assert (server.received[0].path, server.received[0].headers["Authorization"]) == (
            "/v1/models",
            "Bearer gm-0123456789abcdef",
        )
        assert load_config().config.models.agent == ("gemini:pro",)
        assert await goclaw("model") == 0
    shown = capsys.readouterr().out
    assert "Model: gemini:pro, as configured in `models.agent`." in shown
    assert "  ollama:qwen3:8b\n" in shown and "  gemini:flash\n" in shown and "embed" not in shown


async def test_a_name_that_the_provider_does_not_list_can_be_insisted_on(state: Path, ollama: FakeProvider) -> None:
    assert await goclaw("model", "--unchecked", "ollama:mine") == 0
    assert load_config().config.models.agent == ("ollama:mine",)
    assert ollama.received == []


async def test_a_choice_that_the_environment_overrules_is_refused(
    state: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOCLAW_MODELS__AGENT", "demo")
    assert await goclaw("model", "qwen3:8b") == 1
    assert "set elsewhere (env GOCLAW_MODELS__AGENT)" in capsys.readouterr().err
    assert names(state) == []


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("oll", ["ollama:gemma3:latest", "ollama:qwen3:30b", "ollama:qwen3:8b"]),
        ("ollama:q", ["ollama:qwen3:30b", "ollama:qwen3:8b"]),
        ("qwen3:8", ["qwen3:8b"]),
        ("nobody:x", []),
        ("openai-chat:", []),
    ],
)
@pytest.mark.usefixtures("state")
async def test_what_was_typed_is_completed_from_what_the_providers_list(typed: str, offered: list[str]) -> None:
    assert await asyncio.to_thread(completions, typed) == offered


async def test_a_shell_gets_these_names(state: Path, ollama: FakeProvider) -> None:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(state),
        "PYTHONPATH": str(house.ROOT),
        "OLLAMA_HOST": ollama.url,
        "GOCLAW_STATE_DIR": str(state),
        "GOCLAW_LOOPBACK_ONLY": "1",
        "_GOCLAW_COMPLETE": "complete_bash",
        "COMP_WORDS": "goclaw model ollama:q",
        "COMP_CWORD": "2",
    }
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "goclaw"), env=environment, stdout=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(60):
        output, _ = await process.communicate()
    assert output.decode().split() == ["ollama:qwen3:30b", "ollama:qwen3:8b"]
