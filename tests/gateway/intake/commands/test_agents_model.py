"""`/model`: who answers here, and another one in its place, for those who may."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from goclaw.common.auth.users import User
from goclaw.common.core.events import Actor
from goclaw.conversation.sessions import models as models_module
from goclaw.conversation.sessions.models import Models
from goclaw.durable.store.open import open_database
from goclaw.durable.store.settings import Settings
from goclaw.llm.base import ModelPorts
from goclaw.llm.served import NO_TOOLS, ServedModels
from tests.harness import Core, World
from tests.llm.fake_provider import fake_provider, lines

ANNA, BOSS = Actor("telegram:5", "telegram"), Actor("telegram:7", "telegram")
USERS = [User("telegram:5"), User("telegram:7", roles=frozenset({"admin"}))]
ANNAS = {"actor": ANNA, "session": "telegram:5", "chat": "5"}
GROUP = {"session": "telegram:-100", "chat": "-100"}
NOWHERE = "http://127.0.0.1:9"


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without keys and without Ollama, which asks no other process for prices."""
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OLLAMA_HOST", NOWHERE)
    monkeypatch.setattr(models_module, "prepare", nothing)


async def nothing(specs: Sequence[str], at: float) -> None:
    """In place of `llm.open.prepare`."""


def script(folder: Path, name: str, *answers: dict[str, Any]) -> str:
    """A model that says its name, or what it is told."""
    path = folder / f"{name}.json"
    path.write_text(json.dumps({"answers": list(answers), "rest": {"text": f"I am {name}."}}))
    return f"scripted:{path}"


@asynccontextmanager
async def choosing(folder: Path, served: ServedModels | None = None, **models: Any) -> AsyncIterator[Core]:
    """A core on real models; `first` is configured, `second` is known by its options."""
    first, second = script(folder, "first"), script(folder, "second")
    settings = {"agent": [first], "options": {second: {"context_window": 50_000}}, "summary": [], **models}
    world = World(folder, users=USERS, models=settings)
    async with aiohttp.ClientSession() as http, open_database(folder / "goclaw.db") as database:
        ports = ModelPorts(http, no_image, world.clock, served=served or ServedModels())
        found = Models(world.config, ports, lambda line: None, Settings(database))
        await found.resolve()
        world.models = found
        async with world.running() as core:
            yield core


async def no_image(blob: str) -> bytes:
    raise AssertionError("nobody asks for a picture here")


async def answer(core: Core, **options: Any) -> str:
    """What the agent says next."""
    await core.say("who are you?", **options)
    await core.settled()
    return str(getattr((await core.messages(options.get("session", "memory:here")))[-1], "text", ""))


async def test_it_tells_that_a_model_calls_no_tools(tmp_path: Path) -> None:
    served, spec = ServedModels(), f"scripted:{tmp_path}/first.json"
    served.open(spec, "http://here").learn(tools=False)
    async with choosing(tmp_path, served) as core:
        assert NO_TOOLS.format(spec=spec) in await core.command("/model")


async def test_it_tells_who_answers_and_who_could(tmp_path: Path) -> None:
    async with choosing(tmp_path) as core:
        told = await core.command("/model")
        assert told.splitlines() == [
            f"Model: scripted:{tmp_path}/first.json, as configured in `models.agent`.",
            "",
            "Other available models:",
            f"- scripted:{tmp_path}/second.json (in `models.options`)",
            "",
            "Choose with /model PROVIDER:NAME.",
        ]


@pytest.mark.promise("P-model-choice")
async def test_a_session_answers_with_its_own_model_also_after_a_restart_until_the_default_is_wanted(
    tmp_path: Path,
) -> None:
    second = script(tmp_path, "second")
    async with choosing(tmp_path) as core:
        assert await answer(core) == "I am first."
        told = await core.command(f"/model {second}")
        assert told == (
            f"{second} answers in this conversation, starting with the next request. /model default undoes this."
        )
        assert await answer(core) == "I am second."
        assert await answer(core, session="memory:there", chat="there") == "I am first."
        status = await core.command("/status")
        assert f"  Model: {second} (set by /model)" in status and "/ 50,000 (" in status
        told = await core.command("/model")
        assert f"{second} for this conversation with /model." in told
        assert f"If it fails: scripted:{tmp_path}/first.json." in told and "/model default undoes it" in told
    async with choosing(tmp_path) as core:
        assert await answer(core) == "I am second."
        assert (await core.command("/model default")).startswith("This conversation uses the configured model again.")
        assert await answer(core) == "I am first."
        assert "(set by /model)" not in await core.command("/status")


async def test_a_known_model_goes_without_its_provider(tmp_path: Path) -> None:
    async with choosing(tmp_path) as core:
        assert "answers in this conversation" in await core.command(f"/model {tmp_path}/second.json")
        assert await answer(core) == "I am second."


@pytest.mark.promise("P-model-fallback")
async def test_a_chosen_model_that_fails_falls_back_along_the_configured_chain(tmp_path: Path) -> None:
    broken = script(tmp_path, "broken", {"error": "auth"}, {"error": "auth"})
    async with choosing(tmp_path) as core:
        await core.command(f"/model {broken}")
        assert await answer(core) == "I am first."
        assert f"Model: scripted:{tmp_path}/first.json (set by /model: {broken}, which does not answer now)" in (
            await core.command("/status")
        )
        told = await core.command("/model")
        assert f"scripted:{tmp_path}/first.json answers instead." in told


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("anthropic:claude-opus-5-5", "ANTHROPIC_API_KEY"),
        ("anthropic", "names no model"),
        ("anthropic:", "names no model"),
        ("scripted:/no/such/file.json", "cannot be read"),
    ],
)
async def test_what_cannot_be_opened_is_refused_in_words_and_changes_nothing(
    tmp_path: Path, name: str, words: str
) -> None:
    async with choosing(tmp_path) as core:
        assert words in await core.command(f"/model {name}")
        assert await answer(core) == "I am first."
        assert await core.sessions.ports.models.choice_for("memory:here") == ""


async def test_a_slip_of_the_finger_has_a_neighbour(tmp_path: Path) -> None:
    async with choosing(tmp_path) as core:
        told = await core.command(f"/model scripted:{tmp_path}/secnod.json")
        assert told.endswith(f"Did you mean scripted:{tmp_path}/second.json?")


async def test_a_model_that_is_gone_at_the_next_start_is_said_to_be(tmp_path: Path) -> None:
    third = script(tmp_path, "third")
    async with choosing(tmp_path) as core:
        await core.command(f"/model {third}")
    (tmp_path / "third.json").unlink()
    async with choosing(tmp_path) as core:
        assert await answer(core) == "I am first."
        told = await core.command("/model")
        assert f"It cannot be used: {third}: cannot be read" in told and "answers instead" in told
        script(tmp_path, "third")
        await core.command(f"/model {third}")
        assert await answer(core) == "I am third."


@pytest.mark.promise("P-sessions-are-private")
async def test_a_user_chooses_among_the_configured_and_an_admin_among_all(tmp_path: Path) -> None:
    third, second = script(tmp_path, "third"), script(tmp_path, "second")
    async with choosing(tmp_path) as core:
        refused = await core.command(f"/model {third}", **ANNAS)
        assert refused == (
            "Only admins can choose a model that is not in the configuration. "
            f"You can choose: scripted:{tmp_path}/first.json, {second}."
        )
        assert "answers in this conversation" in await core.command(f"/model {second}", **ANNAS)
        assert await answer(core, **ANNAS) == "I am second."
        assert "answers" in await core.command(f"/model {third}", actor=BOSS, session="telegram:5", chat="7")
        assert await answer(core, **ANNAS) == "I am third."
        assert (await core.command("/model default", **ANNAS)).startswith("This conversation uses the configured model")
        for wish in (second, "default"):
            assert (await core.command(f"/model {wish}", actor=ANNA, **GROUP)).startswith("Only the owner")
        assert "answers in this" in await core.command(f"/model {second}", actor=BOSS, **GROUP)


async def test_what_ollama_has_is_listed_for_admins_and_what_it_lacks_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tags = {
        "models": [
            {"name": "qwen3:8b", "modified_at": "2026-01-01T00:00:00Z", "capabilities": ["completion", "tools"]},
            {"name": "embedder:latest", "modified_at": "2026-01-01T00:00:00Z", "capabilities": ["embedding"]},
        ]
    }
    async with fake_provider() as fake:
        fake.routes = {"/api/tags": lines(tags)}
        monkeypatch.setenv("OLLAMA_HOST", fake.url)
        monkeypatch.setenv("OPENROUTER_API_KEY", "sk-or-none")
        async with choosing(tmp_path) as core:
            told = await core.command("/model")
            assert "- ollama:qwen3:8b (" in told and "embedder" not in told
            assert "You have API keys for openrouter: name any of their models as provider:name." in told
            assert "qwen3" not in await core.command("/model", **ANNAS)
            lacking = await core.command("/model ollama:nothere")
            assert f"Ollama at {fake.url} does not have this model; get it with `ollama pull nothere`" in lacking
            assert "ollama:qwen3:8b answers" in await core.command("/model qwen3:8b")


async def test_the_choice_is_forgotten_with_the_conversation(tmp_path: Path) -> None:
    second = script(tmp_path, "second")
    async with choosing(tmp_path) as core:
        await core.command(f"/model {second}")
        assert await answer(core) == "I am second."
        await core.sessions.forgetter.forget("memory:here")
        assert await answer(core) == "I am first."


async def test_the_demo_can_be_chosen_and_falls_back_on_nobody(tmp_path: Path) -> None:
    async with choosing(tmp_path) as core:
        await core.command("/model demo")
        assert "No AI is connected" in await answer(core)
        assert await core.sessions.ports.models.behind("memory:here") == ["demo"]
        assert "/tool works with the demo model only" not in await core.command('/tool read {"path": "a"}')
        assert "/tool works with the demo model only" in await core.command("/tool x {}", chat="there")
