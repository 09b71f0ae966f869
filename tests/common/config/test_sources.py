"""Sources of settings are pydantic-settings' own kind; what the library brings besides is never imported."""

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from goclaw.common.config.load import load_config
from goclaw.common.config.schema import Config
from goclaw.common.config.sources import LayeredSettings, SettingsSource, combine
from goclaw.errors import ConfigError

IMPORTED = """
import sys

found = []
sys.addaudithook(lambda event, given: found.append(given[0]) if event == "import" else None)

from goclaw.common.config.load import load_config

load_config()
print(*(name for name in found if name.startswith(("dotenv", "pydantic_settings.sources.providers"))))
print(*(name for name in sys.modules if name.startswith("pydantic_settings")))
print("pydantic_settings.sources.base" in found)
"""


def test_the_librarys_own_sources_are_never_imported(tmp_path: Path) -> None:
    """They are half of its cost; a plugin that wants them finds the library whole, as nothing of it is left over."""
    command = [sys.executable, "-c", IMPORTED]
    environment = {"HOME": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout.splitlines(), done.stderr) == (["", "", "True"], "")


def test_the_strongest_source_wins_key_by_key_and_the_weakest_sees_what_is_above() -> None:
    strong, weak = SettingsSource({"http": {"port": 1}}), SettingsSource({"http": {"port": 2, "host": "weak.example"}})
    config = combine([strong, weak])
    assert type(config) is Config and (config.http.port, config.http.host) == (1, "weak.example")
    assert config.model_fields_set == {"http"}
    assert weak.current_state == {"http": {"port": 1}}


def test_the_sources_of_a_configuration_are_those_of_the_library(tmp_path: Path) -> None:
    sources = load_config(environ={"GOCLAW_STATE_DIR": str(tmp_path)}).sources
    bases = [{f"{kind.__module__}.{kind.__name__}" for kind in type(source).__mro__} for source in sources]
    assert bases and all("pydantic_settings.sources.base.PydanticBaseSettingsSource" in each for each in bases)
    assert "pydantic_settings.main.BaseSettings" in [
        f"{kind.__module__}.{kind.__name__}" for kind in LayeredSettings.__mro__
    ]


def test_the_library_logs_no_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It would log every source, secrets included, where somebody debugs another program by this variable."""
    monkeypatch.setenv("PYDANTIC_SETTINGS_DEBUG", "1")
    with caplog.at_level(logging.DEBUG), caplog.at_level(logging.DEBUG, "pydantic_settings"):
        load_config(environ={"GOCLAW_STATE_DIR": str(tmp_path), "TELEGRAM_BOT_TOKEN": "123:never-in-a-log"})
    assert "never-in-a-log" not in caplog.text


@pytest.mark.parametrize("key", ["self", "_build_sources", "_env_file", "__pydantic_self__", "model_config"])
def test_a_name_of_the_library_is_an_unknown_key_like_any_other(tmp_path: Path, key: str) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(f"{key}: 1\n")
    with pytest.raises(ConfigError, match=f"config.yaml:1:1: {key}: unknown key"):
        load_config(file, environ={"GOCLAW_STATE_DIR": str(tmp_path)})
