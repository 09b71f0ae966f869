"""What is asked before a call runs, what a yes holds for, and what the model reads of a no.

Nothing is asked here: whoever can ask people implements `Approve`, and the dispatcher looks again, right before the
call runs, whether everything still is what was approved.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field

from goclaw.errors import ToolError
from goclaw.events import Actor
from goclaw.messages import ToolCall
from goclaw.records import record

DENIED_MARK = '{"result": "denied: '
"""How the result of a denied call begins; `agent.policy` counts them."""
DENIED = (
    '{"summary": "Cancelled", "tool": {{ tool | json }}, "advice": "Do not try the same in another way. Go on without '
    'it, or say what you wanted and why."}'
)
"""What the model reads of a denied call unless its tool says otherwise: a template over the arguments and `tool` that
makes a JSON object (the DeniedResultTemplate of the Goat design language)."""


@record
class Grounds:
    """What a call rests on besides its arguments, as its tool says: a script that it runs, a file that it sends."""

    facts: Mapping[str, str] = field(default_factory=dict)
    """Name and state of everything that must not change until the call runs."""
    lines: tuple[str, ...] = ()
    """What a person should know of them, as Markdown."""
    pattern: tuple[str, ...] = ()
    """What may be allowed for good in place of this very call, each part by itself; empty: nothing."""
    labels: tuple[str, ...] = ()
    """Each part for people."""


@record
class ApprovalRequest:
    """A call that somebody has to agree to."""

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


def _for_ever() -> str:
    return ""


@record
class Consent:
    """What came of asking."""

    digest: str = ""
    """What was agreed to, as it was shown; empty: it was not."""
    refusal: str = ""
    """Why not."""
    by: Actor | None = None
    """Who was asked about this very call and agreed; None: a rule did, or nobody who is known."""
    lapsed: Callable[[], str] = _for_ever
    """Asked right before the call runs: why the consent holds no more; empty: it does."""


Approve = Callable[[ApprovalRequest], Awaitable[Consent]]
"""Ask a person. Raises ToolError where nobody can be asked."""


class CallDenied(ToolError):
    """A person said no, or nobody said yes. The model gets `content` as the call's result."""

    def __init__(self, reason: str, content: str) -> None:
        super().__init__(f"denied: {reason}")
        self.content = content
