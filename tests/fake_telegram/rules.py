"""What the Bot API refuses: lengths in UTF-16 units, entities out of bounds or crossing, bad command menus.

The texts of the errors are those of the real server, because clients tell some errors apart by them.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

MAX_TEXT = 4096
MAX_CAPTION = 1024
MAX_COMMANDS = 100

ENTITY_TYPES = frozenset(
    {"mention", "hashtag", "cashtag", "bot_command", "url", "email", "phone_number", "text_link", "text_mention"}
    | {"bold", "italic", "underline", "strikethrough", "spoiler", "code", "pre", "blockquote", "expandable_blockquote"}
    | {"custom_emoji", "date_time"}
)
QUOTES = frozenset({"blockquote", "expandable_blockquote"})
CODE = frozenset({"code", "pre"})
COMMAND_NAME = re.compile(r"[a-z0-9_]{1,32}")
CHAT_ACTIONS = frozenset(
    {"typing", "upload_photo", "record_video", "upload_video", "record_voice", "upload_voice", "upload_document"}
    | {"choose_sticker", "find_location", "record_video_note", "upload_video_note"}
)


class ApiError(Exception):
    """An answer with `ok: false`."""

    def __init__(self, status: int, description: str, **parameters: object) -> None:
        super().__init__(description)
        self.status = status
        self.description = description
        self.parameters = parameters


def bad_request(reason: str) -> ApiError:
    """The commonest error."""
    return ApiError(400, f"Bad Request: {reason}")


def utf16_length(text: str) -> int:
    """How Telegram counts."""
    return len(text.encode("utf-16-le")) // 2


def check_text(text: str, entities: Sequence[Mapping[str, Any]] | None, *, limit: int = MAX_TEXT) -> None:
    """Refuse a message's text that the real server would refuse, or silently change."""
    if not text.strip():
        raise bad_request("message text is empty")
    if utf16_length(text) > limit:
        raise bad_request("message caption is too long" if limit == MAX_CAPTION else "message is too long")
    check_entities(text, entities or ())


def check_entities(text: str, entities: Iterable[Mapping[str, Any]]) -> None:
    """Refuse entities outside the text, inside a surrogate pair, crossing each other, or nested where that is illegal.

    The real server repairs some of these in silence; here they are errors, so that our renderer stays honest.
    """
    units = text.encode("utf-16-le")
    total = len(units) // 2
    enclosing: list[Mapping[str, Any]] = []
    for entity in sorted(entities, key=lambda found: (found["offset"], -found["length"])):
        check_entity(entity, units, total)
        start, end = entity["offset"], entity["offset"] + entity["length"]
        while enclosing and enclosing[-1]["offset"] + enclosing[-1]["length"] <= start:
            enclosing.pop()
        for outer in enclosing:
            check_nesting(outer, entity, end)
        enclosing.append(entity)


def check_entity(entity: Mapping[str, Any], units: bytes, total: int) -> None:
    """Refuse one entity that is wrong by itself; `units` is the text in UTF-16-LE."""
    kind, start, length = entity["type"], entity["offset"], entity["length"]
    if kind not in ENTITY_TYPES:
        raise bad_request(f"can't parse MessageEntity: unsupported type {kind}")
    if start < 0 or length <= 0 or start + length > total:
        raise bad_request(f"entity {kind} beyond the end of the text: {start}+{length} of {total}")
    for edge in (start, start + length):
        if edge < total and 0xDC <= units[2 * edge + 1] <= 0xDF:
            raise bad_request(f"entity {kind} splits a surrogate pair at {edge}")
    if kind == "text_link" and not entity.get("url"):
        raise bad_request("entity text_link has no url")


def check_nesting(outer: Mapping[str, Any], inner: Mapping[str, Any], inner_end: int) -> None:
    """Refuse what may not stand inside `outer`."""
    if inner_end > outer["offset"] + outer["length"]:
        raise bad_request(f"entities {outer['type']} and {inner['type']} cross")
    kinds = {outer["type"], inner["type"]}
    if kinds & CODE and outer["type"] not in QUOTES:
        raise bad_request(f"{inner['type']} inside {outer['type']}: code stands alone")
    if kinds <= QUOTES:
        raise bad_request("quotes can't be nested")
    if outer["type"] == inner["type"]:
        raise bad_request(f"{inner['type']} inside itself")


def check_markup(markup: Mapping[str, Any] | None) -> None:
    """Refuse buttons that carry nothing, too much, or no label."""
    for button in [button for row in (markup or {}).get("inline_keyboard", ()) for button in row]:
        if not 1 <= len(button.get("callback_data", "").encode()) <= 64:
            raise bad_request("BUTTON_DATA_INVALID")
        if not button["text"].strip():
            raise bad_request("BUTTON_TEXT_INVALID")


def check_commands(commands: Sequence[Mapping[str, Any]]) -> None:
    """Refuse a command menu that Telegram would not take."""
    if len(commands) > MAX_COMMANDS:
        raise bad_request("BOT_COMMANDS_TOO_MUCH")
    for command in commands:
        if not COMMAND_NAME.fullmatch(command["command"]):
            raise bad_request("BOT_COMMAND_INVALID")
        if not 1 <= len(command["description"]) <= 256:
            raise bad_request("BOT_COMMAND_DESCRIPTION_INVALID")


def scope_of(scope: Mapping[str, Any]) -> str:
    """The key of a command menu."""
    return " ".join(str(scope[name]) for name in sorted(scope, reverse=True))


def found_entities(text: str) -> list[dict[str, Any]]:
    """The entities that a client of Telegram marks by itself in what a person types: commands and mentions."""
    entities = []
    for found in re.finditer(r"(?<!\S)/[A-Za-z0-9_]{1,32}(?:@\w+)?|(?<!\w)@\w{4,32}", text):
        kind = "bot_command" if found[0].startswith("/") else "mention"
        start = utf16_length(text[: found.start()])
        entities.append({"type": kind, "offset": start, "length": utf16_length(found[0])})
    return entities


def check_webhook(parameters: dict[str, Any]) -> None:
    """The address and the secret of a webhook. Plain http is for Bot API servers of one's own, as this one."""
    if parameters["url"] and not re.match(r"https?://[^/]+", parameters["url"]):
        raise bad_request("bad webhook: An HTTPS URL must be provided for webhook")
    secret = parameters.get("secret_token") or ""
    if secret and not re.fullmatch(r"[A-Za-z0-9_-]{1,256}", secret):
        raise bad_request("secret token contains unallowed characters")
    if not 1 <= (parameters.get("max_connections") or 40) <= 100:
        raise bad_request("max_connections must be between 1 and 100")
