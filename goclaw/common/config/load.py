"""Loads the configuration: defaults < packages < file < secrets folders < environment < command line.

Nothing here opens or creates anything of GoClaw: a configuration that cannot be used is refused before that.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from types import MappingProxyType

from pydantic import BaseModel, SecretStr, ValidationError

from goclaw.common.config import contradictions, hooks, listening, schedules, webhooks
from goclaw.common.config.keys import Loc
from goclaw.common.config.mcp import Variable
from goclaw.common.config.packaged import Packaged, PackagedSource, read_packaged, remove
from goclaw.common.config.report import format_location, problem_line, problem_lines
from goclaw.common.config.schema import Config, default_state_dir
from goclaw.common.config.sources import (
    LOCATION,
    CommandLineSource,
    EnvironmentSource,
    FileSource,
    SecretsSource,
    SettingsSource,
    combine,
    merge,
)
from goclaw.common.config.values import CONTAINER_SECRETS, absolute
from goclaw.common.core.files import lies_inside, shown_path
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

_NOTHING: Mapping[str, object] = MappingProxyType({})


@record
class Loaded:
    """A configuration that can be used."""

    config: Config
    path: Path | None
    """The file that was read; None without one."""
    warnings: tuple[str, ...]
    """Warnings, one line each: files that others can read, unknown secrets."""
    sources: tuple[SettingsSource, ...]
    """Where its settings come from, strongest first."""
    packaged: Packaged = Packaged()
    """Declarations of installed packages, which `config` includes."""

    def origin(self, loc: Loc) -> str:
        """Return the place where the value at `loc` was set: `config.yaml:5:3`, `env GOCLAW_HTTP__PORT`, `default`."""
        return next((source.places[loc] for source in self.sources if loc in source.places), "default")


def load_config(
    path: Path | None = None,
    *,
    overrides: Mapping[str, object] = _NOTHING,
    environ: Mapping[str, str] | None = None,
    container_secrets: Path = CONTAINER_SECRETS,
    may_be_missing: bool = False,
    packages: bool = True,
    packaged: Packaged | None = None,
) -> Loaded:
    """Read and check the whole configuration, and make its secrets known to `redact`.

    `path` (else `GOCLAW_CONFIG`, else `config.yaml` in the state folder, which may be missing) is the file,
    `overrides` are dotted keys with their values, `environ` stands in for the process's environment. With
    `may_be_missing` a named file need not be there either: it is about to be made. Without `packages` what installed
    packages declare is loaded only where the rest is nothing without it: for commands that foreign code must not hold.
    With `packaged` nothing is loaded: these declarations count, whatever the file names.

    Raises:
        ConfigError: with one line for each problem, in `problems`; no line holds a secret.
    """
    environ = os.environ if environ is None else environ
    above = (CommandLineSource(overrides), EnvironmentSource(environ))
    named_path = path or environ.get(LOCATION)
    file = _expand(Path(named_path)) if named_path else _default_file(above)
    if may_be_missing and file and not os.path.lexists(file):
        file = None
    below = (FileSource(file),) if file else ()
    state_dir = _state_dir((*above, *below))
    secrets = (SecretsSource(container_secrets, ours=False), SecretsSource(state_dir / "secrets", ours=True))
    said = (*above, *secrets, *below)
    config, packaged, sources = _with_packages(state_dir, said, packaged, packages=packages)
    if file and lies_inside(file, config.workspace_path):
        raise ConfigError(
            f"{shown_path(file)}: is inside the workspace, where the agent could change it; move one of them"
        )
    named = (environ, config.tools.exec.env, *(server.variables() for _, server in config.mcp_servers.values()))
    for secret in (*secret_values(config), *chain.from_iterable(map(_named_as_secrets, named))):
        remember(secret)
        remember(secret.removeprefix("Bearer "))
    warnings = tuple(line for source in reversed(sources) for line in source.warnings)
    return Loaded(config, file, warnings, sources, packaged)


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


def _default_file(sources: Sequence[SettingsSource]) -> Path | None:
    file = _state_dir(sources) / CONFIG_FILE
    return file if file.exists() or file.is_symlink() else None


def _state_dir(sources: Sequence[SettingsSource]) -> Path:
    set_to = _said(sources).get("state_dir")
    try:
        return absolute(Path(set_to)) if isinstance(set_to, str) and set_to else default_state_dir()
    except ValueError as error:
        loc = ("state_dir",)
        raise ConfigError(problem_line(_place(sources, loc), loc, str(error))) from None


def _said(sources: Sequence[SettingsSource]) -> dict[str, object]:
    return merge(source.values for source in reversed(sources))


def _expand(path: Path) -> Path:
    try:
        return path.expanduser()
    except RuntimeError:
        raise ConfigError(f"{path}: begins with `~`, but this machine has no such user") from None


def _validate(state_dir: Path, sources: Sequence[SettingsSource]) -> Config:
    place = partial(_place, sources)
    problems = [line for source in reversed(sources) for line in source.problems]
    try:
        config = combine((*sources, SettingsSource({"state_dir": str(state_dir)})))
    except ValidationError as error:
        raise ConfigError(*problems, *problem_lines(error, Config, place)) from None
    problems += [problem_line(place(loc), loc, message) for loc, message in _contradictions(config)]
    if problems:
        raise ConfigError(*problems)
    return config


def _with_packages(
    state_dir: Path, sources: tuple[SettingsSource, ...], packaged: Packaged | None, *, packages: bool
) -> tuple[Config, Packaged, tuple[SettingsSource, ...]]:
    """Return the configuration with what packages declare below it; what of that cannot be used is left out."""
    if not packages:
        with suppress(ConfigError):
            return _validate(state_dir, sources), Packaged(), sources
    said = _said(sources)
    packaged = (read_packaged(state_dir, said) if packaged is None else packaged).validate_entries()
    for path, why in list(packaged.orphans(said)):
        packaged = replace(packaged, faults={**packaged.faults, format_location(path): why})
        for source in sources:
            remove(source.values, path)
    while True:
        every = (*sources, PackagedSource(packaged))
        try:
            return _validate(state_dir, every), packaged, every
        except ConfigError as error:
            if (blamed := packaged.find_culprit(error.problems)) is None:
                raise ConfigError(*packaged.explain(error.problems)) from None
            packaged = packaged.without(*blamed)


def _place(sources: Sequence[SettingsSource], loc: Loc) -> str:
    """Return where the value at `loc` was set, else the innermost mapping around it."""
    around = (loc[:length] for length in range(len(loc), 0, -1))
    return next((source.places[part] for part in around for source in sources if part in source.places), "default")


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
        message = "should not be inside the workspace, where the agent could give itself rights; move one of them"
        yield ("users_file",), message
    if lies_inside(config.workspace_path, config.people_path):
        message = "should not be in `people` of the state folder, which contains the workspaces of people; move it"
        yield ("workspace",), message
    if lies_inside(config.state_dir, config.workspace_path):
        loc = ("workspace",) if config.workspace else ("state_dir",)
        yield loc, "the state folder must not be inside the workspace, where the agent could read its secrets"
