"""Approval of tool calls made by a program: refused, or put to the person at that program.

The client's report of its person's answer cannot be verified here. So this is off unless the configuration enables it
(`mcp.server.elicitation`), and only for users who may answer such questions anyway. In protocol versions up to
2025-11-25 the server asks on the open connection; since 2026-07-28 the answer to the call is a question, and the client
calls again.
"""

import asyncio
import secrets
from dataclasses import dataclass, field
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolRequestParams, ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from goclaw.common.auth.audit import AuditEntry
from goclaw.common.auth.tokens import digest_of
from goclaw.common.core.events import Actor
from goclaw.common.core.records import BoundedDict, record
from goclaw.common.core.redact import mask
from goclaw.conversation.questions.question_messages import asking_text, heading
from goclaw.errors import ToolError
from goclaw.gateway.servers.mcp.backend import McpBackend
from goclaw.tools.approval.requests import Approval, ApprovalRequest

KEY = "approval"
NO_FIELDS: dict[str, Any] = {"type": "object", "properties": {}}
"""The form of a question: accepting or declining it is the answer."""
FACT = "mcp questions"
"""Name of the stored facts: open questions; the hash of the token follows."""
MAX_OPEN = 1_000
"""Questions that may be open between two calls; the oldest are dropped."""
IN_THE_MIDDLE = (
    "a client with this protocol revision (2026-07-28 and later) cannot be asked while an agent works for it: let the "
    "tool run without asking (`policy.auto_allow`), or ask the agent in a chat or a terminal, where somebody can "
    "approve"
)
REMEDY = (
    "let the tool run without asking (`policy.auto_allow`), ask the agent in a chat or a terminal, where somebody can "
    "approve, or set `mcp.server.elicitation` if the client asks its user questions"
)


@record
class PendingApproval:
    """A question that a client takes to its person between two calls."""

    digest: str = ""
    """The digest of the call that it is about."""
    agreed: frozenset[str] = frozenset()
    """Approvals given earlier in the same chain of calls: a tool and the tool that it passes the call to may both ask.
    """


class Approvals:
    """Approval of calls, with the questions that are open."""

    def __init__(self, backend: McpBackend) -> None:
        self._backend = backend
        self._open: BoundedDict[str, PendingApproval] = BoundedDict(MAX_OPEN)
        """By the question's token. Each is good for one answer."""

    def may_decide(self, actor: Actor) -> bool:
        """Return whether the actor may answer a question about a call of its own."""
        return self._backend.access.authorize(actor, "question.answer", actor.key).allowed

    async def open(self, asked: PendingApproval) -> str:
        """Return a token for a new question."""
        word, facts = secrets.token_urlsafe(16), self._backend.facts
        if facts is None:
            self._open[word] = asked
            return word
        now, known = self._backend.environment.clock.now(), await facts.facts(FACT)
        latest_first = sorted(known, key=lambda part: -float(known[part]["until"]))
        for number, part in enumerate(latest_first):
            if number >= MAX_OPEN - 1 or float(known[part]["until"]) <= now:
                await facts.unlearn(f"{FACT}:{part}")
        until = now + 60 * self._backend.environment.config.policy.approval_minutes
        row = {"digest": asked.digest, "agreed": sorted(asked.agreed), "until": until}
        await facts.learn(f"{FACT}:{digest_of(word)}", row)
        return word

    async def pop(self, word: str) -> PendingApproval:
        """Remove and return the question of a token; empty if it is unknown or expired."""
        if (facts := self._backend.facts) is None:
            return self._open.pop(word, PendingApproval())
        name = f"{FACT}:{digest_of(word)}"
        row = await facts.fact(name) if word else None
        # Removed once, by whichever gateway is first.
        if row is None or not await facts.unlearn(name) or float(row["until"]) <= self._backend.environment.clock.now():
            return PendingApproval()
        return PendingApproval(row["digest"], frozenset(row["agreed"]))


@dataclass(eq=False)
class ClientQuestion:
    """Asks the client's person about one call."""

    approvals: Approvals
    backend: McpBackend
    actor: Actor
    ctx: ServerRequestContext[Any, Any]
    params: CallToolRequestParams
    asks: InputRequiredResult | None = None
    """The question that the client puts to its person before it calls again; it replaces the call's result."""
    _agreed: set[str] = field(default_factory=set)
    _answered: PendingApproval | None = None
    """The question put to the client before this call; looked up once."""

    async def decide(self, wanted: ApprovalRequest, agent: str = "") -> Approval:
        """Return the approval of a call.

        Raises:
            ToolError: no person can be asked, or the answer comes with the next call.
        """
        if not self._can_ask():
            raise ToolError(f"approval required: {wanted.reason}; {REMEDY}")
        if self.ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            answer = await self._answer_to(wanted)
        else:
            answer = await self._ask(wanted, agent)
        self._record(wanted, answer)
        if answer != "accept":
            return Approval(refusal=f"the user did not approve {wanted.call.name}")
        return Approval(wanted.digest, find_lapse=self._find_lapse)

    async def decide_for_agent(self, wanted: ApprovalRequest, agent: str) -> Approval:
        """Return the approval of a call of the agent with this name, which works for the client's call.

        Newer clients are asked between two calls, and called again the agent would start over: they are not asked.

        Raises:
            ToolError: no person can be asked.
        """
        if self.ctx.protocol_version in MODERN_PROTOCOL_VERSIONS and self._can_ask():
            raise ToolError(f"approval required: {wanted.reason}; {IN_THE_MIDDLE}")
        return await self.decide(wanted, agent)

    def _find_lapse(self) -> str:
        return "" if self.approvals.may_decide(self.actor) else "the person who approved it may no longer do so"

    def _can_ask(self) -> bool:
        known = self.ctx.session.client_capabilities
        able = known.elicitation if known else None
        # A client that names neither form nor address means forms (specification, Elicitation, Capabilities).
        has_forms = able is not None and (able.form is not None or able.url is None)
        return self.backend.settings.elicitation and has_forms and self.approvals.may_decide(self.actor)

    async def _ask(self, wanted: ApprovalRequest, agent: str) -> str:
        try:
            async with asyncio.timeout(60 * self.backend.environment.config.policy.approval_minutes):
                found = await self.ctx.session.elicit_form(
                    _question(wanted, agent), NO_FIELDS, related_request_id=self.ctx.request_id
                )
        except (TimeoutError, MCPError, ValidationError):
            return "cancel"
        return found.action

    async def _answer_to(self, wanted: ApprovalRequest) -> str:
        """Return the person's answer as the client reports it; raises ToolError until then: `asks` has the question."""
        if self._answered is None:
            self._answered = await self.approvals.pop(self.params.request_state or "")
            self._agreed |= self._answered.agreed
        given = (self.params.input_responses or {}).get(KEY)
        if wanted.digest in self._agreed:
            return "accept"
        if isinstance(given, ElicitResult) and self._answered.digest == wanted.digest:
            if given.action == "accept":
                self._agreed.add(wanted.digest)
            return given.action
        form = ElicitRequestFormParams(message=_question(wanted), requested_schema=NO_FIELDS)
        self.asks = InputRequiredResult(
            input_requests={KEY: ElicitRequest(params=form)},
            request_state=await self.approvals.open(PendingApproval(wanted.digest, frozenset(self._agreed))),
        )
        raise ToolError(f"approval required: {wanted.reason}; the client was asked")

    def _record(self, wanted: ApprovalRequest, answer: str) -> None:
        tool, session = wanted.tool, self.backend.session(self.actor)
        rule, tags = "mcp.server.elicitation", self.backend.access.tags(tool)
        self.backend.environment.audit(
            AuditEntry("tool.approval", tool, self.actor, session, answer == "accept", rule, answer, tags=tags)
        )


def _question(wanted: ApprovalRequest, agent: str = "") -> str:
    return mask(f"{heading(wanted, '', agent=agent)}\n\n{asking_text(wanted)}")
