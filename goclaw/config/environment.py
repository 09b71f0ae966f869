"""Settings from environment variables."""

from collections.abc import Callable, Mapping
from typing import Any

from goclaw.config.keys import ANY_NAME, ITEM, child_kind, closest, keys, names_in
from goclaw.config.layers import Layer
from goclaw.config.schema import Config

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


def _level(text: str) -> str:
    return "WARNING" if text.upper() == "WARN" else text


def _unknown_variable(variable: str) -> str:
    meant = closest(variable, variable_names())
    return f"unknown key; did you mean `{meant}`?" if meant else "unknown key; `goclaw config schema` lists them all"


def _is_service_link(name: str) -> bool:
    # Kubernetes and old Docker links describe a service called "goclaw" with GOCLAW_PORT_… and GOCLAW_SERVICE_….
    return name in ("PORT", "NAME") or name.startswith(("PORT_", "SERVICE_"))


_COMMON_FORMS: Mapping[str, Callable[[str], str]] = {"OLLAMA_HOST": ollama_url, "LOG_LEVEL": _level}
