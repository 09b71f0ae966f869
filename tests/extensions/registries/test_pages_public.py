"""The public MCP registry's format: its forms of today and of before, and what of them cannot be used."""

import json
from pathlib import Path
from typing import Any

import pytest

from goclaw.common.config.registries import RegistrySettings
from goclaw.extensions.registries.base import Package, RemoteServer, entry_of
from goclaw.extensions.registries.pages import OFFICIAL, Wrapped, read_page, read_public_page
from tests.extensions.registries.fake_registry import FakeRegistry, asking, fake_registry

NPM = "https://registry." + "npmjs" + ".org"
SERVER: dict[str, Any] = {
    "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
    "name": "io.github.ann/weather",
    "description": "The weather.",
    "title": "Weather",
    "version": "1.0.2",
    "remotes": [
        {"type": "streamable-http", "url": "https://weather.example.org/mcp"},
        {
            "type": "sse",
            "url": "https://{region}.example.org/sse",
            "variables": {"region": {"default": "eu"}},
            "headers": [{"name": "X-Key", "isRequired": True}, {"name": "X-Unit", "isRequired": True, "default": "C"}],
        },
    ],
    "packages": [
        {
            "registryType": "npm",
            "registryBaseUrl": NPM,
            "identifier": "@ann/weather",
            "version": "1.0.2",
            "transport": {"type": "stdio"},
            "runtimeArguments": [{"type": "positional", "value": "-y"}],
            "packageArguments": [
                {"type": "positional", "value": "serve"},
                {"type": "named", "name": "--units", "default": "{units}", "variables": {"units": {"value": "metric"}}},
                {"type": "named", "name": "--stdio"},
                {"type": "named", "name": "--port", "format": "number"},
                {"type": "positional", "valueHint": "folder"},
            ],
            "environmentVariables": [
                {"name": "WEATHER_KEY", "isRequired": True, "isSecret": True},
                {"name": "LOG_LEVEL", "default": "info"},
            ],
        }
    ],
}


def listed(*servers: Any, **metadata: Any) -> bytes:
    return json.dumps({"servers": servers, "metadata": metadata}).encode()


def of_today(server: Any = None, **official: Any) -> dict[str, Any]:
    said = {"status": "active", "publishedAt": "2026-01-02T03:04:05.5Z", "isLatest": True, **official}
    return {"server": server or SERVER, "_meta": {OFFICIAL: said}}


def read(*servers: Any, **metadata: Any) -> tuple[Wrapped, ...]:
    page = read_public_page(listed(*servers, **metadata), lambda name: True)
    assert page.refused == ()
    return page.entries


def package(**changes: Any) -> tuple[Package, ...]:
    """What becomes of the package when it is a little different."""
    [found] = read(of_today({**SERVER, "packages": [{**SERVER["packages"][0], **changes}]}))
    return entry_of(found.unwrap().document).packages


@pytest.mark.parametrize(("version", "public"), [("v0", True), ("v0.1", True), ("v1", False), ("v01", False)])
def test_the_version_of_the_interface_says_whether_it_is_that_one(version: str, public: bool) -> None:
    settings = RegistrySettings(url="https://registry.example.org", api_version=version)
    assert settings.is_public is public


def test_a_server_of_today_becomes_an_entry() -> None:
    [found] = read(of_today())
    entry = entry_of(found.unwrap().document)
    assert (entry.kind, entry.name, entry.version) == ("mcp-server", "io.github.ann/weather", "1.0.2")
    assert (found.latest, found.published_at, found.via) == (True, 1767323045.5, ())
    assert entry.remotes == (
        RemoteServer(url="https://weather.example.org/mcp"),
        RemoteServer(type="sse", url="https://eu.example.org/sse", headers=("X-Key",)),
    )
    arguments = ("serve", "--units=metric", "--stdio")
    assert entry.packages == (
        Package(
            kind="npm", identifier="@ann/weather", version="1.0.2", arguments=arguments, variables=("WEATHER_KEY",)
        ),
    )


def test_a_server_in_the_forms_of_before_becomes_the_same_kind_of_entry() -> None:
    [found] = read(
        {
            "name": "io.github.ann/old",
            "description": "Old.",
            "version_detail": {"version": "0.9.1", "release_date": "2025-06-15T10:30:00Z", "is_latest": True},
            "packages": [
                {
                    "registry_name": "pypi",
                    "name": "old-server",
                    "version": "0.9.1",
                    "package_arguments": [{"type": "positional", "value": "run"}],
                    "environment_variables": [{"name": "KEY", "is_required": True}],
                }
            ],
            "remotes": [{"transport_type": "streamable-http", "url": "https://old.example.org/mcp"}],
        }
    )
    entry = entry_of(found.unwrap().document)
    assert (entry.version, found.latest, found.published_at) == ("0.9.1", True, 1749983400.0)
    assert entry.packages == (
        Package(kind="pypi", identifier="old-server", version="0.9.1", arguments=("run",), variables=("KEY",)),
    )
    assert entry.remotes == (RemoteServer(url="https://old.example.org/mcp"),)


def test_official_words_within_the_server_count_too() -> None:
    meta = {OFFICIAL: {"published_at": "2025-08-01T00:00:00Z", "is_latest": True}}
    [found] = read({"name": "io.github.ann/x", "version": "1.0.0", "_meta": meta})
    assert (found.latest, found.published_at) == (True, 1754006400.0)


def test_what_was_deleted_is_not_there() -> None:
    assert read(of_today(status="deleted"), of_today(status="deprecated")) == read(of_today(status="deprecated"))


def test_a_status_that_changes_makes_no_other_version() -> None:
    [one], [other] = read(of_today()), read(of_today(status="deprecated"))
    assert one.document == other.document


@pytest.mark.parametrize(
    "changes",
    [
        {"registryBaseUrl": "https://packages.example.org"},
        {"registryBaseUrl": "https://npmjs.example.org"},
        {"registryBaseUrl": "http://[broken"},
        {"transport": {"type": "streamable-http", "url": "http://127.0.0.1:1"}},
        {"runtimeArguments": [{"type": "named", "name": "--registry", "value": "https://evil.example"}]},
        {"packageArguments": [{"type": "positional", "valueHint": "folder", "isRequired": True}]},
        {"packageArguments": [{"type": "positional", "value": "{folder}"}]},
        {"packageArguments": [{"type": "named", "name": "--port", "format": "number", "isRequired": True}]},
        {"packageArguments": [{"type": "named", "value": "x"}]},
    ],
    ids=str,
)
def test_a_package_that_would_need_a_person_or_another_place_is_left_out(changes: dict[str, Any]) -> None:
    assert package(**changes) == ()


def test_a_remote_whose_template_nothing_fills_is_left_out() -> None:
    remote = {"type": "streamable-http", "url": "https://{tenant}.example.org/mcp", "variables": {"tenant": {}}}
    [found] = read(of_today({**SERVER, "remotes": [remote]}))
    assert entry_of(found.unwrap().document).remotes == ()


def nested(depth: int) -> Any:
    return json.loads('{"a":' * depth + "1" + "}" * depth)


def test_a_server_that_is_nested_without_an_end_is_refused_alone() -> None:
    page = read_public_page(listed({**SERVER, "remotes": nested(500)}, SERVER), lambda name: True)
    assert len(page.entries) == 1 and page.refused == ("'io.github.ann/weather': it is nested too deeply",)
    with pytest.raises(ValueError, match="nested too deeply"):
        read_public_page(listed(SERVER, more=nested(500)), lambda name: True)


@pytest.mark.parametrize(("text", "filling"), [("{a}" * 51, "x"), ("{a}", "x" * 2_001), ("x" * 2_000 + "{a}", "x")])
def test_templates_do_not_multiply_what_is_read(text: str, filling: str) -> None:
    """A page of them would be gigabytes."""
    filled = {"value": text, "variables": {"a": {"value": filling}}}
    assert package(packageArguments=[{"type": "positional", **filled}]) == ()
    remote = {"type": "streamable-http", "url": text, "variables": {"a": {"value": filling}}}
    assert entry_of(json.loads(read({**SERVER, "remotes": [remote]})[0].document)).remotes == ()


def test_what_is_no_server_is_refused_by_name_and_leaves_the_others_alone() -> None:
    odd = [
        4,
        {"server": {}},
        {"server": {"name": "With spaces", "version": "1"}},
        {"server": {**SERVER, "version": ""}},
    ]
    page = read_public_page(listed(*odd, of_today()), lambda name: True)
    assert [line.partition(":")[0] for line in page.refused] == [
        *["an entry without a name"] * 2,
        "'With spaces'",
        "'io.github.ann/weather'",
    ]
    assert len(page.entries) == 1


@pytest.mark.parametrize("garbage", [None, 4, "x", [4], {"a": 4}])
def test_parts_of_any_form_harm_nothing_else(garbage: Any) -> None:
    server = {**SERVER, "remotes": garbage, "packages": garbage}
    [found] = read({"server": server, "_meta": garbage})
    entry = entry_of(found.unwrap().document)
    assert (entry.name, entry.remotes, entry.packages) == ("io.github.ann/weather", (), ())
    arguments = {"packageArguments": garbage, "environmentVariables": garbage, "runtimeArguments": garbage}
    assert len(package(**arguments)) == 1


@pytest.mark.parametrize(("metadata", "cursor"), [({"nextCursor": "a"}, "a"), ({"next_cursor": "b"}, "b"), ({}, "")])
def test_the_next_page_is_found_in_either_form(metadata: dict[str, str], cursor: str) -> None:
    assert read_public_page(listed(**metadata), lambda name: True).cursor == cursor


def test_our_own_format_is_no_such_page() -> None:
    with pytest.raises(ValueError, match="no list `servers`"):
        read_public_page(b'{"entries": []}', lambda name: True)
    with pytest.raises(ValueError, match="no list `entries`"):
        read_page(listed(), lambda name: True)


async def test_such_a_registry_is_read_by_its_own_paths_and_never_by_an_etag(tmp_path: Path) -> None:
    async with fake_registry() as registry, asking(tmp_path, registry) as asked:
        registry.instead = [listed(of_today(), nextCursor="a b"), listed(of_today({**SERVER, "version": "2.0.0"}))]
        found = await asked.client(api_version="v0.1").listing()
        assert found is not None and len(found.listed) == 2 and found.etag == ""
        assert [request.path for request in registry.asked] == ["/v0.1/servers"] * 2
        assert registry.pages() == ["", "a b"]
        assert isinstance(registry, FakeRegistry)
