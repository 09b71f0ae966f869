"""Two daemons on one schema: what is said to one of them is done by the one that has the conversation."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import psycopg
import pytest

from goclaw.common.config.values import PostgresPlace
from goclaw.common.core.events import AcceptKind, Actor, AnswerRefusal
from goclaw.conversation.questions.question_messages import answered
from goclaw.durable.store.database import StatementResult, Transaction
from goclaw.gateway.intake.owners import PRESS
from tests.acceptance.model import EchoModel
from tests.acceptance.waiting import clock, eventually
from tests.parts import sql
from tests.postgres import Server
from tests.replicas import SESSION, Replica, replicas, texts

pytestmark = [pytest.mark.timeout(120), pytest.mark.promise("P-any-replica")]

STRANGER = Actor("telegram:666", "telegram", name="Mallory")


@pytest.fixture
async def both(place: PostgresPlace, folder: Path, model: EchoModel) -> AsyncIterator[Sequence[Replica]]:
    """Two daemons; the first one takes every session that is wanted."""
    async with replicas(place, folder, model.url) as (owner, other), asyncio.timeout(90):
        owner.takes_alone(other)
        yield owner, other


def orders(server: Server, place: PostgresPlace) -> int:
    """How many orders were ever given."""
    with psycopg.connect(server.url, options=f"-csearch_path={place.schema}") as connection:
        found = connection.execute("SELECT coalesce(pg_sequence_last_value('orders_seq_seq'), 0)").fetchone()
    assert found is not None
    return int(found[0])


async def test_a_turn_is_stopped_from_elsewhere_about_as_fast_as_here(
    both: Sequence[Replica], model: EchoModel
) -> None:
    owner, other = both
    took = dict[str, float]()
    for number, (name, teller) in enumerate([("here", owner), ("elsewhere", other)]):
        gate = model.gate(f"m{number} ")
        assert (await other.say(f"m{number} plain")).kind is AcceptKind.TURN
        await gate.reached.wait()
        turn = (await owner.now()).turn
        async with asyncio.timeout(20):  # the other one is told a moment after
            while turn == "" or (await other.now()).turn != turn:
                await clock.sleep(0.01)
        began = clock.monotonic()
        stopped = await teller.say("/stop")
        took[name] = clock.monotonic() - began
        assert stopped.kind is AcceptKind.REPLY and stopped.text.startswith("Stop")
        await gate.left.wait()
        await eventually(lambda: owner.lanes.running(SESSION) is None)
        gate.opened.set()
    # Generous, as a busy machine runs this; an order that no notice tells of is answered after ten seconds.
    assert took["elsewhere"] < took["here"] + 5.0
    assert (await other.say("/stop")).text == "Nothing is running."


async def test_a_question_is_answered_in_words_or_by_a_press_from_elsewhere(
    both: Sequence[Replica], model: EchoModel
) -> None:
    owner, other = both
    await owner.say("m1 ask")
    [question] = await eventually(lambda: owner.app.sessions.ports.questions.of(SESSION))
    assert [each.question.id for each in await other.gateway.answerable(Actor("tui:here", "memory", owner=True))] == [
        question.id
    ]
    assert (await other.now()).questions == (question,)
    answered = await other.say("red")
    assert answered.kind is AcceptKind.ANSWER
    await eventually(lambda: any("answer m1" in text for text in texts(owner)))
    await owner.say("m2 ask")
    [second] = await eventually(lambda: owner.app.sessions.ports.questions.of(SESSION))
    actor = Actor("tui:here", "memory", owner=True)
    assert (await other.gateway.choose(actor, second.id, 0)).text == "Thank you."
    await eventually(lambda: any("answer m2" in text for text in texts(owner)))
    assert (await other.gateway.choose(actor, second.id, 0)).refusal is AnswerRefusal.DECIDED
    assert texts(other) == [], "only the owner sends"


@pytest.mark.promise("P-rolling-upgrade")
async def test_a_press_passes_between_gateways_of_this_and_the_former_version(
    both: Sequence[Replica], monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, other = both
    await owner.say("m1 ask")
    [question] = await eventually(lambda: owner.app.sessions.ports.questions.of(SESSION))
    actor, former = Actor("tui:here", "memory", owner=True), Owner("Thank you.")
    with monkeypatch.context() as patched:
        patched.setattr(other.sessions, "ask", former.ask)
        assert await other.gateway.choose(actor, question.id, 0) == answered("Thank you.")
    assert json.loads(former.body).items() >= {"question": question.id, "how": "choose", "index": 0}.items()
    press = {"actor": {"key": "tui:here", "entry": "memory", "owner": True}, "question": question.id, "how": "choose"}
    assert await other.sessions.ask(SESSION, PRESS, json.dumps(press)) == "Thank you."


class Owner:
    """An owner of the former version, which replies with a text."""

    def __init__(self, text: str) -> None:
        self.text, self.body = text, ""

    async def ask(self, session: str, kind: str, body: str) -> str:
        assert (session, kind) == (SESSION, PRESS)
        self.body = body
        return self.text


async def test_a_process_that_is_losing_a_session_takes_no_message_for_the_answer_to_a_question_of_before(
    both: Sequence[Replica], model: EchoModel
) -> None:
    owner, other = both
    await owner.say("m1 ask")
    await eventually(lambda: owner.app.sessions.ports.questions.of(SESSION))
    held = owner.sessions.held.of(SESSION)
    assert held is not None
    other.takes_alone(owner)
    await other.app.foundation.storage.database.write(sql("SELECT want_sessions_of_the_dead(0)"))
    await eventually(lambda: other.app.sessions.ports.questions.of(SESSION))
    assert (await other.say("red")).kind is AcceptKind.ANSWER
    await eventually(lambda: any("answer m1" in text for text in texts(other)))
    held.lease.is_lost = True  # it hears of that, and has not ended yet what it did
    assert (await owner.say("m2 plain")).kind is AcceptKind.TURN
    await eventually(lambda: any("answer m2" in text for text in texts(other)))


async def test_a_press_that_reaches_a_daemon_that_has_just_woken_answers_the_question_of_the_next_owner(
    both: Sequence[Replica], model: EchoModel
) -> None:
    owner, other = both
    await owner.say("m1 plain")
    await eventually(lambda: any("answer m1" in text for text in texts(owner)))
    held = owner.sessions.held.of(SESSION)
    assert held is not None
    with owner.asleep():
        other.takes_alone(owner)
        await other.app.foundation.storage.database.write(sql("SELECT want_sessions_of_the_dead(0)"))
        await other.say("m2 ask")
        [question] = await eventually(lambda: other.app.sessions.ports.questions.of(SESSION))
        assert owner.sessions.held.of(SESSION) is held, "it knows nothing of that"
        actor = Actor("tui:here", "memory", owner=True)
        assert (await owner.gateway.choose(actor, question.id, 0)).text == "Thank you."
    await eventually(lambda: any("answer m2" in text for text in texts(other)))


async def test_an_approval_is_given_from_elsewhere_by_its_id(
    place: PostgresPlace, folder: Path, model: EchoModel
) -> None:
    async with (
        replicas(place, folder, model.url, policy={"always_ask": ["write"]}) as (owner, other),
        asyncio.timeout(90),
    ):
        owner.takes_alone(other)
        for name, order, said in (("m1", "approve", "Allowed."), ("m2", "deny", "Denied.")):
            await owner.say(f"{name} write")
            [question] = await eventually(lambda: owner.app.sessions.ports.questions.of(SESSION))
            assert (await other.say(f"/{order} {question.id}")).text == said
            await eventually(lambda name=name: any(f"answer {name}" in text for text in texts(owner)))  # type: ignore[misc]  # bound at once
        assert [path.name for path in (folder / "work").glob("m?.txt")] == ["m1.txt"]


async def test_an_edit_reaches_a_message_that_waits_elsewhere(both: Sequence[Replica], model: EchoModel) -> None:
    owner, other = both
    gate = model.gate("m1 ")
    await owner.say("m1 plain")
    await gate.reached.wait()
    await owner.say("m2 wrong", ref="2")
    assert (await other.say("m3 plain", ref="2", edited=True)).kind is AcceptKind.REPLACED
    gate.opened.set()
    await eventually(lambda: any("answer m3" in text for text in texts(owner)))
    assert not any("m2" in text for text in texts(owner))


async def test_a_message_from_elsewhere_takes_the_place_of_the_turn_that_runs(
    both: Sequence[Replica], model: EchoModel
) -> None:
    owner, other = both
    assert "interrupt" in (await other.say("/queue interrupt")).text
    gate = model.gate("m1 ")
    await owner.say("m1 plain")
    await gate.reached.wait()
    assert (await other.say("m2 plain")).kind is AcceptKind.TURN
    await eventually(lambda: any("answer m2" in text for text in texts(owner)))
    await gate.left.wait()
    assert not any("answer m1" in text for text in texts(owner))


async def test_a_conversation_that_is_cleared_elsewhere_goes_on_without_the_old_context(
    both: Sequence[Replica], model: EchoModel
) -> None:
    owner, other = both
    await owner.say("m1 plain")
    await eventually(lambda: any("answer m1" in text for text in texts(owner)))
    assert (await other.say("/clear")).text.startswith("Conversation cleared.")
    await owner.say("m2 plain")
    await eventually(lambda: any("answer m2" in text for text in texts(owner)))
    assert "m1 plain" not in str(model.requests[-1]["messages"])


async def test_a_full_queue_is_told_elsewhere(place: PostgresPlace, folder: Path, model: EchoModel) -> None:
    async with replicas(place, folder, model.url, limits={"queued_messages": 1}) as (owner, other), asyncio.timeout(60):
        owner.takes_alone(other)
        gate = model.gate("m1 ")
        await owner.say("m1 plain")
        await gate.reached.wait()
        await other.say("m2 plain")
        assert "1 messages are already waiting" in (await other.say("m3 plain")).text
        gate.opened.set()
        await eventually(lambda: any("answer m2" in text for text in texts(owner)))


async def test_a_conversation_is_forgotten_from_elsewhere_also_where_no_process_has_it(
    both: Sequence[Replica], server: Server, place: PostgresPlace
) -> None:
    owner, other = both
    await other.say("m1 plain")
    await eventually(lambda: any("answer m1" in text for text in texts(owner)))
    code = (await other.say("/forget")).text.rpartition("/forget ")[2]
    await eventually(lambda: not owner.app.outbox.waiting())
    assert (await other.say(f"/forget {code}")).text.startswith("Deleted ")
    assert (await owner.now()).turn == ""
    await other.ownership._database.write()  # behind the deletion of the order
    with psycopg.connect(server.url, options=f"-csearch_path={place.schema}") as connection:
        assert connection.execute("SELECT 1 FROM messages WHERE session <> ''").fetchall() == []
        assert connection.execute("SELECT count(*) FROM orders WHERE body <> '' OR reply <> ''").fetchone() == (0,)


async def test_a_stranger_makes_no_order_and_what_needs_no_owner_none_either(
    both: Sequence[Replica], server: Server, place: PostgresPlace
) -> None:
    owner, other = both
    await owner.say("m1 plain")
    await eventually(owner.has)
    given = orders(server, place)
    for text in ("/stop", "hello", "/clear"):
        assert (await other.say(text, actor=STRANGER, session=SESSION)).kind is AcceptKind.IGNORED
    assert "/stop" in (await other.say("/help")).text
    await other.say("m2 plain")
    await eventually(lambda: any("answer m2" in text for text in texts(owner)))
    assert orders(server, place) == given
    await other.say("/stop")
    assert orders(server, place) == given + 1


async def test_a_plain_turn_costs_two_transactions_where_its_conversation_is(
    both: Sequence[Replica], monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, _ = both
    await owner.say("m1 plain")
    await eventually(lambda: any("answer m1" in text for text in texts(owner)) and not owner.app.outbox.waiting())
    database, own = owner.ownership._database, list[int]()
    commit = database._at_once

    async def counted(group: Sequence[Transaction]) -> list[list[StatementResult]]:
        # Beside the turn, the daemon stores its files and what it knows, whenever the time for that has come.
        if any(each.fence and each.fence.session == SESSION for each in group):
            own.append(len(group))
        return await commit(group)

    monkeypatch.setattr(database, "_at_once", counted)
    await owner.say("m2 plain")
    await eventually(lambda: any("answer m2" in text for text in texts(owner)) and not owner.app.outbox.waiting())
    assert 0 < len(own) <= 4
