"""The steps of a turn in memory, and the outcome of a step that is not recorded yet."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from goclaw.common.core.records import record
from goclaw.durable.engine.base import PreparedStep
from goclaw.durable.store.database import BoundStatement, StatementResult


@record
class StepOutcome:
    """The rows that a step writes when it is recorded."""

    name: str
    output: str
    rows: Sequence[BoundStatement]
    written: Callable[["StepOutcome", Sequence[StatementResult]], None]
    """Takes it, and the results of the transaction, which begins with `rows`.

    It takes its own outcome, since a function that knew it would be a cycle, which keeps all that a turn had in memory.
    """


@dataclass(slots=True)
class TurnSteps:
    """The steps of a turn: on disk, and in this run of the daemon."""

    recorded: Mapping[str, tuple[str, str | None]] = field(default_factory=dict)
    unrecorded: dict[str, Any] = field(default_factory=dict)
    """Outcomes of steps that are held, or that the disk refused: the steps are not run again."""
    intended: set[str] = field(default_factory=set)
    """Steps for which this run of the daemon has put an intent on disk."""
    held: StepOutcome | None = None
    """The outcome of the latest step, while it is not recorded."""
    prepared: tuple[PreparedStep[Any], tuple[int, ...]] | None = None
    """The step that was recorded with the message, and the ids of its rows, until the turn comes to it."""
    doing: dict[str, None] = field(default_factory=dict)
    """Steps that are being done, in order of their beginning."""
    silent: bool = True
    """This run of the daemon has recorded none of them."""
