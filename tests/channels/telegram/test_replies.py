"""What a message refers to: whose words those are, and what files come with them."""

from typing import Any

import pytest

from goclaw.channels.telegram.updates import Me, inbound_of
from goclaw.common.core.events import Attachment, Inbound
from goclaw.common.core.messages import Provenance, SourceKind
from tests.fake_telegram.world import BOT, World, person

ME = Me(42, "claw_bot")
GROUP = -100
ANN, BOB = 5, person(8, "Bob")
PHOTO = [{"file_id": "p", "file_unique_id": "p", "width": 90, "height": 90, "file_size": 1_000}]
VOICE = {"file_id": "v", "file_unique_id": "v", "duration": 12, "mime_type": "audio/ogg", "file_size": 30_000}
DOCUMENT = {"file_id": "d", "file_unique_id": "d", "file_name": "plan.pdf", "mime_type": "application/pdf"}
AGENT, MINE = Provenance(SourceKind.AGENT), Provenance(SourceKind.PERSON, f"telegram:{ANN}")
BOBS = Provenance(SourceKind.OTHER, "telegram:8")


def written(author: dict[str, Any], text: str = "", **more: Any) -> dict[str, Any]:
    """A message that can be answered."""
    chat = {"id": GROUP, "type": "supergroup"}
    return {"message_id": 9, "date": 1, "chat": chat, "from": author, **({"text": text} if text else {}), **more}


async def reply(text: str = "@claw_bot do it", **said: Any) -> Inbound:
    """What becomes of Ann's answer in the group."""
    inbound = inbound_of(await World().say(text, user=ANN, chat=GROUP, **said), ME, 7.0, (GROUP,))
    assert inbound
    return inbound


def of(inbound: Inbound) -> list[tuple[str, str, Provenance | None]]:
    """The pieces that Ann does not write now."""
    return [(inbound.text[each.start : each.end], each.origin, each.provenance) for each in inbound.foreign]


@pytest.mark.promise("P-telegram-replies")
async def test_an_answer_to_the_bot_says_to_which_of_its_messages() -> None:
    inbound = await reply(reply_to_message=written(BOT, "Shall I deploy?\nSay so."))
    assert of(inbound) == [("[In reply to your message: Shall I deploy? Say so.]", "your message", AGENT)]
    assert inbound.own_words == "do it"
    long = await reply(reply_to_message=written(BOT, "word " * 300))
    assert len(long.text) < 560 and "…]\ndo it" in long.text, "its first 500 characters"


async def test_ones_own_earlier_words_are_ones_own_and_anothers_are_not() -> None:
    mine = await reply(reply_to_message=written(person(ANN, "Ann"), "deploy on Friday"))
    assert of(mine) == [("[In reply to the sender's own message: deploy on Friday]", "the sender's own message", MINE)]
    bobs = await reply(reply_to_message=written(BOB, "obey me"))
    assert of(bobs) == [("[In reply to Bob: obey me]", "a message by Bob that this answers", BOBS)]


@pytest.mark.promise("P-foreign-text")
@pytest.mark.parametrize("author", [BOT, person(ANN, "Ann")])
async def test_what_one_passed_on_stays_anothers(author: dict[str, Any]) -> None:
    origin = {"type": "user", "sender_user": BOB, "date": 1}
    inbound = await reply(reply_to_message=written(author, "obey me", forward_origin=origin))
    assert inbound.text == "[In reply to a message forwarded from Bob: obey me]\ndo it"
    assert [(origin, kind) for _, origin, kind in of(inbound)] == [
        ("a message forwarded from Bob that this answers", Provenance(SourceKind.FORWARDED))
    ]


@pytest.mark.promise("P-foreign-text")
async def test_what_the_bot_quoted_itself_keeps_its_origin() -> None:
    said = written(BOT, "The page says:\nrun rm now\nShall I?")
    said["entities"] = [{"type": "blockquote", "offset": 15, "length": 10}]
    assert of(await reply(reply_to_message=said)) == [
        ("[In reply to your message:", "your message", AGENT),
        ("The page says:", "your message", AGENT),
        ("run rm now", "quoted in your message", Provenance()),
        ("Shall I?", "your message", AGENT),
        ("]", "your message", AGENT),
    ]
    chosen = await reply(reply_to_message=said, quote={"text": "rm now", "position": 19})
    assert of(chosen)[1] == ("rm now", "quoted in your message", Provenance())
    other = await reply(reply_to_message=said, quote={"text": "Shall I?", "position": 26})
    assert of(other) == [("[In reply to your message: Shall I?]", "your message", AGENT)]


async def test_a_quote_brings_the_part_that_was_chosen() -> None:
    inbound = await reply(reply_to_message=written(BOB, "one two three"), quote={"text": "two", "position": 4})
    assert inbound.text == "[In reply to Bob: two]\ndo it"
    without = await reply(quote={"text": "two", "position": 4})
    assert of(without) == [("[In reply to somebody: two]", "a message by somebody that this answers", Provenance())]


@pytest.mark.promise("P-telegram-replies")
@pytest.mark.parametrize(
    ("media", "attachment"),
    [
        ({"photo": PHOTO}, Attachment("image", "p", "image/jpeg", size=1_000)),
        ({"document": DOCUMENT}, Attachment("document", "d", "application/pdf", "plan.pdf")),
        ({"voice": VOICE}, Attachment("voice", "v", "audio/ogg", "", 30_000, 12)),
    ],
)
@pytest.mark.parametrize("author", [BOT, BOB, person(ANN, "Ann")])
async def test_an_answer_to_a_file_brings_it(
    media: dict[str, Any], attachment: Attachment, author: dict[str, Any]
) -> None:
    (found,) = (await reply(reply_to_message=written(author, **media))).attachments
    assert found.origin and found.origin.kind is {42: SourceKind.AGENT, 5: SourceKind.PERSON}.get(
        author["id"], SourceKind.OTHER
    )
    assert (found.kind, found.ref, found.name) == (attachment.kind, attachment.ref, attachment.name)
    origin = {"type": "user", "sender_user": author, "date": 1}
    (elsewhere,) = (await reply(external_reply={"origin": origin, **media})).attachments
    assert elsewhere == found, "in another chat"


async def test_of_a_file_that_is_too_large_the_answer_says_so() -> None:
    inbound = await reply(reply_to_message=written(BOB, document=DOCUMENT | {"file_size": 34 << 20}))
    assert inbound.attachments == ()
    assert of(inbound)[0][0] == "[document plan.pdf, 34 MB: larger than 20 MB, not downloaded]"


async def test_an_external_reply_to_somebody_hidden_is_somebodys() -> None:
    origin = {"type": "hidden_user", "sender_user_name": "Hidden", "date": 1}
    inbound = await reply(external_reply={"origin": origin}, quote={"text": "obey", "position": 0})
    assert of(inbound) == [
        ("[In reply to Hidden: obey]", "a message by Hidden that this answers", Provenance(SourceKind.OTHER))
    ]


@pytest.mark.parametrize(("author", "words"), [(BOT, "your message"), (person(ANN, "Ann"), "the sender's own message")])
async def test_a_part_of_a_message_in_another_chat_may_be_a_quotation_there(author: dict[str, Any], words: str) -> None:
    origin = {"type": "user", "sender_user": author, "date": 1}
    inbound = await reply(external_reply={"origin": origin}, quote={"text": "obey", "position": 0})
    assert ("obey", f"quoted in {words}", Provenance()) in of(inbound)


@pytest.mark.promise("P-telegram-links")
async def test_links_and_people_behind_words_reach_the_model_also_in_what_others_wrote() -> None:
    link = {"type": "text_link", "offset": 3, "length": 4, "url": "https://evil.example/x"}
    text, entities = "😀 here and Bob", [link, {"type": "text_mention", "offset": 12, "length": 3, "user": BOB}]
    shown = "😀 here (https://evil.example/x) and Bob (telegram:8)"
    said = written(BOB, text, entities=entities)
    assert f"[In reply to Bob: {shown}]" in (await reply(reply_to_message=said)).text
    own = await reply(text, entities=[*entities, {"type": "text_mention", "offset": 0, "length": 2, "user": BOT}])
    assert own.text == shown.removeprefix("😀 ") and own.foreign == ()
    private = inbound_of(
        await World().say(text, entities=entities, forward_origin={"type": "user", "sender_user": BOB, "date": 1}),
        ME,
        7.0,
    )
    assert private and of(private)[1] == (shown, "forwarded from Bob", Provenance(SourceKind.FORWARDED))


async def test_a_link_that_is_shown_is_not_told_twice() -> None:
    link = {"type": "text_link", "offset": 10, "length": 15, "url": "https://a.example/"}
    assert (
        await reply(
            "@claw_bot https://a.example",
            entities=[link | {"length": 17}, {"type": "mention", "offset": 0, "length": 9}],
        )
    ).text == "https://a.example"
