"""Steps of `goclaw setup`: the model that answers, the Telegram bot, its owner, and other people.

A model is chosen, given its key, and asked for one tool call over GoClaw's own wires; a bot is tried out with getMe;
its owner sends it a code that this terminal shows. Others get a preset each, shown as a table before anything is
written: entries of users.json, and the roles that they need in a configuration file that is new. A file that exists is
not changed here: for a role that it lacks, the command to add it is shown.
"""

import asyncio
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import replace

from pydantic import SecretStr

from goclaw.channels.base import Account, AccountPart
from goclaw.common.auth.presets import PRESETS, find_guest_preset, find_preset
from goclaw.common.auth.users import User, Users, key_problem
from goclaw.common.config.policies import ADMIN
from goclaw.common.config.schema import Config, ProviderSettings
from goclaw.common.config.state import running_pid
from goclaw.common.core import catalog
from goclaw.common.core.container import daemon_command
from goclaw.common.core.plugins import load
from goclaw.common.net.local_servers import PLACES
from goclaw.common.net.ollama import ollama_url
from goclaw.errors import ChannelError, ConfigError, GoclawError, ModelError, ModelErrorKind
from goclaw.llm.open import (
    BEST_BY_PROVIDER,
    FoundModels,
    ModelCandidate,
    find_models,
    key_known,
    key_variable,
    ollama_finder,
    open_model,
    reads_text_calls,
    server_finder,
)
from goclaw.llm.probes import TRIAL_OUTPUT, TRIAL_SECONDS, try_call
from goclaw.llm.served import CallStyle, style_words
from goclaw.program.cli.rights import Wanted, plan_people, table
from goclaw.program.cli.setup_dialogue import AdminAnswer, BotChoice, ModelChoice, Scene, ask_secret
from goclaw.program.cli.setup_server import BEGINNINGS, choose_served_model, with_choice
from goclaw.program.ops.call_styles import trial_ports
from goclaw.program.ops.doctor.providers import prepare
from goclaw.program.ops.doctor.tools import open_tools


async def choose_model(scene: Scene, spec: str = "", key: str = "") -> ModelChoice | None:
    """Return the model that shall answer, tried out; None when the person skipped it.

    With a `spec` nothing is asked, except for a key that is neither given nor known.

    Raises:
        GoclawError: the model of `spec` does not answer; the message says why.
    """
    if scene.dialogue.silent and not spec:
        return None
    scene.dialogue.print("\n1. The model")
    if spec:
        given = ModelChoice(spec, key or await _ask_key(scene, spec, only_if_unknown=True))
        return await _try(scene, given)
    found = await _find_models(scene)
    now = scene.loaded.config.models.agent
    skipping = f"keep {now[0]}" if now else "GoClaw chooses" if found.candidates else "none for now"
    numbered = {str(number): each.spec for number, each in enumerate(menu_of(found), 1)}
    other = str(len(numbered) + 1)
    scene.dialogue.print(f"   {other}  another server with OpenAI's protocol (LM Studio, vLLM …): its address")
    while typed := await scene.dialogue.ask(f"   Number or `provider:name` [Enter: {skipping}]:"):
        try:
            if typed == other or typed.startswith(BEGINNINGS):
                choice = await choose_served_model(scene, found.servers, "" if typed == other else typed)
            else:
                spec = numbered.get(typed, typed)
                choice = ModelChoice(spec, await _ask_key(scene, spec))
            if choice and (choice := await _ensure_key(scene, choice)):
                return choice
        except GoclawError as error:
            scene.dialogue.print(f"   ✗ {error}")
    return None


async def _ensure_key(scene: Scene, choice: ModelChoice) -> ModelChoice | None:
    """Return the choice with a key that works, asked for again while it is wrong; None when the person gives up."""
    while True:
        try:
            return await _try(scene, choice)
        except ModelError as error:
            if error.kind is not ModelErrorKind.AUTH:
                raise
            scene.dialogue.print(f"   ✗ {error}")
            key = await ask_secret(scene.dialogue, "   Another key (hidden) [Enter: another model]:")
            if not key:
                return None
            choice = replace(choice, key=key)


async def _ask_key(scene: Scene, spec: str, *, only_if_unknown: bool = False) -> str:
    """Return a key for the provider of `spec`; empty where none is needed, or the known one shall do."""
    provider = spec.partition(":")[0]
    variable = key_variable(provider) if ":" in spec else None
    if variable is None:
        return ""
    known = key_known(scene.loaded.config, provider)
    if known and only_if_unknown:
        return ""
    origin = scene.loaded.origin(("providers", provider, "api_key"))
    place = f"env {variable}" if origin == "default" else origin
    skipping = f"the one in {place}" if known else "none"
    return await ask_secret(scene.dialogue, f"   Key for {provider} (hidden) [Enter: {skipping}]:")


async def _find_models(scene: Scene) -> FoundModels:
    """Find models that could answer, and print them."""
    config = scene.loaded.config
    ports = trial_ports(scene.http, scene.clock)
    found = await find_models(config, ollama_finder(config, ports), find_servers=server_finder(config, ports))
    for number, each in enumerate(menu_of(found), 1):
        scene.dialogue.print(f"   {number}  {each.spec} ({each.reason})")
    for line in hints(found, ollama_url(config.providers.get("ollama", ProviderSettings()))):
        scene.dialogue.print(f"   {line}")
    return found


def menu_of(found: FoundModels) -> Sequence[ModelCandidate]:
    """Return the models found, the best first, then those that only lack a key."""
    known = {each.spec for each in found.candidates}
    return [
        *found.candidates,
        *(ModelCandidate(spec, "needs a key") for spec in BEST_BY_PROVIDER.values() if spec not in known),
    ]


def hints(found: FoundModels, ollama: str) -> Iterator[str]:
    """Yield lines on other models that were found or could be. `ollama`: the address at which one was looked for."""
    for provider in found.keyed:
        yield f"You have a key for {provider}: `{provider}:<model>` works, too."
    if found.ollama and not found.ollama.with_tools():
        yield (
            f"Ollama answers at {found.ollama.base_url}, but has no model that can use tools: run `ollama pull qwen3`."
        )
    if found.ollama is None and not found.servers:
        others = ", ".join(PLACES.values())
        yield f"No Ollama answers at {ollama}."
        yield "No other local server answers:"
        yield f"{others}."
        yield "To use a model without a key, install Ollama (https://ollama.com),"
        yield "then `ollama pull qwen3`."


async def find_ollama(scene: Scene) -> str:
    """Return Ollama's address if GoClaw does not look there by itself: a service does not have `OLLAMA_HOST`."""
    config = scene.loaded.config
    url = ollama_url(config.providers.get("ollama", ProviderSettings()))
    if url == ollama_url(ProviderSettings(), {}):
        return ""
    found = await ollama_finder(config, trial_ports(scene.http, scene.clock))()
    return found.base_url if found else ""


async def _try(scene: Scene, choice: ModelChoice) -> ModelChoice:
    """Ask the model for one tool call and print its action. Raises GoclawError when no answer comes."""
    scene.dialogue.print(f"   Asking {choice.spec} …")
    config = with_choice(scene.loaded.config, choice)
    model = open_model(choice.spec, config, trial_ports(scene.http, scene.clock))
    found = await prepare(config, model, (await open_tools(scene.loaded)).usable)
    trial = await try_call(model, max_output=TRIAL_OUTPUT, seconds=TRIAL_SECONDS)
    scene.dialogue.print(f"   ✓ {choice.spec} answers{f': {trial.said}' if trial.said else ''}")
    if trial.calls is not CallStyle.UNTRIED:
        mark = "!" if trial.calls is CallStyle.NONE else "✓"
        words = style_words(trial.calls, reads_text=reads_text_calls(config, choice.spec))
        scene.dialogue.print(f"   {mark} It {words}.")
    if not found.fits:
        scene.dialogue.print("\n".join(f"   {line}" for line in f"! {found.explain()}".splitlines()))
    return replace(choice, calls=trial.calls)


CODE_DIGITS = 8
"""Digits of the code: too many to guess in the 100 messages that can wait for a bot, few enough to type."""
CODE_SECONDS = 300.0
"""Lifetime of the code."""


async def choose_bot(scene: Scene, token: str = "") -> BotChoice | None:
    """Return the bot that people write to, tried out with getMe; None when the person skipped it.

    With a `token` nothing is asked.

    Raises:
        GoclawError: the given `token` does not do; the message says why.
    """
    if scene.dialogue.silent and not token:
        return None
    scene.dialogue.print("\n2. Telegram")
    if token:
        return await _try_bot(scene, token)
    known = scene.loaded.config.telegram.token
    if known:
        scene.dialogue.print(f"   You already have a token ({scene.loaded.origin(('telegram', 'token'))}).")
        question = "   Another token (hidden) [Enter: keep it]:"
    else:
        scene.dialogue.print("   Create a bot with @BotFather in Telegram (/newbot); it gives you the token.")
        question = "   Token (hidden) [Enter: no Telegram]:"
    while typed := await ask_secret(scene.dialogue, question):
        try:
            return await _try_bot(scene, typed)
        except GoclawError as error:
            scene.dialogue.print(f"   ✗ {error}")
    if known:
        try:
            return await _try_bot(scene, "")
        except GoclawError as error:
            scene.dialogue.print(f"   ✗ {error}")
    return None


async def find_owner(scene: Scene, bot: BotChoice | None, seconds: float = CODE_SECONDS) -> AdminAnswer | None:
    """Return the person who sends the bot this terminal's code, or the one with the typed id; None when skipped."""
    if scene.dialogue.silent or bot is None:
        return None
    if user := has_admin(scene.loaded.config):
        scene.dialogue.print(f"\n3. You\n   {user.name or 'Somebody'} ({user.key}) is admin already.")
        return None
    scene.dialogue.print("\n3. You")
    pid = running_pid(scene.loaded.config)
    known = scene.loaded.config.telegram.token
    if pid and known and bot.token in ("", known.get_secret_value()):
        # Two readers of one bot would take turns being thrown out by Telegram.
        scene.dialogue.print(
            f"   GoClaw is running (pid {pid}) and reads this bot's messages: {daemon_command('stop')}, then run "
            "`goclaw setup` again.\n   Or write to the bot, and find your id with `goclaw logs`."
        )
        return await _typed_owner(scene)
    try:
        return await _meet(scene, bot, seconds)
    except ChannelError as error:
        scene.dialogue.print(f"   ✗ {error}")
        return await _typed_owner(scene)


def owner_of(number: str) -> AdminAnswer:
    """Return the person with this numeric id.

    Raises:
        ConfigError: it is no numeric id.
    """
    key = f"telegram:{number}"
    if problem := key_problem(key):
        raise ConfigError(f"{number}: {problem}")
    return AdminAnswer(key)


async def _meet(scene: Scene, bot: BotChoice, seconds: float) -> AdminAnswer | None:
    account = _account(scene, bot.token)
    code = "".join(secrets.choice("0123456789") for _ in range(CODE_DIGITS))
    scene.dialogue.print(
        "   The bot answers only listed people. To become its admin, send it this\n   code in a private chat "
        f"(https://t.me/{bot.name[1:]}):\n\n       {code}\n"
    )
    question = f"   Waiting {seconds / 60:g} minutes. Or type your numeric Telegram id [Enter: skip]:"
    try:
        async with asyncio.timeout(seconds):
            while True:
                met = await scene.dialogue.ask_beside(question, account.meet(code))
                if not isinstance(met, str):
                    scene.dialogue.print(f"   ✓ {met.name or 'Somebody'} ({met.key}) sent it.")
                    return AdminAnswer(met.key, met.name)
                if not met:
                    return None
                try:
                    return owner_of(met)
                except ConfigError as error:
                    scene.dialogue.print(f"   ✗ {error}")
    except TimeoutError:
        scene.dialogue.print(f"\n   ✗ Nobody sent {code} in time. Run `goclaw setup` to try again.")
        return None


async def _typed_owner(scene: Scene) -> AdminAnswer | None:
    while typed := await scene.dialogue.ask("   Your numeric Telegram id [Enter: skip]:"):
        try:
            return owner_of(typed)
        except ConfigError as error:
            scene.dialogue.print(f"   ✗ {error}")
    return None


async def _try_bot(scene: Scene, token: str) -> BotChoice:
    """Return the bot of `token`, or of the configured one. Raises GoclawError when Telegram knows none."""
    name = await _account(scene, token).name()
    scene.dialogue.print(f"   ✓ {name} answers")
    return BotChoice(name, token)


def _account(scene: Scene, token: str) -> Account:
    config = scene.loaded.config
    if token:
        telegram = config.telegram.model_copy(update={"token": SecretStr(token)})
        config = config.model_copy(update={"telegram": telegram})
    return load(catalog.ACCOUNTS["telegram"], AccountPart).open(config, scene.http, scene.clock)


def has_admin(config: Config) -> User | None:
    """Return the first Telegram user who is admin, or None."""
    users = Users.read(config.users_path).all()
    return next((user for user in users if user.key.startswith("telegram:") and ADMIN in user.roles), None)


FORM = "PRESET NAME, as in `child Cem`, for an invitation; or KEY PRESET NAME, as in `telegram:234567 child Cem`"


def person_of(text: str) -> Wanted:
    """Return the person that a line names: key, preset and, where given, a name; without a key one to be invited.

    Raises:
        ConfigError: it does not.
    """
    key, _, rest = text.strip().partition(" ")
    if key in PRESETS:
        if not rest.strip():
            raise ConfigError(f"{key}: say who it is; {FORM}")
        return Wanted("", find_guest_preset(key), rest.strip())
    preset, _, name = rest.strip().partition(" ")
    if problem := key_problem(key):
        raise ConfigError(f"{key or 'nothing'}: {problem}")
    if not preset:
        raise ConfigError(f"{key}: choose a preset: {', '.join(PRESETS)}; {FORM}")
    return Wanted(key, find_preset(preset), name.strip())


async def choose_people(
    scene: Scene, owner: AdminAnswer | None, given: Sequence[Wanted] = (), *, adds_roles: bool
) -> Sequence[Wanted]:
    """Return the people who are to be added, those of the command line included; empty where the step was skipped.

    Args:
        scene: the dependencies.
        owner: the person who becomes admin now, if any.
        given: people of the command line, for whom nothing is asked.
        adds_roles: whether the configuration file is new, so that roles can be written into it.

    Raises:
        ConfigError: a person of the command line cannot be added.
    """
    found = {}
    for person in given:
        _check(scene, person, owner, adds_roles)
        found[person.key or person.name] = person
    if scene.dialogue.silent or given:
        return tuple(found.values())
    scene.dialogue.print("\n4. Other people")
    for preset in PRESETS.values():
        scene.dialogue.print(f"   {preset.name:7}{preset.about}")
    scene.dialogue.print("   " + FORM.replace("; or", ";\n   or"))
    while typed := await scene.dialogue.ask("   Somebody else [Enter: done]:"):
        try:
            person = person_of(typed)
            _check(scene, person, owner, adds_roles)
            found[person.key or person.name] = person
        except ConfigError as error:
            scene.dialogue.print(f"   ✗ {error}")
    if not found:
        return ()
    people = tuple(found.values())
    scene.dialogue.print()
    for line in await _lines_about(scene, people):
        scene.dialogue.print(f"   {line}")
    answer = await scene.dialogue.ask("   Add these people? [Enter: yes, n: nobody]:")
    return () if answer.lower() in ("n", "no") else people


async def _lines_about(scene: Scene, people: Sequence[Wanted]) -> Sequence[str]:
    """Return what these people will be able to do, and who gets an invitation."""
    listed = [each for each in people if each.key]
    invited = [each for each in people if not each.key]
    return [
        *(await table(scene.loaded, plan_people(scene.loaded.config, listed)) if listed else ()),
        *(f"{each.name}: {each.preset.name}, {each.preset.about}; you get an invitation to send" for each in invited),
    ]


def _check(scene: Scene, person: Wanted, owner: AdminAnswer | None, adds_roles: bool) -> None:
    """Raise ConfigError where this step cannot add a person; the message says what can."""
    config, preset = scene.loaded.config, person.preset
    if not person.key:
        return
    command = f"`goclaw users add {person.key} --preset {preset.name}`"
    if owner and person.key == owner.key:
        raise ConfigError(f"{person.key}: that is you, and you are the admin")
    if Users.read(config.users_path).get(person.key):
        raise ConfigError(f"{person.key}: is already listed; {command} shows what would change")
    if preset.settings and preset.role not in config.roles and not adds_roles:
        lacking = f"the configuration stays unchanged and lacks roles.{preset.role}"
        raise ConfigError(f"{person.key}: {lacking}; {command} adds it")
