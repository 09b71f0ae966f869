"""Registries in code: what is declared is what the configuration would say, and what the client then does."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from goclaw.common.config.registries import FromRegistrySettings, RegistrySettings
from goclaw.common.config.schema import Config
from goclaw.common.core.redact import mask
from goclaw.common.core.supervise import background, run_with_restarts
from goclaw.extensions.registries.base import RegistryError
from goclaw.extensions.registries.client import RegistryClient
from goclaw.extensions.registries.publishing import Publisher
from goclaw.extensions.registries.resolving import resolve
from goclaw.extensions.registries.syncing import SYNCING, sync
from goclaw.tools.declare import (
    SideEffect,
    agent,
    api_version,
    bind_to,
    cache_ttl,
    description,
    exclude,
    export,
    federation,
    from_registry,
    include,
    publish_as,
    publish_to,
    registry,
    retry,
    security,
    sync_interval,
    tags,
    timeout,
    tool,
    toolset,
    url,
    use,
    version,
)
from goclaw.tools.toolkit.parts import PackageParts, RegistryPart, ToolsetPart
from goclaw.tools.toolkit.registry_parts import PublishPorts
from tests.acceptance.waiting import eventually
from tests.extensions.registries.fake_registry import Asking, asking, fake_registry
from tests.extensions.registries.fake_registry import toolset as listed
from tests.plugin import install, merged, packages, with_packages

__all__ = ["packages"]

CORP = registry(
    "corp-registry",
    description("Corporate tool registry"),
    url("https://registry.corp.example"),
    api_version("v2"),
    security("token-of-the-test"),
    timeout("45s"),
    retry(5, "2s"),
    sync_interval("5m"),
    cache_ttl("1h"),
    federation(include("web-search", "data-*"), exclude("experimental/*")),
)
TOKEN = "declared-in-code-0001"
REMOTES = [{"url": "https://tools.example.org/mcp"}]


def test_a_registry_has_what_is_said_of_it() -> None:
    written = {
        "description": "Corporate tool registry",
        "url": "https://registry.corp.example",
        "api_version": "v2",
        "auth": "token-of-the-test",
        "timeout": 45,
        "retry": {"max": 5, "backoff": "2s"},
        "sync_interval": 300,
        "cache_ttl": 3_600,
        "federation": {"include": ["web-search", "data-*"], "exclude": ["experimental/*"]},
    }
    assert RegistrySettings.model_validate(written) == CORP.settings and CORP.name == "corp-registry"
    assert "token-of-the-test" not in repr(CORP)


def test_what_is_not_said_is_as_the_source_has_it() -> None:
    plain = registry("plain", url("https://r.example"), security(None))
    assert plain.settings.api_version == "v1" and plain.settings.federation.include == ()
    assert plain.settings.auth is None


@pytest.mark.parametrize(
    ("build", "fault"),
    [
        (lambda: registry("corp"), "url"),
        (lambda: registry("corp", url("nowhere")), "should be a URL"),
        (lambda: registry("two words", url("http://a")), "should be a short name"),
        (lambda: registry("corp", url("http://a"), url("http://b")), "url is said twice"),
        (lambda: toolset("x", version("1.0")), "version is of what is published or from a registry"),
        (lambda: export("x", publish_as("team/x")), "publish_as is of what is published"),
        (lambda: toolset(from_registry(CORP, "io.example/data")), r"'io.example/data': .* an MCP server, whose name"),
        (lambda: toolset("Data", from_registry(CORP, "data")), 'say toolset\\("name", from_registry'),
        (lambda: toolset("d", from_registry(CORP, "data"), publish_to(CORP)), "publish_to does not go with"),
        (lambda: toolset("d", from_registry(CORP, "data"), tool("a", "A.")), "which tools there are says the registry"),
    ],
)
def test_what_cannot_be_is_refused(build: Any, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        build()


def test_a_toolset_of_a_registry_knows_where_it_is_from_and_which_version() -> None:
    pinned = toolset("my-tools", from_registry(CORP, "data-tools"), version("1.2.3"), tags("data"))
    assert pinned.origin == FromRegistrySettings(
        registry="corp-registry", toolset="data-tools", version="1.2.3", tags=("data",)
    )
    assert (pinned.name, pinned.members) == ("my-tools", ("tag:mcp-my-tools",))
    assert toolset(from_registry(CORP, "data-tools")).name == "data-tools"
    assert use(pinned).selection == ("set:my-tools",)
    assert use(pinned, "query").selection == ("mcp__my-tools__query",), "by the name that it gets here"


# What a package brings into the configuration.

SOURCE = """
from goclaw.declare import *
CORP = registry("corp", url("https://r.example"), security("in-code-of-a-package-1"))
DATA = toolset("data", from_registry(CORP, "data-tools"), version("1.2.3"), tags("etl"))
NOTES = toolset(
    "notes", tool("note", "Note.", bind_to(lambda: "noted", side_effect=SideEffect.NONE)), publish_to(CORP), tags("n")
)
"""
LINES = {"toolsets.data": "corp_tools:DATA", "toolsets.notes": "corp_tools:NOTES"}


def test_what_a_package_names_is_in_the_configuration(packages: Path, tmp_path: Path) -> None:
    install(packages, "corp-tools", {"corp_tools": SOURCE}, LINES)
    loaded = with_packages(tmp_path)
    config = loaded.config
    assert loaded.packaged.faults == {}
    assert config.registries["corp"].url == "https://r.example"
    assert config.tools.from_registry["data"].version == "1.2.3"
    assert config.toolsets["data"] == ("tag:mcp-data",)
    assert config.tools.publish["notes"].publish_to == ("corp",) and config.tools.publish["notes"].tags == ("n",)
    assert [each.word for each in config.publications] == ["set:notes"]
    assert "in-code-of-a-package-1" not in mask("it was in-code-of-a-package-1")


def test_what_the_operator_says_of_it_goes_before_key_by_key(packages: Path, tmp_path: Path) -> None:
    install(packages, "corp-tools", {"corp_tools": SOURCE}, LINES)
    tools = {
        "from_registry": {"data": {"toolset": "others", "private": True}},
        "publish": {"notes": {"publish_to": []}},
    }
    loaded = with_packages(tmp_path, registries={"corp": {"timeout": "5s", "auth": "a-token-of-ours"}}, tools=tools)
    config = loaded.config
    assert loaded.packaged.faults == {}
    corp, data = config.registries["corp"], config.tools.from_registry["data"]
    assert (corp.url, corp.timeout, corp.auth and corp.auth.get_secret_value()) == (
        "https://r.example",
        5,
        "a-token-of-ours",
    )
    assert (data.registry, data.toolset, data.private, data.version) == ("corp", "others", True, "1.2.3")
    assert config.publications == ()


def test_a_server_of_the_operator_is_no_toolset_of_a_package(packages: Path, tmp_path: Path) -> None:
    install(packages, "corp-tools", {"corp_tools": SOURCE}, LINES)
    loaded = with_packages(tmp_path, mcp={"servers": {"data": {"url": "https://data.example/mcp"}}})
    assert loaded.config.tools.from_registry == {} and "data" not in loaded.config.toolsets
    assert loaded.packaged.faults == {
        "toolset data of plugin toolsets.data (corp-tools 1.0)": "tools.from_registry.data: `data` is already a "
        "server of `mcp.servers`; choose another name"
    }


def test_two_packages_that_disagree_about_a_registry_are_named(packages: Path, tmp_path: Path) -> None:
    install(packages, "corp-tools", {"corp_tools": SOURCE}, LINES)
    other = (
        'from goclaw.declare import *\nX = toolset("x", from_registry(registry("corp", url("https://o.example")), "x"))'
    )
    install(packages, "other-tools", {"other_tools": other}, {"toolsets.x": "other_tools:X"})
    loaded = with_packages(tmp_path)
    assert loaded.packaged.faults == {
        "registry corp of plugin toolsets.x (other-tools 1.0)": "registry corp of plugin toolsets.data (corp-tools "
        "1.0) says something else, which holds"
    }
    assert loaded.config.registries["corp"].url == "https://r.example"


def test_a_name_that_no_server_can_have_is_a_fault_in_words(packages: Path, tmp_path: Path) -> None:
    source = SOURCE.replace('toolset("data", from', 'toolset("Data Tools", from')
    install(packages, "corp-tools", {"corp_tools": source}, {"toolsets.Data Tools": "corp_tools:DATA"})
    ((_, why),) = with_packages(tmp_path).packaged.faults.items()
    assert why.startswith("'Data Tools': what is from a registry is here an MCP server, whose name should be")


# What is declared is in force: in the client, when catalogues are fetched, and when what they list is used.


@pytest.fixture
async def asked(tmp_path: Path) -> AsyncIterator[Asking]:
    documents = [
        listed(),
        listed(version="1.1.0", remotes=REMOTES),
        listed(version="1.0.5", remotes=REMOTES),
        listed("data-lake", remotes=REMOTES),
        listed("experimental/data", remotes=REMOTES),
        listed("unrelated", remotes=REMOTES),
    ]
    async with fake_registry(*documents) as fake, asking(tmp_path, fake) as made:
        yield made


def declared(asked: Asking, *options: Any) -> RegistryPart:
    return registry("corp", url(asked.registry.url), security(TOKEN), *options)


def configured(*parts: ToolsetPart) -> Config:
    return merged(PackageParts(toolsets={part.name: part for part in parts}))


def of_it(asked: Asking, *options: Any) -> Config:
    """The configuration with a toolset of a registry of which this is declared."""
    return configured(toolset("data", from_registry(declared(asked, *options), "data-tools")))


def client(asked: Asking, *options: Any) -> RegistryClient:
    return RegistryClient("corp", of_it(asked, *options).registries["corp"], asked.http, asked.clock)


async def test_the_declared_registry_is_asked_where_it_is_and_with_its_token(asked: Asking) -> None:
    found = await client(asked).listing()
    assert found is not None and len(found.listed) == 6
    (request,) = asked.registry.asked
    assert (request.path, request.headers["Authorization"]) == ("/v1/entries", f"Bearer {TOKEN}")


async def test_the_declared_version_of_the_interface_is_part_of_the_path(asked: Asking) -> None:
    await client(asked, api_version("v2")).listing()
    assert asked.registry.asked[0].path == "/v2/entries"


async def test_the_declared_timeout_bounds_a_request(asked: Asking) -> None:
    asked.registry.instead = [asyncio.Event()]
    with pytest.raises(RegistryError, match=r"did not answer within 0\.05 s"):
        await client(asked, timeout("0.05s"), retry(0, "1s")).listing()


async def test_a_failed_request_is_made_again_as_often_as_declared(asked: Asking) -> None:
    asked.registry.instead = [web.Response(status=503) for _ in range(2)]
    assert await client(asked, retry(2, "3s")).listing()
    assert asked.clock.pauses == [3, 6]


async def test_the_catalogue_is_fetched_as_often_as_declared(asked: Asking, tmp_path: Path) -> None:
    config = of_it(asked, sync_interval("7m"))
    work = partial(
        SYNCING.run,
        config.registries,
        tmp_path,
        http=asked.http,
        clock=asked.clock,
        tell=lambda name, problem, *, changed: None,
    )
    async with background(run_with_restarts("syncing", work, asked.clock), "syncing"):
        await eventually(lambda: len(asked.registry.asked) > 1)
    assert set(asked.clock.pauses) == {420}


async def test_only_the_declared_names_are_taken_over(asked: Asking) -> None:
    settings = of_it(asked, federation(include("data-*", "experimental/*"), exclude("experimental/*")))
    await sync("corp", settings.registries["corp"], asked.shelf, asked.http, asked.clock)
    assert asked.kept() == ["data-lake 1.0.0", "data-tools 1.1.0", "data-tools 1.0.5", "data-tools 1.0.0"]


async def fetched(asked: Asking, part: ToolsetPart, later: float = 0.0) -> str:
    """Which entry becomes the MCP server of a declared toolset, so long after the catalogue was fetched."""
    config = configured(part)
    await sync("corp", config.registries["corp"], asked.shelf, asked.http, asked.clock)
    (line,) = config.tools.from_registry.values()
    return resolve(line, config.registries["corp"], asked.shelf, asked.clock.now() + later, "here").about


async def test_a_toolset_of_a_registry_is_the_newest_or_the_declared_version(asked: Asking) -> None:
    source = from_registry(declared(asked), "data-tools")
    assert await fetched(asked, toolset("data", source)) == "data-tools 1.1.0 of the registry corp"
    assert await fetched(asked, toolset("data", source, version("1.0.5"))) == "data-tools 1.0.5 of the registry corp"


async def test_the_newest_version_is_known_as_long_as_declared_and_a_pinned_one_for_ever(asked: Asking) -> None:
    source = from_registry(declared(asked, cache_ttl("10m")), "data-tools")
    assert await fetched(asked, toolset("data", source), later=599)
    with pytest.raises(RegistryError, match="nobody knows the newest version of data-tools"):
        await fetched(asked, toolset("data", source), later=601)
    assert await fetched(asked, toolset("data", source, version("1.0.5")), later=1e6)


async def published(asked: Asking, config: Config, *tools: Any) -> list[Any]:
    """What the registry is told."""
    nothing_is_remembered: Any = None
    publisher = Publisher(
        "corp",
        RegistryClient("corp", config.registries["corp"], asked.http, asked.clock),
        {},
        PublishPorts(
            config,
            asked.clock,
            specs=lambda: [each.spec for each in tools],
            address=lambda: "https://tools.example.org/mcp",
            report=lambda what, why, *, for_good=False: pytest.fail(f"{what} {why}"),
            facts=nothing_is_remembered,
        ),
    )
    await publisher.publish_new()
    return asked.registry.put


async def test_what_is_declared_to_be_published_is_told_to_the_registry(asked: Asking) -> None:
    corp = declared(asked)
    note = tool("note", "Note it.", bind_to(lambda: "noted", side_effect=SideEffect.NONE))
    of_a_service = toolset("notes", note, publish_to(corp), publish_as("team/notes"), version("3.1.0"), tags("n"))
    common = toolset("common", tool("look", "Look.", bind_to(lambda: "seen", side_effect=SideEffect.READ_ONLY)))
    of_an_agent = agent("clerk", "Looks.", use(common), export(common, publish_to(corp), tags("data", "etl")))
    parts = PackageParts({"a": of_an_agent}, {"t": of_a_service})
    told = await published(asked, merged(parts), *of_a_service.tools, *common.tools)
    shown = [
        (each["kind"], each["name"], each.get("tags"), [t["name"] for t in each.get("tools", ())]) for each in told
    ]
    assert shown == [
        ("toolset", "common", ["data", "etl"], ["look"]),
        ("toolset", "team/notes", ["n"], ["note"]),
        ("agent", "clerk", None, []),
    ]
    assert told[1]["version"] == "3.1.0" and told[2]["toolsets"] == ["common"]
