"""What the rest of the system knows about a tool without running it."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class SideEffect(StrEnum):
    """What a tool does to the world (the classes of the Goat tool system)."""

    NONE = "none"
    READ_ONLY = "read-only"
    MUTATING = "mutating"
    NETWORK = "network"
    BLOCKING = "blocking"
    SPAWNS = "spawns"


class Risk(StrEnum):
    """How much a call can harm; decides whether it runs, asks or is refused."""

    NONE = "none"
    LOW = "low"
    MEDIUM = "medium"
    CONTAINED = "contained"
    """High by its nature, but inside the sandbox without network: `exec` as it is by default."""
    HIGH = "high"
    CRITICAL = "critical"


RISK_OF = {
    SideEffect.NONE: Risk.NONE,
    SideEffect.READ_ONLY: Risk.LOW,
    SideEffect.MUTATING: Risk.MEDIUM,
    SideEffect.NETWORK: Risk.HIGH,
    SideEffect.BLOCKING: Risk.LOW,
    SideEffect.SPAWNS: Risk.CRITICAL,
}
"""The risk that a side effect has unless the tool's own declaration lowers or raises it."""


TELLS_FOREIGN = frozenset({SideEffect.READ_ONLY, SideEffect.NETWORK, SideEffect.BLOCKING, SideEffect.SPAWNS})
"""Side effects whose tools read what somebody else may have written, unless the declaration says otherwise."""


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """One tool as the model, the documentation and the permission rules see it."""

    name: str
    description: str
    schema: dict[str, Any]
    """JSON Schema of the arguments: always an object."""
    side_effect: SideEffect = SideEffect.NONE
    risk: Risk = Risk.NONE
    idempotent: bool = True
    """False: the journal writes an intent first, and a call cut by a crash is never run a second time."""
    tags: frozenset[str] = field(default_factory=frozenset)
    foreign: bool = False
    """What it returns is text from outside, which the model is shown as such; see `TELLS_FOREIGN`."""
