"""Sources of settings are pydantic-settings' own kind; what the library brings besides is never imported."""

import subprocess
import sys
from pathlib import Path

from goclaw.common.config.load import load_config
from goclaw.common.config.schema import Config
from goclaw.common.config.sources import LayeredSettings, SettingsSource, combined

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
    config = combined([strong, weak])
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
