"""Facts of models listed in the data of `genai-prices`: window and prices.

The data take five megabytes and some tenths of a second, for a handful of numbers. So the daemon reads them in a
process of its own (`read_beforehand`); without that they are read here.
"""

import asyncio
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING

import orjson

from goclaw.common.core.records import record

if TYPE_CHECKING:
    from genai_prices.data_snapshot import DataSnapshot

log = logging.getLogger(__name__)

READ_SECONDS = 20.0
"""Time limit of the other process on a busy machine."""


@record
class ModelRow:
    """One row of the data. Prices in US dollars per million tokens; None where unknown."""

    context_window: int | None = None
    price_input: float | None = None
    price_output: float | None = None
    price_cache_read: float | None = None
    price_cache_write: float | None = None


Key = tuple[str, str]
"""A provider in the data's own naming, and a model's name."""

_read: dict[Key, ModelRow] = {}


def find_model(provider: str, name: str, at: float) -> ModelRow:
    """Return the row of a model; an empty one for an unknown model.

    `at` (epoch seconds) chooses among prices that change; of prices that grow with the prompt the smallest counts.
    """
    known = _read.get((provider, name))
    return known if known is not None else _row(provider, name, at)


async def read_beforehand(keys: Sequence[Key], at: float) -> None:
    """Read the rows for `keys` beforehand, without the data in this process's memory."""
    if not keys:
        return
    question = orjson.dumps([list(keys), at]).decode()
    environment = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    try:
        async with asyncio.timeout(READ_SECONDS):
            # -P: the folder where the daemon was started may be the agent's, and holds no module of ours.
            command = [sys.executable, "-P", "-m", __name__, question]
            answer = await _answer(command, environment)
        rows = [ModelRow(**row) for row in orjson.loads(answer)]
    except (OSError, TimeoutError, ValueError, TypeError) as error:
        log.warning("the model data are read in this process: %s", error)
    else:
        _read.update(zip(keys, rows, strict=True))


async def _answer(command: Sequence[str], environment: Mapping[str, str]) -> bytes:
    """Return the output of a program; it is dead when this returns, also after a cancellation."""
    process = await asyncio.create_subprocess_exec(*command, env=environment, stdout=asyncio.subprocess.PIPE)
    try:
        return (await process.communicate())[0]
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


@cache
def snapshot() -> "DataSnapshot":
    """Return the model data as installed: nothing is fetched."""
    from genai_prices.data_snapshot import get_snapshot

    return get_snapshot()


def _row(provider: str, name: str, at: float) -> ModelRow:
    try:
        found = snapshot().find_provider_model(name, None, provider, None)[1]
    except LookupError:
        return ModelRow()
    prices = found.get_prices(datetime.fromtimestamp(at, UTC))

    def price(field: str) -> float | None:
        value = getattr(prices, field, None)
        value = getattr(value, "base", value)
        return None if value is None else float(value)

    fields = ("input_mtok", "output_mtok", "cache_read_mtok", "cache_write_mtok")
    return ModelRow(found.context_window, *map(price, fields))


def main(question: str) -> None:
    """Answer `read_beforehand` from the other side: a JSON list of rows on standard output."""
    keys, at = orjson.loads(question)
    sys.stdout.buffer.write(orjson.dumps([asdict(_row(provider, name, at)) for provider, name in keys]))


if __name__ == "__main__":
    main(sys.argv[1])
