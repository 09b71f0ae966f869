"""From a line of `tools.from_registry` to an MCP server: what an entry may say, and what only the operator may."""

from pathlib import Path
from typing import Any

import pytest

from goclaw.common.config.mcp import PinnedTool
from goclaw.common.config.registries import FromRegistrySettings, RegistrySettings
from goclaw.extensions.registries.base import RegistryError, digest
from goclaw.extensions.registries.catalog_store import FILE, CatalogRow, CatalogStore
from goclaw.extensions.registries.resolving import Resolved, resolve
from tests.extensions.registries.fake_registry import toolset

NOW = 1_750_000_000.0
PLACE = "tools.from_registry.data"
REMOTE = {"url": "https://tools.example.org/mcp"}
NPM = {"kind": "npm", "identifier": "@ann/data", "version": "1.2.3", "arguments": ["serve"]}
PYPI = {"kind": "pypi", "identifier": "data_server", "version": "1.2.3"}


@pytest.fixture
def shelf(tmp_path: Path) -> CatalogStore:
    return CatalogStore(tmp_path / FILE)


def have(shelf: CatalogStore, *documents: dict[str, Any], at: float = NOW) -> None:
    shelf.replace_catalog(
        "corp", [CatalogRow(document, float(number)) for number, document in enumerate(documents)], at
    )


def resolved(
    shelf: CatalogStore, now: float = NOW, registry: dict[str, Any] | None = None, **settings: Any
) -> Resolved:
    wanted = FromRegistrySettings.model_validate({"registry": "corp", "toolset": "data-tools", **settings})
    of = RegistrySettings.model_validate({"url": "https://registry.example.org", **(registry or {})})
    return resolve(wanted, of, shelf, now, PLACE)


def refused(shelf: CatalogStore, now: float = NOW, **settings: Any) -> str:
    with pytest.raises(RegistryError) as error:
        resolved(shelf, now, **settings)
    return str(error.value)


def test_a_toolset_is_the_server_of_whoever_published_it_and_its_tools_are_pinned(shelf: CatalogStore) -> None:
    tool = {"name": "echo", "description": "Say it.", "input_schema": {"type": "object"}, "read_only": True}
    have(shelf, toolset(tools=[tool], remotes=[{"type": "sse", "url": "https://old.example.org"}, REMOTE]))
    found = resolved(shelf, roles=["staff"], tags=["own"], timeout=7, headers={"Authorization": "Bearer x"})
    settings = found.settings
    assert (settings.url, settings.timeout, settings.roles, settings.tags) == (REMOTE["url"], 7, ("staff",), ("own",))
    assert settings.headers["Authorization"].get_secret_value() == "Bearer x"
    assert settings.tools == {
        "echo": PinnedTool(description="Say it.", input_schema={"type": "object"}, read_only=True)
    }
    assert settings.allow == ("echo",) and not settings.may_sample
    assert found.about == "data-tools 1.0.0 of the registry corp" and not found.is_trusted


def test_tags_of_the_entry_choose_nothing_here(shelf: CatalogStore) -> None:
    have(shelf, toolset(tags=["filesystem"], remotes=[REMOTE]))
    assert resolved(shelf).settings.tags == ()


def test_the_newest_version_counts_unless_one_is_pinned(shelf: CatalogStore) -> None:
    have(shelf, *(toolset(version=version, remotes=[REMOTE]) for version in ("1.9.0", "1.10.0", "2.0.0-rc.1")))
    assert resolved(shelf, version="1.9.0").about.startswith("data-tools 1.9.0 ")
    assert resolved(shelf).about.startswith("data-tools 2.0.0-rc.1 ")
    assert "has no version 3.0.0 of data-tools; available: 2.0.0-rc.1, 1.10.0, 1.9.0" in refused(shelf, version="3.0.0")


def test_what_was_fetched_too_long_ago_says_nothing_of_the_newest_and_all_of_a_pinned_version(
    shelf: CatalogStore,
) -> None:
    have(shelf, toolset(remotes=[REMOTE]))
    shelf.record_try("corp", NOW + 7_000, "the registry corp cannot be reached")
    assert resolved(shelf, NOW + 3_600).settings.url
    words = refused(shelf, NOW + 7_200)
    assert "was fetched 2 h ago (the registry corp cannot be reached)" in words and f"{PLACE}.version" in words
    assert resolved(shelf, NOW + 1e9, version="1.0.0").settings.url
    assert resolved(shelf, NOW + 7_200, registry={"cache_ttl": "3h"}).settings.url
    assert resolved(shelf, NOW + 80_000, registry={"sync_interval": "1d"}).settings.url


def test_a_digest_pins_what_the_version_is_from_the_first_time(shelf: CatalogStore) -> None:
    document = toolset(remotes=[REMOTE])
    have(shelf, document)
    assert resolved(shelf, version="1.0.0", sha256=digest(document)).settings.url
    words = refused(shelf, version="1.0.0", sha256="0" * 64)
    assert f"does not match {PLACE}.sha256: its hash is {digest(document)}" in words


def test_why_there_is_nothing_is_told(shelf: CatalogStore) -> None:
    assert "catalogue of the registry corp has not been fetched yet" in refused(shelf)
    shelf.record_try("corp", NOW, "it is down")
    assert "has not been fetched yet (it is down)" in refused(shelf)
    agent = {"kind": "agent", "name": "helper", "version": "1.0.0", "toolsets": ["data-tools"]}
    have(shelf, agent, toolset(tools=[], remotes=[REMOTE]))
    assert "helper of the registry corp is an agent; name one of its toolsets: data-tools" in refused(
        shelf, toolset="helper"
    )
    assert "has no toolset and no MCP server that is called odd" in refused(shelf, toolset="odd")
    assert "data-tools 1.0.0 of the registry corp has no tools" in refused(shelf)
    with pytest.raises(RegistryError, match="corp is not configured"):
        resolve(FromRegistrySettings(registry="corp", toolset="x"), None, shelf, NOW, PLACE)


@pytest.mark.parametrize(
    "remote",
    [
        {"type": "sse", "url": "https://tools.example.org/sse"},
        {"url": "ftp://tools.example.org"},
        {"url": "https://user:word@tools.example.org/mcp"},
        {"url": "https://:word@tools.example.org/mcp"},
        {"url": "https://[broken"},
        {"url": "https://x:0/mcp"},
        {"url": "tools.example.org"},
        {"url": "https://tools.example.org/\x1b[31m"},
    ],
    ids=lambda remote: str(remote["url"]),
)
def test_an_address_that_is_none_for_us_is_passed_over(remote: dict[str, str], shelf: CatalogStore) -> None:
    have(shelf, toolset(remotes=[remote]), toolset("both", remotes=[remote, REMOTE]))
    assert "has no usable address" in refused(shelf)
    assert resolved(shelf, toolset="both").settings.url == REMOTE["url"]


def test_its_address_may_be_private_where_the_operator_says_so_or_the_registry_is_there_itself(
    shelf: CatalogStore,
) -> None:
    have(shelf, toolset(remotes=[{"url": "http://10.0.0.5/mcp"}]))
    assert not resolved(shelf).is_trusted
    assert resolved(shelf, private=True).is_trusted
    assert resolved(shelf, registry={"url": "http://10.0.0.5:8139"}).is_trusted


def test_who_has_the_name_of_a_registry_leads_it_into_no_network_of_ours(shelf: CatalogStore) -> None:
    """What the name means is said anew at each connection, by whoever runs that registry."""
    have(shelf, toolset(remotes=[{"url": "http://registry.example.org:6379/mcp"}]))
    assert not resolved(shelf).is_trusted
    assert "unencrypted address" in refused(shelf, headers={"Authorization": "Bearer x"})
    assert not resolved(shelf, registry={"url": "https://other.example.org"}).is_trusted


def test_headers_go_to_nobody_without_encryption_unless_the_network_is_ones_own(shelf: CatalogStore) -> None:
    have(shelf, toolset(remotes=[{"url": "http://tools.example.org/mcp"}]))
    secret: dict[str, Any] = {"headers": {"Authorization": "Bearer secret-word"}}
    words = refused(shelf, **secret)
    assert "unencrypted address (tools.example.org)" in words and "secret-word" not in words
    assert resolved(shelf, **secret, private=True).settings.headers and resolved(shelf).settings.url


def test_what_it_wants_of_the_operator_is_told_by_name(shelf: CatalogStore) -> None:
    have(
        shelf,
        toolset(remotes=[{**REMOTE, "headers": ["X-Key"]}]),
        toolset("local", packages=[{**NPM, "variables": ["DATA_KEY"]}]),
    )
    assert f"needs the headers X-Key; set them in {PLACE}.headers" in refused(shelf)
    assert resolved(shelf, headers={"x-key": "1"}).settings.url
    local: dict[str, Any] = {"toolset": "local", "packages": True}
    assert f"needs the variables DATA_KEY; set them in {PLACE}.env" in refused(shelf, **local)
    assert resolved(shelf, **local, env={"DATA_KEY": "1"}).settings.variables() == {"DATA_KEY": "1"}


def server(*packages: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"kind": "mcp-server", "name": "data-tools", "version": "1.0.0", "packages": packages, **more}


def test_a_package_is_started_only_where_the_operator_lets_it(shelf: CatalogStore) -> None:
    have(shelf, server(NPM, PYPI))
    assert f"only packages: set {PLACE}.packages to fetch and start one" in refused(shelf)
    found = resolved(shelf, packages=True)
    assert (found.settings.command, found.settings.args) == ("npx", ("-y", "@ann/data@1.2.3", "serve"))
    assert found.settings.tools == {} and found.settings.allow == ()


def test_an_address_goes_before_a_package(shelf: CatalogStore) -> None:
    have(shelf, server(NPM, remotes=[REMOTE]))
    assert resolved(shelf, packages=True).settings.url == REMOTE["url"]


def test_a_package_of_pypi_is_started_by_its_own_program(shelf: CatalogStore) -> None:
    have(shelf, server({**NPM, "kind": "oci"}, PYPI))
    settings = resolved(shelf, packages=True).settings
    assert (settings.command, settings.args) == ("uvx", ("data_server==1.2.3",))


@pytest.mark.parametrize(
    "changes",
    [
        {"version": ""},
        {"version": "latest"},
        {"version": "^1.2.3"},
        {"version": "1.2.3 || 2"},
        {"version": "1.2.*"},
        {"identifier": "--registry=https://evil.example"},
        {"identifier": "git+https://evil.example/x"},
        {"identifier": "../x"},
        {"identifier": "x y"},
        {"kind": "nuget"},
    ],
    ids=str,
)
@pytest.mark.parametrize("package", [NPM, PYPI], ids=["npm", "pypi"])
def test_what_names_no_package_or_no_single_version_is_not_started(
    package: dict[str, Any], changes: dict[str, Any], shelf: CatalogStore
) -> None:
    have(shelf, server({**package, **changes}))
    assert "no npm or PyPI package of its version" in refused(shelf, packages=True)


@pytest.mark.parametrize(
    "version", ["1", "1.2", "1.x", "1.2.x", "1tag", "01.2.3", "9999999999999999.0.0", f"1.0.0-{'a' * 300}", "1.2.3-"]
)
def test_what_npx_takes_for_a_range_or_a_tag_is_no_version(version: str, shelf: CatalogStore) -> None:
    have(shelf, server({**NPM, "version": version}))
    assert "no npm or PyPI package of its version" in refused(shelf, packages=True)


@pytest.mark.parametrize("version", ["0.0.1", "1.2.3-rc.1", "1.2.3-beta+build.5", "10.20.30+x"])
def test_whole_versions_of_npm_are_started(version: str, shelf: CatalogStore) -> None:
    have(shelf, server({**NPM, "version": version}))
    assert resolved(shelf, packages=True).settings.args[1] == f"@ann/data@{version}"


def test_a_version_that_is_pinned_is_found_as_whatever_kind(shelf: CatalogStore) -> None:
    """Or a stranger's toolset of the same name would take an MCP server away."""
    have(shelf, server(remotes=[REMOTE]), toolset(version="9.0.0", remotes=[{"url": "https://evil.example"}]))
    assert resolved(shelf, version="1.0.0").settings.url == REMOTE["url"]


def test_what_no_command_line_can_hold_is_refused_in_words(shelf: CatalogStore) -> None:
    have(shelf, server({**NPM, "arguments": ["a\0b"]}))
    assert "says of its server what no configuration could" in refused(shelf, packages=True)


def test_a_tool_whose_name_is_a_pattern_lets_no_other_in(shelf: CatalogStore) -> None:
    tools: list[dict[str, Any]] = [{"name": name, "input_schema": {}} for name in ("*", "echo")]
    have(shelf, toolset(tools=tools, remotes=[REMOTE]))
    assert resolved(shelf).settings.allow == ("echo",)
