"""What keeps a set from being published is named with what helps; and which address others are told."""

from collections.abc import Mapping
from typing import Any

import pytest

from goclaw.common.config.listening import hindrances, public_address
from goclaw.common.config.schema import Config

CORP = {"corp": {"url": "https://registry.example.org"}}
READING = {"exports": {"reading": {"include": ["read"], "publish_to": ["corp"]}}}
EVERYWHERE = {"enabled": True, "host": "::"}
ABROAD = {"enabled": True, "public_url": "https://tools.example.org/mcp"}


def configured(server: Mapping[str, Any], **more: Any) -> Config:
    settings = {"registries": CORP, "agents": {"main": READING}, "mcp": {"server": server}, **more}
    return Config.model_validate(settings)


def test_nothing_is_in_the_way_of_what_can_be_published() -> None:
    assert list(hindrances(configured(ABROAD))) == []
    assert list(hindrances(Config())) == []


@pytest.mark.parametrize(
    ("config", "place", "why"),
    [
        (configured({}), "mcp.server.enabled", "no gateway could use what `publish_to` publishes"),
        (configured({"enabled": True}), "mcp.server.public_url", "no other machine can use what you publish"),
        (configured({**ABROAD, "public_url": "http://localhost:1/mcp"}), "mcp.server.public_url", "no other machine"),
        (configured(EVERYWHERE), "mcp.server.public_url", "other gateways cannot reach ::"),
        (
            configured(ABROAD, registries={"corq": CORP["corp"]}),
            "agents.main.exports.reading.publish_to",
            "unknown registry `corp`; did you mean `corq`?",
        ),
        (
            configured(ABROAD, registries={"corp": {**CORP["corp"], "api_version": "v0.1"}}),
            "agents.main.exports.reading.publish_to",
            "has the format of the public MCP registry",
        ),
        (
            configured(ABROAD, tools={"sets": {"docs": ["read"]}, "publish": {"dogs": {"publish_to": ["corp"]}}}),
            "tools.publish.dogs.publish_to",
            "unknown set `dogs`; did you mean `docs`?",
        ),
    ],
)
def test_what_is_in_the_way_is_named_with_what_helps(config: Config, place: str, why: str) -> None:
    ((where, found),) = hindrances(config)
    assert where == place and why in found


def test_a_registry_on_this_machine_may_be_told_of_this_machine() -> None:
    here = {"corp": {"url": "http://127.0.0.1:8139"}}
    assert list(hindrances(configured({"enabled": True}, registries=here))) == []


@pytest.mark.parametrize(
    ("server", "port", "address"),
    [
        ({}, 0, "http://127.0.0.1:8138/mcp"),
        ({"port": 0}, 4711, "http://127.0.0.1:4711/mcp"),
        ({"host": "fd00::1"}, 0, "http://[fd00::1]:8138/mcp"),
        (EVERYWHERE, 0, ""),
        (ABROAD, 4711, "https://tools.example.org/mcp"),
    ],
)
def test_others_are_told_the_public_address_or_where_it_listens(
    server: Mapping[str, Any], port: int, address: str
) -> None:
    assert public_address(configured(server), port) == address


@pytest.mark.parametrize("url", ["https://ann:secret@tools.example.org/mcp", "https://t.example/mcp?key=1"])
def test_no_secret_is_told_with_the_address(url: str) -> None:
    with pytest.raises(ValueError, match="everybody can read it"):
        configured({"public_url": url})
