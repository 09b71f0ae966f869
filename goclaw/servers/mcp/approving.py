"""Calls that ask first, made by a program: refused, or put to the person at that program.

What the client says of its person's answer cannot be verified here. So it is off unless the configuration wants it
(`mcp.server.elicitation`), and only for who may answer such questions anyway. In protocol versions up to 2025-11-25 the
server asks on the open connection; since 2026-07-28 the answer to the call is a question, and the client calls again.
"""

import asyncio
import secrets
from collections import OrderedDict
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CallToolRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from goclaw.audit import Entry
from goclaw.errors import ToolError
from goclaw.events import Actor
from goclaw.redact import mask
from goclaw.servers.mcp.ports import McpPorts
from goclaw.sessions.wording import asking_text
from goclaw.toolkit.consent import Consent, Wanted

KEY = "approval"
NO_FIELDS: dict[str, Any] = {"type": "object", "properties": {}}
"""The form that is put: yes or no is how it is left."""
MOST_OPEN = 1_000
"""Questions that may be open between two calls; the oldest go."""
REMEDY = (
    "let it run without asking (`policy.auto_allow`), ask the agent in a chat or a terminal, where somebody can say "
    "yes, or set `mcp.server.elicitation` where the client puts questions to its person"
)


class Approvals:
    """Decides about calls that ask first."""

    def __init__(self, ports: McpPorts) -> None:
        self._ports = ports
        self._open: OrderedDict[str, str] = OrderedDict()
        """By a question's own word: the digest of the call that it is about. Each is good for one answer."""

    def may_decide(self, actor: Actor) -> bool:
        """Whether the actor may answer a question about a call of its own."""
        return self._ports.access.authorize(actor, "question.answer", actor.key).allowed

    def open(self, digest: str) -> str:
        """A word for a new question."""
        word = secrets.token_urlsafe(16)
        self._open[word] = digest
        while len(self._open) > MOST_OPEN:
            self._open.popitem(last=False)
        return word

    def take(self, word: str) -> str:
        """The digest that a question was about; empty where there is no such question (any more)."""
        return self._open.pop(word, "")


class Approval:
    """Decides about one call."""

    def __init__(
        self, approvals: Approvals, ports: McpPorts, ctx: ServerRequestContext[Any, Any], params: CallToolRequestParams
    ) -> None:
        self._approvals = approvals
        self._ports = ports
        self._ctx = ctx
        self._params = params
        self.asks: InputRequiredResult | None = None
        """What the client is to ask its person before it calls again; it takes the place of the call's result."""

    async def decide(self, actor: Actor, wanted: Wanted) -> Consent:
        """What comes of asking about a call. Implements `Approve`.

        Raises:
            ToolError: nobody can be asked, or will be before the next call.
        """
        if not self._can_ask(actor):
            raise ToolError(f"approval required: {wanted.reason}; {REMEDY}")
        if self._ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            answer = self._answer_to(wanted)
        else:
            answer = await self._asked(wanted)
        self._record(actor, wanted, answer)
        if answer != "accept":
            return Consent(refusal=f"the user did not approve {wanted.call.name}")
        return Consent(
            wanted.digest,
            lapsed=lambda: "" if self._approvals.may_decide(actor) else "whoever approved it may not do so any more",
        )

    def _can_ask(self, actor: Actor) -> bool:
        known = self._ctx.session.client_capabilities
        able = known.elicitation if known else None
        # A client that names neither form nor address means forms (specification, Elicitation, Capabilities).
        has_forms = able is not None and (able.form is not None or able.url is None)
        return self._ports.config.mcp.server.elicitation and has_forms and self._approvals.may_decide(actor)

    async def _asked(self, wanted: Wanted) -> str:
        try:
            async with asyncio.timeout(60 * self._ports.config.policy.approval_minutes):
                found = await self._ctx.session.elicit_form(
                    _question(wanted), NO_FIELDS, related_request_id=self._ctx.request_id
                )
        except (TimeoutError, MCPError, ValidationError):
            return "cancel"
        return found.action

    def _answer_to(self, wanted: Wanted) -> str:
        """What the client says that its person said.

        Raises:
            ToolError: it was not asked yet; `asks` has the question.
        """
        given = (self._params.input_responses or {}).get(KEY)
        if isinstance(given, ElicitResult) and self._approvals.take(self._params.request_state or "") == wanted.digest:
            return given.action
        self.asks = InputRequiredResult(
            input_requests={
                KEY: ElicitRequest(
                    params=ElicitRequestFormParams(message=_question(wanted), requested_schema=NO_FIELDS)
                )
            },
            request_state=self._approvals.open(wanted.digest),
        )
        raise ToolError(f"approval required: {wanted.reason}; the client was asked")

    def _record(self, actor: Actor, wanted: Wanted, answer: str) -> None:
        self._ports.audit(
            Entry(
                "tool.approval",
                wanted.call.name,
                actor,
                self._ports.session(actor),
                answer == "accept",
                "mcp.server.elicitation",
                answer,
                tags=self._ports.access.tags(wanted.call.name),
            )
        )


def _question(wanted: Wanted) -> str:
    return mask(f"May {wanted.call.name} run?\n\n{asking_text(wanted)}")
