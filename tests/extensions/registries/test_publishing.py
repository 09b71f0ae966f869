"""Registries are told of what is published, once, and again when it changes or when they were down."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from goclaw.common.config.schema import Config
from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.supervise import background
from goclaw.common.specs import ToolSpec
from goclaw.extensions.registries.base import EntryKind, RegistryError
from goclaw.extensions.registries.catalog_store import OWN, CatalogStore, ChangedEntry
from goclaw.extensions.registries.client import RegistryClient
from goclaw.extensions.registries.publishing import ADDRESS_SECONDS, FACT, LOOK_SECONDS, Publisher, publish
from goclaw.tools.toolkit.registry_parts import PublishPorts
from tests.acceptance.waiting import eventually

SEARCH = ToolSpec("search", "Search.", {"type": "object"})
BETTER = ToolSpec("search", "Search better.", {"type": "object"})
PLACE = "agents.main.exports.finding in the registry corp"


class ToShelf(RegistryClient):
    """A registry without the wire: what is published lands on a shelf, as another gateway's would keep it."""

    def __init__(self, shelf: CatalogStore, clock: SteppedClock) -> None:
        self._shelf = shelf
        self._clock = clock
        self.down: RegistryError | None = None
        self.calls = 0

    async def publish(self, document: Mapping[str, Any]) -> bool:
        self.calls += 1
        if self.down:
            raise self.down
        try:
            return self._shelf.publish(document, "ann", self._clock.now())
        except ChangedEntry as error:
            raise RegistryError(str(error), status=409) from None

    async def withdraw(self, kind: EntryKind, name: str, version: str) -> bool:
        return self._shelf.withdraw(kind, name, version, "ann")


class Scene:
    """A gateway that publishes one set, and the registry."""

    def __init__(self, folder: Path, **export: Any) -> None:
        self.clock = SteppedClock()
        self.shelf = CatalogStore(folder / "registry.db")
        self.client = ToShelf(self.shelf, self.clock)
        self.specs = [SEARCH]
        self.reports: dict[str, tuple[str, bool]] = {}
        self.told: dict[str, str] = {}
        self.address = "https://tools.example.org/mcp"
        exports = {"finding": {"include": ["search"], "publish_to": ["corp"], **export}}
        self.config = Config.model_validate(
            {"registries": {"corp": {"url": "https://r.example"}}, "agents": {"main": {"exports": exports}}}
        )
        self.publisher = self.restarted()

    def restarted(self) -> Publisher:
        return Publisher("corp", self.client, self.told, self.ports())

    def ports(self) -> PublishPorts:
        return PublishPorts(self.config, self.clock, lambda: self.specs, lambda: self.address, self.report, self)

    async def fact(self, name: str) -> Any:
        return dict(self.told) if name == FACT else None

    async def learn(self, name: str, value: Any) -> None:
        self.told = dict(value)

    def report(self, what: str, why: str, *, for_good: bool = False) -> None:
        self.reports[what] = (why, for_good)

    async def looks(self, times: int = 1) -> None:
        for _ in range(times):
            self.clock.advance(LOOK_SECONDS)
            await self.publisher.publish_new()

    def newest(self) -> str:
        """The description of the tool in the newest version of the set."""
        return self.shelf.versions(OWN, EntryKind.TOOLSET, "finding")[0].entry.tools[0].description

    def kept(self) -> list[str]:
        return [f"{each.entry.kind} {each.entry.name}" for each in self.shelf.entries(OWN)]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


async def test_a_registry_is_told_of_a_set_and_its_agent_once(scene: Scene) -> None:
    await scene.looks(3)
    assert scene.kept() == ["agent main", "toolset finding"] and scene.client.calls == 2
    assert scene.reports == {}


async def test_nothing_is_told_before_our_server_can_be_reached(scene: Scene) -> None:
    scene.address = ""
    await scene.looks()
    assert scene.client.calls == 0
    scene.address = "https://tools.example.org/mcp"
    await scene.looks()
    assert scene.client.calls == 2


async def test_a_set_is_told_as_soon_as_our_server_listens(scene: Scene) -> None:
    address, scene.address = scene.address, ""
    async with background(scene.publisher.run(), "publishing"):
        await eventually(lambda: scene.clock.sleepers)
        scene.address = address
        scene.clock.advance(ADDRESS_SECONDS)
        await eventually(lambda: scene.client.calls == 2)


async def test_a_change_is_told_when_it_lasts(scene: Scene) -> None:
    await scene.looks()
    scene.specs = [BETTER]
    await scene.looks()
    assert scene.newest() == "Search.", "a server that comes and goes changes nothing"
    await scene.looks()
    assert scene.newest() == "Search better."


async def test_what_comes_back_becomes_the_newest_again_also_over_a_restart(scene: Scene) -> None:
    await scene.looks()
    scene.specs = [BETTER]
    await scene.looks(2)
    scene.specs, scene.publisher = [SEARCH], scene.restarted()
    await scene.looks()
    assert scene.newest() == "Search." and len(scene.shelf.versions(OWN, EntryKind.TOOLSET, "finding")) == 2


async def test_a_registry_that_is_down_is_told_later_and_left_alone_meanwhile(scene: Scene) -> None:
    scene.client.down = RegistryError("the registry corp cannot be reached")
    await scene.looks()
    assert scene.client.calls == 1, "what does not answer is not asked for each thing"
    assert scene.reports == {
        PLACE: ("is not published: the registry corp cannot be reached", False),
        "agents.main in the registry corp": ("is not published: the registry corp cannot be reached", False),
    }
    await scene.looks(3)
    assert scene.client.calls == 1
    scene.client.down = None
    scene.clock.advance(scene.config.registries["corp"].sync_interval)
    await scene.looks()
    assert scene.kept() == ["agent main", "toolset finding"] and {why for why, _ in scene.reports.values()} == {""}


async def test_a_registry_is_left_alone_for_a_day_at_most_whatever_it_wants(scene: Scene) -> None:
    scene.client.down = RegistryError("the registry corp does not answer now", retry_after=float("9" * 400))
    await scene.looks()
    scene.client.down = None
    scene.clock.advance(86_400)
    await scene.looks()
    assert scene.kept() == ["agent main", "toolset finding"]


async def test_another_content_under_a_chosen_version_is_said_with_what_helps(tmp_path: Path) -> None:
    scene = Scene(tmp_path, version="1.0.0")
    await scene.looks()
    scene.specs = [BETTER]
    scene.publisher = scene.restarted()
    await scene.looks()
    why, for_good = scene.reports[PLACE]
    assert "already published with other content" in why and for_good
    assert "give it another `version` (agents.main.exports.finding.version)" in why
    assert scene.newest() == "Search."


async def test_a_changed_content_is_noticed_while_the_version_stays(tmp_path: Path) -> None:
    scene = Scene(tmp_path, version="1.0.0")
    await scene.looks()
    scene.specs = [BETTER]
    await scene.looks(2)
    assert "another `version`" in scene.reports[PLACE][0]


async def test_what_is_not_there_is_told_as_soon_as_it_is(scene: Scene) -> None:
    scene.specs = []
    await scene.looks()
    assert scene.reports[PLACE] == ("is not published: there is no tool search now, so the set is not whole", False)
    scene.specs = [SEARCH]
    await scene.looks()
    assert scene.kept() == ["agent main", "toolset finding"] and scene.reports[PLACE] == ("", False)


async def test_each_registry_has_a_loop_that_goes_on_after_a_failure(scene: Scene) -> None:
    async with aiohttp.ClientSession() as http:
        settings = {"registries": {"corp": {"url": "http://127.0.0.1:1", "retry": {"max": 0}}}}
        scene.config = scene.config.model_copy(update={"registries": Config.model_validate(settings).registries})
        async with background(publish(["corp"], scene.ports(), http), "publishing"):
            await eventually(lambda: PLACE in scene.reports)
            scene.reports.clear()
            scene.clock.advance(scene.config.registries["corp"].sync_interval)
            await eventually(lambda: PLACE in scene.reports)
    assert "the registry corp cannot be reached" in scene.reports[PLACE][0]
