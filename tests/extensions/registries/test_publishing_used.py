"""What one gateway publishes, another one uses: over a registry, at the address that it names, as it was published."""

import asyncio
from pathlib import Path

from goclaw.common.auth.tokens import add_token
from goclaw.common.config.schema import Config
from goclaw.common.core.clock import RealClock, SteppedClock
from goclaw.common.net import open_client
from goclaw.extensions.registries.catalog_store import FILE, CatalogStore
from goclaw.extensions.registries.publishing import LOOK_SECONDS
from goclaw.extensions.registries.syncing import sync
from goclaw.program.app import open_app
from goclaw.tools.toolkit.sources import SETTLED_SECONDS, open_sources
from tests.extensions.registries.server.house import House, open_house

SECONDS = 60.0


def publisher(folder: Path, registry: House) -> Config:
    (folder / "users.json").write_text('{"users": {"tui:bea": {}}}')
    return Config.model_validate(
        {
            "state_dir": folder / "publisher",
            "users_file": folder / "users.json",
            "models": {"agent": ["demo"]},
            "registries": {"corp": {"url": f"http://127.0.0.1:{registry.port}", "auth": registry.tokens["ann"]}},
            "agents": {
                "kinds": {
                    "reader": {
                        "description": "Reads.",
                        "exports": {
                            "reading": {
                                "publish_to": ["corp"],
                                "publish_as": "team/reading",
                                "include": ["read"],
                                "tools": {
                                    "sum_up": {
                                        "description": "Sum a file up.",
                                        "arguments": {"path": "string"},
                                        "result": {"summary": "string"},
                                    }
                                },
                            }
                        },
                    }
                }
            },
            "mcp": {"server": {"enabled": True, "port": 0, "tools": ["glob"]}},
        }
    )


def user(folder: Path, registry: House, secret: str) -> Config:
    return Config.model_validate(
        {
            "state_dir": folder / "user",
            "registries": {"corp": {"url": f"http://127.0.0.1:{registry.port}", "auth": registry.tokens["eve"]}},
            "tools": {
                "from_registry": {
                    "others": {
                        "registry": "corp",
                        "toolset": "team/reading",
                        "headers": {"Authorization": f"Bearer {secret}"},
                    }
                }
            },
        }
    )


async def test_another_gateway_finds_the_tools_as_they_were_published(tmp_path: Path) -> None:
    clock = SteppedClock()
    async with asyncio.timeout(SECONDS), open_house(tmp_path) as registry, open_client() as http:
        config = publisher(tmp_path, registry)
        async with open_app(config, clock):
            secret = add_token(config.tokens_path, "user", "tui:bea", clock.now())
            while len(await asyncio.to_thread(registry.shelf.entries)) < 2:
                clock.advance(LOOK_SECONDS / 4)
            theirs = user(tmp_path, registry, secret)
            shelf = CatalogStore(theirs.state_dir / FILE)
            await sync("corp", theirs.registries["corp"], shelf, http, RealClock())
            async with open_sources(theirs, RealClock()) as sources:
                await sources.ready()
                await sources.settled(SETTLED_SECONDS)
                names = {tool.spec.name for tool in sources.tools()}
                assert sources.faults == {}
    assert {name for name in names if name.startswith("mcp__")} == {"mcp__others__read", "mcp__others__sum_up"}
