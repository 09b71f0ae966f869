"""What is to be said of a registry: a catalogue of toolsets, agents and MCP servers that several gateways share.

Today `goclaw.declare` makes these; nothing asks a registry yet, and the configuration has no key for them.
"""

from pydantic import Field

from goclaw.config.section import Section
from goclaw.config.values import Duration, Names, Secret, Url


class RetrySettings(Section):
    """How often a request that failed is made again."""

    max: int = Field(3, ge=0, le=100, description="Repetitions.")
    backoff: Duration = Field(1.0, description="Before the first repetition; doubled each time.")


class FederationSettings(Section):
    """Which namespaces of another registry are taken over."""

    include: Names = Field((), description="Patterns such as `data-*`; empty: all.")
    exclude: Names = Field((), description="Patterns of what is left out of those.")


class RegistrySettings(Section):
    """A registry."""

    name: str = Field(description="How it is called here.", min_length=1, max_length=64)
    url: Url = Field(description="Where it is.")
    description: str = Field("", description="What it is for.")
    api_version: str = Field("v1", description="The version of its interface, a part of its paths.", min_length=1)
    auth: Secret | None = Field(None, description="The token that it wants.")
    timeout: Duration = Field(30.0, description="How long a request may take.")
    retry: RetrySettings = Field(default_factory=RetrySettings, description="What becomes of failed requests.")
    sync_interval: Duration = Field(300.0, description="How often the catalogue is fetched.")
    cache_ttl: Duration = Field(3_600.0, description="How long what was fetched is good without it.")
    federation: FederationSettings = Field(default_factory=FederationSettings, description="What is taken over.")
