"""Checks of `memory.embedder`, so that a misspelt name is refused at once instead of falling back to word search."""

from collections.abc import Iterator

from goclaw import catalog
from goclaw.config.files import lies_inside
from goclaw.config.keys import Loc, closest
from goclaw.config.schema import Config
from goclaw.config.servers import SERVERS
from goclaw.plugins import third_party

AUTO = "auto"
NONE = "none"
WITH_USUAL_MODEL = ("ollama", "sentence-transformers")
"""Kinds that may be named alone. What a server has under which name, only its operator knows."""
_KEY: Loc = ("memory", "embedder")
_EXAMPLE = "such as openai-chat:text-embedding-3-small"


def contradictions(config: Config) -> Iterator[tuple[Loc, str]]:
    """Yield where it names an unknown embedder, or a program that the agent could change; with the remedy."""
    if config.memory.embedder_python and lies_inside(config.memory.embedder_python, config.workspace_path):
        yield ("memory", "embedder_python"), "should not lie inside the workspace: the agent could replace it; move one"
    kind, colon, model = config.memory.embedder.partition(":")
    if config.memory.embedder in (AUTO, NONE):
        return
    if not kind or (colon and not model.strip()) or " " in kind:
        yield _KEY, f"should be `{AUTO}`, `{NONE}`, a kind or `kind:model`, {_EXAMPLE}"
    elif kind in catalog.EMBEDDERS or kind in SERVERS:
        if not model and kind not in WITH_USUAL_MODEL:
            yield _KEY, f"should name a model of that server, {_EXAMPLE}"
    elif not _is_known_otherwise(kind, config):
        names = sorted({AUTO, NONE, *catalog.EMBEDDERS, *SERVERS})
        meant = closest(kind, names)
        hint = f"; did you mean {meant}?" if meant else "."
        yield (
            _KEY,
            (
                f"names nobody who is known to embed{hint} There are {', '.join(names)}; any other server that speaks "
                "OpenAI's protocol needs `providers.<name>.base_url`"
            ),
        )


def _is_known_otherwise(kind: str, config: Config) -> bool:
    """Whether the configuration or an installed package knows it. Packages are looked through for it only then."""
    settings = config.providers.get(kind)
    return bool(settings and settings.base_url) or kind in third_party("embedders")
