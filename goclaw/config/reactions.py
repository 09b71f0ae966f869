"""The reactions that bots may put on messages in Telegram.

Listed here, not taken from Telegram's library: every command reads settings, and that takes 130 ms to import.
"""

import re
from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator

_EMOJI = (
    "👍 👎 ❤ 🔥 🥰 👏 😁 🤔 🤯 😱 🤬 😢 🎉 🤩 🤮 💩 🙏 👌 🕊 🤡 🥱 🥴 😍 🐳 ❤️‍🔥 🌚 "
    "🌭 💯 🤣 ⚡ 🍌 🏆 💔 🤨 😐 🍓 🍾 💋 🖕 😈 😴 😭 🤓 👻 👨‍💻 👀 🎃 🙈 😇 😨 🤝 ✍ 🤗 "
    "🫡 🎅 🎄 ☃ 💅 🤪 🗿 🆒 💘 🙉 🦄 😘 💊 🙊 😎 👾 🤷‍♂️ 🤷 🤷‍♀️ 😡"
)
"""Bot API 9, ReactionTypeEmoji."""
_VARIANTS = re.compile("[\ufe0f\U0001f3fb-\U0001f3ff]")
"""The mark that asks for a coloured form, and skin tones: keyboards add them, Telegram's list has few of them."""
ALLOWED: Mapping[str, str] = {_VARIANTS.sub("", emoji): emoji for emoji in _EMOJI.split()}
"""Every reaction as Telegram writes it, by its form without variants."""
_SOME = "👍 👎 ❤ 🔥 🎉 👏 😁 🤔 😢 🙏 👌 💯 👀"


def reaction_of(emoji: str) -> str:
    """Return the emoji as Telegram writes it.

    Raises:
        ValueError: Telegram has no such reaction; the message names some that it has.
    """
    found = ALLOWED.get(_VARIANTS.sub("", emoji.strip()))
    if found is None:
        shown = emoji[:20] or "empty text"
        raise ValueError(f"Telegram takes no {shown} as a reaction; it takes, among others, {_SOME}")
    return found


Reaction = Annotated[str, AfterValidator(reaction_of)]
