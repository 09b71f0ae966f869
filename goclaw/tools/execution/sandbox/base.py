"""The sandbox interface: the seam between code that runs commands and the tier that contains them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import field
from pathlib import Path
from typing import Any, Literal, Protocol

from goclaw.common.core.records import record

Network = Literal["none", "proxy", "host"]
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]
"""Answers one connection to its end."""

NONE = "none"
"""The tier where nothing can contain commands."""


@record
class Limits:
    """Resource limits of one command; each applies to every process of its tree."""

    cpu_seconds: int = 300
    memory_bytes: int = 2 << 30
    processes: int = 256
    file_bytes: int = 1 << 30


@record
class SandboxCommand:
    """A command to run."""

    argv: tuple[str, ...]
    cwd: Path
    """An existing folder inside `Policy.workspace`."""
    env: Mapping[str, str]
    """The whole environment: nothing is inherited."""
    stdin: bytes | int | None = None
    """Bytes, or the descriptor of an open file, which stays the caller's; None: standard input is closed."""
    keeps_input: bool = False
    """Standard input is a pipe that `Process.write` fills until `Process.close_input`; `stdin` has no part in it."""
    stderr: int | None = None
    """A descriptor that takes standard error, and stays the caller's; None: it is merged into the output."""
    repeats: bool = False
    """Whether more commands with the same folder, environment and policy are likely to follow soon."""


@record
class Policy:
    """The paths and network that a command may use."""

    workspace: Path
    """Writable, if `writes`; all else of the machine is read-only or invisible."""
    shared: Path | None = None
    """A folder elsewhere that is as writable as the workspace."""
    hidden: tuple[Path, ...] = ()
    """Folders that must not be visible inside, whatever else is mounted (the state folder)."""
    readable: tuple[Path, ...] = ()
    """More files, each visible and read-only: programs of the operator's that lie elsewhere."""
    network: Network = "none"
    proxy: Serve | None = None
    """With the network `proxy`: who answers what the command connects to."""
    limits: Limits = field(default_factory=Limits)
    writes: bool = True
    """Whether the command may change anything in the workspace, and in the shared folder."""

    @property
    def workspaces(self) -> tuple[Path, ...]:
        """The workspace, and the shared folder if there is one."""
        return (self.workspace, self.shared) if self.shared else (self.workspace,)


class Process(Protocol):
    """A command that runs."""

    @property
    def output(self) -> AsyncIterator[bytes]:
        """Standard output as it comes, with standard error unless `SandboxCommand.stderr` takes that.

        It ends when the whole tree has closed it.
        """
        ...

    async def wait(self) -> int:
        """Return the exit code; 128 + signal number for a command that a signal ended."""
        ...

    async def write(self, data: bytes) -> None:
        """Write all of `data` to a command that `keeps_input`; waits while the command does not read.

        Raises:
            BrokenPipeError: the pipe is closed, has no reader, or never existed.
        """
        ...

    def close_input(self) -> None:
        """Close the command's standard input. Does nothing if it is closed already."""
        ...

    async def kill(self) -> None:
        """End the whole tree now, detached and double-forked descendants included; returns when they are dead."""
        ...


class Sandbox(Protocol):
    """A tier of containment that was proven to work on this machine."""

    @property
    def tier(self) -> str:
        """`bubblewrap`, `broker` or `off`, as `/status` and doctor show it; see `select` for earlier values."""
        ...

    def run(self, command: SandboxCommand, policy: Policy) -> AbstractAsyncContextManager[Process]:
        """Start a command; leaving the block kills the rest of its tree.

        Raises:
            SandboxUnavailable: it could not be started contained. It never runs uncontained instead.
        """
        ...


@record
class Tier:
    """A line of the catalogue: one way to contain commands."""

    name: str
    open: Callable[[], AbstractAsyncContextManager[Sandbox]]
    """Raises SandboxUnavailable on entering when this machine lacks what it needs."""
    describe: Callable[[], str]
    """Return its basis and weaknesses, for doctor: `0.8.0`, `Landlock ABI 7, seccomp; …`."""
    remedy: str
    """The remedy when it does not work here."""


Words = tuple[str | None, ...]
"""A command and its arguments; None for a word that only the shell will know."""


Part = tuple[tuple[str, ...], ...]
"""A pipeline: its commands, each with all its words."""


class Unclear(Exception):
    """The commands of a line cannot be known; the message says why."""


@record
class ResolvedCommand:
    """One command of a line."""

    words: Words

    @property
    def name(self) -> str:
        return self.words[0] or ""


@record
class Grammar:
    """A line of the catalogue: finds the commands of a shell line."""

    commands_of: Callable[[str], Sequence[ResolvedCommand]]
    """Raises Unclear."""
    parts_of: Callable[[str], Sequence[Part]]
    """Return the parts of a line that can be allowed permanently, each by itself. Raises Unclear."""
    shown_by: Callable[[str], tuple[str, ...]]
    """The command whose output a line shows, with its words; a pattern for files stays as it is. Raises Unclear."""
