"""Choice of an embedder by `memory.embedder`. An unknown kind is a server that speaks OpenAI's protocol."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from goclaw import catalog
from goclaw.clock import Clock
from goclaw.config.embedding import AUTO, NONE
from goclaw.config.schema import Config
from goclaw.embedders.base import Embedder, EmbedderPart
from goclaw.plugins import load, third_party


async def choose_embedder(config: Config) -> str:
    """Return the `kind:model` (or `kind`) that is configured, or that `auto` finds now; empty: no embedder.

    With `auto` the kinds are asked in the order of the catalogue, those of packages last. It takes a second at most
    (an Ollama that does not answer), loads nothing and downloads nothing.

    Raises:
        ConfigError: the settings of a kind that is asked cannot be used.
    """
    wanted = config.memory.embedder
    if not config.memory.enabled or wanted == NONE:
        return ""
    if wanted != AUTO:
        return wanted
    for path in _paths().values():
        # In a thread, for what its module imports: this is asked in the first seconds of a daemon.
        part = await asyncio.to_thread(load, path, EmbedderPart)
        if found := await part.find(config):
            return found
    return ""


@asynccontextmanager
async def open_embedder(spec: str, config: Config, clock: Clock) -> AsyncIterator[Embedder]:
    """Open the embedder returned by `choose_embedder` until the block ends; see `EmbedderPart.open`.

    Raises on entering:
        ConfigError: a package, a key, an address or a model is missing; the message has the remedy.
        EmbeddingError: the embedder cannot be reached now; later may work.
    """
    paths = _paths()
    path = paths.get(spec.partition(":")[0], catalog.EMBEDDERS["openai"])
    part = await asyncio.to_thread(load, path, EmbedderPart)  # see above
    async with part.open(spec, config, clock) as embedder:
        yield embedder


def _paths() -> Mapping[str, str]:
    # Ours come first, and no package takes the name of one of them.
    return {**catalog.EMBEDDERS, **third_party("embedders"), **catalog.EMBEDDERS}
