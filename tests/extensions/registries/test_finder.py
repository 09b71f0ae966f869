"""Toolsets of registries, used: the real source, the real client, a server that listens, a registry that is fetched."""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp.server.mcpserver import MCPServer

from goclaw.common.config.schema import Config
from goclaw.common.core.clock import RealClock, SteppedClock
from goclaw.common.core.supervise import background
from goclaw.common.net import guard
from goclaw.common.specs import Risk
from goclaw.extensions.registries import finder
from goclaw.extensions.registries.base import RegistryError
from goclaw.extensions.registries.catalog_store import FILE, CatalogRow, CatalogStore
from goclaw.extensions.registries.finder import RegistryFinder
from goclaw.testing import Bench, open_bench
from goclaw.tools.builtin.mcp_source import SOURCE
from tests.extensions.registries.fake_registry import FakeRegistry, asking, fake_registry, item, toolset
from tests.tools.builtin.mcp_support import source_of, tools_of, until
from tests.tools.mcp.test_transports_http import TOKEN, Remote

OWN = {"list_mcp_resources", "read_mcp_resource"}
PLACE = "tools.from_registry.data"


@pytest.fixture(autouse=True)
def quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finder, "LOOK_SECONDS", 0.01)


def echo(**more: Any) -> dict[str, Any]:
    """The tool `echo` of that server, as it is."""
    schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    return {"name": "echo", "description": "Say it again.", "input_schema": schema, "read_only": True, **more}


def published(remote: Remote, *tools: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return toolset(tools=list(tools or (echo(),)), remotes=[{"url": remote.url}], **more)


@asynccontextmanager
async def bench_of(folder: Path, registry: FakeRegistry, **settings: Any) -> AsyncIterator[Bench]:
    """A bench whose configuration uses `data-tools` of the registry as `data`."""
    wanted = {"registry": "corp", "toolset": "data-tools", "headers": {"Authorization": TOKEN}, **settings}
    registries = {"corp": {"url": registry.url}}
    async with open_bench(
        folder, sources=[SOURCE], registries=registries, tools={"from_registry": {"data": wanted}}
    ) as bench:
        await source_of(bench).settled(20)
        yield bench


async def fetched(folder: Path, registry: FakeRegistry) -> None:
    """What the daemon does every now and then."""
    async with asking(folder / "state", registry) as asked:
        asked.clock.jump(RealClock().now() - asked.clock.now())  # a bench has the machine's own
        await asked.sync()


async def said(bench: Bench, tool: str, **arguments: object) -> str:
    async with asyncio.timeout(15):
        return (await bench.call(f"mcp__data__{tool}", arguments)).content


async def test_a_toolset_of_a_registry_answers_once_it_was_fetched(tmp_path: Path) -> None:
    """The first fetch comes after the start: the tools appear, and nobody has waited."""
    remote = Remote()
    async with remote.listening(), fake_registry(published(remote)) as registry:
        async with bench_of(tmp_path, registry, tags=["ours"]) as bench:
            assert "the catalogue of the registry corp has not been fetched yet" in bench.faults[PLACE]
            assert "unknown tool" in await said(bench, "echo", text="hi")
            await fetched(tmp_path, registry)
            await until(lambda: "mcp__data__echo" in tools_of(bench))
            result = await bench.call("mcp__data__echo", {"text": "hi"})
            assert (result.content, result.is_error, result.foreign) == ("hi", False, True)
            assert bench.faults[PLACE] == "" and remote.headers["authorization"] == TOKEN
            spec = tools_of(bench)["mcp__data__echo"].spec
            assert spec.tags == {"mcp", "mcp-data", "ours"} and spec.risk is Risk.LOW
            assert tools_of(bench).keys() - OWN == {"mcp__data__echo"}  # its server has others


async def test_without_the_registry_what_was_fetched_before_answers(tmp_path: Path) -> None:
    remote = Remote()
    async with remote.listening():
        async with fake_registry(published(remote)) as registry:
            await fetched(tmp_path, registry)
        async with bench_of(tmp_path, registry) as bench:
            assert await said(bench, "echo", text="hi") == "hi"


@pytest.mark.parametrize(
    ("tool", "words"),
    [
        (echo(description="Say it twice."), "description differ"),
        (echo(input_schema={"type": "object"}), "input_schema"),
        (echo(read_only=False), "read_only differ"),
    ],
    ids=["description", "schema", "annotations"],
)
async def test_a_publisher_whose_tools_are_not_what_was_published_is_refused_in_words(
    tool: dict[str, Any], words: str, tmp_path: Path
) -> None:
    remote = Remote()
    async with remote.listening(), fake_registry(published(remote, tool)) as registry:
        await fetched(tmp_path, registry)
        async with bench_of(tmp_path, registry) as bench:
            assert tools_of(bench).keys() - OWN == set()
            fault = bench.faults[f"{PLACE}: echo"]
            assert "does not match data-tools 1.0.0 of the registry corp" in fault and words in fault


async def test_a_tool_that_the_publisher_has_no_more_is_told(tmp_path: Path) -> None:
    remote = Remote()
    gone = {"name": "gone", "input_schema": {"type": "object"}}
    async with remote.listening(), fake_registry(published(remote, echo(), gone)) as registry:
        await fetched(tmp_path, registry)
        async with bench_of(tmp_path, registry) as bench:
            assert "data-tools 1.0.0 of the registry corp names it" in bench.faults[f"{PLACE}: gone"]
            assert await said(bench, "echo", text="hi") == "hi"


async def test_a_new_version_is_taken_up_and_a_withdrawn_one_stays_until_the_connection_ends(tmp_path: Path) -> None:
    first, second = Remote(), Remote()
    second.made = MCPServer("second")
    second.made.tool(name="other")(second.echo)
    other = {"name": "other", "description": "Say it again.", "input_schema": echo()["input_schema"]}
    async with first.listening(), second.listening(), fake_registry(published(first)) as registry:
        await fetched(tmp_path, registry)
        async with bench_of(tmp_path, registry) as bench:
            assert await said(bench, "echo", text="hi") == "hi"
            registry.items.append(item(published(second, other, version="1.1.0")))
            await fetched(tmp_path, registry)
            await until(lambda: "mcp__data__other" in tools_of(bench))
            assert "mcp__data__echo" not in tools_of(bench) and bench.faults[PLACE] == ""
            registry.items.clear()
            await fetched(tmp_path, registry)
            assert await said(bench, "other", text="hi") == "hi"


@pytest.mark.promise("P-approval")
async def test_a_definition_that_changes_with_a_new_version_is_asked_for(tmp_path: Path) -> None:
    first, second = Remote(), Remote()
    second.made = MCPServer("second")
    second.made.tool(name="echo", description="Say it once more.")(second.echo)
    changed = {"name": "echo", "description": "Say it once more.", "input_schema": echo()["input_schema"]}
    async with first.listening(), second.listening(), fake_registry(published(first)) as registry:
        await fetched(tmp_path, registry)
        async with bench_of(tmp_path, registry) as bench:
            assert await said(bench, "echo", text="hi") == "hi" and bench.wanted == []
            registry.items.append(item(published(second, changed, version="1.1.0")))
            await fetched(tmp_path, registry)
            await until(lambda: "its definition has changed" in bench.faults.get(f"{PLACE}: echo", ""))
            bench.agrees = False
            assert "denied" in await said(bench, "echo", text="hi")
            bench.agrees = True
            assert await said(bench, "echo", text="hi") == "hi" and len(bench.wanted) == 2


async def test_a_pinned_version_stays_whatever_is_published(tmp_path: Path) -> None:
    remote = Remote()
    newer = published(remote, echo(description="Other words."), version="2.0.0")
    async with remote.listening(), fake_registry(published(remote), newer) as registry:
        await fetched(tmp_path, registry)
        async with bench_of(tmp_path, registry, version="1.0.0") as bench:
            assert await said(bench, "echo", text="hi") == "hi"


@pytest.mark.parametrize("means", [["127.0.0.1"], ["10.0.0.5"]], ids=["steady", "changes its mind"])
async def test_each_connection_goes_to_an_address_that_was_checked(
    means: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at a name and the call it may come to mean another address."""
    remote, answers = Remote(), [["127.0.0.1"]]

    async def resolve(host: str, port: int) -> Sequence[str]:
        return answers.pop(0) if answers else means

    monkeypatch.setattr(finder, "UrlGuard", lambda allow, deny: guard.UrlGuard(["127.0.0.1"], resolve=resolve))
    document = toolset(tools=[echo()], remotes=[{"url": remote.url.replace("127.0.0.1", "localhost")}])
    async with remote.listening(), fake_registry(document) as registry:
        await fetched(tmp_path, registry)
        async with bench_of(tmp_path, registry, headers={}) as bench:
            if means == ["127.0.0.1"]:
                assert await said(bench, "echo", text="hi") == "hi"
            else:
                assert "leads to 10.0.0.5" in bench.faults[PLACE] and remote.headers == {}


async def test_what_is_switched_off_is_not_there(tmp_path: Path) -> None:
    async with fake_registry() as registry, open_bench(tmp_path, sources=[SOURCE]) as bench:
        config = {"registry": "corp", "toolset": "x", "enabled": False}
        made = Config.model_validate(
            {"registries": {"corp": {"url": registry.url}}, "tools": {"from_registry": {"data": config}}}
        )
        assert finder.FINDERS.of(made, SteppedClock()) == {} and bench.sources[0].tools() == ()


class Wanted:
    """A line whose server is at this address, with names that mean these addresses."""

    def __init__(
        self, folder: Path, url: str, *, names: Mapping[str, Sequence[str]] | None = None, **settings: Any
    ) -> None:
        wanted = {"registry": "corp", "toolset": "data-tools", **settings}
        self.config = Config.model_validate(
            {
                "state_dir": folder,
                "registries": {"corp": {"url": "https://registry.example.org"}},
                "tools": {"from_registry": {"data": wanted}},
            }
        )
        self.clock = SteppedClock()
        self.shelf = CatalogStore(folder / FILE)
        self.take(toolset(remotes=[{"url": url}]))
        self.finder = RegistryFinder("data", self.config.tools.from_registry["data"], self.config, self.clock)

    def take(self, document: Mapping[str, Any]) -> None:
        self.shelf.replace_catalog("corp", [CatalogRow(document, 0.0)], self.clock.now())


@pytest.mark.parametrize(
    ("host", "why"),
    [
        ("127.0.0.1", "this machine"),
        ("10.0.0.5", "a private network"),
        ("169.254.169.254", "the local link, where clouds keep their metadata"),
        ("[::1]", "this machine"),
        ("[::ffff:10.0.0.5]", "a private network"),
    ],
)
async def test_an_entry_leads_to_no_private_address(host: str, why: str, tmp_path: Path) -> None:
    made = Wanted(tmp_path, f"http://{host}:9/mcp")
    with pytest.raises(RegistryError) as error:
        await made.finder.find()
    assert why in str(error.value) and f"set {PLACE}.private" in str(error.value)
    assert (await Wanted(tmp_path / "own", f"http://{host}:9/mcp", private=True).finder.find()).guard is None


async def test_a_name_that_leads_to_a_private_address_is_refused_and_again_where_it_is_connected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name may mean something else from one moment to the next."""
    means = ["93.184.216.34"]

    async def resolve(host: str, port: int) -> Sequence[str]:
        return means

    made = Wanted(tmp_path, "https://tools.example.org/mcp")
    monkeypatch.setattr(made.finder, "_guard", guard.UrlGuard(resolve=resolve))
    found = await made.finder.find()
    means = ["10.0.0.5"]
    assert found.guard is not None
    with pytest.raises(guard.UrlRefused, match=r"leads to 10\.0\.0\.5"):
        await found.guard.addresses("tools.example.org", 443)
    with pytest.raises(RegistryError, match=r"leads to 10\.0\.0\.5"):
        await made.finder.find()


async def test_news_come_when_the_shelf_has_changed_whoever_changed_it(tmp_path: Path) -> None:
    made = Wanted(tmp_path, "http://127.0.0.1:9/mcp", private=True)
    await made.finder.find()
    async with background(made.finder.news(), "news") as news:
        await until(lambda: bool(made.clock.sleepers))
        assert not news.done()
        os.utime(tmp_path / FILE, (1, 1))
        made.clock.advance(1)
        async with asyncio.timeout(5):
            await asyncio.wait({news})


async def test_news_are_not_missed_between_a_look_and_the_next(tmp_path: Path) -> None:
    made = Wanted(tmp_path, "http://127.0.0.1:9/mcp", private=True)
    await made.finder.find()
    made.take(toolset(version="1.1.0", remotes=[{"url": "http://127.0.0.1:9/mcp"}]))
    async with asyncio.timeout(5):
        await made.finder.news()
    assert (await made.finder.find()).pinned_by.startswith("data-tools 1.1.0")
