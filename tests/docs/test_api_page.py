"""docs/api.md: every example is carried out on a listener, and every operation is in its table."""

import asyncio
import os
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml

from goclaw.common.auth.users import User
from goclaw.common.config.schema import Config
from goclaw.gateway.servers.api.table import OPERATIONS
from tests.docs.pages import Block, pages
from tests.gateway.servers.api.calling import service, world_with
from tests.harness import Answer

(PAGE,) = (page for page in pages() if page.name == "docs/api.md")
ANN = User("tui:ann", "Ann")


def examples(language: str) -> list[Block]:
    return [block for block in PAGE.blocks() if block.language == language]


async def test_the_python_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (example,) = examples("python")
    world = world_with(tmp_path, Answer("Half."), users=(ANN,))
    async with world.running() as core, service(world, core) as served:
        monkeypatch.setitem(os.environ, "TOKEN", served.secret(ANN.key))
        said: list[str] = []
        names = {"print": lambda text, end: said.append(text + end)}
        await asyncio.to_thread(exec, compile(served.here(example.text, ANN.key), PAGE.name, "exec"), names)
        await core.settled()
    assert "".join(said) == "Half."


async def test_the_commands_run(tmp_path: Path) -> None:
    world = world_with(tmp_path, users=(ANN,))
    lines = [line for block in examples("sh") for line in block.text.splitlines() if line.startswith("curl ")]
    async with world.running() as core, service(world, core) as served:
        said = []
        for line in lines:
            command = shlex.split(served.here(line, ANN.key))
            done = await asyncio.to_thread(
                subprocess.run, command, capture_output=True, text=True, timeout=30, check=True
            )
            said.append(done.stdout)
    assert len(said) == 3 and '"sessions"' in said[0] and '"reply"' in said[1] and '"messages"' in said[2]


def test_the_configuration_is_one() -> None:
    (ours,) = (yaml.safe_load(block.text) for block in examples("yaml"))
    assert Config.model_validate(ours).http.api


@pytest.mark.promise("P-api")
def test_every_operation_is_in_the_table() -> None:
    text = (Path(__file__).parents[2] / PAGE.name).read_text()
    missing = [f"{each.method} {each.path}" for each in OPERATIONS if f"| `{each.method} {each.path}` |" not in text]
    assert not missing
