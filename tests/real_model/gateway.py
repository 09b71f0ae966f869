"""The product in front of a real server: a daemon of its own, and what its requests cost that server."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.acceptance.daemon import Installation, Ran, installation
from tests.real_model.recorder import Exchange, Recorder, recorder
from tests.real_model.server import CODER, RealServer

SPEC = f"llamacpp:{CODER}"
SHORT_ANSWER = 64
"""Tokens of an answer of the lane, so that the lane ends."""
TURN_SECONDS = 400.0
"""For one turn; on two busy cores a first prompt takes a minute."""


@dataclass(frozen=True)
class Stage:
    """A daemon, its model's server and what lies between them."""

    home: Installation
    server: RealServer
    line: Recorder

    async def send(self, text: str, session: str = "tui:main", seconds: float = TURN_SECONDS) -> Ran:
        """Say something as a person does, and return what came back."""
        return await self.home.run("send", "--session", session, text, seconds=seconds)

    def compactions(self, session: str = "tui:main") -> int:
        """Return how often room was made in a conversation."""
        rows = self.home.read("SELECT session FROM compactions")
        return sum(session in str(name) for (name,) in rows)


@asynccontextmanager
async def stage(
    folder: Path, server: RealServer, *, hides_window: bool = False, **options: Any
) -> AsyncIterator[Stage]:
    """Run a daemon on this server; `options` are those of the model."""
    async with recorder(server.url, hides_window=hides_window) as line:
        models = {"agent": SPEC, "options": {SPEC: options}, "summary": [SPEC]}
        providers = {"llamacpp": {"base_url": f"{line.url}/v1"}}
        async with installation(folder, models=models, providers=providers) as home:
            await home.start()
            yield Stage(home, server, line)
            await home.stop()


def reuse(exchanges: Sequence[Exchange]) -> float | None:
    """Return which share of the prompts before them the later ones of these requests found in the server's cache.

    1 means that each begins with all of the one before. None: there are no two with a count.
    """
    counted = [exchange.timings for exchange in exchanges if exchange.timings]
    before = [each["cache_n"] + each["prompt_n"] for each in counted[:-1]]
    found = [min(each["cache_n"], size) for each, size in zip(counted[1:], before, strict=True)]
    return sum(found) / sum(before) if before else None


def from_cache(exchanges: Sequence[Exchange]) -> float | None:
    """Return which share of the prompts of all but the first of these requests came from the server's cache."""
    counted = [exchange.timings for exchange in exchanges if exchange.timings][1:]
    whole = sum(each["cache_n"] + each["prompt_n"] for each in counted)
    return sum(each["cache_n"] for each in counted) / whole if whole else None


def rounded(share: float | None) -> float | None:
    """Return a share as a report has it."""
    return None if share is None else round(share, 3)
