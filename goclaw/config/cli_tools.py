"""The keys of `tools.cli`: tools that are a command each, made in the configuration alone."""

import re
import shlex
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from goclaw import catalog
from goclaw.config.section import Section
from goclaw.config.values import Names

MAX_NAME = 64
"""Characters of a tool's name that every provider takes."""
_NAME = re.compile(rf"[a-z][a-z0-9_]{{0,{MAX_NAME - 1}}}")


def _check_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(f"should be a name in snake_case (`run_lint`), at most {MAX_NAME} characters")
    if name in catalog.TOOLS or any(name in gated for gated in catalog.GATED_TOOLS.values()):
        raise ValueError("is the name of a built-in tool; choose another one")
    return name


def _check_command(command: str) -> str:
    if not command.strip() or any(ord(character) < 32 for character in command):
        raise ValueError("should be the name or the path of a program")
    if " " in command.strip() and "/" not in command:
        words = command.split()
        raise ValueError(f"should be one program; write `command: {words[0]}`, and the rest into `args`")
    return command


def _check_words(words: tuple[str, ...]) -> tuple[str, ...]:
    if any("\0" in word for word in words):
        raise ValueError("should hold no NUL characters")
    return words


class CliToolSettings(Section):
    """A tool that runs one command, contained like those of `exec`; the model adds arguments to it."""

    command: Annotated[str, AfterValidator(_check_command)] = Field(
        description="The program: a name, or a path; `./lint.sh` lies in the workspace.",
        examples=["golangci-lint"],
    )
    args: Annotated[tuple[str, ...], AfterValidator(_check_words)] = Field(
        (), description="Its first arguments, a word each; what the model gives comes behind them."
    )
    description: str = Field(
        description="What the tool does, for the model: a first sentence, and what else it should know.",
        examples=["Run the Go linter."],
        min_length=1,
        max_length=4_000,
    )
    timeout: float | None = Field(None, gt=0, le=3_600, description="Seconds; not set: `tools.exec.timeout`.")
    tags: Names = Field((), description="Tags by which policies and toolsets choose it, besides `shell` and `cli`.")
    title: str = Field("", max_length=100, description="Its name for people; not set: made of its name.")
    read_only: bool = Field(
        False,
        description="Whether it changes nothing: contained and without network it runs like a read, in plan mode, too, "
        "and the sandbox lets it write nothing in the workspace.",
    )
    destructive: bool | None = Field(
        None,
        description="Whether it may destroy something: `true`: every call asks first, as all that is critical. Not "
        "set: MCP clients are told that it may, unless it only reads; what is asked follows from the sandbox.",
    )
    idempotent: bool | None = Field(
        None,
        description="Whether running it twice does what once does: then a crash lets it run again. Not set: only if it "
        "only reads.",
    )
    open_world: bool | None = Field(
        None,
        description="Whether MCP clients are told that it reaches beyond this machine; not set: they are told so. What "
        "it reaches says `tools.exec.network`.",
    )

    @model_validator(mode="after")
    def _not_both(self) -> "CliToolSettings":
        if self.read_only and self.destructive:
            raise ValueError("`read_only` and `destructive` exclude each other")
        return self

    def line(self, given: str = "") -> str:
        """Return the command as a shell's command line, for rules and people.

        Raises:
            ValueError: the quotation marks in `given` do not match.
        """
        return shlex.join(self.words(given))

    def words(self, given: str = "") -> tuple[str, ...]:
        """Return the command with its arguments and those of `given`, split as a shell would; no shell is run.

        Raises:
            ValueError: the quotation marks in `given` do not match.
        """
        return (self.command, *self.args, *shlex.split(given))


CliTools = dict[Annotated[str, AfterValidator(_check_name)], CliToolSettings]
