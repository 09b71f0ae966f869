"""The text of a Telegram message, and its entities. Offsets are counted in UTF-16 units."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Json = Mapping[str, Any]

MAX_QUOTE = 500
"""Maximum characters passed on of a referenced message."""
MAX_LINK = 2_048
"""Maximum characters of a link's address; longer ones are cut."""
QUOTATIONS = ("blockquote", "expandable_blockquote")
"""Entities by which the author of a message marks words of others."""


def body_of(message: Json) -> tuple[str, Sequence[Json]]:
    """Return the text or the caption, with its entities."""
    if "text" in message:
        return message["text"], message.get("entities", ())
    return message.get("caption", ""), message.get("caption_entities", ())


def name_of(person: Json) -> str:
    """Return a display name; never used for a decision."""
    return " ".join(str(person[part]) for part in ("first_name", "last_name") if person.get(part))


def covered(text: str, entity: Json) -> str:
    """Return the characters under an entity."""
    start, length = int(entity["offset"]), int(entity["length"])
    return _from_units(_units(text)[2 * start : 2 * (start + length)])


def cut_out(text: str, entity: Json) -> str:
    """`text` without the characters under an entity, nor the comma and the space after it."""
    units, start, length = _units(text), int(entity["offset"]), int(entity["length"])
    return _from_units(units[: 2 * start]) + _from_units(units[2 * (start + length) :]).lstrip(",: ")


def with_target(text: str, entity: Json) -> str:
    """`text` with the target of a link, or the number of a person without a username, behind the words that hide it."""
    target = _target(entity, covered(text, entity))
    if not target:
        return text
    units, end = _units(text), 2 * (int(entity["offset"]) + int(entity["length"]))
    return f"{_from_units(units[:end])} ({target}){_from_units(units[end:])}"


def with_targets(text: str, entities: Sequence[Json]) -> str:
    """`text` with the targets of all links and mentions in it."""
    for entity in backwards(entities):
        text = with_target(text, entity)
    return text


def backwards(entities: Sequence[Json]) -> Sequence[Json]:
    """Entities from the last one to the first, so that a change at one leaves the places of the others."""
    return sorted(entities, key=lambda entity: -int(entity["offset"]))


def quoted_and_not(text: str, entities: Sequence[Json]) -> Iterator[tuple[str, bool]]:
    """Yield the pieces of a text with their targets; True: its author marked the piece as a quotation."""
    units, at = _units(text), 0
    marked = sorted(place(entity) for entity in entities if entity["type"] in QUOTATIONS)
    for start, end in [*marked, (len(units) // 2, len(units) // 2)]:
        for first, last, is_quoted in ((at, start, False), (max(at, start), end, True)):
            inside = [
                {**entity, "offset": int(entity["offset"]) - first}
                for entity in entities
                if first <= place(entity)[0] and place(entity)[1] <= last
            ]
            if piece := with_targets(_from_units(units[2 * first : 2 * last]), inside).strip():
                yield piece, is_quoted
        at = max(at, end)


def place(entity: Json) -> tuple[int, int]:
    """Return the beginning of an entity, and the first unit behind it."""
    start = int(entity["offset"])
    return start, start + int(entity["length"])


def shortened(text: str, longest: int = MAX_QUOTE) -> str:
    """Return one line of at most so many characters."""
    line = " ".join(text.split())
    return line if len(line) <= longest else f"{line[:longest]}…"


def _target(entity: Json, shown: str) -> str:
    match entity["type"]:
        case "text_link":
            link = "".join(str(entity["url"]).split())[:MAX_LINK]
            return "" if link in (shown, f"{shown}/") else link
        case "text_mention":
            number = entity["user"]["id"]
            return f"telegram:{number}" if type(number) is int else ""
        case _:
            return ""


def _units(text: str) -> bytes:
    return text.encode("utf-16-le", "surrogatepass")


def _from_units(units: bytes) -> str:
    return units.decode("utf-16-le", "surrogatepass")
