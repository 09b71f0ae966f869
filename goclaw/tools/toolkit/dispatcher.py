"""Runs one tool call, in this order, each step a function of its own:

known and authorized → validated → hooks before → approval → its turn among the others → begun → run within its time →
bounded and masked → hooks after.

Whatever happens, a call gets exactly one `ToolResult`; only a crash of the process and cancellation leave none.
"""

import asyncio
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from pydantic import BaseModel
from structlog.contextvars import bound_contextvars

from goclaw.common.auth.access import Access
from goclaw.common.auth.audit import AuditEntry
from goclaw.common.core.events import Actor, Decision, ToolFinished, ToolStarted
from goclaw.common.core.messages import Artifact, ToolCall, ToolResult
from goclaw.common.core.redact import mask, printable, storable
from goclaw.common.core.tool_ids import short_name
from goclaw.common.health.stuck_tasks import UnresponsiveTasks
from goclaw.common.specs import Risk, ToolSpec
from goclaw.durable.store.file_labels import FileLabels
from goclaw.errors import (
    MAX_NAME,
    DeliveryError,
    DiskError,
    GoclawError,
    InvalidInput,
    MissingArguments,
    OutcomeUnknown,
    StateError,
    ToolError,
    UnknownTool,
)
from goclaw.llm.tool_calls import trimmed_schema
from goclaw.tools.approval.policy import decide
from goclaw.tools.approval.requests import Approval, CallDenied, Grounds, build_request, exact_grounds, make_denial
from goclaw.tools.execution.sandbox.select import wait_for_tier
from goclaw.tools.hooks.base import HookAnswer, HookEvent, Hooks, Point
from goclaw.tools.templates import engine_ready, hint
from goclaw.tools.toolkit.argument_repair import near_names
from goclaw.tools.toolkit.arguments import validate, with_own_names
from goclaw.tools.toolkit.base import Tool, ToolContext, ToolEnvironment
from goclaw.tools.toolkit.guarding import find_reason
from goclaw.tools.toolkit.labelling import Labelling, provenance_of
from goclaw.tools.toolkit.registry import Registry, unwrap
from goclaw.tools.toolkit.results import Result, WrongResult, file_of
from goclaw.tools.toolkit.scheduling import Scheduler, access_of, resolved
from goclaw.tools.toolkit.scope import CallOptions, CallScope, Invocation, Judgement, Refusal, Stage, Watch
from goclaw.tools.toolkit.services import Reminder

log = logging.getLogger(__name__)

RESULT_LIMIT = 100_000
"""Characters of a result or an error that reach the model, whatever the tool said (about 25,000 tokens)."""
KEPT_BACK = "a hook of the operator keeps this result back"
MAX_OF_A_VALUE = 1_000
"""Characters of an argument that are looked at for the audit log, which keeps fewer."""


class Dispatcher:
    """The one way to run a tool."""

    def __init__(
        self,
        registry: Registry,
        access: Access,
        environment: ToolEnvironment,
        hooks: Hooks | None = None,
        labels: FileLabels | None = None,
    ) -> None:
        self.registry = registry
        self.unresponsive = UnresponsiveTasks(environment.clock)
        """Tools that ignore that they were told to end."""
        self._access = access
        self._environment = environment
        self.hooks = hooks or Hooks()
        self._scheduler = Scheduler()
        self.file_labels = labels
        self._labelling = Labelling(labels)

    def is_idempotent(self, call: ToolCall, actor: Actor, agent: str = "") -> bool:
        """Whether the agent's call may be repeated after a crash. A call that will be refused anyway may."""
        tool = (registry := self.registry.of(agent)).find(registry.meant(call, actor).name, actor)
        return tool is None or tool.spec.idempotent

    async def call(self, call: ToolCall, scope: CallScope, options: CallOptions | None = None) -> ToolResult:
        """Run `call` and return its one result; an error's content is `{"error": "…"}`."""
        registry = self.registry.of(scope.agent)
        said, call = unwrap(call).name, registry.meant(call)
        if registry.lookup(call.name) is None:
            call = registry.meant(call, scope.actor)  # a near name, of a tool that the actor may use
        began = self._environment.clock.monotonic()
        watch = Watch(scope, options or CallOptions(), registry, Judgement(said), call, began)
        try:
            with bound_contextvars(call=call.id[:MAX_NAME], tool=call.name[:MAX_NAME]):
                return await self._call(call, watch)
        finally:
            watch.options.slot.end()

    async def _call(self, call: ToolCall, watch: Watch) -> ToolResult:
        reason, as_declared, outcome = "", True, watch.outcome
        try:
            content, failed = await self._run(watch), False
        except StateError as error:
            # It waits with its turn until the disk accepts writes.
            if watch.runs_steps or (isinstance(error, DiskError) and watch.is_repeatable):
                raise
            content, failed = error_text(str(error)), True
        except CallDenied as error:
            outcome.refusal = Refusal.PERSON
            content, failed, reason = error.content[:RESULT_LIMIT], False, str(error)
            outcome.hint = reason
        except GoclawError as error:
            content, failed = error_text(storable(str(error))[:RESULT_LIMIT]), True
            outcome.missed = _find_meant(error, watch)
            outcome.lacking = error.names if isinstance(error, MissingArguments) else ()
            if isinstance(error, InvalidInput):
                # GoClaw's own words about the call: a hint in marks is one that models leave
                outcome.provenance = None
        except asyncio.CancelledError:
            self._record(call, watch, "stopped")
            raise
        except WrongResult as error:
            log.error("tool %s returned something other than it declares: %s", watch.call.name, error)
            content, failed, as_declared = await self._describe_mismatch(error, watch), False, False
        except Exception:
            log.exception("tool failed unexpectedly")
            content, failed = error_text(f"{call.name} failed unexpectedly; the log has the details"), True
        self._record(watch.call, watch, reason or (content if failed else ""))
        content = "\n".join((content, *outcome.notes))
        whole = with_schemas(content, outcome.missed) if watch.options.explains and outcome.missed else content
        content = await self._after(whole, failed, watch)
        if not failed and not outcome.refusal and as_declared and content == whole:
            watch.publish()
        return await self._finish(content, failed, watch)

    async def _finish(self, content: str, failed: bool, watch: Watch) -> ToolResult:
        """Announce that the call finished, and make its result."""
        call, scope, seconds = watch.call, watch.scope, self._environment.clock.monotonic() - watch.began
        outcome, denied = watch.outcome, watch.outcome.refusal is Refusal.PERSON
        if not watch.has_begun:
            self._announce(watch)
        artifacts = await self._store_artifacts(watch)
        watch.emit(
            ToolFinished(
                *(scope.turn, scope.session, call.id, call.name, content, failed, seconds, outcome.hint, artifacts),
                denied=denied,
            )
        )
        log.info("tool %s %s in %.1f s", call.name[:MAX_NAME], "failed" if failed else "finished", seconds)
        return ToolResult(
            call.id,
            call.name,
            content,
            failed,
            foreign=outcome.provenance is not None,
            provenance=outcome.provenance,
            hint=outcome.hint,
            call_hint=outcome.call_hint,
            artifacts=artifacts,
            images=outcome.pictures,
            reminds=outcome.reminds,
            ends_turn=bool(outcome.refusal) and self._decide(watch).ends_turn,
            malformed=bool(outcome.missed),
            denied=denied,
            lacking=outcome.lacking,
        )

    def _announce(self, watch: Watch) -> None:
        call, scope = watch.call, watch.scope
        if invocation := watch.invocation:
            watch.outcome.call_hint = _hint(invocation.tool.spec.call_hint, dict(invocation.arguments))
        watch.emit(ToolStarted(scope.turn, scope.session, call.id, call.name, call.input, watch.outcome.call_hint))

    async def _store_artifacts(self, watch: Watch) -> tuple[Artifact, ...]:
        """Write artifacts to the disk. One that cannot be written is missing, and the log says so."""
        kept = []
        for kind, data in watch.outcome.attached:
            try:
                form = file_of(kind, data)
                content = mask(storable(form.text)).encode()
                blob = await self._environment.blobs.put(content, form.mime)
            except (DiskError, ValueError) as error:  # no JSON holds half a character
                log.warning("artifact %s of %s is not kept: %s", kind, watch.call.name, error)
                continue
            kept.append(Artifact(kind, blob, form.mime, form.name, len(content)))
        for each in watch.outcome.sent:
            blob = each.blob or await self._environment.blobs.put(each.text.encode(), each.mime)
            kept.append(replace(each, blob=blob))
        return tuple(kept)

    def _record(self, call: ToolCall, watch: Watch, error: str) -> None:
        scope = watch.scope
        decision = watch.judgement.decision or self._decide(watch)
        spec = watch.judgement.listed
        ran = "ok" if not error else "failed"
        self._environment.audit(
            AuditEntry(
                "tool.use",
                watch.tool_id,
                scope.actor,
                scope.session,
                decision.allowed and spec is not None,
                _rule(decision.rule, watch) if spec else "no such tool",
                ran if watch.has_begun else f"not run: {error}",
                _brief(call.input),
                scope.turn,
                spec.tags if spec else frozenset(),
            )
        )

    async def _limit(self, content: str, actor: Actor) -> str:
        """Return the result for the model; of one over the limit its beginning and the place of the whole."""
        if len(content) <= RESULT_LIMIT:
            return content
        try:
            async with self._environment.blobs.open_spill(actor.key) as spill:
                await spill.write(content.encode())
        except DiskError as error:
            log.warning("the whole of a long result is not kept: %s", error)
            more = len(content) - RESULT_LIMIT
            return f"{content[:RESULT_LIMIT]}\n[cut: {more:,} more characters; there is no room to keep them]"
        return f"{content[:RESULT_LIMIT]}\n[cut: {len(content) - RESULT_LIMIT:,} more characters; {spill.note}]"

    async def _run(self, watch: Watch) -> str:
        """Do everything up to the text that the model reads, and return the text."""
        tool = self._find_tool(watch)
        scope, outcome = watch.scope, watch.outcome
        watch.call = await scope.services.complete(tool.spec, watch.call, watch.options.step)
        # What hooks fill in is missing yet: such a call is validated when they were asked.
        given = None if tool.spec.injected else validate(tool.arguments, watch.call.input)
        invocation = await self._before(tool, given, watch)
        await engine_ready()
        watch.invocation, tool, arguments = invocation, invocation.tool, invocation.arguments
        context = await self._context(watch)
        access = tool.access(arguments, context) if tool.access else access_of(tool.spec.side_effect)
        watch.options.slot.declare(await resolved(access, context.workspace))
        approval = await self._obtain_approval(invocation, context, watch)
        async with self._scheduler.running(watch.options.slot):
            await self._check_approval(approval, invocation, context, watch)
            if not tool.spec.idempotent:
                await scope.services.intend(watch.options.step)
            # As late as can be: `intend` waits for the disk.
            await self._check_approval(approval, invocation, context, watch)
            async with self._labelling.follow(context, watch):
                value = await self._within_its_time(invocation, context, watch)
        outcome.hint = _hint(tool.spec.result_hint, {**tool.result.fields(value), "args": dict(arguments)})
        outcome.value, outcome.reminds = value, bool(tool.spec.reminder)
        outcome.pictures = value.pictures() if isinstance(value, Result) else ()
        return await self._limit(mask(storable(tool.result.text(value))), scope.actor)

    async def _describe_mismatch(self, error: WrongResult, watch: Watch) -> str:
        """Return a result that is not as declared, with a line that says so: the tool has had its effect."""
        text = watch.tool.result.text(error.value) if watch.tool else ""
        note = f"[{watch.call.name} ran, but its result is not what it declares: {error}]"
        return f"{await self._limit(mask(storable(text)), watch.scope.actor)}\n{storable(note)[:RESULT_LIMIT]}"

    def _decide(self, watch: Watch, given: Mapping[str, Any] | None = None) -> Decision:
        return self._access.authorize(watch.scope.actor, "tool.use", watch.tool_id, given)

    def _find_tool(self, watch: Watch) -> Tool:
        """Return the tool, if the actor may use it; its fixed arguments replace those in the call.

        Raises:
            UnknownTool: no such tool, or none for the actor: one text, so that the two cannot be distinguished.
        """
        call, judgement = watch.call, watch.judgement
        tool = watch.registry.lookup(call.name)
        judgement.listed = tool.spec if tool else None
        if tool:  # rules, hooks and people know one name of each argument
            call = watch.call = replace(call, input=with_own_names(tool.arguments, call.input))
        decision = judgement.decision = self._decide(watch, call.input)
        if tool and decision.allowed and not self._access.select(watch.scope.selections, tool.spec):
            decision = judgement.decision = replace(decision, allowed=False, rule="tools of the agent")
        if tool is None or not decision.allowed:
            watch.outcome.refusal = Refusal.RULE if tool else None
            raise UnknownTool(judgement.said)
        if decision.input is not None:
            watch.call = replace(call, input=dict(decision.input))
        return tool

    async def _before(self, tool: Tool, arguments: BaseModel | None, watch: Watch) -> Invocation:
        """Ask the hooks; their changes are authorized and validated as if they were the model's.

        Raises:
            ToolError: one of them forbids the call.
        """
        answer = HookAnswer()
        if "pre_tool" in self.hooks.points:
            answer = await self.hooks.fire(_event("pre_tool", tool, watch))
            if answer.deny:
                watch.outcome.refusal = Refusal.RULE
                raise ToolError(f"denied by hook: {answer.deny}")
            self._remind(answer, watch.scope)
            if answer.input is not None:
                watch.call = replace(watch.call, input=dict(answer.input))
                tool, arguments = self._find_tool(watch), None
        given = arguments or validate(tool.arguments, watch.call.input, tool.spec.injected, answer.inject)
        return Invocation(tool, given)

    async def _after(self, content: str, failed: bool, watch: Watch) -> str:
        """Fire the hooks after the call; they may withhold the result from the model."""
        point: Point = "post_tool_failure" if failed or watch.outcome.refusal else "post_tool"
        if watch.tool is None or point not in self.hooks.points:
            return content
        answer = await self.hooks.fire(_event(point, watch.tool, watch, content))
        self._remind(answer, watch.scope)
        if not answer.suppress:
            return content
        watch.outcome.pictures = ()
        return error_text(KEPT_BACK) if failed else f"[{KEPT_BACK}]"

    def _remind(self, answer: HookAnswer, scope: CallScope) -> None:
        if answer.context:
            scope.services.reminders.add(Reminder(f"hook: {answer.context}", answer.context))

    async def _within_its_time(self, invocation: Invocation, context: ToolContext, watch: Watch) -> Any:
        """Run the tool within its time, and return the declared result."""
        tool = invocation.tool
        self._announce(watch)
        watch.stage, watch.outcome.provenance = Stage.RUNNING, provenance_of(tool.spec)
        watch.began = self._environment.clock.monotonic()  # a person's time to think is not the tool's
        limit = watch.scope.seconds
        if not tool.own_timeout:
            limit = min(filter(None, (limit, tool.spec.timeout)), default=self._environment.config.tools.timeout)
        try:
            async with watch.scope.limit(limit) if tool.own_timeout else asyncio.timeout(limit):
                work = tool.call(context, invocation.arguments)
                name = f"tool {tool.spec.name} of {watch.scope.turn}"
                value = await (work if tool.runs_steps else self.unresponsive.run(work, name))
        except TimeoutError:
            after = "" if limit is None else f" after {limit:g} s"
            raise ToolError(f"{tool.spec.name} timed out{after}") from None
        except DeliveryError as error:
            raise ToolError(f"not delivered: {error}") from error
        finally:
            watch.stage = Stage.OVER
        return tool.result.checked(value)

    async def _context(self, watch: Watch) -> ToolContext:
        scope = watch.scope
        home = await self._environment.workspace(scope.actor, scope.session)
        return ToolContext(
            actor=scope.actor,
            session=scope.session,
            call_id=watch.call.id,
            address=scope.address,
            environment=self._environment,
            workspace=scope.workspace or home,
            port=watch,
            compress=watch.options.compress,
            own_workspace=home,
            turn=scope.turn,
        )

    async def _obtain_approval(self, invocation: Invocation, context: ToolContext, watch: Watch) -> Approval | None:
        """Ask a person for approval where the call needs it; None: it needs none.

        Raises:
            CallDenied: the answer was no, or there was no answer.
        """
        tool, arguments = invocation.tool, invocation.arguments
        risk = _risk(invocation, context)
        asks = self._must_ask(tool, risk, watch)
        finding = await find_reason(self._access, invocation, context, watch)
        if finding and asks:
            finding = replace(finding, host="")  # the policy asks about more than the address
        watch.judgement.finding = finding
        if not (asks or finding):
            return None
        await wait_for_tier(context.sandbox)
        grounds = await _find_grounds(invocation, watch.call, context)
        asked = build_request(tool.spec, arguments, watch.call, risk, context, grounds, finding)
        if self._access.always_asks(context.actor, tool.spec):  # by no stored rule
            asked = replace(asked, grounds=asked.grounds.for_one_call())
        approval = await watch.scope.services.approve(asked)
        if approval.refusal:
            raise make_denial(tool.spec.name, tool.denied, arguments, approval.refusal)
        watch.judgement.approver = approval.by
        return approval

    async def _check_approval(
        self, approval: Approval | None, invocation: Invocation, context: ToolContext, watch: Watch
    ) -> None:
        """Check again that the call is still the approved one: half an hour may have gone by.

        Raises:
            ToolError: it is not, or a right was taken away, which the approver cannot give.
        """
        call, tool = watch.call, invocation.tool
        if approval is None:
            if self._must_ask(tool, _risk(invocation, context), watch):
                raise ToolError("not run: it has to be asked for now. Call it again to have it asked")
            return
        if self._find_tool(watch) is not tool:
            raise UnknownTool(watch.judgement.said)
        changed, watch.call = watch.call.input != call.input, call
        await wait_for_tier(context.sandbox)  # after a restart nothing is proven yet
        risk = _risk(invocation, context)
        self._must_ask(tool, risk, watch)
        grounds = await _find_grounds(invocation, call, context)
        finding = watch.judgement.finding
        now = build_request(tool.spec, invocation.arguments, call, risk, context, grounds, finding)
        # Last, with nothing awaited between this and the run.
        if lapsed := approval.find_lapse():
            raise ToolError(f"not run: {lapsed}. Call it again to have it asked anew")
        if changed or now.digest != approval.digest:
            raise ToolError(
                f"not run: what {call.name} rests on (a file, the configuration) changed after it was shown for "
                "approval. Call it again to have it asked anew"
            )

    def _must_ask(self, tool: Tool, risk: Risk, watch: Watch) -> bool:
        """Whether the call needs a person's approval.

        Raises:
            ToolError: the call is refused, and no approval can allow it.
        """
        scope = watch.scope
        answer = decide(self._access, scope.actor, tool.spec, risk, chosen=scope.services.chosen_mode())
        if answer == "refuse":
            watch.outcome.refusal = Refusal.RULE
            rule = "the session is in plan mode" if watch.mode() == "plan" else "the rules of this gateway forbid that"
            raise ToolError(f"refused: {tool.spec.name} has {risk} risk, and {rule}")
        return answer == "ask"


def _rule(rule: str, watch: Watch) -> str:
    """Return the rule that decided, for the audit log, with what the guard found."""
    finding = watch.judgement.finding
    return f"{rule}; guard: {finding.reason}" if finding else rule


def _risk(invocation: Invocation, context: ToolContext) -> Risk:
    """Return the risk of this very call."""
    tool = invocation.tool
    return tool.spec.at_least(tool.risk(invocation.arguments, context) if tool.risk else tool.spec.risk)


async def _find_grounds(invocation: Invocation, call: ToolCall, context: ToolContext) -> Grounds:
    find = invocation.tool.grounds
    return await find(invocation.arguments, context) if find else exact_grounds(call)


def _find_meant(error: GoclawError, watch: Watch) -> Sequence[ToolSpec]:
    """Return the tools that a call may have meant if only its form is wrong; none: something else is wrong, too.

    A tool that is not for the actor is treated as one that does not exist.
    """
    if isinstance(error, InvalidInput) and watch.judgement.listed and not watch.has_begun:
        return [watch.judgement.listed]
    if isinstance(error, UnknownTool):
        usable = {spec.name: spec for spec in watch.usable()}
        return [usable[name] for name in near_names(watch.judgement.said, list(usable))]
    return []


def _event(point: Point, tool: Tool, watch: Watch, text: str = "") -> HookEvent:
    spec, scope, call = tool.spec, watch.scope, watch.call
    name = short_name(spec.id)
    return HookEvent(point, scope.session, scope.actor, name, spec.tags, call.id, call.input, text, spec.id)


def _brief(arguments: Mapping[str, Any]) -> str:
    """Return the beginning of a call's arguments."""
    return " ".join(f"{name}={str(value)[:MAX_OF_A_VALUE]}" for name, value in islice(arguments.items(), 20))


def _hint(template: str, values: Mapping[str, Any]) -> str:
    """Return a line for people without control characters: files and models choose its words."""
    return mask(printable(storable(hint(template, values))))


def error_text(message: str) -> str:
    """Return an error as the model and `goclaw tool run` get it: `{"error": "…"}`, masked."""
    return json.dumps({"error": mask(message)}, ensure_ascii=False)


def with_schemas(content: str, tools: Sequence[ToolSpec]) -> str:
    """Return an error's text with the schemas of the tools that the call may have meant."""
    schemas = {tool.name: trimmed_schema(tool.schema) for tool in tools}
    return json.dumps({**json.loads(content), "schemas": schemas}, ensure_ascii=False)


def outcome_unknown(call: ToolCall) -> ToolResult:
    """Return the result of a call that a crash cut and that must not run twice."""
    return ToolResult(call.id, call.name, error_text(str(OutcomeUnknown(call.name))), is_error=True)
