"""Loads the configuration: defaults < packages < file < secrets folders < environment < command line.

Nothing here opens or creates anything of GoClaw: a configuration that cannot be used is refused before that.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel, SecretStr, ValidationError

from goclaw.common.config import contradictions, hooks, listening, schedules, webhooks
from goclaw.common.config.keys import Loc
from goclaw.common.config.layers import (
    LOCATION,
    Layer,
    environment_layer,
    file_layer,
    holds_secret,
    merged,
    override_layer,
    secrets_layer,
)
from goclaw.common.config.mcp import Variable
from goclaw.common.config.packaged import Packaged, read_packaged, remove
from goclaw.common.config.report import dotted, problem_line, problem_lines
from goclaw.common.config.schema import Config, default_state_dir
from goclaw.common.config.values import CONTAINER_SECRETS, absolute
from goclaw.common.core.files import lies_inside, readable_by_others, shown_path
from goclaw.common.core.records import record
from goclaw.common.core.redact import remember
from goclaw.errors import ConfigError

CONFIG_FILE = "config.yaml"
"""In the state folder, where no other one is named."""

SHORTEST_NAMED = 12
"""A shorter value of a variable that is only named like a secret may be a word (`TOKEN=disabled`)."""
_SECRET_NAME = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$")
_PROXY_NAME = re.compile(r"_PROXY$")
_PASSWORD = re.compile(r"://[^/@:]*:([^/@]+)@")

_NOTHING: Mapping[str, Any] = MappingProxyType({})


def combined(layers: Sequence[Mapping[str, Any]]) -> Config:
    """Build one configuration out of nested mappings, the later ones on top of the earlier.

    Raises:
        ValidationError: a key or a value does not fit the schema.
    """
    return Config.model_validate(merged(layers))


@record
class Loaded:
    """A configuration that can be used."""

    config: Config
    path: Path | None
    """The file that was read; None without one."""
    warnings: tuple[str, ...]
    """Warnings, one line each: files that others can read, unknown secrets."""
    layers: tuple[Layer, ...]
    """Layers of settings, weakest first."""
    packaged: Packaged = Packaged()
    """Declarations of installed packages, which `config` includes."""

    def origin(self, loc: Loc) -> str:
        """Return the place where the value at `loc` was set: `config.yaml:5:3`, `env GOCLAW_HTTP__PORT`, `default`."""
        return next((layer.places[loc] for layer in reversed(self.layers) if loc in layer.places), "default")


def load_config(
    path: Path | None = None,
    *,
    overrides: Mapping[str, Any] = _NOTHING,
    environ: Mapping[str, str] | None = None,
    container_secrets: Path = CONTAINER_SECRETS,
    may_be_missing: bool = False,
    packages: bool = True,
) -> Loaded:
    """Read and check the whole configuration, and make its secrets known to `redact`.

    `path` (else `GOCLAW_CONFIG`, else `config.yaml` in the state folder, which may be missing) is the file,
    `overrides` are dotted keys with their values, `environ` stands in for the process's environment. With
    `may_be_missing` a named file need not be there either: it is about to be made. Without `packages` what installed
    packages declare is loaded only where the rest is nothing without it: for commands that foreign code must not hold.

    Raises:
        ConfigError: with one line for each problem, in `problems`; no line holds a secret.
    """
    environ = os.environ if environ is None else environ
    above = [environment_layer(environ), override_layer(overrides)]
    path = path or _named_file(environ)
    file = _default_file(above) if path is None else _expand(path)
    if may_be_missing and file and not os.path.lexists(file):
        file = None
    below = [file_layer(file)] if file else []
    state_dir = _state_dir([*below, *above])
    secrets = [secrets_layer(state_dir / "secrets", ours=True), secrets_layer(container_secrets, ours=False)]
    layers = (*below, *secrets, *above)
    config, packaged, layers = _with_packages({"state_dir": str(state_dir)}, layers, packages=packages)
    if file and lies_inside(file, config.workspace_path):
        raise ConfigError(
            f"{shown_path(file)}: is inside the workspace, where the agent could change it; move one of them"
        )
    named = (environ, config.tools.exec.env, *(server.variables() for _, server in config.mcp_servers.values()))
    for secret in (*secret_values(config), *chain.from_iterable(map(_named_as_secrets, named))):
        remember(secret)
        remember(secret.removeprefix("Bearer "))
    warnings = [
        *(_file_warnings(file, below[0]) if file else ()),
        *(line for layer in layers for line in layer.warnings),
    ]
    return Loaded(config, file, tuple(warnings), layers, packaged)


def secret_values(model: BaseModel) -> Iterator[str]:
    """Yield every secret that a configuration holds."""
    for _, value in model:
        entries = value.values() if isinstance(value, dict) else (value,)
        for entry in entries:
            if isinstance(entry, Variable) and entry.is_ordinary:
                continue
            if isinstance(entry, SecretStr):
                yield entry.get_secret_value()
            elif isinstance(entry, BaseModel):
                yield from secret_values(entry)


def _named_as_secrets(variables: Mapping[str, str]) -> Iterator[str]:
    """Yield values of all variables that are secrets by their name, and passwords of proxies."""
    for name, value in variables.items():
        if _SECRET_NAME.search(name.upper()) and len(value) >= SHORTEST_NAMED:
            yield value
        elif _PROXY_NAME.search(name.upper()) and (password := _PASSWORD.search(value)):
            yield password[1]


def _named_file(environ: Mapping[str, str]) -> Path | None:
    return Path(environ[LOCATION]) if environ.get(LOCATION) else None


def _default_file(layers: list[Layer]) -> Path | None:
    file = _state_dir(layers) / CONFIG_FILE
    return file if file.exists() or file.is_symlink() else None


def _state_dir(layers: list[Layer]) -> Path:
    set_to = merged([layer.values for layer in layers]).get("state_dir")
    try:
        return absolute(Path(set_to)) if isinstance(set_to, str) and set_to else default_state_dir()
    except ValueError as error:
        loc = ("state_dir",)
        raise ConfigError(problem_line(_placer(tuple(layers))(loc), loc, str(error))) from None


def _expand(path: Path) -> Path:
    try:
        return path.expanduser()
    except RuntimeError:
        raise ConfigError(f"{path}: begins with `~`, but this machine has no such user") from None


def _validate(defaults: dict[str, Any], layers: tuple[Layer, ...]) -> Config:
    place = _placer(layers)
    problems = [line for layer in layers for line in layer.problems]
    try:
        config = combined([defaults, *(layer.values for layer in layers)])
    except ValidationError as error:
        raise ConfigError(*problems, *problem_lines(error, Config, place)) from None
    problems += [problem_line(place(loc), loc, message) for loc, message in _contradictions(config)]
    if problems:
        raise ConfigError(*problems)
    return config


def _with_packages(
    defaults: dict[str, Any], layers: tuple[Layer, ...], *, packages: bool
) -> tuple[Config, Packaged, tuple[Layer, ...]]:
    """Return the configuration with what packages declare below it; what of that cannot be used is left out."""
    if not packages:
        with suppress(ConfigError):
            return _validate(defaults, layers), Packaged(), layers
    said = merged([layer.values for layer in layers])
    packaged = read_packaged(Path(defaults["state_dir"]), said).checked(lambda values: combined([values]))
    for path, why in list(packaged.orphans(said)):
        packaged = replace(packaged, faults={**packaged.faults, dotted(path): why})
        for layer in layers:
            remove(layer.values, path)
    above = merged([layer.values for layer in layers])
    while True:
        every = (packaged.layer(above), *layers)
        try:
            return _validate(defaults, every), packaged, every
        except ConfigError as error:
            if (blamed := packaged.blamed(error.problems)) is None:
                raise ConfigError(*packaged.explained(error.problems)) from None
            packaged = packaged.without(*blamed)


def _placer(layers: tuple[Layer, ...]) -> Callable[[Loc], str]:
    def place(loc: Loc) -> str:
        for length in range(len(loc), 0, -1):
            for layer in reversed(layers):
                if loc[:length] in layer.places:
                    return layer.places[loc[:length]]
        return "default"

    return place


def _contradictions(config: Config) -> Iterator[tuple[Loc, str]]:
    """Yield settings that are fine alone but not together."""
    if config.telegram.enabled and not config.telegram.token:
        yield ("telegram", "enabled"), "needs `telegram.token` (from @BotFather), or the variable TELEGRAM_BOT_TOKEN"
    yield from listening.contradictions(config)
    yield from hooks.contradictions(config.hooks)
    yield from schedules.contradictions(config.schedules, config.notify)
    yield from webhooks.contradictions(config.webhooks, config.notify, config.alerts.notify)
    yield from contradictions.of_embedder(config)
    yield from contradictions.of_registries(config)
    yield from contradictions.of_replicas(config)
    for index, spec in enumerate(config.models.agent):
        name, colon, model = spec.partition(":")
        if spec != "demo" and not (name and colon and model):
            yield ("models", "agent", index), "should be `provider:name`, such as anthropic:claude-opus-5-5, or `demo`"
    if config.policy.mode == "bypass" and not config.policy.allow_bypass:
        yield ("policy", "mode"), "`bypass` needs `policy.allow_bypass: true`"
    if lies_inside(config.users_path, config.workspace_path):
        yield (
            ("users_file",),
            ("should not be inside the workspace, where the agent could give itself rights; move one of them"),
        )
    if lies_inside(config.workspace_path, config.people_path):
        message = "should not be in `people` of the state folder, which contains the workspaces of people; move it"
        yield ("workspace",), message
    if lies_inside(config.state_dir, config.workspace_path):
        loc = ("workspace",) if config.workspace else ("state_dir",)
        yield (
            loc,
            (
                "the state folder must not be inside the workspace, where the agent could read its secrets; move "
                "one of them"
            ),
        )


def _file_warnings(path: Path, layer: Layer) -> Iterator[str]:
    mode, shown = readable_by_others(path), shown_path(path)
    if mode & 0o022:
        yield f"{shown}: others can change it (mode {mode:o}); run `chmod 600 {shown}`"
    elif mode and holds_secret(layer):
        yield f"{shown}: others can read the secrets in it (mode {mode:o}); run `chmod 600 {shown}`"
