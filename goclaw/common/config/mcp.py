"""The keys of `mcp` and `tools.pinned`: the servers that the agent uses, and what GoClaw offers (docs/mcp.md).

The handling of a server's answers is in `mcp` and `builtin.mcp_source`. Which protocol versions there are
is the library's to know (`mcp_types.version`); a test keeps the list here equal.

A pin is its set's alone (`tools.pinned`): the server's other tools, and one that is not as it has to be, stay available
to other selections, and are no part of the set.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, WithJsonSchema, field_validator, model_validator

from goclaw.common.config.section import DeclarableSection, Section
from goclaw.common.config.values import (
    VARIABLE_NAMES,
    Folder,
    ListenerSettings,
    ModelName,
    Names,
    OneOrMore,
    Origins,
    Program,
    Selection,
    Url,
    Words,
    require,
    require_names,
)

MAX_SERVER = 24
"""Characters of a server's name: `mcp__<server>__<tool>` has 64, and the tool needs most of them."""
_ORDINARY = re.compile(r"[~.]?/.*|[A-Za-z]{1,16}|[0-9.:]{1,16}")
"""Paths, single words, short numbers: no secret has that form, and masking them would spoil every text."""
_PROTOCOLS_OWN = re.compile("mcp-.*|content-.*|accept|host|connection|transfer-encoding|last-event-id", re.IGNORECASE)

VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
"""Revisions of the protocol that the library speaks, the oldest first."""
OFFERED = ("-tag:conversation", "-tag:agents", "-tag:mcp")
"""Leaves out tools that act in or for a conversation, as over MCP there is no conversation; and tools of other
MCP servers, which clients reach by themselves, and which may include this one.
"""
PLACE = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")
"""A placeholder for an argument in a prompt's message: `{{ name }}`."""
_PROMPT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


class Variable(SecretStr):
    """A value for a server's environment: never shown, and masked in texts unless it is evidently no secret."""

    @property
    def is_ordinary(self) -> bool:
        """Whether it has the form of an ordinary environment variable."""
        return _ORDINARY.fullmatch(self.get_secret_value()) is not None


def _check_headers(value: dict[str, Any]) -> dict[str, Any]:
    if own := [name for name in value if _PROTOCOLS_OWN.fullmatch(name)]:
        raise ValueError(f"should not set {own[0]}: the protocol sets it")
    if not all(text.get_secret_value().isascii() for text in value.values()):
        raise ValueError("should hold only ASCII characters")
    return value


def _whole_path(command: str) -> str:
    if "/" in command and not command.startswith(("/", "~/")):
        raise ValueError("should be a name on the PATH, or an absolute path")
    return str(Path(command).expanduser()) if command.startswith("~/") else command


_ONE_LINE = require(r"[^\0\r\n]*", "should be one line")
Variables = Annotated[dict[str, Annotated[Variable, _ONE_LINE]], VARIABLE_NAMES]
Headers = Annotated[
    dict[str, Annotated[SecretStr, _ONE_LINE]],
    require_names(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}", "should have names of headers, such as `Authorization`"),
    AfterValidator(_check_headers),
]
ServerName = Annotated[
    str,
    require(
        rf"[a-z](?:[a-z0-9]|[_-](?![_-])){{0,{MAX_SERVER - 1}}}(?<![_-])",
        f"should be a short name such as `github`: at most {MAX_SERVER} small letters, digits, and single `_` or `-` "
        "between them",
    ),
]
Globs = Annotated[
    Names,
    require_names(
        r"[A-Za-z0-9_./*?\[\]!-]{1,128}", "should be names of the server's tools, with `*` and `?` as wildcards"
    ),
]
JsonSchema = Annotated[dict[str, Any], WithJsonSchema({"type": "object"})]


class PinnedTool(Section):
    """A tool of the server as it has to be. What is not said here may be anything."""

    description: str | None = Field(None, description="Its exact description.")
    input_schema: JsonSchema | None = Field(None, description="JSON Schema of its arguments.")
    output_schema: JsonSchema | None = Field(None, description="JSON Schema of its result.")
    read_only: bool | None = Field(None, description="Whether it declares itself read-only.")
    destructive: bool | None = Field(None, description="Whether it declares itself destructive.")


class SamplingSettings(Section):
    """A server may ask the model while a call to it runs, on behalf of the call's user (docs/mcp.md)."""

    enabled: bool = Field(True, description="Whether it may use the model; the section alone enables it.")
    ask: bool = Field(True, description="Whether the person has to approve each of its requests.")
    models: Annotated[tuple[ModelName, ...], OneOrMore] = Field(
        (),
        description="Models that may answer it; it can choose among them, else the first that works. Empty: the "
        "models of the conversation, without a choice.",
    )
    answer_tokens: int = Field(1_000, ge=1, le=100_000, description="Maximum tokens of one answer.")
    prompt_tokens: int = Field(10_000, ge=1, le=1_000_000, description="Maximum tokens of one request.")
    per_call: int = Field(5, ge=1, le=10, description="Maximum requests during one call.")
    per_turn: int = Field(20, ge=1, le=1_000, description="Maximum requests during one turn.")


class McpUseSettings(Section):
    """The use of a server of the Model Context Protocol, wherever its address or its program is said."""

    enabled: bool = Field(True, description="Whether it is used.")
    env: Variables = Field(
        default_factory=dict,
        description="Its environment variables, besides PATH, HOME, LANG, LC_ALL, TZ, TMPDIR; it gets no others.",
    )
    headers: Headers = Field(
        default_factory=dict, description="Headers of every request, such as `Authorization`; GoClaw never shows them."
    )
    timeout: float = Field(
        60, gt=0, le=3_600, description="Time limit of a call in seconds, without waiting for people."
    )
    tags: Names = Field((), description="Tags of all its tools, besides `mcp` and `mcp-<name>`.")
    roles: Names = Field((), description="Roles that see it, in addition to admins; empty: everybody.")

    def variables(self) -> Mapping[str, str]:
        """Return the values of `env`, without secrets: for the program alone."""
        return {name: value.get_secret_value() for name, value in self.env.items()}


class McpClientSettings(McpUseSettings):
    """A server of the Model Context Protocol: a program that is started (`command`), or an address (`url`)."""

    command: Annotated[Program, AfterValidator(_whole_path)] | None = Field(
        None,
        description="The program: a name or an absolute path. It runs outside of the sandbox (docs/mcp.md).",
        examples=["npx"],
    )
    args: Words = Field(
        (), description="Its arguments, one word each. Others on this machine can read them, so put no secrets here."
    )
    cwd: Folder | None = Field(None, description="Its working folder; not set: `mcp` in the state folder.")
    url: Url | None = Field(None, description="Its address (streamable HTTP): `https://host/mcp`.")
    allow: Globs = Field((), description="Which of its tools to offer: names, or `read_*`; empty: all.")
    deny: Globs = Field((), description="Which of them to exclude.")
    elicitation: bool = Field(True, description="Whether it may ask the person questions during a call.")
    sampling: SamplingSettings | None = Field(
        None, description="Its use of the model; not set: none. `{}` enables it with the defaults."
    )
    tools: dict[str, PinnedTool] = Field(
        default_factory=dict,
        description="The exact tools it may have, by name: GoClaw refuses others and different ones. Empty: any.",
    )

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise ValueError("should have either `command` or `url`")
        if self.url is not None and (self.args or self.env or self.cwd):
            raise ValueError("`args`, `env` and `cwd` are for a `command`; a `url` has `headers`")
        if self.command is not None and self.headers:
            raise ValueError("`headers` are for a `url`; a `command` has `env`")
        return self

    @property
    def may_sample(self) -> bool:
        """Whether it may ask the model."""
        return self.sampling is not None and self.sampling.enabled


McpServers = dict[ServerName, McpClientSettings]


def _check_public(url: str) -> str:
    parts = urlsplit(url)
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError("should contain no password, `?` or `#`: everybody can read it")
    return url


PublicUrl = Annotated[Url, AfterValidator(_check_public)]
ProtocolVersion = Annotated[
    str, require("|".join(map(re.escape, VERSIONS)), f"should be a supported version: {', '.join(VERSIONS)}")
]


class PromptArgumentSettings(Section):
    """An argument of a prompt."""

    description: str = Field("", description="Its meaning, for people.")
    required: bool = Field(True, description="Whether it is required; otherwise it is empty.")
    values: tuple[str, ...] = Field((), description="Suggestions while somebody types it.")


class PromptMessageSettings(Section):
    """One message of a prompt."""

    role: Literal["user", "assistant", "system"] = Field(
        "user", description="The speaker. The protocol has no `system`: such a message is sent as the user's."
    )
    text: str = Field(
        min_length=1, examples=["Review {{ file }}."], description="The text, with `{{ name }}` for an argument."
    )


class PromptSettings(Section):
    """A prompt that clients offer to their people."""

    description: str = Field("", description="Its purpose.")
    arguments: dict[str, PromptArgumentSettings] = Field(default_factory=dict, description="Its arguments, by name.")
    messages: tuple[PromptMessageSettings, ...] = Field(
        examples=[[{"role": "user", "text": "Review {{ file }}."}]], description="Its messages, in order."
    )


class McpServerSettings(ListenerSettings):
    """GoClaw as an MCP server: over HTTP in the daemon, and on standard input and output (`goclaw mcp serve`)."""

    enabled: bool = Field(
        False, description="Whether the daemon listens for clients, at `http://HOST:PORT/mcp`; each needs a token."
    )
    port: int = Field(8138, ge=0, le=65535, description="Port; 0 picks a free one.")
    public_url: PublicUrl | None = Field(
        None,
        description="Its public address, for entries in registries: `https://tools.example.org/mcp`; not set: "
        "`http://HOST:PORT/mcp`.",
    )
    origins: Origins = Field((), description="Web pages that may call it, `https://host`; others are refused.")
    name: str = Field("goclaw", min_length=1, max_length=64, description="Its name.")
    version: str = Field("", max_length=64, description="Its version; not set: GoClaw's version.")
    instructions: str = Field("", max_length=4_000, description="Instructions that clients give to their models.")
    protocol_version: ProtocolVersion | None = Field(
        None, description="The only protocol version it accepts; not set: any version that both sides support."
    )
    tools: Selection = Field(
        OFFERED,
        description="Which of a user's tools to offer; see Choosing tools. Over HTTP, published sets (`publish_to`) "
        "are always included.",
    )
    resources: bool = Field(True, description="Whether to offer files of the workspace, conversations and the status.")
    elicitation: bool = Field(
        False,
        description="Whether to ask the user of the client for approval, if the client supports it and the user may "
        "approve. Otherwise such a call is refused.",
    )
    prompts: dict[str, PromptSettings] = Field(default_factory=dict, description="Prompts, by name.")

    @property
    def names(self) -> frozenset[str]:
        """Names that callers may know it by, besides this machine's own."""
        public = urlsplit(self.public_url or "").hostname
        return frozenset({*(name.lower() for name in self.hosts), *([public] if public else ())})

    @field_validator("prompts")
    @classmethod
    def _check_prompts(cls, prompts: dict[str, PromptSettings]) -> dict[str, PromptSettings]:
        for name, prompt in prompts.items():
            if not _PROMPT_NAME.fullmatch(name):
                raise ValueError(f"`{name}`: a prompt's name may have up to 64 letters, digits, `_` and `-`")
            if not prompt.messages:
                raise ValueError(f"`{name}` should have at least one message")
            used = {place for message in prompt.messages for place in PLACE.findall(message.text)}
            if unknown := sorted(used - set(prompt.arguments)):
                raise ValueError(f"`{name}` uses {', '.join(unknown)}, which is not among its `arguments`")
        return prompts


class McpSettings(Section):
    """The Model Context Protocol."""

    server: McpServerSettings = Field(
        default_factory=McpServerSettings, description="GoClaw's tools for other programs."
    )
    servers: McpServers = Field(
        default_factory=dict, description="Servers whose tools, resources and prompts the agent uses, by name."
    )


class PinnedSetSettings(DeclarableSection):
    """A set of tools of one MCP server."""

    server: ServerName = Field(description="The server, a name of `mcp.servers`.", examples=["files"])
    tools: dict[str, PinnedTool] = Field(
        default_factory=dict, description="Its tools by the server's names, each with its required definition."
    )

    def members(self, name: str) -> tuple[str, ...]:
        """Return the selection that the set of this name stands for."""
        return tuple(f"tag:{pin_tag(name, tool)}" for tool in self.tools)


PinnedSets = dict[str, PinnedSetSettings]


def pin_tag(toolset: str, tool: str) -> str:
    """Return the tag of a server's tool that matches its pin: `docs:find`. No name of either has a colon."""
    return f"{toolset}:{tool}"


def pins_of(sets: Mapping[str, PinnedSetSettings], server: str, tool: str) -> Iterator[tuple[str, PinnedTool]]:
    """Yield the sets that pin a tool of a server, with the pins."""
    for name, settings in sets.items():
        if settings.server == server and tool in settings.tools:
            yield name, settings.tools[tool]
