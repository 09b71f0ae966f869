"""From a name in the configuration to a model that answers, and the choice of one where no name is given.

`provider:name` is looked up in the catalogue, then in the table of compatible servers, then left to pydantic-ai.
`find_models` searches this machine for usable models, for dialogues with a person: keys that are set, a running Ollama.
`pick_default` chooses without a person, among the same.
"""

import asyncio
import math
import os
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache, partial
from typing import get_args
from urllib.parse import urlsplit

from goclaw.common.config.agents import AgentSettings
from goclaw.common.config.keys import closest
from goclaw.common.config.schema import Config, ModelOptions, ProviderSettings
from goclaw.common.config.servers import DOUBLE_NAMES, SERVERS, provider_settings
from goclaw.common.core import catalog, plugins
from goclaw.common.core.container import daemon_command
from goclaw.common.core.records import record
from goclaw.common.net.guard import parsed_address
from goclaw.common.net.local_servers import PLACES, LocalServer, find_local_servers, no_servers
from goclaw.common.net.ollama import OllamaServer, ollama_url, probe
from goclaw.errors import ConfigError
from goclaw.llm.base import CachePoint, ChatModel, ModelPorts, Provider, Usage
from goclaw.llm.chain import ModelChain
from goclaw.llm.data import either, facts
from goclaw.llm.data import prepare as prepare

DEMO = "demo"
BEST_ANTHROPIC = "anthropic:claude-opus-5-5"
BEST_OPENAI = "openai-chat:gpt-6.1-sol"
"""Defaults when only a key is set: each provider's strongest general model in the model data of November 2026."""
SUMMARY_MODEL = "qwen2.5:7b"
"""Preferred by `models.summary: auto` when an Ollama has it."""
CLOUD = re.compile(r"[:-]cloud$")
"""Models that an Ollama has answered elsewhere, for money: `gpt-oss:120b-cloud`, `kimi-k2:cloud`."""
HOW_TO_CHANGE = "`goclaw model` chooses another one."
NO_SPECS = frozenset({"demo", "pydantic-ai", "scripted", *DOUBLE_NAMES})
"""Lines of the catalogue that no one writes before a model's name, and second names of servers."""

Probe = Callable[[], Awaitable[OllamaServer | None]]


def open_model(spec: str, config: Config, ports: ModelPorts) -> ChatModel:
    """Return the model for `provider:name` (or `demo`). Nothing is sent yet.

    Raises:
        ConfigError: the name is incomplete, a key or an extra is missing; the message says what helps.
    """
    name, colon, model = spec.partition(":")
    if name != DEMO and not (colon and model):
        raise ConfigError(f"models: {spec!r} names no model; write it as `provider:name`, such as {BEST_ANTHROPIC}")
    settings = provider_settings(config.providers, name)
    options = config.models.options.get(spec, ModelOptions())
    return find_provider(name).open(spec, settings, options, ports)


def find_provider(name: str) -> Provider:
    """Return the provider of this name."""
    paths = {**plugins.third_party("providers"), **catalog.PROVIDERS}
    shared = catalog.PROVIDERS["openai-chat" if name in SERVERS else "pydantic-ai"]
    return plugins.load(paths.get(name, shared), Provider)


def unknown(provider: str) -> str:
    """Return the message about a provider that does not exist: the nearest of those that do, and all of them."""
    names = sorted({*catalog.PROVIDERS, *SERVERS} - NO_SPECS)
    near = closest(provider, names)
    meant = f" Did you mean `{near}:`?" if near else ""
    return f"there is no provider {provider!r}.{meant} Available: {', '.join(names)}."


def check_caching(config: Config) -> None:
    """Check the agents' cache settings before anything is opened. Providers without such a cache ignore them.

    Raises:
        ConfigError: an agent has a mark that the provider of a configured model cannot place.
    """
    agents = {"agents.main": config.agents.main}
    agents |= {f"agents.kinds.{name}": agent for name, agent in config.agents.kinds.items()}
    problems = [
        problem
        for place, agent in agents.items()
        for spec in dict.fromkeys(filter(None, (agent.model, *agent.fallbacks, *config.models.agent)))
        for problem in unplaceable(spec, place, agent)
    ]
    if problems:
        raise ConfigError(*problems)


def unplaceable(spec: str, place: str, agent: AgentSettings) -> Iterator[str]:
    """Yield the faults of an agent's cache marks, if the model `spec` answers for it."""
    provider = spec.partition(":")[0]
    possible = find_provider(provider).cache_points
    for point in get_args(CachePoint):
        if getattr(agent.policy.cache, point) and possible and point not in possible:
            yield (
                f"{place}.policy.cache.{point}: the prompt cache of {provider} allows no mark there ({spec}); remove "
                "the key"
            )


def open_chain(
    specs: Sequence[str], config: Config, ports: ModelPorts, notice: Callable[[str], None] = lambda line: None
) -> ModelChain:
    """Return the models of `specs` as one, in that order; `notice` gets a line when another one takes over.

    Raises:
        ConfigError: one of them cannot be opened.
    """
    models = [open_model(spec, config, ports) for spec in specs]
    return ModelChain(models, ports.clock, notice, local_wait=ports.local_wait)


def cost(spec: str, usage: Usage, config: Config, at: float) -> float | None:
    """Return US dollars for an answer of the model `spec` at `at` (epoch seconds); None for unknown prices.

    A model on the user's own machine costs nothing, unless a price is configured or in the data (a server on this
    machine may hand requests on). Reads the model data once per model: call `prepare` before, or from a thread.
    """
    if spec == DEMO:
        return 0.0
    known = facts(spec, config.models.options.get(spec) or _no_options(), at)
    if is_free(spec, config):
        price_input, price_output = either(known.price_input, 0.0), either(known.price_output, 0.0)
        known = replace(known, price_input=price_input, price_output=price_output)
    return known.cost(usage)


MARGIN = 1.5
"""Factor between an estimate of tokens and what a request has at most: `scripts/bench --only estimates` shows how far
off they are before a model's factor is learnt (`agent.context.calibration`)."""
MAX_THINKING = 12_288
"""Tokens that a model may think in addition to the limit of its answer: the maximum of `llm.anthropic.BUDGETS`."""


def largest(
    model: ChatModel, tokens: int, config: Config, at: float, max_output: int | None = None
) -> tuple[int, float]:
    """Return the tokens and US dollars that one request can take at most, by the dearest model of a chain.

    An unknown price counts zero dollars, here as in the spending.

    Args:
        model: the model or chain that is asked.
        tokens: of the prompt, as estimated.
        config: prices and limits of models.
        at: in epoch seconds, for prices that change.
        max_output: tokens that the answer may have; None: the model's limit.
    """
    each = [_largest_of(one, tokens, config, at, max_output) for one in getattr(model, "models", (model,))]
    return max(tokens for tokens, _ in each), max(dollars for _, dollars in each)


def _largest_of(model: ChatModel, tokens: int, config: Config, at: float, max_output: int | None) -> tuple[int, float]:
    options = config.models.options.get(model.spec) or _no_options()
    prompt = max(tokens, min(math.ceil(MARGIN * tokens), model.context_window))
    answer = max_output or facts(model.spec, options, at).max_output
    if options.thinking != "off":
        answer += MAX_THINKING
    # What is written to a cache may cost more than what is not.
    usages = Usage(input=prompt, output=answer), Usage(input=prompt, output=answer, cache_write=prompt)
    return prompt + answer, max(cost(model.spec, usage, config, at) or 0.0 for usage in usages)


@cache
def _no_options() -> ModelOptions:
    """Return the defaults; asked for with every answer, and not built at the start."""
    return ModelOptions()


async def pick_default(
    config: Config, find_ollama: Probe, env: Mapping[str, str] = os.environ
) -> tuple[tuple[str, ...], str]:
    """Return the chain of the main agent, and for people which it is, why, and how to change it.

    A configured chain is taken as it is; else a key, else an Ollama with a model that can call tools, else the demo.
    """
    if own := config.agents.main.model:
        chain = dict.fromkeys((own, *config.agents.main.fallbacks, *config.models.agent))
        return tuple(chain), f"{own}, as configured in `agents.main.model`."
    if config.models.agent:
        return config.models.agent, f"{config.models.agent[0]}, as configured in `models.agent`."
    if has_key(config, "anthropic", "ANTHROPIC_API_KEY", env):
        return (BEST_ANTHROPIC,), f"{BEST_ANTHROPIC}, because there is an Anthropic key. {HOW_TO_CHANGE}"
    if has_key(config, "openai-chat", "OPENAI_API_KEY", env) or has_key(config, "openai", "OPENAI_API_KEY", env):
        return (BEST_OPENAI,), f"{BEST_OPENAI}, because there is an OpenAI key. {HOW_TO_CHANGE}"
    server = await find_ollama()
    if server is not None:
        model = server.with_tools()
        if model is not None:
            spec = f"ollama:{model.name}"
            return (spec,), f"{spec}, because Ollama answers at {server.base_url}. {HOW_TO_CHANGE}"
        return (DEMO,), (
            f"demo (no AI). Ollama answers at {server.base_url} but has no model that can call tools: "
            f"try `ollama pull qwen3`, then {daemon_command('restart')}."
        )
    return (DEMO,), (
        "demo (no AI). `goclaw setup` connects one; or set ANTHROPIC_API_KEY or OPENAI_API_KEY, or start "
        f"Ollama, then {daemon_command('restart')}."
    )


async def pick_summary(config: Config, find_ollama: Probe) -> tuple[str, ...]:
    """Return the chain for `models.summary`; empty: none but the main model."""
    if config.models.summary != "auto":
        return config.models.summary
    server = await find_ollama()
    model = server and (server.find(SUMMARY_MODEL) or server.for_chat())
    return (f"ollama:{model.name}",) if model else ()


def ollama_finder(config: Config, ports: ModelPorts, env: Mapping[str, str] = os.environ) -> Probe:
    """Return a function that finds Ollama, for `pick_default` and `pick_summary`; it takes a second at most."""
    return partial(probe, ports.http, ollama_url(config.providers.get("ollama", ProviderSettings()), env))


def is_local(spec: str, config: Config) -> bool:
    """Whether a model is taken for one on the user's own machine: by its provider, or by the address of its server."""
    provider = spec.partition(":")[0]
    settings = provider_settings(config.providers, provider)
    if settings.base_url and _is_on_this_machine(settings.base_url):
        return True
    return provider == "ollama" or (provider in SERVERS and SERVERS[provider].local)


@lru_cache(maxsize=64)
def _is_on_this_machine(base_url: str) -> bool:
    host = urlsplit(base_url).hostname or ""
    address = parsed_address(host) if host else None
    return host == "localhost" or host.endswith(".localhost") or (address is not None and address.is_loopback)


def is_free(spec: str, config: Config) -> bool:
    """Whether a model's answers cost nothing: it is local, and no Ollama that hands requests on to Ollama's cloud."""
    if spec.startswith("ollama:"):
        host = urlsplit(config.providers.get("ollama", ProviderSettings()).base_url or "").hostname or ""
        if CLOUD.search(spec) or host.endswith("ollama.com"):
            return False
    return is_local(spec, config)


def reads_text_calls(config: Config, spec: str) -> bool:
    """Return whether calls that a model writes as text may run."""
    options = config.models.options.get(spec)
    return not (options and options.text_calls == "off")


def server_finder(config: Config, ports: ModelPorts) -> Callable[[], Awaitable[Sequence[LocalServer]]]:
    """Return a function that finds the other servers of models on this machine; it takes a second at most."""

    async def find() -> Sequence[LocalServer]:
        own = {name: provider_settings(config.providers, name).base_url for name in PLACES}
        return await find_local_servers(ports.http, {name: url for name, url in own.items() if url})

    return find


def has_key(config: Config, provider: str, variable: str, env: Mapping[str, str]) -> bool:
    """Whether a key is configured or in the environment."""
    return bool(provider_settings(config.providers, provider).api_key or env.get(variable))


BEST_BY_PROVIDER = {"anthropic": BEST_ANTHROPIC, "openai-chat": BEST_OPENAI}
"""The providers whose strongest general model is known by name."""

MOST_OF_A_SERVER = 5
"""Models of one local server that are proposed."""


@record
class ModelCandidate:
    """A model that could answer without more ado."""

    spec: str
    reason: str
    """`there is a key for anthropic`, `Ollama answers at http://127.0.0.1:11434`."""


@record
class FoundModels:
    """Models that were found."""

    candidates: tuple[ModelCandidate, ...]
    """The best first, as `pick_default` has it."""
    keyed: tuple[str, ...]
    """Providers that have a key, but so many models that none is the obvious one."""
    ollama: OllamaServer | None
    servers: Sequence[LocalServer] = ()
    """Other servers on this machine that answer."""


async def find_models(
    config: Config,
    find_ollama: Probe,
    env: Mapping[str, str] = os.environ,
    find_servers: Callable[[], Awaitable[Sequence[LocalServer]]] = no_servers,
) -> FoundModels:
    """Find all usable models; the only requests are to servers on this machine."""
    keyed = [name for name in ("anthropic", *SERVERS) if name not in DOUBLE_NAMES and key_known(config, name, env)]
    candidates = [
        ModelCandidate(BEST_BY_PROVIDER[name], f"you have a key for {name}")
        for name in keyed
        if name in BEST_BY_PROVIDER
    ]
    ollama, servers = await asyncio.gather(find_ollama(), find_servers())
    if ollama and (model := ollama.with_tools()):
        candidates.append(ModelCandidate(f"ollama:{model.name}", f"Ollama answers at {ollama.base_url}"))
    for server in servers:
        why = f"{server.title} answers at {server.base_url}"
        candidates += [ModelCandidate(f"{server.provider}:{name}", why) for name in server.models[:MOST_OF_A_SERVER]]
    rest = tuple(name for name in keyed if name not in BEST_BY_PROVIDER)
    return FoundModels(tuple(candidates), rest, ollama, servers)


def key_variable(provider: str) -> str | None:
    """Return the environment variable that a provider's key is read from; None: it works without a key.

    For a provider that is left to pydantic-ai it is a guess by the usual pattern.
    """
    if provider == "anthropic":
        return "ANTHROPIC_API_KEY"
    if provider in SERVERS:
        return SERVERS[provider].key_variable
    return None if provider in catalog.PROVIDERS else f"{provider.upper().replace('-', '_')}_API_KEY"


def key_known(config: Config, provider: str, env: Mapping[str, str] = os.environ) -> bool:
    """Whether the configuration or the provider's own variable has a key."""
    variable = key_variable(provider)
    return variable is not None and has_key(config, provider, variable, env)
