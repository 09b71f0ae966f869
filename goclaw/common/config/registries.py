"""The keys of `registries`, `registry_server` and `tools.from_registry`: catalogues that gateways share.

What becomes of what such a catalogue says is in `goclaw.extensions.registries` (docs/registries.md).
"""

from typing import Annotated

from pydantic import Field

from goclaw.common.config.mcp import McpUseSettings
from goclaw.common.config.section import DeclarableSection, Section
from goclaw.common.config.values import Duration, ListenerSettings, Names, Secret, Url, require

LATEST = "latest"
"""Stands for the newest version in an address, so none is called so."""
RegistryName = Annotated[
    str,
    require(
        r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}",
        "should be a short name such as `corp`: letters, digits, `.`, `_` and `-`, at most 64",
    ),
]
EntryName = Annotated[
    str,
    require(
        r"[A-Za-z0-9](?:[A-Za-z0-9._-]|/(?=[A-Za-z0-9])){0,199}",
        "should be a name such as `data-tools` or `io.github.ann/data`, at most 200 characters",
    ),
]
"""A name in a registry."""
EntryVersion = Annotated[
    str,
    require(
        rf"(?!{LATEST}\Z)[A-Za-z0-9][A-Za-z0-9.+_-]{{0,99}}",
        "should be a version such as `1.2.3`, at most 100 letters, digits, `.`, `+`, `_` and `-`",
    ),
]
ApiVersion = Annotated[
    str,
    require(
        r"v[0-9][0-9A-Za-z.]{0,15}",
        "should be a version such as `v1`; versions that begin with `v0` belong to the public MCP registry",
    ),
]
Digest = Annotated[
    str, require("[0-9a-f]{64}", "should be 64 hexadecimal digits, as `goclaw registry show` prints them")
]


class RetrySettings(Section):
    """How often a request that failed is made again."""

    max: int = Field(3, ge=0, le=100, description="Repetitions.")
    backoff: Duration = Field(1.0, description="Delay before the first repetition; doubled each time.")


class FederationSettings(Section):
    """Filters for entries taken over from a registry."""

    include: Names = Field((), description="Patterns of names, such as `data-*`; empty: all.")
    exclude: Names = Field((), description="Patterns of names to exclude.")
    share: bool = Field(
        False,
        description="Whether `goclaw registry serve` also offers its entries to readers of this gateway's registry.",
    )


class RegistrySettings(DeclarableSection):
    """A registry."""

    url: Url = Field(description="Its address.", examples=["https://registry.example.org"])
    description: str = Field("", description="What it is for.")
    api_version: ApiVersion = Field(
        "v1",
        description="The version of its API, part of its paths. `v0`, `v0.1`: the format of the public MCP registry.",
    )
    auth: Secret | None = Field(None, description="Its access token.")
    timeout: Duration = Field(30.0, description="Time limit of a request.")
    retry: RetrySettings = Field(default_factory=RetrySettings, description="Repetition of failed requests.")
    sync_interval: Duration = Field(300.0, description="How often GoClaw fetches the catalogue.")
    cache_ttl: Duration = Field(
        3_600.0,
        description="How long the fetched catalogue is valid, at least twice `sync_interval`. After that, GoClaw uses "
        "only entries pinned to a version.",
    )
    federation: FederationSettings = Field(default_factory=FederationSettings, description="Which entries to use.")

    @property
    def is_public(self) -> bool:
        """Whether it speaks the public MCP registry's format."""
        return self.api_version.partition(".")[0] == "v0"

    @property
    def known_for(self) -> float:
        """Seconds for which fetched entries decide which is the newest: one fetch may fail without harm."""
        return max(self.cache_ttl, 2 * self.sync_interval)


Registries = dict[RegistryName, RegistrySettings]


class FromRegistrySettings(McpUseSettings, DeclarableSection):
    """A toolset or an MCP server of a registry. It becomes an MCP server of this name, and a set of its tools."""

    registry: str = Field(description="A name of `registries`.", examples=["corp"], min_length=1)
    toolset: str = Field(description="Its name there.", examples=["data-tools"], min_length=1)
    version: str = Field("", description="Exactly this version; empty: the newest.", max_length=100)
    sha256: Digest | None = Field(
        None, description="The required hash of this version's entry; not set: the hash when it was first seen."
    )
    packages: bool = Field(
        False,
        description="Whether to fetch and start its program (`npx`, `uvx`): a stranger's program then runs as you. "
        "Otherwise only addresses are used.",
    )
    private: bool = Field(
        False,
        description="Whether its server may be on this machine or in a private network, like the registry itself.",
    )


class RegistryServerSettings(ListenerSettings):
    """This gateway's own registry: `goclaw registry serve`."""

    port: int = Field(8139, ge=0, le=65535, description="Port; 0 picks a free one.")
    open: bool = Field(False, description="Whether everybody may read it; otherwise reading also needs a token.")
    publishers: Names = Field(
        (),
        description=(
            "Users of users.json who may publish, in addition to admins. A name belongs to its first publisher."
        ),
    )
