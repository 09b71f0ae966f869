"""Registries in the words of the source document. They compile to `config.registries`; nothing asks one yet."""

from typing import Any

from goclaw.config.registries import RegistrySettings
from goclaw.declare.options import ExportOption, Option, RegistryOption, ToolsetOption, collected
from goclaw.records import record
from goclaw.toolkit.parts import RegistryOrigin

Time = str | float


class FederationOption(Option):
    """Stands in `federation`."""


@record
class Registry:
    """A catalogue, and its name here."""

    name: str
    settings: RegistrySettings


@record
class FromRegistry:
    """A toolset of a registry."""

    registry: Registry
    toolset: str

    def at(self, version: str) -> RegistryOrigin:
        """The same at a version; empty: the newest."""
        return RegistryOrigin(self.registry.name, self.toolset, version)


def registry(name: str, *options: RegistryOption) -> Registry:
    """A catalogue of toolsets, agents and MCP servers.

    Raises:
        ValueError: it has no `url`, or something of it cannot be.
    """
    return Registry(name, RegistrySettings.model_validate(collected(options, name)))


def url(endpoint: str) -> RegistryOption:
    """Where it is."""
    return RegistryOption("url", endpoint)


def api_version(version: str) -> RegistryOption:
    """The version of its interface; without this word `v1`."""
    return RegistryOption("api_version", version)


def security(token: str) -> RegistryOption:
    """The token that it wants. Take it from the environment: what stands in code is no secret."""
    return RegistryOption("auth", token)


def timeout(time: Time) -> RegistryOption:
    """How long a request may take."""
    return RegistryOption("timeout", time)


def retry(most: int, backoff: Time) -> RegistryOption:
    """How often a request that failed is made again, and after how long the first time."""
    return RegistryOption("retry", {"max": most, "backoff": backoff})


def sync_interval(time: Time) -> RegistryOption:
    """How often its catalogue is fetched."""
    return RegistryOption("sync_interval", time)


def cache_ttl(time: Time) -> RegistryOption:
    """How long what was fetched is good without it."""
    return RegistryOption("cache_ttl", time)


def federation(*options: FederationOption) -> RegistryOption:
    """What is taken over of another registry."""
    found: dict[str, Any] = collected(options, "federation")
    return RegistryOption("federation", found)


def include(*patterns: str) -> FederationOption:
    """Namespaces that are taken over; without this word all."""
    return FederationOption("include", patterns)


def exclude(*patterns: str) -> FederationOption:
    """Namespaces that are left out of those."""
    return FederationOption("exclude", patterns)


def from_registry(source: Registry, toolset: str) -> FromRegistry:
    """A toolset of a registry, for `toolset`."""
    return FromRegistry(source, toolset)


def version(pinned: str) -> ToolsetOption:
    """Exactly this version of a registry's toolset."""
    return ToolsetOption("version", pinned)


def publish_to(*registries: Registry) -> ExportOption:
    """The registries to which an export is offered."""
    return ExportOption("publish_to", tuple(each.name for each in registries))
