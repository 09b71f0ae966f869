"""Search for usable models on this machine: keys that are set, a running Ollama. For dialogues with a person.

`open.pick_default` chooses without a person, among the same.
"""

import os
from collections.abc import Mapping

from goclaw import catalog
from goclaw.config.schema import Config
from goclaw.config.servers import SERVERS
from goclaw.llm.open import BEST_ANTHROPIC, BEST_OPENAI, Probe, has_key
from goclaw.net.ollama import OllamaServer
from goclaw.records import record

ANTHROPIC_KEY = "ANTHROPIC_API_KEY"
BEST = {"anthropic": BEST_ANTHROPIC, "openai-chat": BEST_OPENAI}
"""The providers whose strongest general model is known by name."""
TWINS = frozenset({"openai"})
"""Names of servers that stand in the table under another name, too."""


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


async def look_around(config: Config, find_ollama: Probe, env: Mapping[str, str] = os.environ) -> FoundModels:
    """Find all usable models; the only request is to Ollama."""
    keyed = [name for name in ("anthropic", *SERVERS) if name not in TWINS and key_known(config, name, env)]
    candidates = [ModelCandidate(BEST[name], f"there is a key for {name}") for name in keyed if name in BEST]
    ollama = await find_ollama()
    if ollama and (model := ollama.with_tools()):
        candidates.append(ModelCandidate(f"ollama:{model.name}", f"Ollama answers at {ollama.base_url}"))
    return FoundModels(tuple(candidates), tuple(name for name in keyed if name not in BEST), ollama)


def key_variable(provider: str) -> str | None:
    """Return the environment variable that a provider's key is read from; None: it works without a key.

    For a provider that is left to pydantic-ai it is a guess by the usual pattern.
    """
    if provider == "anthropic":
        return ANTHROPIC_KEY
    if provider in SERVERS:
        return SERVERS[provider].key_variable
    return None if provider in catalog.PROVIDERS else f"{provider.upper().replace('-', '_')}_API_KEY"


def key_known(config: Config, provider: str, env: Mapping[str, str] = os.environ) -> bool:
    """Whether the configuration or the provider's own variable has a key."""
    variable = key_variable(provider)
    return variable is not None and has_key(config, provider, variable, env)
