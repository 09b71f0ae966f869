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
    """Return a few words for below the input, empty if there is nothing to say."""
    if unsent:
        return f"{unsent} not sent yet"
    if not is_running:
        return ""
    if sent:
        return f"{sent} {SENT.get(mode, SENT['queue'])}"
    return ENTER.get(mode, "") if is_typing else ""
