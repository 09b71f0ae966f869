"""Who speaks, where, and whether it is meant for us."""

from typing import Any

import pytest

from goclaw.channels.telegram.updates import Me, Terms, inbound_of, reaction_of, single_of
from goclaw.common.core.events import Actor, Address, Beside, Inbound
from tests.fake_telegram.world import BOT, World, person

ME = Me(42, "claw_bot")
ANSWER = {"message_id": 9, "date": 1, "chat": {"id": -100, "type": "supergroup"}, "from": BOT, "text": "the answer"}


async def read(text: str = "", *, groups: tuple[int, ...] = (-100,), **said: Any) -> Inbound | None:
    """What becomes of a message that a person writes."""
    return inbound_of(await World().say(text, **said), ME, 7.0, groups)


async def sent(fields: dict[str, Any]) -> Inbound | None:
    """What becomes of a message with these fields as Telegram has them."""
    update = await World().say()
    return inbound_of(update | {"message": update["message"] | fields}, ME, 7.0, (-100,))


async def test_a_private_message_is_from_its_numeric_sender() -> None:
    inbound = await read("hello", user=5, name="Ann", date=1_700_000_000)
    assert inbound == Inbound(
        id="telegram:1000",
        actor=Actor("telegram:5", "telegram", name="Ann"),
        session="telegram:5",
        text="hello",
        address=Address("telegram", "5"),
        received_at=7.0,
        ref="telegram:5:1",
        sent_at=1_700_000_000.0,
    )


async def test_a_group_has_one_session_and_its_messages_are_answered_by_reply() -> None:
    inbound = await read("@claw_bot hello", chat=-100, user=5)
    assert inbound
    assert (inbound.actor.key, inbound.session) == ("telegram:5", "telegram:-100")
    assert inbound.address == Address("telegram", "-100", None, "1")
    assert inbound.text == "hello"


async def test_a_topic_of_a_private_chat_has_a_session_of_its_own() -> None:
    inbound = await read("hello", topic=77)
    assert inbound and inbound.session == "telegram:5:77" and inbound.address == Address("telegram", "5", "77")


async def test_a_topic_has_a_session_of_its_own() -> None:
    inbound = await read("@claw_bot hello", chat=-100, topic=77)
    assert inbound
    assert (inbound.session, inbound.address.thread) == ("telegram:-100:77", "77")


@pytest.mark.promise("P-telegram-groups")
@pytest.mark.parametrize(
    ("text", "extra", "heard"),
    [
        ("hello all", {}, None),
        ("hello @claw_bot, how are you?", {}, "hello how are you?"),
        ("@CLAW_BOT: hello", {}, "hello"),
        ("😀😀 @claw_bot hello", {}, "😀😀 hello"),
        ("@claw_bot_2 hello", {}, None),
        ("mail me at x@claw_bot", {}, None),
        ("/status", {}, "/status"),
        ("/status@claw_bot", {}, "/status"),
        ("/tool@Claw_Bot read {}", {}, "/tool read {}"),
        ("/status@other_bot", {}, None),
        ("please /status", {}, None),
        ("go on", {"reply_to_message": ANSWER}, "[In reply to your message: the answer]\ngo on"),
        ("go on", {"reply_to_message": ANSWER | {"from": {"id": 6, "is_bot": True, "first_name": "x"}}}, None),
        ("Claw hi", {"entities": [{"type": "text_mention", "offset": 0, "length": 4, "user": BOT}]}, "hi"),
    ],
)
async def test_in_groups_only_what_is_addressed_to_the_bot_is_heard(
    text: str, extra: dict[str, Any], heard: str | None
) -> None:
    inbound = await read(text, chat=-100, **extra)
    assert (inbound.text if inbound else None) == heard


async def test_a_caption_can_address_the_bot() -> None:
    inbound = await read("@claw_bot what is this?", chat=-100, photo=b"x" * 400)
    assert inbound and inbound.text == "what is this?" and len(inbound.attachments) == 1


async def test_groups_that_are_not_listed_are_not_heard() -> None:
    assert await read("@claw_bot hello", chat=-100, groups=(-200,)) is None
    assert await read("@claw_bot hello", chat=-100, groups=()) is None
    assert await read("@claw_bot hello", chat=-200, groups=(-200,))
    assert await read("hello", groups=(-200,)), "private chats are not groups"


@pytest.mark.promise("P-telegram-nobody")
@pytest.mark.parametrize(
    "extra",
    [
        {"sender_chat": {"id": -100, "type": "supergroup", "title": "Group"}},  # an anonymous admin
        {"sender_chat": {"id": -300, "type": "channel", "title": "News"}},  # a channel in a discussion group
        {"is_automatic_forward": True},
        {"from": None},  # a channel's own post
        {"from": {"id": 136817688, "is_bot": True, "first_name": "Channel"}},
        {"chat": {"id": -300, "type": "channel", "title": "News"}},
    ],
)
async def test_whoever_writes_in_the_name_of_a_chat_is_nobody(extra: dict[str, Any]) -> None:
    said = await World().say("/status@claw_bot", chat=-100)
    assert inbound_of(said, ME, 7.0, (-100,)), "a person is heard"
    message = {key: value for key, value in (said["message"] | extra).items() if value is not None}
    assert inbound_of(said | {"message": message}, ME, 7.0, (-100,)) is None


async def test_a_user_name_never_makes_an_identity() -> None:
    sender = {"id": 666, "is_bot": False, "first_name": "Ann", "username": "5"}
    inbound = await sent({"from": sender, "text": "hello"})
    assert inbound and inbound.actor.key == "telegram:666"


async def test_a_quoted_message_comes_along() -> None:
    quoted = ANSWER | {"from": {"id": 6, "first_name": "Bob"}, "text": "the\nplan"}
    inbound = await read("@claw_bot is it good?", chat=-100, reply_to_message=quoted)
    assert inbound and inbound.text == "[In reply to Bob: the plan]\nis it good?"


async def test_the_bots_own_words_come_along() -> None:
    whole = await read("why?", reply_to_message=ANSWER)
    assert whole and whole.text == "[In reply to your message: the answer]\nwhy?" and whole.own_words == "why?"


async def test_a_topics_service_message_is_no_quote() -> None:
    opening = ANSWER | {"from": {"id": 6, "first_name": "Bob"}, "forum_topic_created": {"name": "x"}}
    inbound = await read("@claw_bot hi", chat=-100, topic=77, reply_to_message=opening)
    assert inbound and inbound.text == "hi"


@pytest.mark.parametrize(
    ("origin", "name"),
    [
        ({"type": "user", "sender_user": {"id": 8, "first_name": "Eve"}}, "Eve"),
        ({"type": "hidden_user", "sender_user_name": "Hidden"}, "Hidden"),
        ({"type": "channel", "chat": {"id": -3, "title": "News"}}, "News"),
    ],
)
async def test_forwarded_text_says_where_it_is_from(origin: dict[str, Any], name: str) -> None:
    inbound = await read("do this", forward_origin=origin)
    assert inbound and inbound.text == f"[Forwarded from {name}]\ndo this"


@pytest.mark.parametrize(
    "update",
    [
        {"update_id": 1},
        {"update_id": 1, "edited_message": {"text": "x"}},
        {"update_id": 1, "message": {"from": {"id": 5}}},
        {"update_id": 1, "message": {"from": {"id": 5}, "chat": {"id": 5, "type": "private"}, "message_id": 1}},
        {"update_id": 1, "message": {"from": 3, "chat": "x"}},
        {"update_id": 1, "message": ["x"]},
    ],
)
def test_updates_without_a_message_for_us_are_nothing(update: dict[str, Any]) -> None:
    assert inbound_of(update, ME, 7.0) is None


@pytest.mark.promise("P-telegram-context")
async def test_what_is_said_to_others_is_heard_where_the_group_has_a_context() -> None:
    async def heard(text: str, **said: Any) -> Inbound | None:
        update = await World().say(text, chat=-100, **said)
        return single_of(update, Terms(ME, 7.0, {-100: 5}))

    plain, picture = await heard("see you"), await heard("", photo=b"x" * 400)
    assert plain and plain.beside == Beside("said", keep=5) and plain.text == "see you"
    assert picture and (picture.text, picture.attachments) == ("[image]", ())
    eve = {"message_id": 1, "from": {"id": 7, "is_bot": False, "first_name": "Eve"}, "text": "obey me"}
    answer = await heard("haha", reply_to_message=eve)
    assert answer and [answer.text[piece.start : piece.end] for piece in answer.foreign] == [
        "[In reply to Eve: obey me]"
    ]
    named = await heard("@claw_bot when?")
    assert named and named.beside is None
    assert await read("see you", chat=-100) is None, "without one it is not"


@pytest.mark.promise("P-heard-beside")
@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ([], ["👍"], "reacted with 👍 to"),
        (["👍"], ["👍", "🔥"], "reacted with 🔥 to"),
        (["👍"], [], "removed 👍 from"),
        (["👍"], ["👍"], None),
    ],
)
def test_a_reaction_is_what_changed(old: list[str], new: list[str], text: str | None) -> None:
    inbound = reaction_of(reaction(old, new), Terms(ME, 7.0, {-100: 0}))
    assert (inbound.text if inbound else None) == text
    assert inbound is None or (inbound.beside, inbound.session) == (Beside("reaction", on="9"), "telegram:-100")


def test_a_reaction_in_the_name_of_a_chat_or_in_a_group_that_is_not_listed_is_nobodys() -> None:
    anonymous = reaction([], ["👍"])
    del anonymous["message_reaction"]["user"]
    assert reaction_of(anonymous, Terms(ME, 7.0, {-100: 0})) is None
    assert reaction_of(reaction([], ["👍"]), Terms(ME, 7.0)) is None


def reaction(old: list[str], new: list[str]) -> dict[str, Any]:
    """What Telegram says when Ann changes her reactions to a message."""
    signs = [[{"type": "emoji", "emoji": each} for each in signs] for signs in (old, new)]
    place = {"chat": {"id": -100, "type": "supergroup"}, "message_id": 9, "date": 1}
    changed = {**place, "user": person(5, "Ann"), "old_reaction": signs[0], "new_reaction": signs[1]}
    return {"update_id": 1, "message_reaction": changed}
