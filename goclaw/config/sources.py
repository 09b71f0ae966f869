"""Settings from the file, from secrets folders and from the command line."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from goclaw.config.environment import key_path, variable_names
from goclaw.config.files import read_text, readable_by_others, shown_path
from goclaw.config.keys import closest, keys
from goclaw.config.layers import Layer, key_kind
from goclaw.config.locate import parse_yaml
from goclaw.config.report import json_type, problem_line, unknown_key
from goclaw.config.schema import Config
from goclaw.errors import ConfigError

MAX_FILE_BYTES = 1_000_000
MAX_SECRET_BYTES = 64_000

SECRET_FILES = {
    "telegram_token": ("telegram", "token"),
    "anthropic_api_key": ("providers", "anthropic", "api_key"),
    "openai_api_key": ("providers", "openai-chat", "api_key"),
}
"""Short names of files in a secrets folder; any other key is `telegram__proxy`."""


def file_layer(path: Path) -> Layer:
    """Return the YAML file at `path`.

    Raises:
        ConfigError: it is not there or cannot be read as text.
    """
    shown = shown_path(path)
    located = parse_yaml(read_text(path, shown, MAX_FILE_BYTES))
    places = {loc: f"{shown}:{spot}" for loc, spot in located.places.items()}
    layer = Layer(places=places)
    layer.problems = [problem_line(f"{shown}:{spot}", loc, message) for spot, loc, message in located.problems]
    if isinstance(located.value, dict):
        layer.values = _without_nothing(located.value)
        _resolve_folders(layer.values, path.parent)
    elif located.value is not None:
        layer.problems.append(f"{shown}:1:1: should be a mapping (`key: value`), not {json_type(located.value)}")
    return layer


def override_layer(overrides: Mapping[str, Any]) -> Layer:
    """Return the layer of the command line: dotted keys, with texts as in an environment variable, or values."""
    layer = Layer()
    for name, value in overrides.items():
        path = tuple(name.split("."))
        if key_kind(path) is None:
            layer.problems.append(problem_line("command line", path, unknown_key(path, Config)))
        elif isinstance(value, str):
            layer.set_text(path, value, "command line")
        else:
            layer.set(path, value, "command line")
    return layer


def secrets_layer(folder: Path, *, ours: bool) -> Layer:
    """Return the files of a secrets folder, one value each. `ours`: no other program keeps secrets there."""
    layer = Layer()
    try:
        files = sorted(file for file in folder.iterdir() if not file.name.startswith(".") and file.is_file())
    except OSError:
        return layer
    for file in files:
        shown = shown_path(file)
        path = SECRET_FILES.get(file.name.lower()) or key_path(file.name)
        if path is None:
            if ours:
                meant = closest(file.name, [*SECRET_FILES, *variable_names(plain=True)])
                layer.warnings.append(f"{shown}: no such key" + (f"; did you mean `{meant}`?" if meant else ""))
            continue
        try:
            text = read_text(file, shown, MAX_SECRET_BYTES).strip()
        except ConfigError as error:
            layer.problems.extend(error.problems)
            continue
        if text:
            layer.set_text(path, text, shown)
        else:
            layer.warnings.append(f"{shown}: is empty")
        if ours and (mode := readable_by_others(file)):
            layer.warnings.append(f"{shown}: others can read it (mode {mode:o}); run `chmod 600 {shown}`")
    return layer


def _without_nothing(values: dict[str, Any]) -> dict[str, Any]:
    return {
        name: _without_nothing(value) if isinstance(value, dict) else value
        for name, value in values.items()
        if value is not None
    }


def _resolve_folders(values: dict[str, Any], base: Path) -> None:
    for key in keys(Config):
        name = key.path[0]
        if key.kind is Path and isinstance(value := values.get(name), str) and not value.startswith("~"):
            values[name] = str(base / value)
