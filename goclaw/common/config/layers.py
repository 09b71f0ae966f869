"""Layers of settings, one per source (file, secrets folders, environment, command line), and merging of layers."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from goclaw.common.config.keys import (
    ANY_NAME,
    ITEM,
    Loc,
    child_kind,
    closest,
    entry_kind,
    form_of,
    is_list,
    is_mapping,
    is_secret,
    keys,
    names_in,
)
from goclaw.common.config.locate import parse_yaml
from goclaw.common.config.report import json_type, problem_line, unknown_key
from goclaw.common.config.schema import Config
from goclaw.common.core.files import read_text, readable_by_others, shown_path
from goclaw.errors import ConfigError


@dataclass(slots=True)
class Layer:
    """Settings of one source. `places` has the words for each location: `config.yaml:5:3`, `env GOCLAW_HTTP__PORT`."""

    values: dict[str, Any] = field(default_factory=dict, repr=False)
    places: dict[Loc, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def set(self, path: tuple[str, ...], value: Any, place: str) -> None:
        """Put a value in; a mapping adds to the existing one."""
        inner = self.values
        for name in path[:-1]:
            following = inner.setdefault(name, {})
            if not isinstance(following, dict):
                following = inner[name] = {}
            inner = following
        before = inner.get(path[-1])
        inner[path[-1]] = merged([before, value]) if isinstance(before, dict) and isinstance(value, dict) else value
        self._mark(path, value, place)

    def set_text(self, path: tuple[str, ...], text: str, place: str) -> None:
        """Put in a value that came as text: JSON for mappings, JSON or commas for lists, else as it is."""
        kind = key_kind(path)
        value: Any = text
        either = entry_kind(form_of(kind, dict)) is not None and text.startswith("{")
        if is_mapping(kind) or either or (is_list(kind) and text.startswith("[")):
            try:
                value = json.loads(text)
            except (ValueError, RecursionError):
                wanted = "JSON, like {…}" if is_mapping(kind) else "a JSON list, or names with commas between"
                self.problems.append(problem_line(place, path, f"should be {wanted}"))
                return
        self.set(path, value, place)

    def _mark(self, loc: Loc, value: Any, place: str) -> None:
        self.places[loc] = place
        inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for name, inner in inside:
            self._mark((*loc, name), inner, place)


def merged(layers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge mappings: later ones win, nested mappings are merged, lists are replaced."""
    result: dict[str, Any] = {}
    for layer in layers:
        for name, value in layer.items():
            before = result.get(name)
            mappings = isinstance(before, dict) and isinstance(value, dict)
            result[name] = merged([before or {}, value]) if mappings else value
    return result


def holds_secret(layer: Layer) -> bool:
    """Whether the layer sets a value that must stay secret."""
    return any(is_secret(key_kind(tuple(map(str, loc)))) for loc in layer.places)


def key_kind(path: tuple[str, ...]) -> Any:
    """Return the type of the key at `path`; None when there is no such key."""
    kind: Any = Config
    for name in path:
        kind = child_kind(kind, name)
    return kind


PREFIX = "GOCLAW_"
LOCATION = "GOCLAW_CONFIG"
"""Names the file itself."""
NO_KEYS = frozenset({LOCATION, "GOCLAW_TOKEN", "GOCLAW_LOOPBACK_ONLY"})
"""Variables of ours that are no keys; the second is what `goclaw tui --url` comes in with, the third a switch of `net`
for tests."""

COMMON_VARIABLES = {
    "ANTHROPIC_API_KEY": ("providers", "anthropic", "api_key"),
    "OPENAI_API_KEY": ("providers", "openai-chat", "api_key"),
    "OLLAMA_HOST": ("providers", "ollama", "base_url"),
    "TELEGRAM_BOT_TOKEN": ("telegram", "token"),
    "LOG_LEVEL": ("log_level",),
}
"""Variables that other programs read, too; `GOCLAW_…` goes before them."""

_OLLAMA_PORT = 11434


def environment_layer(environ: Mapping[str, str]) -> Layer:
    """Return the layer of environment variables. An empty variable counts as not set."""
    layer = Layer()
    for variable, known in COMMON_VARIABLES.items():
        if text := environ.get(variable, "").strip():
            layer.set(known, _COMMON_FORMS.get(variable, str)(text), f"env {variable}")
    ours = [name for name, text in environ.items() if name.startswith(PREFIX) and text.strip() and name not in NO_KEYS]
    for variable in sorted(ours, key=lambda name: (name.count("__"), name)):
        name = variable.removeprefix(PREFIX)
        if _is_service_link(name):
            continue
        path = key_path(name)
        if path is None:
            layer.problems.append(f"env {variable}: {_unknown_variable(variable)}")
        else:
            layer.set_text(path, environ[variable].strip(), f"env {variable}")
    return layer


def key_path(name: str) -> tuple[str, ...] | None:
    """Return the path of the key that `TELEGRAM__BASE_URL` names, in any case; None for an unknown key."""
    path: list[str] = []
    kind: Any = Config
    for segment in name.split("__"):
        known = names_in(kind)
        found = segment if kind is not None and not known else None
        if path == ["providers"]:
            # Names of providers have hyphens, which a shell does not allow in variables.
            found = segment.lower().replace("_", "-")
        elif known:
            found = next((own for own in known if own == segment.lower()), None)
        if not found or (kind := child_kind(kind, found)) is None:
            return None
        path.append(found)
    return tuple(path)


def variable_names(*, plain: bool = False) -> list[str]:
    """Return the variable of every key with a fixed name; `plain`: as a file in a secrets folder is named."""
    fixed = ["__".join(key.path) for key in keys(Config) if not {ANY_NAME, ITEM} & {*key.path}]
    return fixed if plain else [PREFIX + name.upper() for name in fixed]


def ollama_url(text: str) -> str:
    """Return the URL for a value of OLLAMA_HOST, which may be a host, `host:port` or a URL."""
    if "://" in text:
        return text
    has_port = text.rpartition(":")[2].isdigit() and not text.endswith("]")
    return f"http://{text}" if has_port else f"http://{text}:{_OLLAMA_PORT}"


def _level_of(text: str) -> str:
    return "WARNING" if text.upper() == "WARN" else text


def _unknown_variable(variable: str) -> str:
    meant = closest(variable, variable_names())
    return f"unknown key; did you mean `{meant}`?" if meant else "unknown key; `goclaw config schema` lists them all"


def _is_service_link(name: str) -> bool:
    # Kubernetes and old Docker links describe a service called "goclaw" with GOCLAW_PORT_… and GOCLAW_SERVICE_….
    return name in ("PORT", "NAME") or name.startswith(("PORT_", "SERVICE_"))


_COMMON_FORMS: Mapping[str, Callable[[str], str]] = {"OLLAMA_HOST": ollama_url, "LOG_LEVEL": _level_of}


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
        elif ours:
            # Elsewhere it is the way of a compose file to say that there is none.
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
    match values.get("plugins"):
        case str() as text:
            values["plugins"] = [_from(base, each.strip()) for each in text.split(",") if each.strip()]
        case list() as listed:
            values["plugins"] = [_from(base, each) if isinstance(each, str) else each for each in listed]


def _from(base: Path, path: str) -> str:
    return path if path.startswith("~") else str(base / path)
