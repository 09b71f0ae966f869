"""The content of one Telegram message: text with its entities, files, and a line for everything else.

Offsets of entities are counted in UTF-16 units. Places, contacts, polls, dice, stickers and stories become one line;
their fields are those of the Bot API's types of the same names. All words in such a line were chosen by people: they
are bounded, and without our brackets.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from goclaw.common.core.events import Attachment

Json = Mapping[str, Any]

MAX_QUOTE = 500
"""Maximum characters passed on of a referenced message."""
MAX_LINK = 2_048
"""Maximum characters of a link's address; longer ones are cut."""
QUOTATIONS = ("blockquote", "expandable_blockquote")
"""Entities that mark words of others in a message."""


def body_of(message: Json) -> tuple[str, Sequence[Json]]:
    """Return the text or the caption, with its entities."""
    if "text" in message:
        return message["text"], message.get("entities", ())
    return message.get("caption", ""), message.get("caption_entities", ())


def name_of(person: Json) -> str:
    """Return a display name; never used for a decision."""
    return " ".join(str(person[part]) for part in ("first_name", "last_name") if person.get(part))


def text_under(text: str, entity: Json) -> str:
    """Return the characters under an entity."""
    start, length = int(entity["offset"]), int(entity["length"])
    return _from_units(_units(text)[2 * start : 2 * (start + length)])


def cut_out(text: str, entity: Json) -> str:
    """`text` without the characters under an entity, nor the comma and the space after it."""
    units, start, length = _units(text), int(entity["offset"]), int(entity["length"])
    return _from_units(units[: 2 * start]) + _from_units(units[2 * (start + length) :]).lstrip(",: ")


def with_target(text: str, entity: Json) -> str:
    """`text` with the target of a link, or the number of a person without a username, after the words that hide it."""
    target = _target(entity, text_under(text, entity))
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
    """Return the beginning of an entity, and the first unit after it."""
    start = int(entity["offset"])
    return start, start + int(entity["length"])


def shorten(text: str, longest: int = MAX_QUOTE) -> str:
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


MAX_IMAGE = 5 << 20
"""Maximum bytes of a picture: models take no larger one (Anthropic, "Vision")."""
MAX_FILE = 20 << 20
"""Maximum bytes that a bot may download (Bot API, getFile)."""
IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
MAX_MIME = MAX_NAME = 100

AttachedFiles = tuple[tuple[Attachment, ...], list[str]]


def files_of(message: Json) -> AttachedFiles:
    """Return the files of a message, and a line for what else it brings or what cannot be downloaded."""
    for kind, read in _FILE_KINDS.items():
        if kind in message:
            return read(message[kind])
    line = description_of(message)
    return (), [line] if line else []


def limit_of(attachment: Attachment) -> int:
    """Return the bytes of such a file that we take."""
    return MAX_IMAGE if attachment.kind == "image" else MAX_FILE


def size_of(file: Json) -> int | None:
    """Return the bytes, if Telegram says."""
    return _number(file["file_size"]) if "file_size" in file else None


def in_megabytes(size: int) -> str:
    """Return a size as people say it; never rounded down to a limit that it is past."""
    return f"{-(-size * 10 // (1 << 20)) / 10:g} MB"


def _photo(sizes: Any) -> AttachedFiles:
    fitting = [size for size in sizes if (size_of(size) or 0) <= MAX_IMAGE]
    if not fitting:
        smallest = min(size_of(size) or 0 for size in sizes)
        return (), [_too_large("picture", smallest, MAX_IMAGE)]
    best = max(fitting, key=lambda size: int(size["width"]) * int(size["height"]))
    return (Attachment("image", str(best["file_id"]), "image/jpeg", size=size_of(best)),), []


def _document(file: Json) -> AttachedFiles:
    mime, name, size = _mime(file, "application/octet-stream"), str(file.get("file_name", "")), size_of(file)
    if (size or 0) > MAX_FILE:
        return (), [_too_large(f"document {in_one_line(name, MAX_NAME)}", size or 0, MAX_FILE)]
    kind = "image" if mime in IMAGES and (size or 0) <= MAX_IMAGE else "document"
    return (Attachment(kind, str(file["file_id"]), mime, name, size),), []  # type: ignore[arg-type]  # one of two words


def _recording(what: str, kind: str, mime: str, file: Json) -> AttachedFiles:
    name, size, seconds = str(file.get("file_name", "")), size_of(file), _number(file.get("duration", 0))
    if (size or 0) > MAX_FILE:
        return (), [_too_large(f"{what} {in_one_line(name, MAX_NAME)}", size or 0, MAX_FILE)]
    found = Attachment(kind, str(file["file_id"]), _mime(file, mime), name, size, seconds)  # type: ignore[arg-type]  # one of the kinds above
    return (found,), []


_FILE_KINDS: Mapping[str, Callable[[Any], AttachedFiles]] = {
    # An animation comes with a document of the same file: it is looked for first.
    "animation": partial(_recording, "animation", "animation", "video/mp4"),
    "photo": _photo,
    "document": _document,
    "voice": partial(_recording, "voice message", "voice", "audio/ogg"),
    "audio": partial(_recording, "audio file", "audio", "audio/mpeg"),
    "video": partial(_recording, "video", "video", "video/mp4"),
    "video_note": partial(_recording, "video note", "video_note", "video/mp4"),
}


def _too_large(what: str, size: int, limit: int) -> str:
    return f"[{what.strip()}, {in_megabytes(size)}: larger than {limit >> 20} MB, not downloaded]"


def _mime(file: Json, default: str) -> str:
    """Return the media type that the sender's client gave, which may be anything."""
    given = str(file.get("mime_type", ""))
    return given if given.isascii() and given.isprintable() and 0 < len(given) <= MAX_MIME else default


def _number(value: Any) -> int:
    if type(value) is not int:
        raise TypeError(f"expected a number, got {type(value).__name__}")
    return value


MAX_FIELD = 300
"""Maximum characters of one field (Bot API: a poll's question has 300, an option 100)."""


def description_of(message: Json) -> str:
    """Return the line for the things a message shares; empty: it shares nothing of these.

    Raises:
        KeyError, TypeError, ValueError …: it has not the shape that the Bot API describes.
    """
    for kind, describe in _SHARED_KINDS.items():
        if kind in message:
            return f"[{describe(message[kind])}]"
    return ""


def in_one_line(text: Any, most: int = MAX_FIELD) -> str:
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
    return f"Story {int(story['id'])} by {in_one_line(author)}; a bot cannot open stories"


def _checklist(checklist: Json) -> str:
    tasks = "; ".join(f"{_tick(task)} {in_one_line(task['text'])}" for task in checklist["tasks"])
    return f"Checklist: {in_one_line(checklist['title'])} Tasks: {tasks}"


def _tick(task: Json) -> str:
    """`completion_date` exists, and is not 0, for a task that is done (Bot API, ChecklistTask)."""
    return "(done)" if task.get("completion_date") else "(open)"


_SHARED_KINDS: Mapping[str, Callable[[Any], str]] = {
    # A venue comes with a location of its own: it is looked for first.
    "venue": _venue,
    "location": _location,
    "contact": _contact,
    "poll": _poll,
    "checklist": _checklist,
    "dice": _dice,
    "sticker": _sticker,
    "story": _story,
}
