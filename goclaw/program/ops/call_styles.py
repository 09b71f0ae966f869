"""Trials of a model: what one is opened with, and how it calls tools, which is kept.

The daemon reads text calls of a model that writes them.
"""

from contextlib import suppress

import aiohttp

from goclaw.common.config.schema import Config
from goclaw.common.config.state import open_state
from goclaw.common.core.clock import Clock, RealClock
from goclaw.durable.store.open import open_database
from goclaw.durable.store.settings import Settings
from goclaw.errors import GoclawError
from goclaw.llm.base import ModelPorts
from goclaw.llm.served import TEXT_CALLS, CallStyle


def trial_ports(http: aiohttp.ClientSession, clock: Clock | None = None) -> ModelPorts:
    """Return what a model is opened with that gets no picture."""
    return ModelPorts(http, _no_image, clock or RealClock())


async def _no_image(key: str) -> bytes:
    raise AssertionError(f"no picture is asked for here: {key}")


async def store_calls(config: Config, spec: str, calls: CallStyle) -> None:
    """Keep the result of a trial of the model `spec` in the database, and make the database if it is missing.

    UNTRIED leaves an earlier result. Nothing is kept while a daemon works on the state folder.
    """
    if calls is CallStyle.UNTRIED:
        return
    with suppress(GoclawError), open_state(config):
        async with open_database(config.store_place) as database:
            await Settings(database).learn(f"{TEXT_CALLS}:{spec}", calls)
