"""What one person sends another through the bot: named, stoppable, and only after a yes."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from goclaw.channels.base import Capabilities, Doubt
from goclaw.common.auth.users import User
from goclaw.common.core.catalog import TOOLS
from goclaw.common.core.events import (
    ALLOW,
    DENY,
    Actor,
    Address,
    AnswerRefusal,
    Delivery,
    QuestionAnswered,
    QuestionAsked,
)
from goclaw.common.core.messages import ToolCall
from goclaw.common.core.plugins import load
from goclaw.conversation.schedules.messages_to_others import MOST_HELD
from goclaw.errors import AccessDenied
from goclaw.tools.toolkit.base import Tool
from tests.conversation.schedules.jobs import DAY, HOUR, asleep, hourly, kills, once, pass_time
from tests.conversation.sessions.looking import unless_dead
from tests.harness import HERE, Answer, Core, World

ANN, BEN = Actor("memory:ann", "memory"), Actor("memory:ben", "memory")
BOSS, CHIEF = Actor("memory:boss", "memory"), Actor("memory:chief", "memory")
ADMIN = frozenset({"admin"})
PEOPLE = [
    User(ANN.key, name="Ann"),
    User(BEN.key, name="Ben"),
    User(BOSS.key, name="Bo", roles=ADMIN),
    User(CHIEF.key, name="Chi", roles=ADMIN),
]
ASKED = "Ann wants to send you messages through me. Allow?"
SAID = "**From Ann:**\n\nDrink tea."
GROUP = Address("telegram", "-1001")


def call(name: str, number: str, **given: Any) -> ToolCall:
    return ToolCall(number, name, given)


def world(tmp_path: Path, *answers: Answer, **options: Any) -> World:
    return World(tmp_path, answers, users=options.pop("users", PEOPLE), tools=[load(TOOLS["message"], Tool)], **options)


def heard(world: World, person: Actor) -> list[str]:
    """What came to a person's chat: new messages, and `edit: …`."""
    at = person.key.removeprefix("memory:")
    return [
        each.delivery.text if each.delivery.action == "send" else f"{each.delivery.action}: {each.delivery.text}"
        for each in world.room.all
        if each.delivery.address.chat == at
    ]


async def press(core: Core, world: World, person: Actor, label: str) -> str:
    """Press the newest button of a person's chat that has this label."""
    at = person.key.removeprefix("memory:")
    choices = [c for each in world.room.all if each.delivery.address.chat == at for c in each.delivery.choices]
    said = await core.room.press([each for each in choices if each.label == label][-1], person)
    await core.settled()
    return said


async def to_ben(core: Core, world: World, **more: Any) -> None:
    """Have Ann's hourly schedule go to Ben, as rows of earlier versions have it."""
    given: dict[str, Any] = {"actor": ANN, "session": ANN.key, "address": Address("memory", "ben"), "elsewhere": True}
    await hourly(core, world, **given | more)


def cards(core: Core) -> list[tuple[str, str]]:
    """What the terminals and pages of Ben's conversation were shown of questions: what is asked, what was answered."""
    return [
        ("asked", event.question.title) if isinstance(event, QuestionAsked) else (event.answer, event.by)
        for event in core.seen
        if isinstance(event, QuestionAsked | QuestionAnswered) and event.session == BEN.key
    ]


@pytest.mark.promise("P-message-other-chats")
@pytest.mark.parametrize(("answer", "words"), [(ALLOW, "may send"), (DENY, "may not send")])
async def test_a_terminal_and_a_page_show_the_question_too_also_later_and_take_the_answer(
    tmp_path: Path, answer: str, words: str
) -> None:
    stage = world(tmp_path)
    async with stage.running() as core:
        await to_ben(core, stage)
        await pass_time(core, stage, HOUR)
        assert cards(core) == [("asked", ASKED)]
    async with stage.running() as core:
        (question,) = (await core.gateway.now(BEN.key)).questions
        assert (question.title, question.options, question.asker) == (ASKED, (ALLOW, DENY), BEN.key)
        assert (await core.gateway.now(ANN.key)).questions == ()
        assert (await core.gateway.decide(ANN, question.id, answer)).refusal is AnswerRefusal.GONE
        assert words in (await core.gateway.decide(BEN, question.id, answer)).text
        await core.settled()
        assert cards(core) == [(answer, BEN.key)] and (await core.gateway.now(BEN.key)).questions == ()
        assert heard(stage, BEN)[-1].startswith("edit: ")


@pytest.mark.promise("P-message-other-chats")
@pytest.mark.parametrize("entries", [("tui:ben", None), ("tui:ben", ""), ("", BEN.key)])
async def test_a_terminal_with_the_receivers_conversation_answers_and_lists_stops(
    tmp_path: Path, entries: tuple[str, str | None]
) -> None:
    """The receiver's entry names the terminal's session, or the terminal's entry names the receiver's."""
    mine, at_terminal = entries
    listed = [] if at_terminal is None else [User("tui:ben", name="Ben's", session=at_terminal or None)]
    people = [*(each for each in PEOPLE if each.key != BEN.key), User(BEN.key, name="Ben", session=mine or None)]
    stage = world(tmp_path, users=[*people, *listed])
    terminal, session = Actor("tui:ben", "socket", owner=True), mine or BEN.key
    async with stage.running() as core:
        await to_ben(core, stage)
        await pass_time(core, stage, HOUR)
        assert [each.session for each in core.seen if isinstance(each, QuestionAsked)] == [session]
        (question,) = (await core.gateway.now(session)).questions
        for other in (ANN, BOSS, Actor("tui:other", "socket", owner=True)):
            assert (await core.gateway.decide(other, question.id, ALLOW)).refusal is AnswerRefusal.GONE
        assert "may not send" in (await core.gateway.decide(terminal, question.id, DENY)).text
        await core.settled()
        others = core.schedules.scheduler.others
        (stopped,) = await others.list_stops(terminal, Address("local", session))
        assert stopped.author == ANN.key and await others.list_stops(BOSS, Address("memory", "boss")) == []


@pytest.mark.parametrize(
    "people",
    [
        [User(ANN.key, name="Ann", session="team"), User(BEN.key, name="Ben", session="team")],
        [User(ANN.key, name="Ann", session="tui:ben"), User(BEN.key, name="Ben", session="tui:ben")],
        [User(ANN.key, name="Ann", session="telegram:-7"), User(BEN.key, name="Ben", session="telegram:-7")],
    ],
)
async def test_a_conversation_that_others_share_shows_no_question_and_only_the_receiver_answers(
    tmp_path: Path, people: list[User]
) -> None:
    stage = world(tmp_path, users=people)
    shared = str(people[1].session)
    async with stage.running() as core:
        await to_ben(core, stage)
        await pass_time(core, stage, HOUR)
        assert heard(stage, BEN) == [ASKED]
        assert not [each for each in core.seen if isinstance(each, QuestionAsked)]
        assert (await core.gateway.now(shared)).questions == ()
        (card,) = [each.delivery for each in stage.room.all if each.delivery.choices]
        for other in (ANN, Actor("tui:ben", "socket", owner=True), Actor("team", "socket", owner=True)):
            assert "does not exist" in await core.room.press(card.choices[0], other)
        assert await press(core, stage, BEN, "Allow") == "Ann may send you messages."


async def test_who_shares_the_receivers_conversation_does_not_agree_to_their_own_messages(tmp_path: Path) -> None:
    stage = world(tmp_path, users=[User(ANN.key, name="Ann", session=BEN.key), User(BEN.key, name="Ben")])
    async with stage.running() as core:
        await to_ben(core, stage)
        await pass_time(core, stage, HOUR)
        (question,) = (await core.gateway.now(BEN.key)).questions
        assert (await core.gateway.decide(ANN, question.id, ALLOW)).refusal is AnswerRefusal.GONE
        await press(core, stage, BEN, "No")
        others = core.schedules.scheduler.others
        assert not await others.list_stops(ANN, Address("memory", "ann"))
        assert await others.list_stops(BEN, Address("memory", "ben"))


@pytest.mark.promise("P-message-other-chats")
async def test_a_first_message_waits_for_the_receivers_yes_and_names_its_author(tmp_path: Path) -> None:
    stage = world(tmp_path)
    async with stage.running() as core:
        await to_ben(core, stage)
        await pass_time(core, stage, HOUR)
        assert heard(stage, BEN) == [ASKED]
        await pass_time(core, stage, HOUR)
        assert heard(stage, BEN) == [ASKED], "nothing more is asked or held meanwhile"
        assert await press(core, stage, BEN, "Allow") == "Ann may send you messages."
        assert heard(stage, BEN)[1:] == [SAID, "edit: ✓ Ann may send you messages."]
        await pass_time(core, stage, HOUR)
        assert heard(stage, BEN)[3:] == [SAID]
        assert heard(stage, ANN) == []


async def test_after_a_no_the_author_is_told_and_the_schedule_stops(tmp_path: Path) -> None:
    stage = world(tmp_path)
    async with stage.running() as core:
        await to_ben(core, stage)
        await pass_time(core, stage, HOUR)
        assert await press(core, stage, BEN, "No") == "Ann may not send you messages. /blocked takes that back."
        assert heard(stage, ANN) == ["memory:ben takes no messages from you, so your message was not delivered."]
        await pass_time(core, stage, HOUR)
        assert heard(stage, ANN)[1:] == ["The schedule tea has stopped: memory:ben takes no messages from you."]
        assert heard(stage, BEN)[:1] == [ASKED] and SAID not in heard(stage, BEN)


async def test_without_an_answer_for_a_day_the_author_is_told_and_a_late_yes_counts_no_more(tmp_path: Path) -> None:
    stage = world(tmp_path)
    async with stage.running() as core:
        await core.command("/schedule add tea --at 1h --message Drink tea. --to memory:ben", actor=ANN, chat="ann")
        await pass_time(core, stage, HOUR)
        await pass_time(core, stage, DAY)
        words = "memory:ben has not said for a day whether your messages are welcome, so yours was not delivered."
        assert heard(stage, ANN)[2:] == [words], "after the question for the zone, and the answer to the command"
        assert "does not exist" in await press(core, stage, BEN, "Allow")
        assert heard(stage, BEN) == [ASKED] and cards(core) == [("asked", ASKED), ("", "")]


async def test_stop_these_ends_an_authors_messages_and_blocked_takes_that_back(tmp_path: Path) -> None:
    stage = world(tmp_path)
    async with stage.running() as core:
        await to_ben(core, stage)
        await pass_time(core, stage, HOUR)
        await press(core, stage, BEN, "Allow")
        stopped = "You get no more messages from Ann. /blocked takes that back."
        assert await press(core, stage, BEN, "Stop these") == stopped
        await pass_time(core, stage, HOUR)
        assert heard(stage, BEN).count(SAID) == 1 and "has stopped" in heard(stage, ANN)[0]
        assert "1. Ann" in await core.command("/blocked", actor=BEN, chat="ben")
        assert await core.command("/blocked", actor=ANN, chat="ann") == "You have stopped nobody's messages."
        said = await core.command("/blocked remove 1", actor=BEN, chat="ben")
        assert said == "Ann may ask again to send you messages."
        await core.schedules.resume(ANN, "tea")
        await pass_time(core, stage, HOUR)
        assert heard(stage, BEN)[-1] == ASKED


async def test_only_the_receiver_answers_in_a_private_chat(tmp_path: Path) -> None:
    stage = world(tmp_path)
    async with stage.running() as core:
        await to_ben(core, stage)
        await pass_time(core, stage, HOUR)
        (card,) = [each.delivery for each in stage.room.all if each.delivery.choices]
        for other in (ANN, BOSS, Actor("memory:stranger", "memory")):
            assert "does not exist" in await core.room.press(card.choices[0], other)
        assert heard(stage, BEN) == [ASKED]


async def test_between_admins_nobody_is_asked_and_the_name_stands_above(tmp_path: Path) -> None:
    stage = world(tmp_path)
    async with stage.running() as core:
        await to_ben(core, stage, actor=BOSS, session=BOSS.key, address=Address("memory", "chief"))
        await pass_time(core, stage, HOUR)
        assert heard(stage, CHIEF) == ["**From Bo:**\n\nDrink tea."]
        assert "no more messages from Bo" in await press(core, stage, CHIEF, "Stop these")
        await pass_time(core, stage, HOUR)
        assert len(heard(stage, CHIEF)) == 1


async def test_an_admins_first_message_to_a_person_who_is_none_asks(tmp_path: Path) -> None:
    stage = world(tmp_path)
    async with stage.running() as core:
        await to_ben(core, stage, actor=BOSS, session=BOSS.key)
        await pass_time(core, stage, HOUR)
        assert heard(stage, BEN) == ["Bo wants to send you messages through me. Allow?"]


async def test_nothing_goes_to_a_chat_where_nobody_listed_could_agree(tmp_path: Path) -> None:
    stage = world(tmp_path)
    async with stage.running() as core:
        await to_ben(core, stage, address=Address("memory", "unknown"))
        await pass_time(core, stage, HOUR)
        assert [each.delivery.address.chat for each in stage.room.all] == ["ann"]
        assert "I do not know memory:unknown" in heard(stage, ANN)[0]


async def test_in_a_group_an_admin_decides(tmp_path: Path) -> None:
    stage = world(tmp_path)
    async with stage.running() as core:
        others = core.schedules.scheduler.others
        plan = await others.plan(ANN, [Delivery("m", GROUP, "Tea?", session=ANN.key)])
        assert plan.is_held
        await core.database.write(*plan.also)
        (held,) = await others.quiet.find_waiting(others_id(plan))
        question = f"a{others_id(plan)}"
        assert await others.answer(BEN, question, ALLOW) is None
        assert await others.answer(ANN, question, ALLOW) is None
        answered = await others.answer(BOSS, question, ALLOW)
        assert answered is not None and answered.refusal is None and held["id"] == "m"
        assert not (await others.plan(ANN, [Delivery("n", GROUP, "Tea?")])).is_held


def others_id(plan: Any) -> str:
    return str(plan.signed[0].choices[0].question[1:])


async def test_a_listed_person_decides_in_a_group_that_they_administer_at_the_service(tmp_path: Path) -> None:
    stage = world(tmp_path)
    async with stage.running() as core:
        asked = list[str]()

        async def admins_of(chat: str) -> list[str]:
            asked.append(chat)
            return [BEN.key, "memory:stranger"]

        channel = SimpleNamespace(capabilities=Capabilities(admins_of=admins_of))
        others = replace(core.schedules.scheduler.others, channels={"telegram": channel})
        plan = await others.plan(ANN, [Delivery("m", GROUP, "Tea?", session=ANN.key)])
        await core.database.write(*plan.also)
        for person in (ANN, Actor("memory:stranger", "memory")):
            assert await others.answer(person, f"a{others_id(plan)}", ALLOW) is None
        assert (await others.answer(BEN, f"a{others_id(plan)}", ALLOW)) is not None and asked == ["-1001", "-1001"]


async def test_only_so_many_messages_wait_for_an_answer(tmp_path: Path) -> None:
    stage = world(tmp_path)
    async with stage.running() as core:
        others = core.schedules.scheduler.others
        for number in range(MOST_HELD):
            plan = await others.plan(ANN, [Delivery(f"m{number}", Address("memory", "ben"), "Tea?", session=ANN.key)])
            await core.database.write(*plan.also)
        with pytest.raises(AccessDenied, match="has not said yet"):
            await others.plan(ANN, [Delivery("more", Address("memory", "ben"), "Tea?")])


async def test_a_tasks_result_for_another_person_is_held_and_signed_and_its_tools_do_not_speak_there(
    tmp_path: Path,
) -> None:
    spoken = call("message", "1", action="send", text="unsigned")
    stage = world(tmp_path, Answer(calls=(spoken,)), Answer("The news."), Answer("The news."))
    async with stage.running() as core:
        await to_ben(core, stage, kind="task")
        await pass_time(core, stage, HOUR)
        assert heard(stage, BEN) == [ASKED]
        await press(core, stage, BEN, "Allow")
        assert heard(stage, BEN)[1].startswith("**From Ann:**\n\nThe news.")
        assert not any("unsigned" in text for text in stage.texts())


async def test_a_task_for_another_person_asks_nothing_there(tmp_path: Path) -> None:
    stage = world(tmp_path)
    async with stage.running() as core:
        said = await core.command("/schedule add t --every 1h --task x --ask --to memory:ben", actor=ANN, chat="ann")
        assert said == "Not done: ask needs the chat where you can answer: leave out ask, or to."


async def test_a_message_of_the_agent_is_held_the_same_way(tmp_path: Path) -> None:
    send = call("message", "1", action="send", text="Tea?", channel="memory", chat_id="ben")
    stage = world(tmp_path, Answer(calls=(send,)), Answer("done"), policy={"auto_allow": ["message"]})
    async with stage.running() as core:
        await core.say("write to Ben", actor=ANN, chat="ann")
        await core.settled()
        assert heard(stage, BEN) == [ASKED] and heard(stage, ANN) == ["done"]
        await press(core, stage, BEN, "Allow")
        assert heard(stage, BEN)[1] == "**From Ann:**\n\nTea?"


@pytest.mark.parametrize(
    "action", [{"action": "edit", "text": "x"}, {"action": "delete"}, {"action": "react", "emoji": "👍"}]
)
async def test_the_agent_changes_nothing_in_another_persons_chat(tmp_path: Path, action: dict[str, str]) -> None:
    change = call("message", "1", message_id="1", channel="memory", chat_id="ben", **action)
    stage = world(tmp_path, Answer(calls=(change,)), Answer("done"), policy={"auto_allow": ["message"]})
    async with stage.running() as core:
        await core.say("do it", actor=ANN, chat="ann")
        await core.settled()
        assert heard(stage, BEN) == []


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"policy": {"stricter": {"high": "refuse"}}}, "Not allowed: the policy or the mode"),
        ({"policy": {"mode": "plan"}}, "Not allowed: the policy or the mode"),
        ({"roles": {"kid": {"approves": "none"}}}, "Not allowed: a message to another chat needs an approval"),
        ({}, "tea is set"),
    ],
)
async def test_a_command_is_judged_as_the_agents_message_would_be(
    tmp_path: Path, config: dict[str, Any], said: str
) -> None:
    role = frozenset({"kid"}) if "roles" in config else frozenset({"user"})
    stage = world(tmp_path, users=[User(ANN.key, name="Ann", roles=role), User(BEN.key)], **config)
    async with stage.running() as core:
        text = "/schedule add tea --at 1h --message Drink tea. --to memory:ben"
        assert (await core.command(text, actor=ANN, chat="ann")).startswith(said)


async def test_a_mode_of_the_conversation_binds_commands_too(tmp_path: Path) -> None:
    stage = world(tmp_path)
    async with stage.running() as core:
        await core.command("/mode plan", actor=ANN, chat="ann")
        text = "/schedule add tea --at 1h --message Drink tea. --to memory:ben"
        assert (await core.command(text, actor=ANN, chat="ann")).startswith("Not allowed: the policy or the mode")


async def test_in_quiet_hours_the_question_waits_with_its_buttons_and_each_author_has_a_message(tmp_path: Path) -> None:
    ben = User(BEN.key, name="Ben", quiet_hours="00:00-23:59")
    stage = world(tmp_path, users=[PEOPLE[0], ben, *PEOPLE[2:]])
    async with stage.running() as core:
        quiet = core.schedules.scheduler.quiet
        others = core.schedules.scheduler.others
        plan = await others.plan(ANN, [Delivery("m", Address("memory", "ben"), "Tea?", session=ANN.key)])
        await core.database.write(*plan.also)
        for number, name in enumerate(("Ann", "Bo", "Ann")):
            await quiet.promise(Delivery(f"q{number}", Address("memory", "ben"), name, author=name), ANN.key)
        assert heard(stage, BEN) == []
        await pass_time(core, stage, DAY)
        first, second, *_ = heard(stage, BEN)
        assert first.count("Ann") == 2 and second.endswith("Bo") and ASKED in heard(stage, BEN)
        (card,) = [each.delivery for each in stage.room.all if each.delivery.asks]
        assert [choice.answer for choice in card.choices] == [ALLOW, DENY]


async def test_a_name_cannot_be_taken_for_another_persons(tmp_path: Path) -> None:
    users = [User(ANN.key, name="Ben"), User(BEN.key, name="ben"), User(BOSS.key, name="**Bo**\n[x](y)", roles=ADMIN)]
    stage = world(tmp_path, users=users)
    async with stage.running() as core:
        others = core.schedules.scheduler.others
        plan = await others.plan(ANN, [Delivery("m", Address("memory", "ben"), "Tea?", session=ANN.key)])
        assert plan.signed[0].text == "**From Ben (memory:ann):**\n\nTea?"
        plan = await others.plan(BOSS, [Delivery("n", Address("memory", "ben"), "Tea?", session=BOSS.key)])
        assert plan.signed[0].text == "**From Bo x (y):**\n\nTea?"


async def test_names_of_schedules_are_each_persons_own(tmp_path: Path) -> None:
    stage = world(tmp_path)
    async with stage.running() as core:
        for who in (ANN, BEN):
            await hourly(core, stage, actor=who, session=who.key, address=Address("memory", who.key[7:]))
        said = await core.command("/schedule remove tea", actor=BOSS, chat="boss")
        assert said == ("Not done: 2 people have a schedule named tea: write one of memory:ann/tea, memory:ben/tea.")
        assert await core.command("/schedule remove memory:ann/tea", actor=BEN, chat="ben") == (
            "Not done: there is no schedule named memory:ann/tea."
        )
        await core.command("/schedule remove memory:ann/tea", actor=BOSS, chat="boss")
        assert [each.job.actor.key for each in await core.schedules.of(HERE)] == [BEN.key]


async def live(world: World, die_before: int | None = None) -> int:
    """A life in which a first message is held, and allowed; returns the number of writes."""
    async with world.running(die_before=die_before) as core:
        await unless_dead(core, allow(core, world))
        return core.database.writes


async def allow(core: Core, world: World) -> None:
    if not await core.schedules.of(ANN):
        await once(core, world, HOUR, actor=ANN, session=ANN.key, address=Address("memory", "ben"), elsewhere=True)
    if ASKED not in heard(world, BEN):
        await pass_time(core, world, HOUR)
    await asleep(core)
    await core.settled()
    if ASKED in heard(world, BEN):
        await press(core, world, BEN, "Allow")


async def test_a_kill_at_any_write_neither_loses_nor_doubles_what_was_allowed(tmp_path: Path) -> None:
    first = tmp_path / "whole"
    first.mkdir()
    writes = await live(world(first))
    assert writes >= 5
    for number in kills(writes):
        folder = tmp_path / str(number)
        folder.mkdir()
        stage, where = world(folder), f"killed before write {number} of {writes}"
        await live(stage, die_before=number)
        await live(stage)
        async with stage.running() as core:
            await core.settled()
        unmarked = Counter(each.delivery.text for each in stage.room.all if each.doubt is Doubt.NONE)
        assert unmarked[SAID] <= 1 <= heard(stage, BEN).count(SAID), where
        assert heard(stage, ANN) == [], where


async def test_a_yes_holds_after_a_restart(tmp_path: Path) -> None:
    stage = world(tmp_path)
    async with stage.running() as core:
        await to_ben(core, stage)
        await pass_time(core, stage, HOUR)
    async with stage.running() as core:
        assert await press(core, stage, BEN, "Allow") == "Ann may send you messages."
    async with stage.running() as core:
        await pass_time(core, stage, HOUR)
        assert heard(stage, BEN).count(SAID) == 2


@pytest.mark.parametrize("spelling", ["01001", "+1001", "1_001"])
async def test_another_spelling_of_a_chat_is_the_same_chat(tmp_path: Path, spelling: str) -> None:
    users = [*PEOPLE, User("telegram:1001", name="Dan")]
    stage = world(tmp_path, users=users)
    async with stage.running() as core:
        others = core.schedules.scheduler.others
        (dan, same) = [
            await others.plan(BOSS, [Delivery("m", Address("telegram", chat), "x")]) for chat in ("1001", spelling)
        ]
        assert dan.is_held and same.is_held and others_id(dan) == others_id(same)
