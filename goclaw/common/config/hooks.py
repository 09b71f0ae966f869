"""The keys of `hooks`: the operator's programs that receive events, and the events they receive.

Their input and output is in `goclaw.tools.hooks`, for people in docs/hooks.md.
"""

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from goclaw.common.config.keys import Loc
from goclaw.common.config.section import Section
from goclaw.common.config.values import Names, OneOrMore, Point, Words, require_that
from goclaw.common.core.selection import NOT, SET

TOOL_POINTS = frozenset({"pre_tool", "post_tool", "post_tool_failure"})
"""The points that are about a tool."""
DEFAULT_SECONDS, MAX_SECONDS = 10.0, 300.0
"""Default and maximum time limit of a hook: a call waits for it."""


def _split(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return tuple(shlex.split(value))
    except ValueError:
        raise ValueError("has a quotation mark without its partner") from None


def _check_command(words: tuple[str, ...]) -> tuple[str, ...]:
    if not words or not words[0]:
        raise ValueError("should name a program")
    try:
        return tuple(str(Path(word).expanduser()) if word.startswith("~/") else word for word in words)
    except RuntimeError:
        raise ValueError("begins with `~`, but there is no home folder here") from None


class HookSettings(Section):
    """A program that reads events in JSON, and answers in JSON (docs/hooks.md)."""

    name: str = Field("", description="Its name for people; not set: its command.")
    on: Annotated[
        tuple[Point, ...], OneOrMore, require_that(bool, "should name at least one point, such as `pre_tool`")
    ] = Field(
        examples=[["pre_tool"]],
        description="When GoClaw calls it, one or more of: `pre_tool`, `post_tool`, `post_tool_failure`, "
        "`session_start`, `before_compaction`, `message_in`, `message_out`.",
    )
    match: Names = Field((), description="Only for these tools: names, or `tag:x`; empty: for every tool.")
    command: Annotated[Words, BeforeValidator(_split), AfterValidator(_check_command)] = Field(
        examples=["python3 /etc/goclaw/guard.py"],
        description="The program and its arguments: a list, or a text that is split like in a shell; no shell runs.",
    )
    timeout: float = Field(DEFAULT_SECONDS, gt=0, le=MAX_SECONDS, description="Seconds until it counts as failed.")
    sandbox: bool = Field(
        True,
        description="Whether it runs in the sandbox, like `exec`; `false`: it has all rights of the daemon's user.",
    )

    @property
    def label(self) -> str:
        """The hook's name for people."""
        return self.name or shlex.join(self.command)


def contradictions(hooks: Sequence[HookSettings]) -> Iterator[tuple[Loc, str]]:
    """Yield contradictions between valid values: the place, and the fault."""
    named: set[str] = set()
    for index, hook in enumerate(hooks):
        others = [point for point in hook.on if point not in TOOL_POINTS]
        loc: Loc = ("hooks", index)
        if hook.match and others:
            why = f"is only for tools, but {others[0]} is not about tools; use a separate hook for it"
            yield (*loc, "match"), why
        if odd := next((part for part in hook.match if part.startswith((SET, NOT))), ""):
            # A guard that silently gets no events would be worse than no guard.
            yield (*loc, "match"), f"`{odd}`: should contain names of tools and `tag:x`; hooks do not support sets"
        if hook.name and hook.name in named:
            yield (*loc, "name"), "is also the name of another hook; choose another name"
        named.add(hook.name)
