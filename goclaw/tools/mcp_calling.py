"""A call to an MCP server on behalf of a person: its time-out, its progress, and the server's requests meanwhile."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeVar

from goclaw.errors import InvalidInput, ToolError
from goclaw.events import Question
from goclaw.mcp.base import CallOrigin, Elicitation
from goclaw.mcp.servers import ServerState
from goclaw.mcp.words import quoted, shown
from goclaw.supervise import background
from goclaw.toolkit.base import ToolContext
from goclaw.tools.mcp_sampling import Sampling

MAX_QUESTIONS = 20
"""Fields that a server may ask for in one call."""
MAX_TRIES = 3
"""How often a field is asked for when the answer does not fit."""
PROGRESS_PAUSE = 0.5
"""Seconds between two lines about how far a call is."""
MAX_QUESTION = 2_000

T = TypeVar("T")


class CallDeadline:
    """How long a call may take, without the time in which a person is asked."""

    def __init__(self, limit: asyncio.Timeout, seconds: float) -> None:
        self._limit = limit
        self._seconds = seconds
        self._pauses = 0

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the time-out during the block; afterwards it begins anew. Blocks may overlap."""
        self._pauses += 1
        self._limit.reschedule(None)
        try:
            yield
        finally:
            self._pauses -= 1
            if self._pauses == 0 and not self._limit.expired():
                self._limit.reschedule(asyncio.get_running_loop().time() + self._seconds)


@asynccontextmanager
async def calling(ctx: ToolContext, server: ServerState, what: str) -> AsyncIterator[CallOrigin]:
    """Within the block a call may be made for the person of `ctx`.

    Raises:
        ToolError: it took too long; its end was told to the server.
    """
    seconds = server.settings.timeout
    try:
        async with asyncio.timeout(seconds) as limit:
            call = _Calling(ctx, server, CallDeadline(limit, seconds))
            try:
                yield call.caller
            finally:
                call.end()
    except TimeoutError:
        raise ToolError(
            f"{what} of the MCP server {server.name} timed out after {seconds:g} s, and the server was told to end it "
            f"({server.place}.timeout)"
        ) from None


class _Calling:
    """One call."""

    def __init__(self, ctx: ToolContext, server: ServerState, patience: CallDeadline) -> None:
        self._ctx = ctx
        self._server = server
        self._patience = patience
        self._sampling = Sampling(ctx, server)
        self._asked = 0
        self._told_at = float("-inf")
        self._going_on: set[asyncio.Task[None]] = set()
        self.caller = CallOrigin(
            lambda asked: self._while_it_runs(lambda: self.ask(asked)),
            self.progress,
            lambda prompted: self._while_it_runs(lambda: self._sampling.complete(prompted)),
        )

    def end(self) -> None:
        """Cancel the server's open requests: the call is over."""
        for task in self._going_on:
            task.cancel()

    async def _while_it_runs(self, work: Callable[[], Awaitable[T]]) -> T:
        """Await what a server asks, which ends with the call; the call's time stands still.

        The library asks in a task of its own where the server asks by a request (until 2025-11-25).
        """
        found: list[T] = []

        async def run() -> None:
            found.append(await work())

        async with background(run(), f"a question of the MCP server {self._server.name}") as task:
            self._going_on.add(task)
            try:
                with self._patience.paused():
                    await asyncio.wait({task})
            finally:
                self._going_on.discard(task)
        if not found:
            raise ToolError("the call is over")
        return found[0]

    def progress(self, text: str) -> None:
        """Report the progress sent by the server."""
        now = self._ctx.clock.monotonic()
        if now - self._told_at >= PROGRESS_PAUSE:
            self._told_at = now
            self._ctx.progress(shown(text, 150))

    async def ask(self, asked: Elicitation) -> Mapping[str, Any] | None:
        """Put a form to the person, a question for each field."""
        if asked.url:
            return await self._ask_for_address(asked)
        fields: Mapping[str, Any] = asked.schema.get("properties", {})
        if not fields:
            agreed = await self._question(asked, "Agree?", ("yes", "no"))
            return {} if agreed == "yes" else None
        required, found = asked.schema.get("required", ()), {}
        for name, field in fields.items():
            value = await self._field(asked, name, field, required=name in required)
            if value is None and name in required:
                return None
            if value is not None:
                found[name] = value
        return found

    async def _ask_for_address(self, asked: Elicitation) -> Mapping[str, Any] | None:
        words = f"It wants you to open this address: {quoted(asked.url, MAX_QUESTION)}\n\nDid you?"
        return {} if await self._question(asked, words, ("yes", "no")) == "yes" else None

    async def _field(self, asked: Elicitation, name: str, field: Mapping[str, Any], *, required: bool) -> Any:
        title = quoted(str(field.get("title") or name), 80)
        about = quoted(str(field.get("description", "")), 500)
        options = _options(field)
        words = f"{title}{'' if required else ' (may be left out: /deny)'}" + (f": {about}" if about else "")
        for _ in range(MAX_TRIES):
            answer = await self._question(asked, words, tuple(options))
            if answer is None:
                return None
            try:
                return _value(answer, field, options)
            except InvalidInput as error:
                words = f"{title}: {error}"
        return None

    async def _question(self, asked: Elicitation, words: str, options: tuple[str, ...]) -> str | None:
        self._asked += 1
        if self._asked > MAX_QUESTIONS:
            raise ToolError(f"a call may ask at most {MAX_QUESTIONS} questions")
        server = self._server.name
        said = quoted(asked.message, MAX_QUESTION)
        text = (
            f"The MCP server {server} asks, in its own words: “{said}”\n\n{words}\n\n"
            "What you answer goes to that server. Never answer with a password."
        )
        return await self._ctx.ask(
            Question(
                id="",
                kind="question",
                asker="",
                title=f"A question of the MCP server {server}",
                text=text,
                options=options,
                free_text=not options,
            )
        )


def _options(field: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options by title, with the value of each."""
    if field.get("type") == "boolean":
        return {"yes": True, "no": False}
    titled = field.get("oneOf") or field.get("anyOf")
    if isinstance(titled, Sequence) and all(isinstance(each, Mapping) and "const" in each for each in titled):
        return {quoted(str(each.get("title") or each["const"]), 100): each["const"] for each in titled[:20]}
    values = field.get("enum")
    if isinstance(values, Sequence) and not isinstance(values, str):
        names = field.get("enumNames") or values
        return {quoted(str(name), 100): value for name, value in zip(names, values, strict=False)}
    return {}


def _value(answer: str, field: Mapping[str, Any], options: Mapping[str, Any]) -> Any:
    """Return an answer as the type that the form wants.

    Raises:
        InvalidInput: it is not.
    """
    if options:
        if answer not in options:
            raise InvalidInput(f"expected one of {', '.join(options)}")
        return options[answer]
    kind = field.get("type")
    try:
        match kind:
            case "integer":
                return int(answer)
            case "number":
                return float(answer)
            case "array":
                return [part.strip() for part in answer.split(",") if part.strip()]
    except ValueError:
        raise InvalidInput(f"expected a number, got {shown(answer, 40)!r}") from None
    return answer
