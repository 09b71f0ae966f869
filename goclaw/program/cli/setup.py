"""`goclaw setup`: asks, tries out every answer immediately (`setup_steps`), and writes at the end.

The answers go into files, all of them or none. A file that exists is left as it is, to the byte.
"""

import asyncio
import errno
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from goclaw.common.auth.presets import PRESETS
from goclaw.common.auth.users import Users, put_users
from goclaw.common.config.changing import with_value
from goclaw.common.config.load import Loaded, load_config
from goclaw.common.config.policies import ADMIN
from goclaw.common.config.schema import ProviderSettings
from goclaw.common.config.sources import COMMON_VARIABLES, LOCATION, PREFIX, SECRET_FILES, key_path
from goclaw.common.config.state import make_private, running_pid
from goclaw.common.core.clock import RealClock
from goclaw.common.core.container import is_gateway_container
from goclaw.common.core.files import create_file, lies_inside, shown_path
from goclaw.common.core.records import record
from goclaw.common.net import open_client
from goclaw.durable.store.file_writer import file_writer
from goclaw.errors import ConfigError, StateError
from goclaw.llm.open import BEST_BY_PROVIDER, key_variable
from goclaw.program.cli import setup_steps
from goclaw.program.cli.base import Options, print_message
from goclaw.program.cli.inviting import invite
from goclaw.program.cli.options import options
from goclaw.program.cli.process import variables
from goclaw.program.cli.rights import Wanted, plan_people
from goclaw.program.cli.setup_dialogue import AdminAnswer, Dialogue, ModelChoice, Scene, SetupAnswers, read_secret
from goclaw.program.ops.call_styles import store_calls

AGENT = ("models", "agent")
TOKEN = ("telegram", "token")
ROLES = ("roles",)
HEAD = "# GoClaw's configuration. Every other key and its default: `goclaw config example`, docs/configuration.md.\n"


@record
class SetupPaths:
    """Paths of this installation's files."""

    config: Path
    secrets: Path
    users: Path
    state: Path

    @classmethod
    def of(cls, loaded: Loaded, config: Path | None) -> "SetupPaths":
        """Return the places of a configuration; `config` is its file, where one was named."""
        state = loaded.config.state_dir
        path = (config or state / "config.yaml").expanduser().absolute()
        return cls(path, state / "secrets", loaded.config.users_path, state)


@dataclass(slots=True)
class SetupReport:
    """The outcome of the setup, in lines for people."""

    written: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    """Files that existed: what they lack, and how to add it."""


def check_places(place: SetupPaths, loaded: Loaded) -> None:
    """Find out before the first question whether the answers could be kept.

    Raises:
        StateError: a folder cannot be written to.
        ConfigError: the configuration would lie in the workspace, where the agent could change it.
    """
    for path in (place.secrets / "x", *(() if os.path.lexists(place.config) else (place.config,))):
        # `Path.exists` raises where a folder on the way may not be looked into.
        folder = next(parent for parent in path.parents if os.path.exists(parent))  # noqa: PTH110 - see above
        if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
            raise StateError(f"{shown_path(path.parent)}: not writable; is it the right folder?")
    if lies_inside(place.config, loaded.config.workspace_path):
        raise ConfigError(f"{shown_path(place.config)}: would be inside the workspace; choose another place")


def write_answers(answers: SetupAnswers, place: SetupPaths, loaded: Loaded) -> SetupReport:
    """Write what does not exist yet.

    Raises:
        StateError, ConfigError: something cannot be written; then nothing was.
    """
    report = SetupReport()
    files = dict(_files(answers, place))
    fresh = {path: text for path, text in files.items() if not os.path.lexists(path)}
    new_owner = answers.owner is not None and Users.read(place.users).get(answers.owner.key) is None
    owner = [Wanted(answers.owner.key, PRESETS["owner"], answers.owner.name)] if answers.owner and new_owner else []
    plans = plan_people(loaded.config, [*owner, *answers.people])
    if place.state.exists():
        make_private(place.state)  # it may have been made by hand, open to other users
    with new_files(fresh):
        if plans.people:
            put_users(place.users, plans.entries, plans.before, file_writer(loaded.config))
    report.written += [shown_path(path) for path in fresh]
    for path in files.keys() - fresh.keys() - {place.config}:
        if not path.is_file() or path.read_text(errors="replace").strip() != files[path].strip():
            remedy = f"For the new one: `rm {shown_path(path)}`, then `goclaw setup` again."
            report.left.append(f"{shown_path(path)} exists and stays as it is. {remedy}")
    if place.config in files.keys() - fresh.keys():
        report.left += additions(answers, loaded, place)
    if answers.owner and new_owner:
        report.written.append(f"{shown_path(place.users)}: {answers.owner.key}, {ADMIN}")
    elif answers.owner:
        report.left += _existing_user(answers.owner.key, place)
    report.written += [f"{shown_path(place.users)}: {each.key}, {each.preset.name}" for each in answers.people]
    return report


def secret_name(path: tuple[str, ...]) -> str:
    """Return the file in the secrets folder for the key at `path`.

    >>> secret_name(("providers", "anthropic", "api_key")), secret_name(("providers", "z-ai", "api_key"))
    ('anthropic_api_key', 'providers__z_ai__api_key')
    """
    short = next((name for name, known in SECRET_FILES.items() if known == path), "")
    return short or "__".join(part.replace("-", "_") for part in path)


def key_of(model: ModelChoice) -> tuple[str, ...]:
    """Return the path of the provider's key in the configuration."""
    return ("providers", model.provider, "api_key")


def config_answers(answers: SetupAnswers) -> dict[tuple[str, ...], Any]:
    """Return the answers that belong in the configuration file, by key."""
    found: dict[tuple[str, ...], Any] = {}
    if answers.model:
        found[AGENT] = [answers.model.spec]
    found |= addresses(answers)
    if roles := {each.preset.role: each.preset.settings for each in answers.people if each.preset.settings}:
        found[ROLES] = roles
    return found


def addresses(answers: SetupAnswers) -> dict[tuple[str, ...], str]:
    """Return the addresses of servers that belong in the configuration file, by key."""
    found = {}
    if answers.ollama:
        found["ollama"] = answers.ollama
    if answers.model and answers.model.base_url:
        found[answers.model.provider] = answers.model.base_url
    return {("providers", provider, "base_url"): url for provider, url in found.items()}


def additions(answers: SetupAnswers, loaded: Loaded, place: SetupPaths) -> list[str]:
    """Return the lines that an existing configuration lacks, and where in it they belong."""
    wanted = config_answers(answers)
    wanted.pop(ROLES, None)  # people are taken only where the roles are there
    if wanted.get(AGENT) == list(loaded.config.models.agent):
        del wanted[AGENT]
    for path, url in addresses(answers).items():
        if loaded.config.providers.get(path[1], ProviderSettings()).base_url == url:
            wanted.pop(path)
    return [line for path, value in wanted.items() for line in _addition(path, value, loaded, place)]


def _addition(path: tuple[str, ...], value: Any, loaded: Loaded, place: SetupPaths) -> list[str]:
    shown = shown_path(place.config)
    depths = range(len(path), 0, -1)
    there = next((depth for depth in depths if loaded.origin(path[:depth]).startswith(f"{shown}:")), 0)
    *above, line = with_value("", ".".join(path), value).splitlines()
    if there == len(path):
        name = "model" if path == AGENT else "address"
        return [f"{loaded.origin(path)} already has another {name}; to use the new one, put this line there:", line]
    if there:
        section = f"{'.'.join(path[:there])}:"
        begin = f"{shown} exists and stays as it is. Below `{section}` ({loaded.origin(path[:there])}) add:"
        return [begin, *above[there:], line]
    return [f"{shown} exists and stays as it is. Add to it:", *above, line]


def _old_key(model: ModelChoice | None, after: Loaded) -> Iterator[str]:
    """Name a key that stood there before and goes to the server at a new address."""
    if not model or not model.base_url or model.key:
        return
    if after.config.providers.get(model.provider, ProviderSettings()).api_key:
        origin = after.origin(key_of(model))
        yield f"{origin} also sets a key for {model.base_url}; remove it if it belongs to another server"


def caveats(answers: SetupAnswers, place: SetupPaths, after: Loaded) -> Iterator[str]:
    """Yield reasons why an answer is not in force, one line each: mostly a stronger setting than our files."""
    answered: list[tuple[str, ...]] = [AGENT] if answers.model else []
    if answers.model and answers.model.key:
        answered.append(key_of(answers.model))
    if answers.bot and answers.bot.token:
        answered.append(TOKEN)
    for path, url in addresses(answers).items():
        if after.config.providers.get(path[1], ProviderSettings()).base_url != url:
            answered.append(path)
    yield from _old_key(answers.model, after)
    for path in answered:
        origin = after.origin(path)
        secret = shown_path(place.secrets / secret_name(path))
        ours = (secret, f"{shown_path(place.config)}:", "default", "command line")
        if not origin.startswith(ours):
            yield f"{origin} also sets {'.'.join(path)} and overrides your answer"
    for path, name in shell_secrets(answers, after).items():
        if path not in answered:
            secret = shown_path(place.secrets / secret_name(path))
            yield f"a service does not have {name} of this shell: put its value into {secret}"
    if answers.bot:
        yield from _bot_caveats(place, after)


def _bot_caveats(place: SetupPaths, after: Loaded) -> Iterator[str]:
    if after.config.telegram.enabled is False:
        yield f"telegram.enabled is false ({after.origin(('telegram', 'enabled'))}), so Telegram stays off"
    if not any(user.key.startswith("telegram:") for user in Users.read(place.users).all()):
        yield "the bot answers nobody until you list somebody: `goclaw users add telegram:<numeric id> --role admin`"


def shell_secrets(answers: SetupAnswers, after: Loaded) -> Mapping[tuple[str, ...], str]:
    """Return the keys in use that are in a variable of this shell only: the variable's name, by the key's path."""
    if is_gateway_container():
        return {}  # its variables are those of the daemon
    specs = [answers.model.spec] if answers.model else after.config.models.agent
    providers = dict.fromkeys(spec.partition(":")[0] for spec in specs) or BEST_BY_PROVIDER
    keys: dict[tuple[str, ...], str | None] = {
        ("providers", name, "api_key"): key_variable(name) for name in providers
    } | {TOKEN: None}
    found: dict[tuple[str, ...], str] = {}
    for name in variables(after, os.environ):
        sets = COMMON_VARIABLES.get(name) or key_path(name.removeprefix(PREFIX))
        for path, usual in keys.items():
            is_set = any(path in source.places for source in after.sources)
            if sets == path or (name == usual and not is_set):
                found[path] = name
    return found


@contextmanager
def new_files(files: Mapping[Path, str]) -> Iterator[None]:
    """Make files of mode 0600, each in one step and none over another; unmade when the block fails.

    Raises:
        StateError: one of them cannot be made; then none is.
    """
    with ExitStack() as undo:
        for path, text in files.items():
            try:
                for missing in [each for each in reversed(path.parents) if not each.exists()]:
                    missing.mkdir(mode=0o700)
                    undo.callback(missing.rmdir)
                with create_file(path) as file:
                    file.write(text.encode())
                undo.callback(path.unlink)
            except OSError as error:
                why = "already exists" if error.errno == errno.EEXIST else error.strerror
                raise StateError(f"{shown_path(path)}: cannot be written: {why}; nothing was changed") from None
        yield
        undo.pop_all()


def _files(answers: SetupAnswers, place: SetupPaths) -> Iterator[tuple[Path, str]]:
    """Yield the files that hold the answers. An empty config.yaml is not written."""
    if wanted := config_answers(answers):
        text = "".join(with_value("", ".".join(path), value) for path, value in wanted.items())
        yield place.config, f"{HEAD}{text}"
    if answers.model and answers.model.key:
        yield place.secrets / secret_name(key_of(answers.model)), f"{answers.model.key}\n"
    if answers.bot and answers.bot.token:
        yield place.secrets / secret_name(TOKEN), f"{answers.bot.token}\n"


def _existing_user(key: str, place: SetupPaths) -> Sequence[str]:
    user = Users.read(place.users).get(key)
    if user and ADMIN in user.roles:
        return []
    shown = shown_path(place.users)
    return [f'{shown} lists {key} already and stays as it is. For all rights, its entry needs: "roles": ["{ADMIN}"]']


INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""


@record
class Given:
    """Answers given on the command line; empty where there are none."""

    spec: str = ""
    key: str = ""
    token: str = ""
    owner: AdminAnswer | None = None
    people: Sequence[Wanted] = ()


def setup(
    context: typer.Context,
    spec: Annotated[str, typer.Option("--model", metavar="PROVIDER:NAME", help="The model that should answer.")] = "",
    key_file: Annotated[Path | None, typer.Option(help="A file with the key of that model's provider.")] = None,
    telegram_token_file: Annotated[Path | None, typer.Option(help="A file with the token of your bot.")] = None,
    owner_id: Annotated[str, typer.Option(metavar="NUMBER", help="Your numeric id in Telegram.")] = "",
    person: Annotated[
        list[str] | None,
        typer.Option(metavar="'[KEY] PRESET NAME'", help="Another person; without a key, an invitation."),
    ] = None,
    no_input: Annotated[bool, typer.Option("--no-input", help="Ask no questions; use only the options.")] = False,
) -> None:
    """Connect a model, Telegram and yourself in a few questions.

    Each answer is tried out at once. At the end config.yaml, files in secrets/ and your entry in users.json are
    written; no file that exists is changed, but the database keeps how the model calls tools. What an option says is
    not asked for; when it turns out wrong, nothing is written and the exit code says so.
    """
    if key_file and not spec:
        raise typer.BadParameter("needs --model: the model that the key is for", param_hint="--key-file")
    try:
        given = Given(
            spec,
            read_secret(key_file) if key_file else "",
            read_secret(telegram_token_file) if telegram_token_file else "",
            setup_steps.owner_of(owner_id) if owner_id else None,
            [setup_steps.person_of(text) for text in person or ()],
        )
    except ConfigError as error:
        raise typer.BadParameter(str(error)) from None
    try:
        asyncio.run(_setup(options(context), given, Dialogue(silent=no_input)))
    except KeyboardInterrupt:
        print()
        print_message("stopped; nothing was written")
        raise typer.Exit(INTERRUPTED) from None


async def _setup(said: Options, given: Given, dialogue: Dialogue) -> None:
    loaded = _load(said)
    place = SetupPaths.of(loaded, said.config or (Path(os.environ[LOCATION]) if os.environ.get(LOCATION) else None))
    check_places(place, loaded)
    Users.read(place.users)
    is_new = not os.path.lexists(place.config)  # noqa: ASYNC240 - one look, before anything else runs
    if not dialogue.silent:
        dialogue.print("Enter skips a question, Ctrl-C quits. Nothing is written before the end.")
    async with open_client() as http:
        scene = Scene(dialogue, loaded, http, RealClock())
        answers = await _ask(scene, given, adds_roles=is_new)
    report = write_answers(answers, place, loaded)
    if answers.model:
        await store_calls(loaded.config, answers.model.spec, answers.model.calls)
    lines = _last_lines(report, [*caveats(answers, place, _load(said))])
    for each in answers.invited:
        name = answers.bot.name if answers.bot else ""
        lines += ["", await invite(_load(said).config, each.preset.name, each.name, name)]
    following = f"goclaw --config {said.config}" if said.config else "goclaw"
    if (report.written or report.left) and running_pid(loaded.config):
        following += " restart"
    dialogue.print("\n".join([*lines, "", f"Next: `{following}`"]))


async def _ask(scene: Scene, given: Given, *, adds_roles: bool) -> SetupAnswers:
    chosen = await setup_steps.choose_model(scene, given.spec, given.key)
    bot = await setup_steps.choose_bot(scene, given.token)
    owner = given.owner or await setup_steps.find_owner(scene, bot)
    # Only somebody whom the bot knows for its admin thinks of others.
    has_admin = owner or (bot and setup_steps.has_admin(scene.loaded.config))
    people: Sequence[Wanted] = ()
    if given.people or has_admin:
        people = await setup_steps.choose_people(scene, owner, given.people, adds_roles=adds_roles)
    listed, invited = [each for each in people if each.key], [each for each in people if not each.key]
    return SetupAnswers(chosen, bot, owner, listed, invited, await setup_steps.find_ollama(scene))


def _load(said: Options) -> Loaded:
    return load_config(said.config, overrides=said.overrides, may_be_missing=True)


def _last_lines(report: SetupReport, caveats: Sequence[str]) -> list[str]:
    written = ["Written:", *(f"   {line}" for line in report.written)] if report.written else ["Nothing to change."]
    lines = ["", *written]
    if report.left:
        lines += ["", *report.left]
    if caveats:
        lines += ["", *(f"Note: {line}." for line in caveats)]
    return lines
