"""What the doctor says of registries: whether they answer, whether the file is sound, whether ours can be served."""

from pathlib import Path
from typing import Any

import yaml

from goclaw.common.config.load import Loaded, load_config
from goclaw.extensions.registries.catalog_store import FILE, CatalogStore
from goclaw.extensions.registries.doctor import check_registries
from goclaw.program.ops.doctor.base import Finding
from tests.extensions.registries.server.house import open_house


async def examined(state: Path, **settings: Any) -> list[Finding]:
    """What is found of a state folder with these settings."""
    return await check_registries(loaded(state, settings))


def loaded(state: Path, settings: dict[str, Any]) -> Loaded:
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    (state / "config.yaml").write_text(yaml.safe_dump(settings, sort_keys=False))
    return load_config(None, environ={"GOCLAW_STATE_DIR": str(state)}, container_secrets=state / "none")


async def test_nothing_is_said_where_there_are_none(tmp_path: Path) -> None:
    assert await examined(tmp_path / "state") == []
    assert not (tmp_path / "state" / FILE).exists()


async def test_registries_that_answer_and_those_that_do_not_are_named(tmp_path: Path) -> None:
    async with open_house(tmp_path / "theirs") as house:
        url = f"http://127.0.0.1:{house.port}"
        found = await examined(
            tmp_path / "ours",
            registries={
                "good": {"url": url, "auth": house.tokens["eve"]},
                "locked": {"url": url, "auth": "goclaw_" + "x" * 43},
                "gone": {"url": "http://127.0.0.1:9", "retry": {"max": 100, "backoff": 100}},
            },
            registry_server={"port": house.port},
        )
    assert [finding.verdict for finding in found] == ["ok", "warning", "warning", "ok"], found
    assert found[0].text == "good answers; not fetched yet"
    assert "registries.locked.auth" in found[1].text and "the registry gone" in found[2].text
    assert "this gateway's own registry is served" in found[3].text


async def test_a_damaged_file_is_a_problem(tmp_path: Path) -> None:
    state = tmp_path / "state"
    CatalogStore(state / FILE).publish({"kind": "toolset", "name": "x", "version": "1"}, "tui:ann", 1.0)
    assert await examined(state) == []
    (state / FILE).write_bytes(b"no database" * 1_000)
    [found] = await examined(state, registries={"gone": {"url": "http://127.0.0.1:9"}})
    assert found.verdict == "problem" and "goclaw restore" in found.remedy


async def test_a_port_that_is_free_is_named_as_that(tmp_path: Path) -> None:
    async with open_house(tmp_path / "theirs") as house:
        port = house.port
    [found] = await examined(tmp_path / "ours", registry_server={"port": port})
    assert f"{port} is free for the listener" in found.text
