"""The doctor and `goclaw config check` say what is in the way of what is to be published, and stop nothing."""

import asyncio
from pathlib import Path

import pytest

from goclaw.common.config.load import load_config
from goclaw.program.cli.program import run
from goclaw.program.ops.doctor.servers import check_publishing

PUBLISHED = """
registries: {corp: {url: "https://registry.example.org"}}
agents: {main: {exports: {reading: {include: [read], publish_to: [corp]}}}}
"""
SERVED = "mcp: {server: {enabled: true, public_url: 'https://tools.example.org/mcp'}}\n"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GOCLAW_STATE_DIR", str(tmp_path / "state"))
    path = tmp_path / "config.yaml"
    path.write_text(PUBLISHED)
    path.chmod(0o600)
    return path


def test_the_doctor_names_what_is_in_the_way(file: Path) -> None:
    (finding,) = asyncio.run(check_publishing(load_config(file)))
    assert finding.verdict == "warning"
    assert finding.text.startswith("mcp.server.enabled: is not set, so no gateway could")
    file.write_text(PUBLISHED + SERVED)
    (finding,) = asyncio.run(check_publishing(load_config(file)))
    assert finding.text == "reading to corp; others see the address https://tools.example.org/mcp"
    file.write_text("")
    assert asyncio.run(check_publishing(load_config(file))) == []


def test_config_check_warns_of_it_and_the_configuration_is_fine(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--config", str(file), "config", "check"]) == 0
    output = capsys.readouterr()
    assert "warning: mcp.server.enabled: is not set, so no gateway could use what `publish_to` publishes" in output.err
    assert "config.yaml: fine" in output.out
