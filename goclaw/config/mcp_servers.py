"""The keys of `mcp.servers`: programs and addresses whose tools, resources and prompts the agent uses (docs/mcp.md).

What becomes of what such a server says is in `goclaw.mcp` and `goclaw.tools.mcp_source`.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, SecretStr, WithJsonSchema, model_validator

from goclaw.config.section import Section
from goclaw.config.values import Folder, ModelName, Names, OneOrMore, Url

MAX_SERVER = 24
"""Characters of a server's name: `mcp__<server>__<tool>` has 64, and the tool needs most of them."""
_NAME = re.compile(rf"[a-z](?:[a-z0-9]|[_-](?![_-])){{0,{MAX_SERVER - 1}}}(?<![_-])")
_VARIABLE = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_ORDINARY = re.compile(r"[~.]?/.*|[A-Za-z]{1,16}|[0-9.:]{1,16}")
"""Paths, single words, short numbers: no secret has that form, and masking them would spoil every text."""
_PROTOCOLS_OWN = re.compile("mcp-.*|content-.*|accept|host|connection|transfer-encoding|last-event-id", re.IGNORECASE)


class Variable(SecretStr):
    """A value for a server's environment: never shown, and masked in texts unless it is evidently no secret."""

    @property
    def is_ordinary(self) -> bool:
        """Whether it has the form of an ordinary environment variable."""
        return _ORDINARY.fullmatch(self.get_secret_value()) is not None


def _check_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"should be a short name such as `github`: at most {MAX_SERVER} small letters, digits, and single `_` "
            "or `-` between them"
        )
    return name


def _check_text(value: SecretStr) -> SecretStr:
    if any(mark in value.get_secret_value() for mark in "\0\r\n"):
        raise ValueError("should be one line")
    return value


def _check_variables(value: dict[str, Any]) -> dict[str, Any]:
    if not all(map(_VARIABLE.fullmatch, value)):
        raise ValueError("should have names of letters, digits and `_`")
    return value


def _check_headers(value: dict[str, Any]) -> dict[str, Any]:
    if not all(map(_HEADER.fullmatch, value)):
        raise ValueError("should have names of headers, such as `Authorization`")
    if own := [name for name in value if _PROTOCOLS_OWN.fullmatch(name)]:
        raise ValueError(f"should not set {own[0]}: the protocol sets it")
    if not all(text.get_secret_value().isascii() for text in value.values()):
        raise ValueError("should hold only ASCII characters")
    return value


def _check_command(command: str) -> str:
    if not command.strip() or any(ord(character) < 32 for character in command):
        raise ValueError("should be the name or the path of a program")
    if " " in command.strip() and "/" not in command:
        raise ValueError(f"should be one program; write `command: {command.split()[0]}`, and the rest into `args`")
    if "/" in command and not command.startswith(("/", "~/")):
        raise ValueError("should be a name on the PATH, or a whole path: it is started from nowhere in particular")
    return str(Path(command).expanduser()) if command.startswith("~/") else command


def _check_words(words: tuple[str, ...]) -> tuple[str, ...]:
    if any("\0" in word for word in words):
        raise ValueError("should hold no NUL characters")
    return words


def _check_globs(globs: tuple[str, ...]) -> tuple[str, ...]:
    if not all(re.fullmatch(r"[A-Za-z0-9_./*?\[\]!-]{1,128}", glob) for glob in globs):
        raise ValueError("should be names of the server's tools, with `*` and `?` for what may be anything")
    return globs


Variables = Annotated[
    dict[str, Annotated[Variable, AfterValidator(_check_text)]],
    AfterValidator(_check_variables),
]
Headers = Annotated[
    dict[str, Annotated[SecretStr, AfterValidator(_check_text)]],
    AfterValidator(_check_headers),
]
ServerName = Annotated[str, AfterValidator(_check_name)]
Globs = Annotated[Names, AfterValidator(_check_globs)]
JsonSchema = Annotated[dict[str, Any], WithJsonSchema({"type": "object"})]


class PinnedTool(Section):
    """A tool of the server as it has to be. What is not said here may be anything."""

    description: str | None = Field(None, description="Its description, to the letter.")
    input_schema: JsonSchema | None = Field(None, description="JSON Schema of its arguments.")
    output_schema: JsonSchema | None = Field(None, description="JSON Schema of its result.")
    read_only: bool | None = Field(None, description="Whether it says that it only reads.")
    destructive: bool | None = Field(None, description="Whether it says that it may destroy something.")


class SamplingSettings(Section):
    """A server may ask the model while a call to it runs, on behalf of the call's user (docs/mcp.md)."""

    enabled: bool = Field(True, description="Whether it may; the section alone switches it on.")
    ask: bool = Field(True, description="Whether the person has to agree to each request of it.")
    models: Annotated[tuple[ModelName, ...], OneOrMore] = Field(
        (),
        description="Models that answer it, the first that can, and no other; it may choose among them. Empty: those "
        "that answer in the conversation, and it chooses nothing.",
    )
    answer_tokens: int = Field(1_000, ge=1, le=100_000, description="Tokens that one answer may have.")
    prompt_tokens: int = Field(10_000, ge=1, le=1_000_000, description="Tokens that one request may have.")
    per_call: int = Field(5, ge=1, le=10, description="Requests that it may make during one call.")
    per_turn: int = Field(20, ge=1, le=1_000, description="Requests that it may make during one turn.")


class McpClientSettings(Section):
    """A server of the Model Context Protocol: a program that is started (`command`), or an address (`url`)."""

    enabled: bool = Field(True, description="Whether it is used.")
    command: Annotated[str, AfterValidator(_check_command)] | None = Field(
        None,
        description="The program: a name or a whole path. It is yours, and is not contained (docs/mcp.md).",
        examples=["npx"],
    )
    args: Annotated[tuple[str, ...], AfterValidator(_check_words)] = Field(
        (), description="Its arguments, a word each. Others on this machine can read them: no secrets."
    )
    env: Variables = Field(
        default_factory=dict,
        description="Variables of its environment, beside PATH, HOME, LANG, LC_ALL, TZ, TMPDIR; it gets no other.",
    )
    cwd: Folder | None = Field(None, description="The folder it is started in; not set: the state folder's `mcp`.")
    url: Url | None = Field(None, description="Where it listens (streamable HTTP): `https://host/mcp`.")
    headers: Headers = Field(
        default_factory=dict, description="Headers of every request, such as `Authorization`; never shown."
    )
    timeout: float = Field(60, gt=0, le=3_600, description="Seconds that a call may take; asking a person not counted.")
    allow: Globs = Field((), description="Which of its tools: names, or `read_*`; empty: all of them.")
    deny: Globs = Field((), description="Which of those not.")
    tags: Names = Field((), description="Tags of all its tools, besides `mcp` and `mcp-<name>`.")
    roles: Names = Field((), description="Roles that see it, admins besides; empty: everybody.")
    elicitation: bool = Field(True, description="Whether it may ask the person for whom a call is made.")
    sampling: SamplingSettings | None = Field(
        None, description="What it may ask of the model; not set: nothing. `{}` switches it on with what is usual."
    )
    tools: dict[str, PinnedTool] = Field(
        default_factory=dict,
        description="Its tools as they have to be, by name: others, and those that differ, are refused. Empty: any.",
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

    def variables(self) -> Mapping[str, str]:
        """Return the values of `env`, without secrets: for the program alone."""
        return {name: value.get_secret_value() for name, value in self.env.items()}


McpServers = dict[ServerName, McpClientSettings]
