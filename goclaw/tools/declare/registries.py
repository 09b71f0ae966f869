"""Registries in the terms of the source document: docs/registries.md shows their configuration.

A registry gets into the configuration by being named: by a toolset that is from it, or by a publication to it.
"""

from typing import Any, ClassVar

from pydantic import TypeAdapter

from goclaw.common.config.registries import FromRegistrySettings, RegistryName, RegistrySettings
from goclaw.common.core.records import record
from goclaw.tools.declare.options import Option, PublishOption, RegistryOption, collect, refuse_leftovers
from goclaw.tools.toolkit.parts import RegistryPart

_NAME: TypeAdapter[str] = TypeAdapter(RegistryName)
Time = str | float


class FederationOption(Option, forms=("federation",)):
    """Stands in `federation`."""


@record
class FromRegistry:
    """A toolset of a registry."""

    word: ClassVar[str] = "from_registry"
    forms: ClassVar[tuple[str, ...]] = ("toolset",)
    registry: RegistryPart
    toolset: str

    def at(self, version: str, tags: tuple[str, ...]) -> FromRegistrySettings:
        """Return the toolset at a version (empty: the newest), with tags for its tools. Raises ValueError."""
        return FromRegistrySettings(registry=self.registry.name, toolset=self.toolset, version=version, tags=tags)


def registry(name: str, *options: RegistryOption) -> RegistryPart:
    """Declare a registry: a catalogue of toolsets, agents and MCP servers.

    Raises:
        ValueError: it has no `url`, or something of it cannot be, or stands elsewhere.
    """
    refuse_leftovers(options, RegistryOption, name, "registry")
    return RegistryPart(_NAME.validate_python(name), RegistrySettings.model_validate(collect(options, name)))


def url(endpoint: str) -> RegistryOption:
    """Set its address."""
    return RegistryOption("url", endpoint)


def api_version(version: str) -> RegistryOption:
    """Set the version of its interface; `v1` by default."""
    return RegistryOption("api_version", version)


def security(token: str | None) -> RegistryOption:
    """Set its token. Take it from the environment (None: it is not set): a token in code is no secret."""
    return RegistryOption("auth", token or None)


def timeout(time: Time) -> RegistryOption:
    """Set the time limit of a request."""
    return RegistryOption("timeout", time)


def retry(most: int, backoff: Time) -> RegistryOption:
    """Set how often a failed request is repeated, and the first delay."""
    return RegistryOption("retry", {"max": most, "backoff": backoff})


def sync_interval(time: Time) -> RegistryOption:
    """Set how often its catalogue is fetched."""
    return RegistryOption("sync_interval", time)


def cache_ttl(time: Time) -> RegistryOption:
    """Set how long the fetched catalogue is used while it cannot be reached."""
    return RegistryOption("cache_ttl", time)


def federation(*options: FederationOption) -> RegistryOption:
    """Set the entries taken over from another registry."""
    refuse_leftovers(options, FederationOption, "federation", "federation")
    found: dict[str, Any] = collect(options, "federation")
    return RegistryOption("federation", found)


def include(*patterns: str) -> FederationOption:
    """Set the namespaces that are taken over; all by default."""
    return FederationOption("include", patterns)


def exclude(*patterns: str) -> FederationOption:
    """Set the namespaces that are left out of those."""
    return FederationOption("exclude", patterns)


def from_registry(source: RegistryPart, toolset: str) -> FromRegistry:
    """Return a toolset of a registry, for `toolset`. Raises ValueError: `source` is no registry."""
    refuse_leftovers([source], RegistryPart, toolset, "from_registry")
    return FromRegistry(source, toolset)


def version(exactly: str) -> PublishOption:
    """Set the only version to use of a registry's toolset; of a published one, its version there."""
    return PublishOption("version", exactly)


def publish_to(*registries: RegistryPart) -> PublishOption:
    """Set the registries to which an export, or a toolset that no agent exports, is offered.

    Raises:
        ValueError: one of them is no registry.
    """
    refuse_leftovers(registries, RegistryPart, "publish_to", "publish_to")
    return PublishOption("publish_to", registries)


def registry_parts(said: dict[str, Any], where: str) -> tuple[RegistryPart, ...]:
    """Return the registries among the options, named as in the configuration.

    Raises:
        ValueError: it says how something is published, and not where.
    """
    registries: tuple[RegistryPart, ...] = said.get("publish_to", ())
    if not registries and (lost := sorted({"version", "publish_as"} & said.keys())):
        raise ValueError(
            f"{where}: {lost[0]} is of what is published or from a registry; say publish_to(...), or from_registry(...)"
        )
    said["publish_to"] = tuple(each.name for each in registries)
    return registries


def publish_as(name: str) -> PublishOption:
    """Set the name in a registry where many publish: `team/data-tools`."""
    return PublishOption("publish_as", name)
