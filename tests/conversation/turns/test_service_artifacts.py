"""What tools keep for people: never shown to a model, kept with its row, sent to the chat once."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from pydantic import BaseModel

from goclaw.channels.base import Capabilities
from goclaw.channels.memory import HERE, MemoryChannel, Room
from goclaw.common.auth.access import Access
from goclaw.common.auth.users import Users
from goclaw.common.config.schema import Config
from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.events import Address, Delivery, Inbound, MessageStored, Outcome, ToolFinished, ToolStarted
from goclaw.common.core.messages import NAMED, SAID, SENT, Artifact, ToolCall, ToolResult
from goclaw.common.specs import SideEffect
from goclaw.conversation.sessions.forgetting import MediaSweep
from goclaw.conversation.turns.service import MAX_ARTIFACT_BYTES, MAX_FILES, files_of
from goclaw.durable.store.media import NeededMedia
from goclaw.durable.store.sqlite.backup import needed_media, referred_media
from goclaw.llm.scripted import Answer
from goclaw.tools.toolkit.base import Tool, ToolContext, tool
from tests.harness import Core, World
from tests.kills import recorded

PLANTED = "the whole table, which no model needs"
SESSION = "memory:here"


class Table(BaseModel):
    """What people get."""

    rows: list[str]


def chart(*rows: str) -> Tool:
    @tool(
        side_effect=SideEffect.READ_ONLY,
        name="chart",
        artifacts={"table": Table},
        call_hint="Drawing {{ what }}",
        result_hint="It is {{ value }}",
    )
    async def run(ctx: ToolContext, what: str = "boats") -> str:
        """Draw a chart."""
        for row in rows or (PLANTED,):
            ctx.attach("table", Table(rows=[row]))
        return "drawn"

    return run


def answers(calls: int = 1) -> list[Answer]:
    asked = tuple(ToolCall(f"c{number}", "chart", {}) for number in range(calls))
    return [Answer("", calls=asked, when="go"), Answer("There it is.", when="drawn"), Answer("Bye.", when="bye")]


def files(world: World) -> list[Delivery]:
    return [heard.delivery for heard in world.room.all if heard.delivery.media]


def kept(world: World) -> set[str]:
    return {path.name for path in (world.folder / "blobs" / "media").iterdir() if not path.suffix}


async def said(core: Core, text: str, **options: Any) -> None:
    await core.say(text, **options)
    await core.settled()


@pytest.mark.promise("P-artifacts")
@pytest.mark.promise("P-media")
async def test_no_model_ever_gets_it_and_people_get_it_once_behind_the_answer(tmp_path: Path) -> None:
    world = World(tmp_path, answers(), tools=[chart()])
    async with world.running() as core:
        await said(core, "go")
        await core.command("/compact")
        await core.settled()
        await said(core, "bye")
        [file] = files(world)
        content = await core.sessions.ports.environment.blobs.get(file.media or "")
    assert orjson.loads(content) == {"rows": [PLANTED]} and file.media_name == "table.json"
    assert len(world.script.requests) >= 3
    for request in world.script.requests:
        assert PLANTED not in repr(request) and (file.media or "?") not in repr(
            [getattr(message, "content", "") for message in request.messages]
        )
    heard = [heard.delivery.media is not None or heard.delivery.text for heard in world.room.all]
    assert heard[:2] == ["There it is.", True]


async def test_hints_and_artifacts_are_told_while_it_runs_and_stand_in_the_row(tmp_path: Path) -> None:
    world = World(tmp_path, answers(), tools=[chart()])
    async with world.running() as core:
        await said(core, "go")
        [begun] = [event for event in core.seen if isinstance(event, ToolStarted)]
        [ended] = [event for event in core.seen if isinstance(event, ToolFinished)]
        [live] = [e.message for e in core.seen if isinstance(e, MessageStored) and isinstance(e.message, ToolResult)]
        [row] = [message for message in await core.messages() if isinstance(message, ToolResult)]
        [export] = [row for row in await core.gateway.transcript(SESSION, 0) if row.role == "tool_result"]
    assert begun.hint == "Drawing boats" and ended.hint == "It is drawn"
    assert row.hint == live.hint == export.hint == "It is drawn"
    assert row.call_hint == live.call_hint == export.call_hint == "Drawing boats"
    assert row.artifacts == live.artifacts == ended.artifacts == export.artifacts
    assert [artifact.kind for artifact in row.artifacts] == ["table"]


@pytest.mark.promise("P-media")
@pytest.mark.sqlite("asks the file as a backup does")
async def test_it_stays_as_long_as_its_row_however_old_and_goes_with_it(tmp_path: Path) -> None:
    world = World(tmp_path, answers(), tools=[chart()])
    async with world.running() as core:
        await said(core, "go")
        sweep = MediaSweep(core.sessions.ports.environment.blobs, NeededMedia(core.database), world.clock, 0)
        await core.command("/clear")
        await core.settled()
        world.clock.advance(10_000_000)
        assert await sweep.sweep() == 0 and len(kept(world)) == 1
        database = world.folder / "goclaw.db"
        assert kept(world) == await asyncio.to_thread(referred_media, database)
        assert kept(world) == await asyncio.to_thread(needed_media, database)
        await core.sessions.forgetter.forget(SESSION)
        assert await core.messages() == [] and kept(world) == set()


async def test_a_terminal_gets_those_of_the_session_alone_and_hears_what_is_gone(tmp_path: Path) -> None:
    world = World(tmp_path, answers(), tools=[chart()])
    async with world.running() as core:
        await said(core, "go")
        [key] = kept(world)
        text, more = await core.gateway.artifact(SESSION, key)
        assert PLANTED in text and not more
        for session, asked in (("memory:elsewhere", key), (SESSION, ""), (SESSION, key[:20]), (SESSION, '","')):
            assert (await core.gateway.artifact(session, asked))[0] == "this session has no such artifact"
        (world.folder / "blobs" / "media" / key).unlink()
        assert await core.gateway.artifact(SESSION, key) == ("it is no longer stored", False)


async def test_a_long_one_is_cut_for_the_terminal(tmp_path: Path) -> None:
    world = World(tmp_path, answers(), tools=[chart("ä" * 200_000)])
    async with world.running() as core:
        await said(core, "go")
        text, more = await core.gateway.artifact(SESSION, next(iter(kept(world))))
    assert more and 60_000 < len(text.encode()) <= 64 << 10


@pytest.mark.promise("P-answered-once")
async def test_after_any_crash_the_file_arrives_once_and_the_answer_too(tmp_path: Path) -> None:
    world = World(tmp_path, answers(), tools=[chart()])
    moments = await recorded(world, go)
    for moment in moments:
        with moment.restored():
            async with world.running() as core:
                await go(core)
            assert len(kept(world)) == 1
            certain = [heard for heard in world.room.all if not heard.doubt.value]
            assert len([heard for heard in certain if heard.delivery.media]) <= 1
            assert {heard.delivery.media for heard in world.room.all} == {None, *kept(world)}
    assert moments[-1].write > 7


async def go(core: Core) -> None:
    """What happens in a life: the message is (re)delivered."""
    await core.say("go", message_id="1")
    await core.settled()


def artifact(number: int, size: int = 10) -> Artifact:
    return Artifact("table", f"{number:064x}", "application/json", "table.json", size)


class Turning:
    """What is asked of a turn here."""

    def __init__(self, address: Address) -> None:
        self.id = "t1"
        self.inbound = Inbound("t1", HERE, "s", "go", address, 0.0)


def sent(artifacts: list[Artifact], outcome: Outcome = Outcome.ANSWERED, **options: Any) -> list[str | None]:
    turn: Any = Turning(options.get("address", Address("telegram", "5")))
    channel: Any = options.get("channel", MemoryChannel(Room(), SteppedClock()))
    access = Access(Users(()), Config())
    return [delivery.media for delivery in files_of(turn, artifacts, outcome, channel, access)]


def test_the_latest_few_are_sent_each_once_and_none_that_is_too_large() -> None:
    many = [artifact(number) for number in range(6)]
    assert sent(many) == [each.blob for each in many[-MAX_FILES:]]
    assert sent([artifact(1), artifact(1), artifact(2, MAX_ARTIFACT_BYTES + 1)]) == [artifact(1).blob]


def test_changes_of_files_are_sent_only_where_the_channel_wants_them() -> None:
    class Sparing:
        capabilities = Capabilities(media=True, artifacts=True, diffs=False)

    change = replace(artifact(2), mime="text/x-diff")
    assert sent([artifact(1), change]) == [artifact(1).blob, change.blob]
    assert sent([artifact(1), change], channel=Sparing()) == [artifact(1).blob]


@pytest.mark.promise("P-files-given")
def test_a_named_file_goes_where_the_answer_goes_unless_a_call_sent_it() -> None:
    group, named = Address("telegram", "-100123", "7"), replace(artifact(1), kind=NAMED)
    assert sent([named, artifact(2)], address=group) == [named.blob]
    assert sent([artifact(2), named, replace(artifact(3), kind=SENT), replace(artifact(4), kind=SAID)]) == [
        artifact(2).blob,
        named.blob,
    ]
    assert sent([replace(artifact(1), kind=SENT), named]) == []
    assert sent([named], Outcome.STOPPED) == []


def test_none_is_sent_where_others_read_or_nobody_takes_files_or_no_answer_came() -> None:
    class Deaf:
        capabilities = Capabilities(media=True)

    assert sent([artifact(1)], address=Address("telegram", "-100123", "7")) == []
    assert sent([artifact(1)], channel=Deaf()) == [] and sent([artifact(1)], channel=None) == []
    assert [sent([artifact(1)], outcome) for outcome in (Outcome.STOPPED, Outcome.FAILED)] == [[], []]
