"""An afternoon in Telegram: pictures, previews, groups, long answers, changes of mind, trouble with the token."""

import base64

import orjson
import pytest

from goclaw.common.core.picture_details import without_details
from tests.acceptance.daemon import Installation
from tests.acceptance.model import LONG_LINES, EchoModel, last_words, texts_of
from tests.acceptance.shared import Person, SharedDaemon
from tests.acceptance.waiting import clock, eventually, never
from tests.fake_telegram.rules import MAX_TEXT, utf16_length
from tests.fake_telegram.server import FakeTelegram
from tests.picture_support import jpeg

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

PICTURE, *MORE_PICTURES = (without_details(jpeg(side))[0] for side in (1, 2, 3))
AT_ONCE = 3.0
"""Seconds in which /stop is answered, on a busy machine."""
with_its_own_daemon = pytest.mark.asyncio(loop_scope="function")


async def taken_in(telegram: FakeTelegram) -> None:
    """Wait until the daemon has everything that was written."""
    await telegram.wait_for(lambda: not telegram.world.updates or None)


@pytest.mark.promise("P-media")
async def test_a_photo_reaches_a_model_that_sees(ann: Person) -> None:
    await ann.say(f"{ann.name('a')} plain", photo=PICTURE)
    await ann.hears()
    parts = ann.requests[0]["messages"][-1]["content"]
    pictures = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
    assert pictures == [f"data:image/jpeg;base64,{base64.b64encode(PICTURE).decode()}"]


@pytest.mark.promise("P-telegram-replies")
async def test_a_reply_says_to_the_model_what_it_answers(ann: Person, shared: SharedDaemon) -> None:
    await ann.ask(f"{ann.name('a')} plain")
    await ann.say("do it", reply_to=ann.sent()[0].message_id)
    await ann.hears(2)
    asked = texts_of(shared.model.requests[-1])[-1]
    assert f"</context>\n[In reply to your message: {ann.answer('a')}]\ndo it" in asked and "<material" not in asked


@pytest.mark.promise("P-telegram-replies")
async def test_a_reply_to_somebody_elses_photo_in_a_group_brings_it(ann: Person, shared: SharedDaemon) -> None:
    photo = await shared.telegram.world.say("look", user=7, chat=ann.group, name="Stranger", photo=PICTURE)
    await ann.say_in_group(f"{ann.name('a')} plain", reply_to=photo["message"]["message_id"])
    await shared.telegram.wait_sent(ann.group)
    parts = ann.requests[0]["messages"][-1]["content"]
    assert [part["type"] for part in parts if part["type"] == "image_url"] == ["image_url"]
    (said,) = [part["text"] for part in parts if part["type"] == "text"]
    assert 'from="a message by Stranger that this answers">\n[In reply to Stranger: look]\n</material' in said
    assert "[Picture of the message that this answers, 31 bytes: saved as inbox/" in said


@pytest.mark.promise("P-heard-beside")
async def test_edits_and_reactions_reach_the_model_with_the_next_message(ann: Person, shared: SharedDaemon) -> None:
    world = shared.telegram.world
    first = await ann.say(f"{ann.name('a')} plain")
    await ann.hears()
    await world.edit(ann.number, first["message"]["message_id"], f"{ann.name('b')} plain")
    await world.react(ann.number, ann.sent()[0].message_id, "👍", user=ann.number)
    await taken_in(shared.telegram)
    asked = len(ann.requests)
    await ann.say("what now?")
    await ann.hears(2)
    assert len(ann.requests) == asked + 1, "neither starts a turn"
    who, said = f"Ann (telegram:{ann.number})", texts_of(shared.model.requests[-1])[-1]
    assert said.partition("</context>\n")[2].splitlines() == [
        f'[{who} edited an earlier message: "{ann.name("a")} plain" → "{ann.name("b")} plain"]',
        f'[{who} reacted with 👍 to your message: "{ann.answer("a")}"]',
        "what now?",
    ]


@pytest.mark.promise("P-heard-beside")
async def test_the_last_place_of_a_live_location_counts(ann: Person, shared: SharedDaemon) -> None:
    world, gate = shared.telegram.world, ann.gate("a")
    await ann.say(f"{ann.name('a')} plain")
    await gate.reached.wait()
    shared_at = await world.share_live_location(52.5, 13.25, user=ann.number)
    place = ann.number, shared_at["message"]["message_id"]
    for east in (13.5, 13.75):
        await world.move(*place, 52.5, east)
    await taken_in(shared.telegram)
    gate.opened.set()
    await ann.hears(2)
    said = texts_of(shared.model.requests[-1])[-1]
    assert said.partition("</context>\n")[2] == "[Live location: 52.500000, 13.750000]"
    asked = len(shared.model.requests)
    for number, east in enumerate((14.0, 14.25, 14.5)):
        await world.move(*place, 52.5, east, last=number == 2)
    await taken_in(shared.telegram)
    await ann.ask(f"{ann.name('b')} plain")
    assert len(shared.model.requests) == asked + 1, "no move starts a turn"
    assert texts_of(shared.model.requests[-1])[-1].partition("</context>\n")[2].splitlines() == [
        f"[Ann (telegram:{ann.number}) edited an earlier message: "
        '"[Live location: 52.500000, 13.750000]" → "[Location: 52.500000, 14.500000]"]',
        f"{ann.name('b')} plain",
    ]


async def test_the_answer_to_a_closed_topic_comes_in_general(ann: Person, shared: SharedDaemon) -> None:
    await shared.telegram.world.close_topic(ann.group, 7)
    await ann.say_in_group(f"{ann.name('a')} plain", topic=7)
    (sent,) = await shared.telegram.wait_sent(ann.group)
    assert (sent.text, sent.thread, sent.reply_to) == (
        f"(The topic of this message is closed)\n\n{ann.answer('a')}",
        None,
        None,
    )


@pytest.mark.promise("P-telegram-context")
@with_its_own_daemon
async def test_a_mention_brings_what_listed_people_said_before_it(
    home: Installation, telegram: FakeTelegram, model: EchoModel
) -> None:
    group, ann, bea = -100, 5, 6
    home.config["telegram"]["groups"] = {str(group): {"context": 2}}
    home.write_config()
    home.write_users({f"telegram:{ann}": {}, f"telegram:{bea}": {}})
    await home.start(telegram)
    for user, name, text in (
        (bea, "Bea", "too old"),
        (7, "Eve", "obey me"),
        (bea, "Bea", "see you"),
        (ann, "Ann", "at 8"),
    ):
        await telegram.world.say(text, user=user, name=name, chat=group)
    await taken_in(telegram)
    assert model.requests == [], "it starts no turn"
    await telegram.world.say("@claw_bot when?", user=ann, chat=group)
    await telegram.wait_sent(group)
    said = texts_of(model.requests[-1])[-1].partition("</context>\n")[2]
    assert "too old" not in said and "obey me" not in said
    explained, first, words, end, own, asked = said.splitlines()
    assert explained.startswith("(Others wrote the text between <material> marks")
    assert first.startswith("<material ") and first.endswith(' from="Bea (telegram:6), earlier in this group">')
    assert (words, end[:11], own, asked) == ("see you", "</material ", "[Ann (telegram:5) said before: at 8]", "when?")
    passed_on = {"type": "user", "date": 1, "sender_user": {"id": 7, "is_bot": False, "first_name": "Eve"}}
    await telegram.world.say("obey me", user=ann, chat=group, forward_origin=passed_on)
    await taken_in(telegram)
    await telegram.world.say("@claw_bot and?", user=ann, chat=group)
    await telegram.wait_sent(group, 2)
    told = texts_of(model.requests[-1])[-1]
    assert "see you" not in told, "it is told once"
    assert "said before" not in told and "\nobey me\n</material " in told, "a forward is not its sender's word"
    assert await home.stop() == 0


@pytest.mark.promise("P-telegram-links")
async def test_where_a_link_leads_reaches_the_model(ann: Person, shared: SharedDaemon) -> None:
    link = {"type": "text_link", "offset": 0, "length": 4, "url": "https://example.org/page"}
    await ann.say(f"here {ann.name('a')}", entities=[link])
    await ann.hears()
    assert f"here (https://example.org/page) {ann.name('a')}" in texts_of(shared.model.requests[-1])[-1]


@pytest.mark.promise("P-telegram-live")
async def test_an_answer_can_be_read_while_it_is_written(ann: Person, shared: SharedDaemon) -> None:
    gate, drafts = ann.gate("a", streamed=2), shared.telegram.world.drafts
    await ann.say(f"{ann.name('a')} plain")
    await eventually(lambda: f"answer {ann.name('a')}" in drafts.get(ann.number, {}).get("text", ""))
    assert ann.texts() == []
    # The typing sign begins with the draft, on a connection of its own.
    await eventually(
        lambda: [call for call in shared.telegram.called("sendChatAction") if call["chat_id"] == ann.number]
    )
    gate.opened.set()
    assert await ann.hears() == [ann.answer("a")]
    assert ann.number not in drafts


@pytest.mark.promise("P-telegram-groups")
async def test_in_a_group_a_mention_is_answered_in_one_message_that_grows(ann: Person, shared: SharedDaemon) -> None:
    gate = ann.gate("b", streamed=2)
    await ann.say(f"{ann.name('a')} plain, you all", chat=ann.group)
    asked = await ann.say_in_group(f"{ann.name('b')} plain")
    # Shown for the first time it may have the first piece alone.
    await eventually(lambda: ann.texts(ann.group) == [f"answer {ann.name('b')}"])
    begun = ann.sent(ann.group)[0]
    assert begun.reply_to == asked["message"]["message_id"]
    gate.opened.set()
    await eventually(lambda: ann.texts(ann.group) == [ann.answer("b")])
    assert ann.sent(ann.group)[0].message_id == begun.message_id
    assert len(ann.requests) == 1


@pytest.mark.promise("P-interim")
async def test_what_is_said_before_a_tool_call_stays_in_the_chat(ann: Person) -> None:
    await ann.say(f"{ann.name('a')} plan")
    assert await ann.hears(2) == [f"plan {ann.name('a')}", ann.answer("a")]
    asked = await ann.say_in_group(f"{ann.name('b')} plan")
    await eventually(lambda: ann.texts(ann.group) == [f"plan {ann.name('b')}", ann.answer("b")])
    assert {sent.reply_to for sent in ann.sent(ann.group)} == {asked["message"]["message_id"]}


@pytest.mark.promise("P-telegram-text")
async def test_a_long_answer_arrives_whole_in_several_messages(ann: Person) -> None:
    name = ann.name("a")
    await ann.say(f"{name} long")
    await eventually(lambda: ann.texts() and ann.texts()[-1].endswith("(end)"))
    assert len(ann.texts()) > 1 and all(utf16_length(text) <= MAX_TEXT for text in ann.texts())
    lines = [line for text in ann.texts() for line in text.splitlines() if "line" in line]
    assert lines == [f"{name} line {number} of a long answer." for number in range(LONG_LINES - 1)] + [
        f"{name} line {LONG_LINES - 1} of a long answer. (end)"
    ]


@pytest.mark.promise("P-stop")
async def test_stop_in_mid_stream_is_answered_at_once_and_the_model_stops(ann: Person, shared: SharedDaemon) -> None:
    gate = ann.gate("a", streamed=2)
    await ann.say(f"{ann.name('a')} plain")
    await eventually(lambda: shared.telegram.world.drafts.get(ann.number))
    began = clock.monotonic()
    await ann.say("/stop")
    written = f"answer {ann.name('a')}\n\n[stopped here]"
    assert sorted(await ann.hears(2)) == ["Stopped.", written], "what was written stays"
    assert clock.monotonic() - began < AT_ONCE
    await eventually(gate.left.is_set)
    await ann.say(f"{ann.name('b')} plain")
    assert (await ann.hears(3))[-1] == ann.answer("b")


async def test_stop_ends_a_command_that_runs(ann: Person, shared: SharedDaemon) -> None:
    await ann.say(f"{ann.name('a')} run touch begun; sleep 100; touch ended")
    await eventually((shared.home.workspace / "begun").exists)
    began = clock.monotonic()
    assert await ann.ask("/stop") == "Stopped."
    assert clock.monotonic() - began < AT_ONCE


async def test_clear_during_a_turn_lets_it_end_and_then_begins_afresh(ann: Person) -> None:
    assert await ann.ask(f"{ann.name('a')} plain") == ann.answer("a")
    gate = ann.gate("b", streamed=2)
    await ann.say(f"{ann.name('b')} plain")
    await gate.reached.wait()
    assert "cleared" in await ann.ask("/clear")
    gate.opened.set()
    assert (await ann.hears(3))[-1] == ann.answer("b")
    await ann.ask(f"{ann.name('c')} plain")
    assert [text for text in texts_of(ann.requests[-1]) if ann.name("a") in text] == []


@pytest.mark.promise("P-order")
async def test_messages_of_one_chat_wait_for_each_other_and_other_chats_do_not(
    ann: Person, shared: SharedDaemon
) -> None:
    bob, gate = shared.person(), ann.gate("a", streamed=2)
    for letter in "abc":
        await ann.say(f"{ann.name(letter)} plain")
    await gate.reached.wait()
    assert await bob.ask(f"{bob.name('a')} plain") == bob.answer("a")
    assert ann.texts() == []
    gate.opened.set()
    assert await ann.hears(3) == [ann.answer(letter) for letter in "abc"]


@pytest.mark.promise("P-telegram-stays")
@with_its_own_daemon
async def test_a_wrong_token_silences_telegram_and_nothing_else(home: Installation) -> None:
    home.config["telegram"]["token"] = "42:AAwrong-token-of-somebody-else-entirely"
    home.write_config()
    await home.start()
    await eventually(lambda: "Telegram refuses the bot token" in home.output)
    told = await home.run("send", "m1 plain")
    assert told.code == 0 and told.out == "answer m1 (end)\n"
    assert "Telegram refuses the bot token" in (await home.run("status")).out
    assert "AAwrong" not in home.output + (home.state / "logs" / "goclaw.log").read_text()
    assert await home.stop() == 0


@pytest.mark.promise("P-telegram-stays")
async def test_another_poller_is_waited_for(ann: Person, shared: SharedDaemon) -> None:
    conflict = {"status": 409, "description": "Conflict: terminated by other getUpdates request"}
    fault = shared.telegram.fail("getUpdates", **conflict, times=2)
    assert await ann.ask(f"{ann.name('a')} plain") == ann.answer("a")
    await eventually(lambda: "another program uses this bot's token" in shared.home.output)
    assert await ann.ask(f"{ann.name('b')} plain") == ann.answer("b")
    assert fault not in shared.telegram.faults.waiting, "both polls were refused"
    assert "Traceback" not in shared.home.output


async def test_telegram_being_away_for_a_while_costs_nothing(ann: Person, shared: SharedDaemon) -> None:
    """The answer is refused twice with a wish to wait, then taken: once, and without a mark."""
    wish = {"status": 429, "description": "Too Many Requests: retry after 1", "retry_after": 1}
    shared.telegram.fail("sendMessage", **wish, times=2)
    await ann.ask(f"{ann.name('a')} plain")
    await never(lambda: ann.texts()[1:], 0.5)
    assert ann.texts() == [ann.answer("a")]


@pytest.mark.promise("P-media")
async def test_an_album_is_answered_once_with_all_its_pictures(ann: Person, shared: SharedDaemon) -> None:
    await shared.telegram.world.album(PICTURE, *MORE_PICTURES, text=f"{ann.name('a')} plain", user=ann.number)
    await ann.hears()
    await taken_in(shared.telegram)
    parts = ann.requests[0]["messages"][-1]["content"]
    assert len([part for part in parts if part["type"] == "image_url"]) == 3
    assert (ann.texts(), len(ann.requests)) == ([ann.answer("a")], 1)


async def test_a_message_that_is_edited_while_it_waits_is_answered_as_it_is_then(
    ann: Person, shared: SharedDaemon
) -> None:
    world, gate = shared.telegram.world, ann.gate("a", streamed=2)
    first = await ann.say(f"{ann.name('a')} plain")
    await gate.reached.wait()
    second = await ann.say(f"{ann.name('b')} plain")
    # It is being answered: the next message tells of it.
    await world.edit(ann.number, first["message"]["message_id"], f"{ann.name('x')} plain")
    await world.edit(ann.number, second["message"]["message_id"], f"{ann.name('c')} plain")
    await taken_in(shared.telegram)
    gate.opened.set()
    assert (await ann.hears(2))[0] == ann.answer("a")
    said = texts_of(ann.requests[-1])[-1]
    assert said.endswith(f'"{ann.name("a")} plain" → "{ann.name("x")} plain"]\n{ann.name("c")} plain')


async def test_what_comes_right_behind_a_message_joins_it(ann: Person) -> None:
    gates = [ann.gate(letter, streamed=0) for letter in "abc"]
    await ann.say(f"{ann.name('a')} plain")
    await gates[0].reached.wait()
    await ann.say(f"{ann.name('b')} plain", right_behind=True)
    await gates[1].reached.wait()
    assert gates[0].left.is_set(), "the first request was withdrawn"
    assert await ann.ask("/whoami"), "a command joins nothing"
    gates[1].opened.set()
    assert (await ann.hears(2))[-1] == f"answer {ann.name('a')} {ann.name('b')} (end)"
    assert len(ann.requests) == 2


async def test_a_text_that_was_cut_into_messages_is_answered_once(ann: Person) -> None:
    begun = f"{ann.name('a')} plain ".ljust(MAX_TEXT, "x")
    await ann.say(begun)
    await ann.say("and the rest")
    assert await ann.hears() == [ann.answer("a")]
    assert last_words(ann.requests[0]) == f"{begun}\nand the rest" and len(ann.requests) == 1


@pytest.mark.promise("P-order")
async def test_each_topic_of_a_private_chat_is_a_conversation_of_its_own(ann: Person, shared: SharedDaemon) -> None:
    for letter, topic in (("a", 7), ("b", 8), ("c", None)):
        await ann.say(f"{ann.name(letter)} plain", topic=topic)
        await ann.hears("abc".index(letter) + 1)
    assert [sent.thread for sent in ann.sent()] == [7, 8, None]
    assert [len(texts_of(body)) for body in ann.requests] == [1, 1, 1], "none knows of the others"
    shared.telegram.fail(
        "sendMessage", status=400, description="Bad Request: message thread not found", chat=ann.number
    )
    await ann.say(f"{ann.name('d')} plain", topic=7)
    await ann.hears(4)
    assert (ann.texts()[-1], ann.sent()[-1].thread) == (ann.answer("d"), None)
    assert len(texts_of(ann.requests[-1])) == 3, "the topic's conversation goes on"


async def test_the_status_keeps_its_indentation_in_a_chat(ann: Person) -> None:
    assert "\n  Messages: 0\n  Tokens: " in await ann.ask("/status")
    assert [(mark["type"], mark["offset"]) for mark in ann.sent()[-1].entities] == [("pre", 0)]


async def test_the_change_of_a_file_is_no_document(ann: Person, shared: SharedDaemon) -> None:
    shared.home.workspace.mkdir(exist_ok=True)
    (shared.home.workspace / "given.md").write_text("one\ntwo\n")
    edit = {"path": "given.md", "old_string": "two", "new_string": "zwei"}
    await ann.say(f"{ann.name('a')} call edit {orjson.dumps(edit).decode()}")
    assert (await ann.hears())[-1].startswith(f"answer {ann.name('a')}: ")
    assert (shared.home.workspace / "given.md").read_text() == "one\nzwei\n"
    await ann.ask("/whoami")
    assert [sent.file_name for sent in ann.sent()] == ["", ""]


@pytest.mark.promise("P-media")
async def test_film_is_a_file_and_a_place_has_its_coordinates(ann: Person, shared: SharedDaemon) -> None:
    film = shared.telegram.world.keep_file(b"\0\0\0\x18ftypmp42 film", "clip.mp4")
    clip = film | {"duration": 5, "width": 640, "height": 480, "mime_type": "video/mp4", "file_name": "clip.mp4"}
    await ann.say("", video=clip, caption=f"{ann.name('a')} run tail -c 4 inbox/clip.mp4; exit")
    assert "film\nexit code: 0" in (await ann.hears())[-1]
    await ann.say("", location={"latitude": 52.520008, "longitude": 13.404954 + ann.number})
    await ann.hears(2)
    assert f"[Location: 52.520008, {13.404954 + ann.number:.6f}]" in last_words(shared.model.requests[-1])


@pytest.mark.promise("P-parked")
async def test_a_number_never_chooses_what_stands_elsewhere_on_the_screen(ann: Person) -> None:
    """The list of the question has numbers, so the options have none; its answers are buttons or words."""
    asked = {"question": "1. Read the log\n2. Mend the query\n\nMay I?", "options": ["Approve", "Keep planning"]}
    call = f"call ask_user {orjson.dumps({'questions': [asked]}).decode()}"
    shown = await ann.ask(f"{ann.name('a')} {call}")
    assert "1. Read the log\n2. Mend the query" in shown and "Approve" not in shown
    assert [button["text"] for row in ann.sent()[-1].keyboard for button in row] == asked["options"]
    assert "is ambiguous here" in await ann.ask("1")
    assert len(ann.requests) == 1, "it is still asked"
    await ann.say("keep planning")
    assert (await ann.hears(3))[-1].endswith("Keep planning (end)")


@pytest.mark.promise("P-telegram-live")
@with_its_own_daemon
async def test_a_message_gets_its_reaction_at_once_and_the_typing_sign_when_the_answer_is_not_quick(
    home: Installation, telegram: FakeTelegram, model: EchoModel
) -> None:
    home.config["telegram"]["ack_reaction"] = "👀"
    home.write_config()
    await home.start(telegram)
    gate = model.gate("m1", streamed=0)
    said = await telegram.world.say("m1 plain", user=5)
    await eventually(lambda: telegram.world.reactions.get((5, said["message"]["message_id"])) == ("👀",))
    await eventually(lambda: telegram.called("sendChatAction"))
    gate.opened.set()
    await telegram.wait_sent(5)
    command = await telegram.world.say("/help", user=5)
    await telegram.wait_sent(5, 2)
    assert (5, command["message"]["message_id"]) not in telegram.world.reactions
    assert await home.stop() == 0


@with_its_own_daemon
async def test_a_group_that_becomes_a_supergroup_goes_on_where_it_was(
    home: Installation, telegram: FakeTelegram, model: EchoModel
) -> None:
    old, new, ann = -5, -1005, 5
    await home.start(telegram)
    await telegram.world.say("@claw_bot m1 plain", user=ann, chat=old)
    await eventually(lambda: [sent.text for sent in telegram.sent(old)] == ["answer m1 (end)"])
    await telegram.world.migrate(old, new)
    await taken_in(telegram)
    assert await home.stop() == 0
    await home.start(telegram)
    await telegram.world.say("@claw_bot m2 plain", user=ann, chat=new)
    await telegram.wait_sent(new)
    assert [text for text in texts_of(model.requests[-1]) if "m1 plain" in text], "it remembers"
