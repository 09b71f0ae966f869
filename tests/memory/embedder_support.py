"""An `Embedding` over embedders that a test holds, and the background it runs in."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from goclaw.common.core.clock import Clock, SteppedClock
from goclaw.common.core.supervise import background
from goclaw.errors import ConfigError
from goclaw.memory.embedders.base import Embedder
from goclaw.memory.embedding import Embedding
from goclaw.testing import WordsEmbedder


class Rack:
    """The embedders that are there, by `kind:model`, and which is wanted."""

    def __init__(self, **embedders: WordsEmbedder) -> None:
        self.embedders: Mapping[str, WordsEmbedder] = {f"fake:{name}": each for name, each in embedders.items()}
        self.wanted = next(iter(self.embedders), "")
        self.opened: list[str] = []

    async def choose(self) -> str:
        return self.wanted

    @asynccontextmanager
    async def open(self, spec: str) -> AsyncIterator[Embedder]:
        self.opened.append(spec)
        if spec not in self.embedders:
            raise ConfigError(f"{spec}: there is no such embedder here")
        yield self.embedders[spec]


@asynccontextmanager
async def embedding_of(rack: Rack, clock: Clock) -> AsyncIterator[Embedding]:
    """What memory makes of the rack, while the block runs."""
    embedding = Embedding(rack.choose, rack.open, clock)
    async with background(embedding.run(), "embedder"):
        yield embedding


async def until(condition: Callable[[], bool], clock: SteppedClock | None = None, step: float = 0.0) -> None:
    """Let others run, and time pass, until something holds."""
    async with asyncio.timeout(10):
        while not condition():
            if clock:
                clock.advance(step)
            await asyncio.sleep(0)
