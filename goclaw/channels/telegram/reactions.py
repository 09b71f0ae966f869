"""The reactions that Telegram takes."""

import re

from telegram.constants import ReactionEmoji

from goclaw.errors import DeliveryError

_VARIANTS = re.compile("[\ufe0f\U0001f3fb-\U0001f3ff]")
"""The mark that asks for a coloured form, and skin tones: keyboards add them, Telegram's list has few of them."""
ALLOWED: dict[str, str] = {_VARIANTS.sub("", emoji.value): emoji.value for emoji in ReactionEmoji}
"""Every reaction (Bot API, ReactionTypeEmoji) by its form without variants."""
SOME = "👍 👎 ❤ 🔥 🎉 👏 😁 🤔 😢 🙏 👌 💯 👀"


def reaction_of(emoji: str | None) -> str:
    """The emoji as Telegram writes it.

    Raises:
        DeliveryError: Telegram has no such reaction; the message names some that it has.
    """
    found = ALLOWED.get(_VARIANTS.sub("", (emoji or "").strip()))
    if found is None:
        raise DeliveryError(
            f"Telegram takes no {(emoji or 'empty text')[:20]} as a reaction; it takes, among others, {SOME}",
            permanent=True,
        )
    return found
