"""docs/openai.md: every example is carried out on a listener."""

import asyncio
import os
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml

from goclaw.common.auth.users import User
from goclaw.common.config.schema import Config
from tests.docs.pages import Block, pages
from tests.gateway.servers.calling import DOCUMENTED
from tests.gateway.servers.openai.calling import service, world_with
from tests.harness import Answer

(PAGE,) = (page for page in pages() if page.name == "docs/openai.md")
ANN = User("tui:ann", "Ann")


def examples(language: str) -> list[Block]:
    return [block for block in PAGE.blocks() if block.language == language]


@pytest.mark.parametrize("number", range(2))
async def test_the_python_examples_run(tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(examples("python")) == 2
    world = world_with(tmp_path, *(Answer("Blue.") for _ in range(3)), users=(ANN,))
    async with world.running() as core, service(world, core) as served:
        monkeypatch.setitem(os.environ, "TOKEN", served.secret(ANN.key))
        code = compile(served.here(examples("python")[number].text, ANN.key), PAGE.name, "exec")
        said: list[str] = []
        names = {"print": lambda text, end="\n": said.append(text + end)}
        await asyncio.to_thread(exec, code, names)
        await core.settled()
    assert "".join(said).strip() == ("Blue." if number == 0 else "Blue.\nBlue.")


async def test_the_commands_run(tmp_path: Path) -> None:
    world = world_with(tmp_path, Answer("Half."), users=(ANN,))
    lines = [line for block in examples("sh") for line in block.text.splitlines() if line.startswith("curl ")]
    async with world.running() as core, service(world, core) as served:
        said = []
        for line in lines:
            command = shlex.split(served.here(line, ANN.key))
            done = await asyncio.to_thread(
                subprocess.run, command, capture_output=True, text=True, timeout=30, check=True
            )
            said.append(done.stdout)
    assert len(said) == 2 and '"goclaw"' in said[0] and '"Half."' in said[1]


def test_the_configuration_is_one() -> None:
    ours, librechat = (yaml.safe_load(block.text) for language in ("yaml", "yml") for block in examples(language))
    config = Config.model_validate(ours)
    assert config.http.openai and config.http.public_url
    (endpoint,) = librechat["endpoints"]["custom"]
    assert endpoint["baseURL"] == f"{DOCUMENTED}/v1" and DOCUMENTED.endswith(str(config.http.port))
