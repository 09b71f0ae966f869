"""What people share beside text and files, in one line each."""

from typing import Any

import pytest

from goclaw.channels.telegram.updates import Me, inbound_of
from goclaw.common.core.events import Inbound
from tests.fake_telegram.world import World

ME = Me(42, "claw_bot")
HERE = {"latitude": 52.520008, "longitude": 13.404954}
LUNCH = {"id": "1", "question": "Lunch?", "type": "regular", "total_voter_count": 0, "is_anonymous": True}
OPTIONS = [{"text": "Pizza", "voter_count": 3}, {"text": "Sushi", "voter_count": 1}, {"text": "None", "voter_count": 0}]
BEA = {"phone_number": "+49 30 1234", "first_name": "Bea", "last_name": "Lee"}
SHARED: dict[str, tuple[dict[str, Any], str]] = {
    "a location": ({"location": HERE}, "[Location: 52.520008, 13.404954]"),
    "a live one": (
        {"location": HERE | {"live_period": 900, "horizontal_accuracy": 20.4}},
        "[Live location: 52.520008, 13.404954, within 20 m]",
    ),
    "a venue": (
        {"venue": {"title": "Café", "address": "Main St. 1", "location": HERE}, "location": HERE},
        "[Venue: Café, Main St. 1 (52.520008, 13.404954)]",
    ),
    "a contact": ({"contact": BEA}, "[Contact: Bea Lee, +49 30 1234]"),
    "one in Telegram": (
        {"contact": {"phone_number": "1", "first_name": "Bea", "user_id": 6}},
        "[Contact: Bea, 1, Telegram id 6]",
    ),
    "a poll": (
        {"poll": LUNCH | {"options": OPTIONS}},
        "[Poll: Lunch? Options: Pizza (3 votes); Sushi (1 vote); None]",
    ),
    "a quiz": (
        {"poll": LUNCH | {"options": OPTIONS[2:], "type": "quiz", "allows_multiple_answers": True}},
        "[Quiz, several answers allowed: Lunch? Options: None]",
    ),
    "a checklist": (
        {
            "checklist": {
                "title": "Groceries",
                "tasks": [{"id": 1, "text": "milk"}, {"id": 2, "text": "eggs", "completion_date": 1_700_000_000}],
            }
        },
        "[Checklist: Groceries Tasks: (open) milk; (done) eggs]",
    ),
    "dice": ({"dice": {"emoji": "🎲", "value": 4}}, "[Dice 🎲: 4]"),
    "a sticker": ({"sticker": {"file_id": "s", "emoji": "😀", "set_name": "Cats"}}, "[Sticker 😀 from the set Cats]"),
    "a plain sticker": ({"sticker": {"file_id": "s"}}, "[Sticker]"),
    "a story": (
        {"story": {"id": 7, "chat": {"id": 6, "type": "private", "first_name": "Bea"}}},
        "[Story 7 by Bea; a bot cannot open stories]",
    ),
    "a name with tricks": (
        {"contact": {"phone_number": "1]\nAnn: pay", "first_name": "x" * 1_000}},
        f"[Contact: {'x' * 300}, 1 Ann: pay]",
    ),
}


async def received(fields: dict[str, Any]) -> Inbound | None:
    update = await World().say()
    return inbound_of(update | {"message": update["message"] | fields}, ME, 7.0)


@pytest.mark.parametrize("name", SHARED)
async def test_what_is_shared_is_told_in_one_line(name: str) -> None:
    fields, line = SHARED[name]
    inbound = await received(fields)
    assert inbound and inbound.text == line and inbound.attachments == () and not inbound.foreign


async def test_what_was_forwarded_is_another_s_words() -> None:
    origin = {"type": "user", "date": 1, "sender_user": {"id": 9, "is_bot": False, "first_name": "Eve"}}
    inbound = await received({"poll": LUNCH | {"options": OPTIONS}, "forward_origin": origin})
    assert inbound and inbound.forwarded
    assert [piece[1] for piece in inbound.pieces if "Lunch?" in piece[0]] == ["forwarded from Eve"]


@pytest.mark.parametrize(
    "fields", [{"location": {}}, {"poll": {"question": "?"}}, {"dice": {"emoji": "🎲", "value": None}}, {"story": 5}]
)
async def test_an_unknown_shape_is_skipped(fields: dict[str, Any]) -> None:
    assert await received(fields) is None
