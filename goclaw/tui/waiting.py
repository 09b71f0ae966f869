"""Texts about messages written while a turn runs. The daemon decides how they are handled."""

ENTER = {
    "queue": "Enter queues",
    "collect": "Enter queues",
    "steer": "Enter steers the answer",
    "interrupt": "Enter interrupts the answer",
}
"""By the session's queue mode: what sending does now."""
SENT = {
    "queue": "queued",
    "collect": "queued, answered together",
    "steer": "waiting to steer the answer",
    "interrupt": "interrupting the answer",
}
"""By the session's queue mode: what is true of messages that were sent."""


def waiting_words(mode: str, *, unsent: int, sent: int, is_running: bool, is_typing: bool) -> str:
    """A few words for below the input, empty where there is nothing to say.

    Args:
        mode: the session's queue mode; empty or unknown: messages are queued.
        unsent: how many own messages no daemon has taken.
        sent: how many were taken and wait.
        is_running: whether a turn runs.
        is_typing: whether something stands in the input.
    """
    if unsent:
        return f"{unsent} not sent yet"
    if not is_running:
        return ""
    if sent:
        return f"{sent} {SENT.get(mode, SENT['queue'])}"
    return ENTER.get(mode, "") if is_typing else ""
