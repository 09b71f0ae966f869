"""The buttons below a message. The update that Telegram sends for a press is read in `inbound`."""

import logging
from collections.abc import Sequence

from telegram import InlineKeyboardButton, InlineKeyboardMarkup

from goclaw.events import Choice

log = logging.getLogger(__name__)

PER_ROW = 2
MAX_DATA = 64
"""Maximum bytes of a button's data (Bot API, InlineKeyboardButton.callback_data)."""
MAX_LABEL = 60
"""Characters that still fit on half a telephone's width in two lines."""


def keyboard_of(choices: Sequence[Choice]) -> InlineKeyboardMarkup | None:
    """Return the keyboard below a message; None for no choices, which also removes one in an edit.

    A button carries `q:<question id>:<index>`, the index of its answer among the choices.
    """
    buttons = []
    for index, choice in enumerate(choices):
        data = f"q:{choice.question}:{index}"
        if len(data.encode()) > MAX_DATA or not choice.label.strip():
            log.warning("a choice cannot be a button: %d bytes, %d at most", len(data.encode()), MAX_DATA)
            continue
        buttons.append(InlineKeyboardButton(shortened(choice.label), callback_data=data))
    rows = [buttons[first : first + PER_ROW] for first in range(0, len(buttons), PER_ROW)]
    return InlineKeyboardMarkup(rows) if rows else None


def shortened(label: str) -> str:
    """Return a label in one line."""
    line = " ".join(label.split())
    return line if len(line) <= MAX_LABEL else f"{line[: MAX_LABEL - 1]}…"
