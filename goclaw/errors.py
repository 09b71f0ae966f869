"""Every error that GoClaw raises on purpose. This module imports nothing of GoClaw.

* GoclawError               its message may be shown to a person
  x ConfigError             the configuration or users.json cannot be used (exit code 78)
  x StateError              the state folder cannot be used: locked, newer schema, inside a workspace
    + DiskError             its disk fails at the moment; the request may be repeated
    + StoreInUse            others use the store, which is needed alone
    + OwnershipLost         another process has taken the session over, and goes on with it
  x AccessDenied            authorize said no where a person waits for the answer
  x ToolError               a tool failed; the model reads the message and may adapt
    + UnknownTool           no such tool, or not for this actor: one answer for both
    + MissingArguments      required arguments that the agent's policy handles
    + InvalidInput          arguments that do not fit the tool's schema
    + OutcomeUnknown        the tool was running when GoClaw was killed; it may have taken effect
  x ModelError              the language model did not give a whole answer
  x TranscriptionError      spoken words could not be written down
  x DeliveryError           a channel could not hand a message over
  x ChannelError            the service of a channel refuses us, or cannot be asked, while setup tries it
  x HookFailed              a hook of the operator's misbehaved
  x MessageDenied           a hook of the operator's does not take a person's message
  x SandboxUnavailable      no containment for exec on this machine
  x TurnEnd                 control flow: leaves the agent loop with a sentence for the user
    + LimitReached          a limit of the run policy was hit
"""

from collections.abc import Sequence
from enum import StrEnum

MAX_NAME = 200
"""Characters of a tool's name that are repeated: a model may ask for a tool of a megabyte."""


class GoclawError(Exception):
    """Base class: an error with a message that is written for people and holds no secret."""


class ConfigError(GoclawError):
    """The configuration cannot be used. Raised before anything is opened.

    `problems` has one line each: `config.yaml:5:3: telegram.mode: the fault, and the remedy`.
    """

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class StateError(GoclawError):
    """The state folder cannot be used; the message says why and what to do."""


class DiskFault(StrEnum):
    """A kind of disk failure. Its value is the sentence for people who only talk to the agent."""

    FULL = "The disk of the machine that I run on is full"
    READ_ONLY = "The disk of the machine that I run on cannot be written to"
    BROKEN = "The disk of the machine that I run on does not work as it should"
    LOCKED = "Another program on the machine that I run on keeps me from storing anything"
    DAMAGED = "My database is damaged"
    GONE = "Somebody took my database away while I was running"
    UNREACHABLE = "My database cannot be reached"
    STORE_FULL = "The disk of my database is full"
    REFUSED = "My database refuses to store anything"


class DiskError(StateError):
    """Durable data was not stored. The message is for the operator, `fault` for all users."""

    def __init__(self, message: str, fault: DiskFault) -> None:
        super().__init__(message)
        self.fault = fault


class StoreInUse(StateError):
    """Other processes use a shared store that is needed alone; `others` names them."""

    def __init__(self, message: str, others: str) -> None:
        super().__init__(message)
        self.others = others


class OwnershipLost(StateError):
    """Another process of a shared store has taken the session over: nothing was stored, and it goes on there."""


class NotAnswered(StateError):
    """The process that works on a session has not answered in time; the order may be done or not."""


class AccessDenied(GoclawError):
    """The acting person may not do this; the message names the rule that decided."""


class ToolError(GoclawError):
    """A tool failed. The model gets `{"error": message}` and may try something else."""


class UnknownTool(ToolError):
    """The tool does not exist or is not for this actor. Both read alike, so that other users' tools stay unknown."""

    def __init__(self, name: str) -> None:
        super().__init__(f"unknown tool: {name if len(name) <= MAX_NAME else f'{name[:MAX_NAME]}…'}")


class InvalidInput(ToolError):
    """The arguments do not fit the tool's schema; the message lists every field at fault."""


class MissingArguments(ToolError):
    """A call lacks required arguments, and the agent's policy handles that (`on_missing_fields`)."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(f"missing required fields: {', '.join(names)}")
        self.names = tuple(names)


class OutcomeUnknown(ToolError):
    """A tool that must not run twice was running when GoClaw was killed: it is not run again."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"outcome unknown: GoClaw was restarted while {name} ran; it may or may not have taken effect. "
            "Check before you repeat it."
        )


class ModelErrorKind(StrEnum):
    """Why a model gave no whole answer. The retry and fallback rules of `llm.chain` read this."""

    OVERFLOW = "overflow"  # the prompt is longer than the model's window: compact, then once more
    RATE = "rate"
    OVERLOADED = "overloaded"
    LOADING = "loading"  # its server has answered before and starts, or has not loaded the model yet
    SERVER = "server"
    NETWORK = "network"
    TIMEOUT = "timeout"
    TRUNCATED = "truncated"  # the stream ended or broke before the model said why it stopped
    AUTH = "auth"
    NOT_FOUND = "not_found"
    REJECTED = "rejected"  # a request that no repetition will mend
    REFUSED = "refused"  # the model declined to answer


class ModelError(GoclawError):
    """A model call failed.

    `retry_after` is the wait in seconds that the server asked for; `partial`: text had been streamed already;
    `spec` is the model's `provider:name`; `accepted`: the server had begun an answer, which may be billed;
    `status` is that of HTTP, and `body` the beginning of the server's own error, for rules and never for people;
    `window` is the model's window in tokens where an overflow names it.
    """

    def __init__(
        self,
        kind: ModelErrorKind,
        message: str,
        *,
        spec: str = "",
        retry_after: float | None = None,
        partial: bool = False,
        accepted: bool = False,
    ) -> None:
        super().__init__(message)
        self.accepted = accepted
        self.status: int | None = None
        self.body = ""
        self.window: int | None = None
        self.kind = kind
        self.spec = spec
        self.retry_after = retry_after
        self.partial = partial


class TranscriptionError(GoclawError):
    """Speech could not be transcribed; the message says why, and holds no key."""


class EmbeddingError(GoclawError):
    """Texts could not be embedded now; the message says why and what helps.

    `retry_after` is in seconds: asking earlier is useless.
    """

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class DeliveryError(GoclawError):
    """A channel could not hand a message over.

    `permanent` means that repeating it is useless (blocked, chat gone); `retry_after` is in seconds;
    `maybe_delivered` means that the message may have arrived all the same (a time-out while sending);
    `closed` that the whole chat takes nothing any more, for good and for every message; the channel has logged it.
    """

    def __init__(
        self,
        message: str,
        *,
        permanent: bool = False,
        retry_after: float | None = None,
        maybe_delivered: bool = False,
        closed: bool = False,
    ) -> None:
        super().__init__(message)
        self.permanent = permanent or closed
        self.retry_after = retry_after
        self.maybe_delivered = maybe_delivered
        self.closed = closed


class ChannelError(GoclawError):
    """The service of a channel refuses the account or cannot be asked; the message says what helps."""


class HookFailed(GoclawError):
    """A hook could not be run, or its answer is invalid; the message says why."""


class MessageDenied(GoclawError):
    """A hook does not take a message; the text is for the person who wrote it."""


class SandboxUnavailable(GoclawError):
    """Nothing on this machine can contain a command; the message says what to install or to configure."""


class TurnEnd(GoclawError):
    """Leaves the agent loop; the message is the sentence that the user reads."""


class LimitReached(TurnEnd):
    """A limit of the run policy ended the turn; the message names the limit in words, `key` in the configuration."""

    def __init__(self, sentence: str, reason: str = "", *, key: str = "") -> None:
        super().__init__(sentence)
        self.key = key
        self.reason = reason or sentence
        """What is reached, to stand within another sentence."""
