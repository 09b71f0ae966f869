"""Runs one tool call: known? → authorize → validate → consent → begin → run within its time → bound and mask.

Whatever happens, a call gets exactly one `ToolResult`; only a crash of the process and cancellation leave none.
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, islice
from typing import Any, TypeVar

from pydantic import BaseModel
from structlog.contextvars import bound_contextvars

from goclaw.access import Access, consent
from goclaw.audit import Entry
from goclaw.errors import LONGEST_NAME, DeliveryError, DiskError, GoclawError, ToolError, UnknownTool
from goclaw.events import Actor, Address, Delivery, Question, Receipt, Todo, ToolFinished, ToolStarted, TurnEvent
from goclaw.health.strays import Strays
from goclaw.messages import ToolCall, ToolResult
from goclaw.redact import mask
from goclaw.sandbox.select import settle
from goclaw.specs import Risk
from goclaw.toolkit.arguments import validate
from goclaw.toolkit.asking import denied, grounds_of, wanted
from goclaw.toolkit.base import Tool, ToolContext, ToolEnvironment
from goclaw.toolkit.consent import Approve, Consent, Denied
from goclaw.toolkit.registry import Registry

log = logging.getLogger(__name__)

T = TypeVar("T")
ValueT = TypeVar("ValueT")

RESULT_LIMIT = 100_000
"""Characters of a result or an error that reach the model, whatever the tool said (about 25,000 tokens)."""

MOST_OF_A_VALUE = 1_000
"""Characters of an argument that are looked at for the audit log, which keeps fewer."""

Ask = Callable[[Question, str], Awaitable[str | None]]
"""Ask a person something: from the question and a step name to the answer. Raises ToolError where nobody can be."""


async def _no_begin() -> None:
    """Nothing needs to be known before a call runs."""


@dataclass(frozen=True, slots=True)
class CallScope:
    """On whose behalf and from where calls are made."""

    actor: Actor
    session: str
    address: Address
    deliver: Callable[[Delivery], Awaitable[Receipt]]
    emit: Callable[[TurnEvent], None]
    approve: Approve
    ask: Ask
    keep_todos: Callable[[Sequence[Todo]], Awaitable[None]]
    begin: Callable[[], Awaitable[None]] = _no_begin
    """Called when everything is allowed and the call is about to run."""
    turn: str = ""
    step: str = ""
    """The call's name in the journal of the turn."""


@dataclass(slots=True)
class _Watch:
    """One call while it runs."""

    began: float
    """Monotonic."""
    began_to_act: bool = False
    """It is allowed, and may have had an effect."""
    foreign: bool = False
    """What the tool says, its errors included, is text from outside."""
    over: bool = False
    """Nobody waits for it any more."""

    def port(self, use: Callable[[ValueT], Awaitable[T]]) -> Callable[[ValueT], Awaitable[T]]:
        """What the call may use until it is over: a tool that was left behind speaks for no turn."""

        async def used(value: ValueT) -> T:
            if self.over:
                raise ToolError("the call was ended")
            return await use(value)

        return used


class Dispatcher:
    """The one way to run a tool."""

    def __init__(self, registry: Registry, access: Access, environment: ToolEnvironment) -> None:
        self.registry = registry
        self.strays = Strays(environment.clock)
        """Tools that ignore that they were told to end."""
        self._access = access
        self._environment = environment

    def is_idempotent(self, call: ToolCall, actor: Actor) -> bool:
        """Whether the call may be repeated after a crash. A call that will be refused anyway may."""
        tool = self.registry.find(call.name, actor)
        return tool is None or tool.spec.idempotent

    async def call(self, call: ToolCall, scope: CallScope) -> ToolResult:
        """Run `call` and return its one result; an error's content is `{"error": "…"}`."""
        with bound_contextvars(call=call.id[:LONGEST_NAME], tool=call.name[:LONGEST_NAME]):
            return await self._call(call, scope)

    async def _call(self, call: ToolCall, scope: CallScope) -> ToolResult:
        clock, reason = self._environment.clock, ""
        watch = _Watch(clock.monotonic())
        scope.emit(ToolStarted(scope.turn, scope.session, call.id, call.name, call.input))
        try:
            content, failed = await self._bounded(mask(_text(await self._run(call, scope, watch))), scope), False
        except DiskError as error:
            # Nothing was done yet, or it may be done again: the call waits with its turn until it can be recorded.
            if not watch.began_to_act or self.is_idempotent(call, scope.actor):
                raise
            content, failed = error_text(str(error)), True
        except Denied as error:
            content, failed, reason = error.content[:RESULT_LIMIT], False, str(error)
        except GoclawError as error:
            content, failed = error_text(_text(str(error))[:RESULT_LIMIT]), True
        except asyncio.CancelledError:
            self._record(call, scope, watch, "stopped")
            raise
        except Exception:
            log.exception("tool failed unexpectedly")
            content, failed = error_text(f"{call.name} failed unexpectedly; the log has the details"), True
        self._record(call, scope, watch, reason or (content if failed else ""))
        seconds = clock.monotonic() - watch.began
        scope.emit(ToolFinished(scope.turn, scope.session, call.id, call.name, content, failed, seconds))
        log.info("tool %s %s in %.1f s", call.name[:LONGEST_NAME], "failed" if failed else "finished", seconds)
        return ToolResult(call.id, call.name, content, failed, foreign=watch.began_to_act and watch.foreign)

    def _record(self, call: ToolCall, scope: CallScope, watch: "_Watch", error: str) -> None:
        decision = self._access.authorize(scope.actor, "tool.use", call.name)
        known = call.name in self.registry.names()
        ran = "ok" if not error else "failed"
        self._environment.audit(
            Entry(
                "tool.use",
                call.name,
                scope.actor,
                scope.session,
                decision.allowed and known,
                decision.rule if known else "no such tool",
                ran if watch.began_to_act else f"not run: {error}",
                _brief(call.input),
                scope.turn,
            )
        )

    async def _bounded(self, content: str, scope: CallScope) -> str:
        """What the model reads of a result; of a longer one the beginning, and where the whole is."""
        if len(content) <= RESULT_LIMIT:
            return content
        try:
            async with self._environment.blobs.open_spill(scope.actor.key) as spill:
                await spill.write(content.encode())
        except DiskError as error:
            log.warning("the whole of a long result is not kept: %s", error)
            more = len(content) - RESULT_LIMIT
            return f"{content[:RESULT_LIMIT]}\n[cut: {more:,} more characters; there is no room to keep them]"
        part = f"the first {spill.kept:,} bytes are" if spill.truncated else "the whole is"
        return (
            f"{content[:RESULT_LIMIT]}\n[cut: {len(content) - RESULT_LIMIT:,} more characters; {part} kept as "
            f'{spill.name}, open it with read {{"path": "{spill.name}"}}]'
        )

    async def _run(self, call: ToolCall, scope: CallScope, watch: "_Watch") -> str:
        tool = self.registry.find(call.name, scope.actor)
        if tool is None:
            raise UnknownTool(call.name)
        arguments = validate(tool.arguments, call.input)
        context = await self._context(call, scope, watch)
        consent = await self._obtain_consent(tool, arguments, call, context, scope)
        if consent is not None:
            await self._look_again(consent, tool, arguments, call, context)
        await scope.begin()
        if consent is not None:  # as late as can be: `begin` waits for the disk
            await self._look_again(consent, tool, arguments, call, context)
        watch.began_to_act, watch.foreign = True, tool.spec.foreign
        watch.began = self._environment.clock.monotonic()  # a person's time to think is not the tool's
        limit = None if tool.own_timeout else self._environment.config.tools.timeout
        try:
            async with asyncio.timeout(limit):
                return await self.strays.run(tool.run(context, **dict(arguments)), f"tool {call.name} of {scope.turn}")
        except TimeoutError:
            after = "" if limit is None else f" after {limit:g} s"
            raise ToolError(f"{call.name} timed out{after}") from None
        except DeliveryError as error:
            raise ToolError(f"not delivered: {error}") from error
        finally:
            watch.over = True

    async def _context(self, call: ToolCall, scope: CallScope, watch: "_Watch") -> ToolContext:
        step, numbers = scope.step or f"tool:{call.id}", count(1)
        return ToolContext(
            actor=scope.actor,
            session=scope.session,
            call_id=call.id,
            address=scope.address,
            environment=self._environment,
            workspace=await self._environment.workspace(scope.actor),
            deliver=watch.port(scope.deliver),
            ask=watch.port(lambda question: scope.ask(question, f"{step}:{next(numbers)}")),
            keep_todos=watch.port(scope.keep_todos),
            authorize=lambda action, target: self._access.authorize(scope.actor, action, target),
            turn=scope.turn,
            step=step,
        )

    async def _obtain_consent(
        self, tool: Tool, arguments: BaseModel, call: ToolCall, context: ToolContext, scope: CallScope
    ) -> Consent | None:
        """Ask, if somebody has to be; None: nobody.

        Raises:
            Denied: the answer was no, or there was none.
        """
        risk: Risk = tool.risk(arguments, context) if tool.risk else tool.spec.risk
        if not self._must_ask(call, risk, scope.actor):
            return None
        await settle(context.sandbox)
        grounds = await grounds_of(tool, arguments, call, context)
        consent = await scope.approve(wanted(tool, call, risk, context, grounds))
        if consent.refusal:
            raise denied(tool, call, consent.refusal)
        return consent

    async def _look_again(
        self, consent: Consent, tool: Tool, arguments: BaseModel, call: ToolCall, context: ToolContext
    ) -> None:
        """Whether everything still is what was agreed to: half an hour may have gone by.

        Raises:
            ToolError: it is not, or a right was taken away, which whoever agreed cannot give.
        """
        if self.registry.find(call.name, context.actor) is not tool:
            raise UnknownTool(call.name)
        await settle(context.sandbox)  # after a restart nothing is proven yet
        risk: Risk = tool.risk(arguments, context) if tool.risk else tool.spec.risk
        self._must_ask(call, risk, context.actor)
        now = wanted(tool, call, risk, context, await grounds_of(tool, arguments, call, context))
        # Last, with nothing awaited between this and the run.
        if lapsed := consent.lapsed():
            raise ToolError(f"not run: {lapsed}. Call it again to have it asked anew")
        if now.digest != consent.digest:
            raise ToolError(
                f"not run: what {call.name} rests on (a file, the configuration) changed after it was shown for "
                "approval. Call it again to have it asked anew"
            )

    def _must_ask(self, call: ToolCall, risk: Risk, actor: Actor) -> bool:
        """Whether a person has to be asked.

        Raises:
            ToolError: the call is refused, whoever allows it.
        """
        stricter = self._environment.config.policy.stricter
        mode = self._access.mode(actor)
        answer = consent(mode, risk, stricter=stricter)
        if answer == "refuse":
            rule = "the session is in plan mode" if mode == "plan" else "policy.stricter forbids that"
            raise ToolError(f"refused: {call.name} has {risk} risk, and {rule}")
        return answer == "ask"


def _brief(arguments: Mapping[str, Any]) -> str:
    """The beginning of a call's arguments, however long they are."""
    return " ".join(f"{name}={str(value)[:MOST_OF_A_VALUE]}" for name, value in islice(arguments.items(), 20))


def error_text(message: str) -> str:
    """How an error reaches the model and `goclaw tool run`: `{"error": "…"}`, masked."""
    return json.dumps({"error": mask(message)}, ensure_ascii=False)


def _text(content: str) -> str:
    """Half a surrogate pair, as in a file name that is no UTF-8, fits into no database."""
    return content if content.isascii() else content.encode(errors="replace").decode()
