"""A search of memory finds the user's own notes and conversations, and nothing of another user's."""

from pathlib import Path

import pytest

from tests.gateway.servers.api.calling import service, world_with

pytestmark = pytest.mark.promise("P-api")


async def test_memory_that_is_off_is_said_to_be_off(tmp_path: Path) -> None:
    world = world_with(tmp_path)
    async with world.running() as core, service(world, core) as served:
        for path in ("/memory/search?q=boat", "/memory/files", "/memory/file?path=MEMORY.md"):
            refused = await served.get(path)
            assert refused.status == 409 and "memory is off" in refused.problem["detail"]


@pytest.mark.parametrize("query", ["", "?q=", f"?q={'x' * 2_001}", "?q=a&limit=51", "?q=a&user=memory:bob"])
async def test_a_search_that_is_none_is_refused(tmp_path: Path, query: str) -> None:
    world = world_with(tmp_path)
    async with world.running() as core, service(world, core) as served:
        assert (await served.get(f"/memory/search{query}")).problem["status"] == 400
