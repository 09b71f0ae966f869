"""One-line descriptions of content other than text and files: places, contacts, polls, dice, stickers, stories.

The fields are those of the Bot API's types of the same names. All words in them were chosen by people: they stand on
one line, bounded, and without our brackets.
"""

from collections.abc import Callable, Mapping
from typing import Any

MAX_CHARACTERS = 300
"""Maximum characters of one field (Bot API: a poll's question has 300, an option 100)."""

Json = Mapping[str, Any]


def described(message: Json) -> str:
    """Return the line for what a message shares; empty: it shares nothing of these.

    Raises:
        KeyError, TypeError, ValueError …: it has not the shape that the Bot API describes.
    """
    for kind, describe in _KINDS.items():
        if kind in message:
            return f"[{describe(message[kind])}]"
    return ""


def in_one_line(text: Any, most: int = MAX_CHARACTERS) -> str:
    """Return a text that a person chose, on one line of bounded length and without our brackets."""
    line = " ".join(str(text).split())
    return "".join(sign for sign in line if sign.isprintable() and sign not in "[]")[:most]


def _venue(venue: Json) -> str:
    return f"Venue: {in_one_line(venue['title'])}, {in_one_line(venue['address'])} ({_point(venue['location'])})"


def _location(location: Json) -> str:
    live = "Live location" if "live_period" in location else "Location"
    within = location.get("horizontal_accuracy")
    return f"{live}: {_point(location)}" + (f", within {float(within):.0f} m" if within is not None else "")


def _point(location: Json) -> str:
    """Latitude and longitude with the six digits that Telegram gives, a tenth of a metre."""
    return f"{float(location['latitude']):.6f}, {float(location['longitude']):.6f}"


def _contact(contact: Json) -> str:
    name = " ".join(str(contact[part]) for part in ("first_name", "last_name") if contact.get(part))
    person = f", Telegram id {int(contact['user_id'])}" if "user_id" in contact else ""
    return f"Contact: {in_one_line(name)}, {in_one_line(contact['phone_number'])}{person}"


def _poll(poll: Json) -> str:
    kind = "Quiz" if poll.get("type") == "quiz" else "Poll"
    several = ", several answers allowed" if poll.get("allows_multiple_answers") else ""
    options = "; ".join(f"{in_one_line(option['text'])}{_votes(option)}" for option in poll["options"])
    return f"{kind}{several}: {in_one_line(poll['question'])} Options: {options}"


def _votes(option: Json) -> str:
    votes = int(option.get("voter_count", 0))
    return f" ({votes} vote{'' if votes == 1 else 's'})" if votes else ""


def _dice(dice: Json) -> str:
    return f"Dice {in_one_line(dice['emoji'])}: {int(dice['value'])}"


def _sticker(sticker: Json) -> str:
    parts = ["Sticker", in_one_line(sticker.get("emoji", ""))]
    if name := in_one_line(sticker.get("set_name") or ""):
        parts.append(f"from the set {name}")
    return " ".join(part for part in parts if part)


def _story(story: Json) -> str:
    chat = story["chat"]
    author = chat.get("title") or chat.get("first_name") or chat.get("username") or chat["id"]
    return f"Story {int(story['id'])} of {in_one_line(author)}; a bot cannot open stories"


_KINDS: Mapping[str, Callable[[Any], str]] = {
    # A venue comes with a location of its own: it is looked for first.
    "venue": _venue,
    "location": _location,
    "contact": _contact,
    "poll": _poll,
    "dice": _dice,
    "sticker": _sticker,
    "story": _story,
}
