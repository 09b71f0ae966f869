"""Settings that are fine alone but not together: `memory.embedder`, `tools.from_registry`, `tools.pinned`, `replica`.

A misspelt embedder is refused immediately instead of falling back to word search. Others are next to their rules
(`listening`, `hooks`); `load` asks for all of them.
"""

from collections.abc import Iterator

from goclaw.common.config.keys import Loc, closest, what_helps
from goclaw.common.config.schema import Config
from goclaw.common.config.servers import SERVERS
from goclaw.common.core import catalog
from goclaw.common.core.files import lies_inside
from goclaw.common.core.plugins import third_party
from goclaw.common.core.selection import BUILT_IN

AUTO_EMBEDDER = "auto"
NO_EMBEDDER = "none"
WITH_USUAL_MODEL = ("ollama", "sentence-transformers")
"""Kinds that may be named alone. What a server has under which name, only its operator knows."""
_KEY: Loc = ("memory", "embedder")
_EXAMPLE = "such as openai-chat:text-embedding-3-small"


def of_embedder(config: Config) -> Iterator[tuple[Loc, str]]:
    """Yield where it names an unknown embedder, or a program that the agent could change; with the remedy."""
    if config.memory.embedder_python and lies_inside(config.memory.embedder_python, config.workspace_path):
        why = "should not be inside the workspace, where the agent could replace it; move one of them"
        yield ("memory", "embedder_python"), why
    kind, colon, model = config.memory.embedder.partition(":")
    if config.memory.embedder in (AUTO_EMBEDDER, NO_EMBEDDER):
        return
    if not kind or (colon and not model.strip()) or " " in kind:
        yield _KEY, f"should be `{AUTO_EMBEDDER}`, `{NO_EMBEDDER}`, a kind or `kind:model`, {_EXAMPLE}"
    elif kind in catalog.EMBEDDERS or kind in SERVERS:
        if not model and kind not in WITH_USUAL_MODEL:
            yield _KEY, f"should name a model of that server, {_EXAMPLE}"
    elif not ((settings := config.providers.get(kind)) and settings.base_url) and kind not in third_party("embedders"):
        names = sorted({AUTO_EMBEDDER, NO_EMBEDDER, *catalog.EMBEDDERS, *SERVERS})
        meant = closest(kind, names)
        hint = f"; did you mean {meant}?" if meant else "."
        yield (
            _KEY,
            f"names no known embedder{hint} Available: {', '.join(names)}; any other server with OpenAI's protocol "
            "needs `providers.<name>.base_url`",
        )


def of_replicas(config: Config) -> Iterator[tuple[Loc, str]]:
    """Yield where conversations would stay with a gateway that is not known again."""
    if config.replica.workspaces == "own" and not config.replica.name:
        why = "`own` needs `replica.name`, so that a gateway finds its conversations again"
        yield ("replica", "workspaces"), why


def of_registries(config: Config) -> Iterator[tuple[Loc, str]]:
    """Yield names with another meaning, unknown registries and servers, and pins of nothing."""
    loc: Loc
    for name, settings in config.tools.from_registry.items():
        loc = ("tools", "from_registry", name)
        if taken := next((place for place, names in _list_names(config) if name in names), None):
            yield loc, f"`{name}` is already {taken}; choose another name"
        if settings.registry not in config.registries:
            known = what_helps(settings.registry, config.registries)
            yield (*loc, "registry"), f"unknown registry `{settings.registry}`{known}"
        if settings.sha256 and not settings.version:
            yield (*loc, "sha256"), "is the hash of one version; also set `version`"
    for name, pinned in config.tools.pinned.items():
        loc = ("tools", "pinned", name)
        if pinned.server not in config.mcp.servers:
            known = what_helps(pinned.server, config.mcp.servers)
            yield (*loc, "server"), f"unknown MCP server `{pinned.server}` (mcp.servers){known}"
        if name in config.tools.sets:
            yield loc, f"`{name}` is already a set in `tools.sets`; choose another name"


def _list_names(config: Config) -> Iterator[tuple[str, set[str]]]:
    """Yield the source of names of servers and sets, and the names."""
    yield "a server of `mcp.servers`", set(config.mcp.servers)
    yield "a set of `tools.sets`", set(config.tools.sets)
    yield "a set of `tools.pinned`", set(config.tools.pinned)
    yield "a built-in set of tools", {each.name for each in BUILT_IN}
    yield "a set that an agent exports", set(config.agents.exported_sets)
