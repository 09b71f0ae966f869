"""The first lines that a client shows: only what is really missing, and the one command that adds it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from goclaw.common.auth.users import User, Users
from goclaw.common.config.schema import Config
from goclaw.common.config.tools import ExecSettings
from goclaw.common.core.clock import SteppedClock
from goclaw.conversation.sessions.models import Models
from goclaw.conversation.turns.status import greeting
from goclaw.durable.store.open import open_database
from goclaw.durable.store.settings import Settings
from goclaw.errors import SandboxUnavailable
from goclaw.llm.base import ModelPorts
from goclaw.tools.execution.sandbox.base import Sandbox
from goclaw.tools.execution.sandbox.select import open_sandbox

ANN = User("telegram:5", "Ann")
WITH_TELEGRAM: dict[str, Any] = {"telegram": {"token": "123456:AAtoken"}}
NOWHERE = {"providers": {"ollama": {"base_url": "http://127.0.0.1:9"}}}


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


@asynccontextmanager
async def sandbox_of(works: bool, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Sandbox]:
    """One that was looked for; without `works` this machine has no way to contain commands."""
    if not works:
        monkeypatch.setattr("goclaw.tools.execution.sandbox.select.SANDBOXES", {})
    async with open_sandbox(ExecSettings(sandbox="off" if works else "auto")) as sandbox:
        with suppress(SandboxUnavailable):
            await sandbox.ready()
        yield sandbox


async def lines(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    *users: User,
    works: bool = True,
    looked: bool = True,
    **settings: Any,
) -> list[str]:
    """The greeting of a daemon with this configuration."""
    config = Config.model_validate({"state_dir": folder, **NOWHERE, **settings})
    async with (
        aiohttp.ClientSession() as http,
        sandbox_of(works, monkeypatch) as sandbox,
        open_database(folder / "models.db") as database,
    ):
        models = Models(config, ModelPorts(http, no_image, SteppedClock()), lambda line: None, Settings(database))
        if looked:
            await models.resolve()
        return greeting(models, config, Users(users), sandbox).splitlines()


async def no_image(blob: str) -> bytes:
    raise AssertionError("nobody asks for a picture here")


async def test_a_first_run_says_what_is_missing_and_the_command_that_adds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await lines(tmp_path, monkeypatch) == [
        "Model: demo. No AI is connected.",
        "Telegram: not connected.",
        "`goclaw setup` connects a model and Telegram.",
    ]


async def test_where_everything_is_missing_it_is_four_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = await lines(tmp_path, monkeypatch, works=False)
    assert len(told) == 4 and max(map(len, told)) <= 100
    assert told[2].startswith("Commands: refused") and "`goclaw doctor`" in told[2]


async def test_whoever_is_set_up_reads_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = await lines(tmp_path, monkeypatch, ANN, models={"agent": ["demo"]}, **WITH_TELEGRAM)
    assert told == ["Model: demo, as configured in `models.agent`."]


@pytest.mark.parametrize(
    ("settings", "users", "told"),
    [
        (WITH_TELEGRAM, [ANN], "`goclaw setup` connects a model."),
        (
            WITH_TELEGRAM,
            [User("tui:ann")],
            "Telegram: users.json lists no Telegram user, so nobody gets an answer there.",
        ),
        ({"telegram": {"enabled": False}}, [], "`goclaw setup` connects a model."),
    ],
)
async def test_only_what_is_really_missing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], users: list[User], told: str
) -> None:
    assert told in await lines(tmp_path, monkeypatch, *users, **settings)


async def test_a_model_that_cannot_be_opened_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = await lines(tmp_path, monkeypatch, ANN, models={"agent": ["anthropic:claude"]}, **WITH_TELEGRAM)
    assert told[0].startswith("Model: none. anthropic:claude: no key") and told[1:] == [
        "`goclaw setup` connects a model."
    ]


async def test_what_is_still_being_looked_for_is_not_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = await lines(tmp_path, monkeypatch, ANN, looked=False, **WITH_TELEGRAM)
    assert told == ["Model: still being selected."]
