"""Dialogue of `goclaw setup`: questions on standard output, answers from standard input, a line each; and its results.

Not `typer.prompt`: it asks for hidden answers at the terminal even when they are piped, and an answer cannot be
awaited together with another event.
"""

import asyncio
import os
import termios
from collections.abc import Coroutine, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
from pydantic import TypeAdapter, ValidationError

from goclaw.common.config.load import Loaded
from goclaw.common.config.values import Secret
from goclaw.common.core.clock import Clock
from goclaw.common.core.records import record
from goclaw.common.core.redact import mask, printable, remember
from goclaw.errors import ConfigError
from goclaw.llm.served import CallStyle
from goclaw.program.cli.rights import Wanted

STDIN = 0
CHUNK = 4096
MAX_ANSWER = 64_000
"""Bytes of a line that are read: beyond that it is the wrong file."""

EventT = TypeVar("EventT")


class Dialogue:
    """Asks at the descriptor `source`. From its end on every question is skipped; with `silent` from the beginning."""

    def __init__(self, source: int = STDIN, *, silent: bool = False) -> None:
        self._source = source
        self._read = b""
        self._ended = self.silent = silent

    def print(self, text: str = "", *, end: str = "\n") -> None:
        """Print; no secret, and nothing that a terminal would obey."""
        print(printable(mask(text)), end=end, flush=True)

    async def ask(self, question: str) -> str:
        """Read one line, without the spaces around it; empty when it was skipped."""
        if self._ended:
            return ""
        self.print(f"{question} ", end="")
        while b"\n" not in self._read and len(self._read) < MAX_ANSWER and not self._ended:
            await readable(self._source)
            more = os.read(self._source, CHUNK)
            self._ended = not more
            self._read += more
        line, _, self._read = self._read.partition(b"\n")
        if not os.isatty(self._source):
            self.print()  # no Enter of a person ended the line of the question
        return line.decode(errors="replace").strip()

    async def ask_hidden(self, question: str) -> str:
        """Read a secret: a terminal does not show it. Its echo is switched on again in any case."""
        if self._ended or not os.isatty(self._source):
            return await self.ask(question)
        before = termios.tcgetattr(self._source)
        unseen = [*before[:3], before[3] & ~termios.ECHO, *before[4:]]
        termios.tcsetattr(self._source, termios.TCSADRAIN, unseen)
        try:
            return await self.ask(question)
        finally:
            termios.tcsetattr(self._source, termios.TCSADRAIN, before)
            print(flush=True)  # the Enter was not shown either

    async def ask_beside(self, question: str, event: Coroutine[Any, Any, EventT]) -> EventT | str:
        """Return the result of `event`, or the answer if that comes first; the other one is cancelled.

        Raises:
            Exception: any error of `event`.
        """
        happening = asyncio.create_task(event)
        answering = asyncio.create_task(self.ask(question))
        try:
            await asyncio.wait([happening, answering], return_when=asyncio.FIRST_COMPLETED)
            if answering.done():
                return answering.result()
            self.print()
            return happening.result()
        finally:
            for task in (happening, answering):
                task.cancel()
            await asyncio.wait([happening, answering])


async def readable(source: int) -> None:
    """Return when something can be read from the descriptor, or it has ended."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    try:
        loop.add_reader(source, ready.set)
    except PermissionError:
        return  # a file: always ready, so that epoll refuses it
    try:
        await ready.wait()
    finally:
        loop.remove_reader(source)


MAX_SECRET_BYTES = 64_000
"""As in the secrets folder (`config.sources`)."""
_SECRET: TypeAdapter[object] = TypeAdapter(Secret)


@record
class Scene:
    """Dependencies of every step."""

    dialogue: Dialogue
    loaded: Loaded
    """The configuration as it is before anything is written."""
    http: aiohttp.ClientSession
    clock: Clock


@record
class ModelChoice:
    """A model that answered."""

    spec: str
    key: str = field(default="", repr=False)
    """A new key; empty when none is needed, or the known one did."""
    calls: CallStyle = field(default=CallStyle.UNTRIED, compare=False)
    """How the model called a tool."""
    base_url: str = ""
    """The address of its server; empty: where the provider is looked for anyway."""

    @property
    def provider(self) -> str:
        return self.spec.partition(":")[0]


@record
class BotChoice:
    """A bot that answered."""

    name: str
    """`@claw_bot`."""
    token: str = field(default="", repr=False)
    """A new token; empty: keep the configured one."""


@record
class AdminAnswer:
    """The user who gets the role `admin`."""

    key: str
    """`telegram:<numeric user id>`."""
    name: str = ""


@record
class SetupAnswers:
    """All decisions; None for skipped ones."""

    model: ModelChoice | None = None
    bot: BotChoice | None = None
    owner: AdminAnswer | None = None
    people: Sequence[Wanted] = ()
    """Others, each by a preset."""
    invited: Sequence[Wanted] = ()
    """Others who come in by an invitation."""
    ollama: str = ""
    """Address of Ollama; empty: its usual address, or not found."""


def read_secret(path: Path) -> str:
    """Return the secret in a file, which may also be a pipe (`<(pass show telegram)`).

    Raises:
        ConfigError: it cannot be read, or holds no secret.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_SECRET_BYTES)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    return checked_secret(content.decode(errors="replace").strip(), str(path))


def checked_secret(text: str, place: str) -> str:
    """Return `text` if it can be a secret; from now on it is masked everywhere.

    Raises:
        ConfigError: it cannot; the message begins with `place` and does not repeat the text.
    """
    remember(text)
    try:
        _SECRET.validate_python(text)
    except ValidationError as error:
        raise ConfigError(f"{place}: {error.errors()[0]['msg'].removeprefix('Value error, ')}") from None
    return text


async def ask_secret(dialogue: Dialogue, question: str) -> str:
    """Return a secret, asked for until it can be one; empty when it was skipped."""
    while typed := await dialogue.ask_hidden(question):
        try:
            return checked_secret(typed, "   ✗ what you typed")
        except ConfigError as error:
            dialogue.print(str(error))
    return ""
