"""Requests for approval: the call with everything that it depends on under one digest, the answer, the denial.

People are asked through `TurnServices.approve`; right before the call runs the dispatcher builds the request again and
compares the digests.
"""

import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, field, replace
from typing import Any, Protocol

import orjson
from pydantic import BaseModel

from goclaw.common.config.schema import Config
from goclaw.common.core.events import Actor
from goclaw.common.core.messages import ToolCall
from goclaw.common.core.records import record
from goclaw.common.core.redact import mask
from goclaw.common.specs import Confirmation, Risk, ToolSpec
from goclaw.common.workspace import Workspace
from goclaw.errors import ToolError
from goclaw.tools.approval.guard import Finding
from goclaw.tools.approval.sentences import describe_effect, phrase_of, rest_of
from goclaw.tools.execution.sandbox.base import Sandbox
from goclaw.tools.templates import rendered

log = logging.getLogger(__name__)

OFF = "off"
"""The tier in which nothing contains a command."""
DENIED = (
    '{"summary": "Cancelled", "tool": {{ tool | json }}, "advice": "Do not try the same in another way. Go on without '
    'it, or say what you wanted and why."}'
)
"""The default result of a denied call: a template over the arguments and `tool` that makes a JSON object (the
DeniedResultTemplate of the Goat design language).
"""


def describe_refusals(tools: Sequence[str]) -> str:
    """Return the line about tools with calls refused because no person was there to ask; empty: no call was."""
    if not tools:
        return ""
    names = ", ".join(dict.fromkeys(tools))
    return f"Not done because nobody was there to approve it: {names}."


@record
class Grounds:
    """The things a call depends on besides its arguments, such as a script it runs or a file it sends."""

    facts: Mapping[str, str] = field(default_factory=dict)
    """Name and state of everything that must not change until the call runs."""
    lines: tuple[str, ...] = ()
    """A description of them for people, as Markdown."""
    pattern: tuple[str, ...] = ()
    """The parts that can be allowed permanently instead of this one call; empty: none."""
    labels: tuple[str, ...] = ()
    """Each part for people: what stands after "Always for"."""
    recipient: str = ""
    """The key of the person or chat that gets something."""

    def for_one_call(self) -> "Grounds":
        """Return the same for a call that cannot be allowed permanently."""
        return replace(self, pattern=(), labels=())


@record
class ApprovalRequest:
    """A call that needs approval."""

    call: ToolCall
    reason: str
    step: str
    digest: str
    """Names the call with everything that it rests on."""
    grounds: Grounds = field(default_factory=Grounds)
    """The grounds of the call as a person is asked about them: only with a pattern can it be allowed permanently."""
    place: str = ""
    """The containment and the workspace that a rule made for this call holds in."""
    phrase: str = ""
    """What the call wants, to stand after "wants to"."""
    rest: Mapping[str, Any] = field(default_factory=dict)
    """The arguments that do not stand whole in the phrase."""
    details: str = ""
    """The sandbox that contains it, for Details."""
    tool: str = ""
    """The tool's id, for rules and the audit log."""


def _never_lapses() -> str:
    return ""


@record
class Approval:
    """The outcome of a request for approval."""

    digest: str = ""
    """The digest of the approved request, as it was shown; empty: denied."""
    refusal: str = ""
    """The reason of a denial; empty: approved."""
    by: Actor | None = None
    """The person who approved this call; None: a rule did, or the person is unknown."""
    find_lapse: Callable[[], str] = _never_lapses
    """Returns why the approval is no longer valid, right before the call runs; empty: it is valid."""


class CallDenied(ToolError):
    """A denied or unanswered request for approval. The model gets `content` as the call's result."""

    def __init__(self, reason: str, content: str) -> None:
        super().__init__(f"denied: {reason}")
        self.content = content


class CallContext(Protocol):
    """The part of a tool's context that an approval depends on."""

    @property
    def step(self) -> str:
        """The call's name in the journal."""

    @property
    def sandbox(self) -> Sandbox:
        """Contains its commands."""

    @property
    def config(self) -> Config:
        """The configuration in force."""

    @property
    def workspace(self) -> Workspace:
        """The files that it works on."""


def make_denial(tool: str, template: str, arguments: BaseModel, reason: str) -> CallDenied:
    """Return the denial of a call of `tool`, with the result that the tool's template makes."""
    begin = f'{{"result": {mask(_json(f"denied: {reason}"))}'
    try:
        said = rendered(template, {**dict(arguments), "tool": tool}).strip()
        beside = said[1:] if isinstance(orjson.loads(said), dict) else "}"
    except ValueError as error:
        log.error("the template for denials of %s makes no JSON object: %s", tool, error)
        beside = "}"
    return CallDenied(reason, f"{begin}, {mask(beside)}" if beside.strip(" }") else f"{begin}}}")


def build_request(
    spec: ToolSpec,
    arguments: BaseModel,
    call: ToolCall,
    risk: Risk,
    context: CallContext,
    grounds: Grounds,
    finding: Finding | None = None,
) -> ApprovalRequest:
    """Build the approval request of a call. Critical calls and tools with `confirm` cannot be allowed permanently.

    `finding`: why the guard asks, which a rule for the call without it does not answer.
    """
    tier, tools = context.sandbox.tier, context.config.tools
    place = {
        "tier": tier,
        "network": tools.exec.network,
        "reach": tools.network.model_dump(mode="json"),
        "workspace": str(context.workspace.root),
    }
    everything = {
        "tool": _fingerprint(spec),
        "arguments": call.input,
        "settings": tools.model_dump(mode="json"),
        "facts": dict(grounds.facts),
        **place,
    }
    lines = grounds.lines or tuple(filter(None, (describe_effect(spec, risk),)))
    if confirm := spec.confirm:
        lines = (f"**{confirm.title}**", _question(spec.name, confirm, arguments), *lines)
    if tier == OFF:
        lines = ("**The sandbox is off: commands run without containment.**", *lines)
    if finding:
        lines = (finding.reason, *lines)
    every_time = risk is Risk.CRITICAL or confirm is not None or tier == OFF
    if every_time or finding:
        grounds = grounds.for_one_call()
    if finding and finding.host and not every_time:
        grounds = replace(grounds, pattern=(f"guard: {finding.host}",), labels=(finding.host,))
    phrase = phrase_of(spec, arguments)
    rest = rest_of(spec, phrase, call.input)
    return ApprovalRequest(
        call=call,
        reason=_reason(call.name, risk, finding),
        step=context.step,
        digest=hashlib.sha256(_canonical(everything)).hexdigest(),
        grounds=replace(grounds, lines=lines),
        place=_canonical(place).decode(),
        phrase=phrase,
        rest=rest,
        details=f"Tool `{spec.id}`, sandbox `{tier}`, network of commands `{tools.exec.network}`",
        tool=spec.id,
    )


def _reason(tool: str, risk: Risk, finding: Finding | None) -> str:
    if finding:
        return f"what was read before makes {tool} ask"
    return f"{tool} runs contained" if risk is Risk.CONTAINED else f"{tool} has {risk} risk"


def _question(tool: str, confirm: Confirmation, arguments: BaseModel) -> str:
    try:
        return rendered(confirm.prompt, dict(arguments))
    except ValueError as error:
        log.error("the question about %s cannot be put: %s", tool, error)
        raise ToolError(f"{tool} was not run: the question about it cannot be put; the log has the details") from None


def exact_grounds(call: ToolCall) -> Grounds:
    """Return the grounds of a tool that declares none: it can be allowed for exactly these arguments."""
    return Grounds(pattern=(_canonical(call.input).decode(),), labels=("exactly this",))


def _fingerprint(spec: ToolSpec) -> dict[str, Any]:
    # Without its id: what was asked for by an older GoClaw, which had none, stays approved.
    known = {name: value for name, value in asdict(spec).items() if name != "local_id"}
    return {**known, "tags": sorted(spec.tags), "injected": sorted(spec.injected)}


def _canonical(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS)


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()
