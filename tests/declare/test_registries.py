"""Registries are declared, and nothing asks one yet: what is declared can be read, and a toolset of one says so."""

from typing import Any

import pytest

from goclaw.config.registries import RegistrySettings
from goclaw.config.schema import Config
from goclaw.declare import (
    api_version,
    cache_ttl,
    description,
    exclude,
    federation,
    from_registry,
    include,
    registry,
    retry,
    security,
    sync_interval,
    tags,
    timeout,
    toolset,
    url,
    version,
)
from goclaw.toolkit.parts import RegistryOrigin, load_parts
from tests.plugin import install, packages

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
    plain = registry("plain", url("https://r.example"))
    assert plain.settings.api_version == "v1" and plain.settings.federation.include == ()


@pytest.mark.parametrize(
    ("build", "fault"),
    [
        (lambda: registry("corp"), "url"),
        (lambda: registry("corp", url("nowhere")), "should be a URL"),
        (lambda: registry("corp", url("http://a"), url("http://b")), "url is said twice"),
        (lambda: toolset("x", version("1.0")), "version pins what comes from a registry"),
    ],
)
def test_what_cannot_be_is_refused(build: Any, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        build()


def test_a_toolset_of_a_registry_knows_where_it_is_from_and_which_version() -> None:
    pinned = toolset("my-tools", from_registry(CORP, "data-tools"), version("1.2.3"), tags("data"))
    assert pinned.origin == RegistryOrigin("corp-registry", "data-tools", "1.2.3") and pinned.name == "my-tools"
    assert toolset(from_registry(CORP, "data-tools")).name == "data-tools"


async def test_a_package_with_such_a_toolset_is_told_that_it_cannot_be_had_yet(packages: Any) -> None:
    source = """
from goclaw.declare import from_registry, registry, toolset, url
DATA = toolset(from_registry(registry("corp", url("https://r.example")), "data"))
"""
    install(packages, "data-tools", {"data_tools": source}, {"toolsets.data": "data_tools:DATA"})
    faults = (await load_parts(Config())).faults
    title = "toolset data of plugin toolsets.data (data-tools 1.0)"
    assert faults == {title: "it is to come from a registry, and none can be asked yet"}
