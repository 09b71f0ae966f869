"""Two gateways on one schema."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from goclaw.common.config.values import PostgresPlace
from tests.durable.store.postgres.gateways import Gateway, gateway


@pytest.fixture
async def gateways(place: PostgresPlace, tmp_path: Path) -> AsyncIterator[list[Gateway]]:
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(asyncio.timeout(60))
        yield [await stack.enter_async_context(gateway(place, tmp_path / name)) for name in ("one", "two")]
