"""Approval of calls: the request, the scope of an approval, and the result of a denial.

People are asked through `TurnServices.approve`; right before the call runs the dispatcher checks that nothing has
changed since the approval.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

from goclaw.common.core.events import Actor
from goclaw.common.core.messages import ToolCall
from goclaw.common.core.records import record
from goclaw.errors import ToolError

DENIED = (
    '{"summary": "Cancelled", "tool": {{ tool | json }}, "advice": "Do not try the same in another way. Go on without '
    'it, or say what you wanted and why."}'
)
"""The default result of a denied call: a template over the arguments and `tool` that makes a JSON object (the
DeniedResultTemplate of the Goat design language).
"""


def about_refused(tools: Sequence[str]) -> str:
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
    """Each part for people."""


@record
class ApprovalRequest:
    """A call that needs approval."""

    call: ToolCall
    reason: str
    step: str
    digest: str
    """Names the call with everything that it rests on."""
    lines: tuple[str, ...] = ()
    place: str = ""
    """The containment and the workspace that a rule made for this call holds in."""
    pattern: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()


def _never_lapses() -> str:
    return ""


@record
class Consent:
    """The outcome of a request for approval."""

    digest: str = ""
    """The digest of the approved request, as it was shown; empty: denied."""
    refusal: str = ""
    """Why not."""
    by: Actor | None = None
    """The person who approved this call; None: a rule did, or the person is unknown."""
    lapsed: Callable[[], str] = _never_lapses
    """Asked right before the call runs: why the consent holds no more; empty: it does."""


class CallDenied(ToolError):
    """A denied or unanswered request for approval. The model gets `content` as the call's result."""

    def __init__(self, reason: str, content: str) -> None:
        super().__init__(f"denied: {reason}")
        self.content = content
