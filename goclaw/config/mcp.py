"""The keys of `mcp`: what GoClaw offers to programs that speak the Model Context Protocol (docs/mcp.md).

Which protocol versions there are is the library's to know (`mcp_types.version`); a test keeps the list here equal.
"""

import re
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, field_validator

from goclaw.config.mcp_servers import McpServers
from goclaw.config.section import Section
from goclaw.config.values import Host, Hosts, Origins, Selection, Url

VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
"""Revisions of the protocol that the library speaks, the oldest first."""
OFFERED = ("-tag:conversation", "-tag:agents", "-tag:mcp")
"""Leaves out tools that act in or for a conversation, as over MCP there is no conversation; and tools of other
MCP servers, which clients reach by themselves, and which may include this one.
"""
PLACE = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")
"""A placeholder for an argument in a prompt's message: `{{ name }}`."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


def _check_version(value: str) -> str:
    if value not in VERSIONS:
        raise ValueError(f"should be a version that can be spoken here: {', '.join(VERSIONS)}")
    return value


def _check_public(url: str) -> str:
    parts = urlsplit(url)
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError("should hold no password and nothing behind `?` or `#`: everybody reads it")
    return url


PublicUrl = Annotated[Url, AfterValidator(_check_public)]


class PromptArgumentSettings(Section):
    """An argument of a prompt."""

    description: str = Field("", description="What it is, for people.")
    required: bool = Field(True, description="Whether it has to be given; otherwise it is empty.")
    values: tuple[str, ...] = Field((), description="What may be offered while somebody types it.")


class PromptMessageSettings(Section):
    """One message of a prompt."""

    role: Literal["user", "assistant", "system"] = Field(
        "user", description="Who says it. The protocol knows no `system`: such a message goes out as the user's."
    )
    text: str = Field(min_length=1, examples=["Review {{ file }}."], description="With `{{ name }}` for an argument.")


class PromptSettings(Section):
    """A prompt that clients offer to their people."""

    description: str = Field("", description="What it is for.")
    arguments: dict[str, PromptArgumentSettings] = Field(default_factory=dict, description="What it takes, by name.")
    messages: tuple[PromptMessageSettings, ...] = Field(
        examples=[[{"role": "user", "text": "Review {{ file }}."}]], description="What it says, in order."
    )


class McpServerSettings(Section):
    """GoClaw as an MCP server: over HTTP in the daemon, and on standard input and output (`goclaw mcp serve`)."""

    enabled: bool = Field(
        False, description="Whether the daemon listens for clients, at `http://HOST:PORT/mcp`; each needs a token."
    )
    host: Host = Field("127.0.0.1", description="Address to listen on.")
    port: int = Field(8138, ge=0, le=65535, description="Port; 0 picks a free one.")
    hosts: Hosts = Field((), description="Names by which it may be called, beside localhost and that in `public_url`.")
    public_url: PublicUrl | None = Field(
        None,
        description="Where others reach it, for what is published to registries: `https://tools.example.org/mcp`; not "
        "set: `http://HOST:PORT/mcp`.",
    )
    origins: Origins = Field((), description="Pages that may call it, `https://host`; others are refused.")
    name: str = Field("goclaw", min_length=1, max_length=64, description="How it calls itself.")
    version: str = Field("", max_length=64, description="Its version; not set: that of GoClaw.")
    instructions: str = Field("", max_length=4_000, description="What clients tell their models about it.")
    protocol_version: Annotated[str, AfterValidator(_check_version)] | None = Field(
        None, description="The only version of the protocol that is spoken; not set: what client and server both know."
    )
    tools: Selection = Field(
        OFFERED,
        description="Which of the tools that a user may use are offered; see Choosing tools. Over HTTP, sets that are "
        "offered to registries (`publish_to`) come besides.",
    )
    resources: bool = Field(True, description="Whether files of the workspace, conversations and the status are.")
    elicitation: bool = Field(
        False,
        description="Whether a call that asks first is put to the person at the client, where the client can do that; "
        "only for who may answer such questions. Otherwise it is refused.",
    )
    prompts: dict[str, PromptSettings] = Field(default_factory=dict, description="Prompts, by name.")

    @property
    def names(self) -> frozenset[str]:
        """By which callers may know it, beside this machine's own."""
        public = urlsplit(self.public_url or "").hostname
        return frozenset({*(name.lower() for name in self.hosts), *([public] if public else ())})

    @field_validator("prompts")
    @classmethod
    def _check_prompts(cls, prompts: dict[str, PromptSettings]) -> dict[str, PromptSettings]:
        for name, prompt in prompts.items():
            if not _NAME.fullmatch(name):
                raise ValueError(f"`{name}`: a prompt's name has up to 64 letters, digits, `_` and `-`")
            if not prompt.messages:
                raise ValueError(f"`{name}` should have at least one message")
            used = {place for message in prompt.messages for place in PLACE.findall(message.text)}
            if unknown := sorted(used - set(prompt.arguments)):
                raise ValueError(f"`{name}` uses {', '.join(unknown)}, which is none of its `arguments`")
        return prompts


class McpSettings(Section):
    """The Model Context Protocol."""

    server: McpServerSettings = Field(
        default_factory=McpServerSettings.model_construct, description="GoClaw's tools for other programs."
    )
    servers: McpServers = Field(
        default_factory=dict, description="Servers whose tools, resources and prompts the agent uses, by name."
    )
