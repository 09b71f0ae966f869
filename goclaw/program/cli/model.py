"""`goclaw model|agents`: which model answers, and another one in its place; which agents there are.

Another model is one key of the configuration file.
"""

import asyncio
import difflib
from collections.abc import Sequence
from typing import Annotated, Any

import aiohttp
import orjson
import typer

from goclaw.common.config.agents import RouteSettings
from goclaw.common.config.changing import set_key
from goclaw.common.config.keys import closest
from goclaw.common.config.load import CONFIG_FILE, Loaded, load_config
from goclaw.common.config.schema import Config
from goclaw.common.config.state import running_pid
from goclaw.common.core.clock import RealClock
from goclaw.common.core.container import daemon_command
from goclaw.common.core.files import shown_path
from goclaw.common.core.records import record
from goclaw.common.net import open_client
from goclaw.conversation.agent.kinds import Kinds, agent_as_json, agent_details, agent_line, all_agents
from goclaw.errors import GoclawError
from goclaw.llm.base import Loading
from goclaw.llm.open import DEMO, ollama_finder, open_model, pick_default, reads_text_calls
from goclaw.llm.probes import LISTING, TRIAL_OUTPUT, TRIAL_SECONDS, all_names, try_call, usable_providers
from goclaw.llm.served import CallStyle, style_words
from goclaw.program.cli.base import print_message, show
from goclaw.program.cli.options import AsJson, command_group, load
from goclaw.program.ops.call_styles import store_calls, trial_ports

MAX_SHOWN = 20
"""Names that an error lists."""
COMPLETION_SECONDS = 3.0
"""Time limit for shell completion: the person waits for the next key."""
_UNCHECKED = "`--unchecked` accepts a full `provider:name` without checks"


_INDENT = orjson.OPT_INDENT_2


@record
class ListedModels:
    """Models that the providers list."""

    specs: Sequence[str]
    """Model names as `provider:name`."""
    faults: Sequence[str]
    """Why some could not be asked."""


def completions(incomplete: str) -> list[str]:
    """Complete the text typed so far, for a shell; no names where no provider answers in time."""
    try:
        return asyncio.run(_find_completions(incomplete, load_config(packages=False).config))
    except (GoclawError, TimeoutError):
        return []


async def _find_completions(typed: str, config: Config) -> list[str]:
    async with asyncio.timeout(COMPLETION_SECONDS), open_client() as http:
        listed = await _list_models(_providers_for(typed, config), config, http)
    # A shell drops what does not begin with the typed letters.
    names = [spec.partition(":")[2] for spec in listed.specs]
    return [name for name in (*listed.specs, *(names if typed else ())) if name.startswith(typed)]


def model(
    context: typer.Context,
    name: Annotated[
        str,
        typer.Argument(
            help="`provider:name`, or any part of it that matches only one model.", autocompletion=completions
        ),
    ] = "",
    unchecked: Annotated[bool, typer.Option("--unchecked", help="Contact neither the provider nor the model.")] = False,
) -> None:
    """Show which model answers, or choose another one. Without NAME also what others could.

    One key of the configuration file changes. Its comments stay, and the file as it was is kept beside it (.old). The
    chosen model is asked for one tool call, which may cost a little.
    """
    loaded = load(context)
    config = loaded.config
    if not name:
        asyncio.run(_show(config))
        return
    spec = asyncio.run(_resolve(name, config, unchecked=unchecked))
    key, value, before = _change(spec, config)
    if value == before:
        print(f"{spec} is already the model")
        _try(spec, loaded, unchecked=unchecked)
        return
    file = loaded.path or config.state_dir / CONFIG_FILE
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    kept = set_key(file, key, value)
    print(f"{shown_path(file)}: {key} is now {_words(value)}" + (f", {_words(before)} before" if before else ""))
    if kept:
        print(f"{shown_path(kept)}: the previous file")
    _try(spec, loaded, unchecked=unchecked)
    if running_pid(config):
        print(f"Next: {daemon_command('restart')}")


def _try(spec: str, loaded: Loaded, *, unchecked: bool) -> None:
    """Ask the model for one tool call, and print its action, or why it did nothing."""
    if unchecked or spec == DEMO:
        return
    print(f"Asking {spec} for one tool call …")
    try:
        calls = asyncio.run(_trial(spec, loaded))
    except GoclawError as error:
        print_message(f"chosen, but it does not answer: {error}")
        return
    print(f"{spec} {style_words(calls, reads_text=reads_text_calls(loaded.config, spec))}")


async def _trial(spec: str, loaded: Loaded) -> CallStyle:
    async with open_client() as http:
        model = open_model(spec, loaded.config, trial_ports(http))
        if isinstance(model, Loading):
            # Completion of a name needs none of these.
            from goclaw.program.ops.doctor.providers import prepare
            from goclaw.program.ops.doctor.tools import open_tools

            await prepare(loaded.config, model, (await open_tools(loaded)).usable)
        trial = await try_call(model, max_output=TRIAL_OUTPUT, seconds=TRIAL_SECONDS)
    await store_calls(loaded.config, spec, trial.calls)
    return trial.calls


def _change(spec: str, config: Config) -> tuple[str, Any, Any]:
    """Return the configuration key that selects the model, its new and its present value. Fallbacks stay."""
    if own := config.agents.main.model:
        return "agents.main.model", spec, own
    behind = (each for each in config.models.agent[1:] if each != spec)
    return "models.agent", (spec, *behind), config.models.agent


def _words(value: Sequence[str]) -> str:
    return value if isinstance(value, str) else ", then ".join(value)


async def _show(config: Config) -> None:
    async with open_client() as http:
        _, sentence = await pick_default(config, ollama_finder(config, trial_ports(http)))
        listed = await _list_models(usable_providers(config), config, http)
    print(f"Model: {sentence}")
    if listed.specs:
        show("\n".join(["", "Models of your providers:", *(f"  {spec}" for spec in listed.specs)]))
    for fault in listed.faults:
        print_message(fault)


async def _resolve(typed: str, config: Config, *, unchecked: bool) -> str:
    """Return the full name that matches. Raises GoclawError where none, or several, could be meant."""
    provider, colon, _ = typed.partition(":")
    async with open_client() as http:
        if typed != DEMO and not unchecked:
            listed = await _list_models(_providers_for(typed, config), config, http)
            is_strange = bool(colon) and provider not in LISTING and not _fitting(typed, listed.specs)
            typed = typed if is_strange else _complete(typed, listed)
        open_model(typed, config, trial_ports(http))
    return typed


def _providers_for(typed: str, config: Config) -> Sequence[str]:
    """Return the providers of the models that may be meant."""
    provider, colon, _ = typed.partition(":")
    return [provider] if colon and provider in LISTING else usable_providers(config)


async def _list_models(providers: Sequence[str], config: Config, http: aiohttp.ClientSession) -> ListedModels:
    specs, faults = await all_names(providers, config, http, RealClock())
    if len(providers) > 1 and "ollama" not in config.providers:
        faults = {name: why for name, why in faults.items() if name != "ollama"}  # not configured: there may be none
    return ListedModels(specs, list(faults.values()))


def _fitting(typed: str, specs: Sequence[str]) -> Sequence[str]:
    """Return the models that match: by the whole name, else by prefix, else by substring."""
    names = {spec: spec.partition(":")[2] for spec in specs}
    whole = [spec for spec, name in names.items() if typed in (spec, name) or f"{typed}:latest" in (spec, name)]
    begun = [spec for spec, name in names.items() if spec.startswith(typed) or name.startswith(typed)]
    return whole or begun or [spec for spec in specs if typed.lower() in spec.lower()]


def _complete(typed: str, listed: ListedModels) -> str:
    match _fitting(typed, listed.specs):
        case [spec]:
            return spec
        case []:
            close = difflib.get_close_matches(typed, listed.specs, n=1)
            hint = f"; did you mean {close[0]}?" if close else f"; `goclaw model` lists them, {_UNCHECKED}"
            raise GoclawError("\n".join([*listed.faults, f"no provider offers a model {typed!r}{hint}"]))
        case several:
            more = [f"… and {len(several) - MAX_SHOWN} more"] if len(several) > MAX_SHOWN else []
            raise GoclawError("\n".join([f"{typed!r} matches several models:", *several[:MAX_SHOWN], *more]))


agents_app = command_group("List and describe agents.")


@agents_app.command("list")
def list_agents(context: typer.Context, json: AsJson = False) -> None:
    """Print the agents of the configuration and of installed packages."""
    kinds = _kinds(context)
    found = all_agents(kinds)
    if json:
        show(orjson.dumps([agent_as_json(kind, _routes(kinds, kind.name)) for kind in found], option=_INDENT).decode())
        return
    for kind in found:
        print(agent_line(kind))


@agents_app.command()
def describe(context: typer.Context, name: str, json: AsJson = False) -> None:
    """Print what an agent is for, its models, tools, limits and exports, and whom it answers."""
    kinds = _kinds(context)
    known = {kind.name: kind for kind in all_agents(kinds)}
    kind = known.get(name)
    if kind is None:
        meant = closest(name, list(known))
        print(
            f"There is no agent {name}. " + (f"Did you mean {meant}?" if meant else f"There are: {', '.join(known)}.")
        )
        raise typer.Exit(1)
    routes = _routes(kinds, name)
    show(orjson.dumps(agent_as_json(kind, routes), option=_INDENT).decode() if json else agent_details(kind, routes))


def _kinds(context: typer.Context) -> Kinds:
    return Kinds(load(context).config)


def _routes(kinds: Kinds, name: str) -> list[RouteSettings]:
    return [route for route in kinds.config.agents.routes if route.agent == name]
