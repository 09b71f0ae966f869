"""Reminders of the runtime for the model, besides results and messages.

Only GoClaw's own code and the operator's hooks write reminders; a tool's text never becomes one.
"""

from enum import IntEnum

from goclaw.records import record


class ReminderTier(IntEnum):
    """Which reminders come first (Goa-AI, reminder tiers)."""

    SAFETY = 0
    GUIDANCE = 1


@record
class Reminder:
    """One reminder; a later one with the same id takes its place."""

    id: str
    text: str
    tier: ReminderTier = ReminderTier.GUIDANCE
    min_turns_between: int = 0
    """Requests to the model that it pauses for after it was told."""
    max_per_run: int | None = 1
    """How often it is told in one turn at most; None: as long as it is not removed."""


class Reminders:
    """Takes reminders for the turn; by itself, where no model is reminded, it drops them."""

    def add(self, reminder: Reminder) -> None:
        """Show a reminder from the next request on; it replaces one with the same id."""

    def remove(self, id: str) -> None:
        """Remove a reminder; an unknown id is ignored."""
