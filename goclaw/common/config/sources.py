"""Where settings come from: a source of pydantic-settings each for the file, folders of secrets, environment, …

A source reads its settings when it is made, and has the place of each in words. The library merges them (`combine`).
Its own sources know no lines and columns, take a duplicate key silently and let an unknown variable pass.
"""

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo

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
    kind_at,
    names_in,
    without_none,
)
from goclaw.common.config.locate import parse_yaml
from goclaw.common.config.report import json_type, problem_line, unknown_key
from goclaw.common.config.schema import Config
from goclaw.common.core.extras import import_apart, standing_in
from goclaw.common.core.files import read_text, readable_by_others, shown_path
from goclaw.errors import ConfigError

_CLOUDS, _FORMS = ("aws", "azure", "gcp"), ("json", "pyproject", "toml", "yaml")
_ITS_OWN = (*_CLOUDS, *_FORMS, "cli", "dotenv", "env", "nested_secrets", "secrets")
"""The library's own sources: half of what its import takes in time and memory."""
_ITS_MODULES = [f"pydantic_settings.sources.providers.{name}" for name in _ITS_OWN]
with import_apart("pydantic_settings"), standing_in(*_ITS_MODULES, __getattr__=lambda _: object):
    from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

# With PYDANTIC_SETTINGS_DEBUG it would log every value, secrets included.
logging.getLogger("pydantic_settings").addFilter(lambda record: False)


class LayeredSettings(Config, BaseSettings):
    """The configuration as the library merges it. Defaults are not checked: that would build what checks sections."""

    model_config = SettingsConfigDict(extra="forbid", frozen=True, defer_build=True, validate_default=False)


def combine(sources: Iterable[PydanticBaseSettingsSource]) -> Config:
    """Build one configuration out of sources, the strongest first.

    Raises:
        ValidationError: a key or a value does not fit the schema.
    """
    found = LayeredSettings(_build_sources=(tuple(sources), {}))
    return Config.model_construct(found.model_fields_set, **dict(found))


class SettingsSource(PydanticBaseSettingsSource):
    """Settings of one source. `places` has the words for each location: `config.yaml:5:3`, `env GOCLAW_HTTP__PORT`."""

    def __init__(self, values: Mapping[str, object] | None = None) -> None:
        super().__init__(LayeredSettings)
        self.values = dict(values or {})
        self.places: dict[Loc, str] = {}
        self.problems: list[str] = []
        self.warnings: list[str] = []

    def __call__(self) -> dict[str, Any]:
        return self.values

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[object, str, bool]:
        return self.values.get(field_name), field_name, False

    def set(self, path: Sequence[str], value: object, place: str) -> None:
        """Put a value in; a mapping adds to the existing one."""
        self.values = merge([self.values, nest(path, value)])
        self._mark(tuple(path), value, place)

    def set_text(self, path: tuple[str, ...], text: str, place: str) -> None:
        """Put in a value that came as text: JSON for mappings, JSON or commas for lists, else as it is."""
        kind = kind_at(Config, path)
        value: object = text
        either = entry_kind(form_of(kind, dict)) is not None and text.startswith("{")
        if is_mapping(kind) or either or (is_list(kind) and text.startswith("[")):
            try:
                value = json.loads(text)
            except (ValueError, RecursionError):
                wanted = "JSON, like {…}" if is_mapping(kind) else "a JSON list, or names with commas between"
                self.problems.append(problem_line(place, path, f"should be {wanted}"))
                return
        self.set(path, value, place)

    def _mark(self, loc: Loc, value: object, place: str) -> None:
        self.places[loc] = place
        inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for name, inner in inside:
            self._mark((*loc, name), inner, place)


def nest(path: Sequence[str], value: object) -> dict[str, object]:
    """Return the mapping that holds `value` at `path`."""
    *above, name = path
    found = {name: value}
    for outer in reversed(above):
        found = {outer: found}
    return found


def merge(layers: Iterable[Mapping[str, object]]) -> dict[str, object]:
    """Merge mappings: later ones win, nested mappings are merged, lists are replaced."""
    result: dict[str, object] = {}
    for layer in layers:
        for name, value in layer.items():
            before = result.get(name)
            result[name] = merge([before, value]) if isinstance(before, dict) and isinstance(value, dict) else value
    return result


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


class EnvironmentSource(SettingsSource):
    """Environment variables. An empty one counts as not set."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        super().__init__()
        for variable, known in COMMON_VARIABLES.items():
            if text := environ.get(variable, "").strip():
                self.set(known, _COMMON_FORMS.get(variable, str)(text), f"env {variable}")
        ours = {name for name, text in environ.items() if name.startswith(PREFIX) and text.strip()} - NO_KEYS
        for variable in sorted(ours, key=lambda name: (name.count("__"), name)):
            name = variable.removeprefix(PREFIX)
            # Kubernetes and old Docker links describe a service called "goclaw" with GOCLAW_PORT_…, GOCLAW_SERVICE_….
            if name in ("PORT", "NAME") or name.startswith(("PORT_", "SERVICE_")):
                continue
            if path := key_path(name):
                self.set_text(path, environ[variable].strip(), f"env {variable}")
            else:
                meant = closest(variable, variable_names())
                hint = f"did you mean `{meant}`?" if meant else "`goclaw config schema` lists them all"
                self.problems.append(f"env {variable}: unknown key; {hint}")


def key_path(name: str) -> tuple[str, ...] | None:
    """Return the path of the key that `TELEGRAM__BASE_URL` names, in any case; None for an unknown key."""
    path: list[str] = []
    kind: object = Config
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


_COMMON_FORMS: Mapping[str, Callable[[str], str]] = {
    "OLLAMA_HOST": ollama_url,
    "LOG_LEVEL": lambda text: "WARNING" if text.upper() == "WARN" else text,
}


COMMAND_LINE = "command line"
MAX_FILE_BYTES = 1_000_000
MAX_SECRET_BYTES = 64_000

SECRET_FILES = {
    "telegram_token": ("telegram", "token"),
    "anthropic_api_key": ("providers", "anthropic", "api_key"),
    "openai_api_key": ("providers", "openai-chat", "api_key"),
}
"""Short names of files in a secrets folder; any other key is `telegram__proxy`."""


class FileSource(SettingsSource):
    """The YAML file at `path`.

    Raises:
        ConfigError: it is not there or cannot be read as text.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        shown = shown_path(path)
        located = parse_yaml(read_text(path, shown, MAX_FILE_BYTES))
        self.places = {loc: f"{shown}:{spot}" for loc, spot in located.places.items()}
        self.problems = [problem_line(f"{shown}:{spot}", loc, message) for spot, loc, message in located.problems]
        if isinstance(located.value, dict):
            self.values = _without_nothing(located.value)
            _resolve_folders(self.values, path.parent)
        elif located.value is not None:
            self.problems.append(f"{shown}:1:1: should be a mapping (`key: value`), not {json_type(located.value)}")
        mode = readable_by_others(path)
        if mode & 0o022:
            self.warnings.append(f"{shown}: others can change it (mode {mode:o}); run `chmod 600 {shown}`")
        elif mode and any(is_secret(kind_at(Config, loc)) for loc in self.places):
            self.warnings.append(f"{shown}: others can read the secrets in it (mode {mode:o}); run `chmod 600 {shown}`")


class CommandLineSource(SettingsSource):
    """`--set` of the command line: dotted keys, with texts as in an environment variable, or values."""

    def __init__(self, overrides: Mapping[str, object]) -> None:
        super().__init__()
        for name, value in overrides.items():
            path = tuple(name.split("."))
            if kind_at(Config, path) is None:
                self.problems.append(problem_line(COMMAND_LINE, path, unknown_key(path, Config)))
            elif isinstance(value, str):
                self.set_text(path, value, COMMAND_LINE)
            else:
                self.set(path, value, COMMAND_LINE)


class SecretsSource(SettingsSource):
    """The files of a secrets folder, one value each. `ours`: no other program keeps secrets there."""

    def __init__(self, folder: Path, *, ours: bool) -> None:
        super().__init__()
        try:
            files = sorted(file for file in folder.iterdir() if not file.name.startswith(".") and file.is_file())
        except OSError:
            return
        for file in files:
            path = SECRET_FILES.get(file.name.lower()) or key_path(file.name)
            if path:
                self._read(file, path, ours=ours)
            elif ours:
                meant = closest(file.name, [*SECRET_FILES, *variable_names(plain=True)])
                hint = f"; did you mean `{meant}`?" if meant else ""
                self.warnings.append(f"{shown_path(file)}: no such key{hint}")

    def _read(self, file: Path, path: tuple[str, ...], *, ours: bool) -> None:
        shown = shown_path(file)
        try:
            text = read_text(file, shown, MAX_SECRET_BYTES).strip()
        except ConfigError as error:
            self.problems.extend(error.problems)
            return
        if text:
            self.set_text(path, text, shown)
        elif ours:
            # Elsewhere it is the way of a compose file to say that there is none.
            self.warnings.append(f"{shown}: is empty")
        if ours and (mode := readable_by_others(file)):
            self.warnings.append(f"{shown}: others can read it (mode {mode:o}); run `chmod 600 {shown}`")


def _without_nothing(values: Mapping[str, object]) -> dict[str, object]:
    return {
        name: _without_nothing(value) if isinstance(value, dict) else value
        for name, value in values.items()
        if value is not None
    }


def _resolve_folders(values: dict[str, object], base: Path) -> None:
    """Let relative folders count from `base`."""
    for name, field in Config.model_fields.items():
        if without_none(field.annotation) is Path and isinstance(text := values.get(name), str):
            values[name] = _from(base, text)
    listed = values.get("plugins")
    if isinstance(listed, str):
        listed = [each for part in listed.split(",") if (each := part.strip())]
    if isinstance(listed, list):
        values["plugins"] = [_from(base, each) if isinstance(each, str) else each for each in listed]


def _from(base: Path, path: str) -> str:
    return path if path.startswith("~") else str(base / path)
