"""Whatever people do, in whatever order, and whenever the plug is pulled: nothing is lost, nothing is doubled."""

import asyncio
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from goclaw.channels.base import Doubt
from goclaw.common.core.messages import AssistantMessage, Message, ToolResult, UserMessage
from goclaw.conversation.agent.context.window import Window
from goclaw.durable.engine.journal import Journal
from goclaw.llm.base import Request
from tests.conversation.sessions.accepted import check_anthropic, check_openai
from tests.conversation.sessions.restless import PEOPLE, SESSION, Stage
from tests.harness import Core
from tests.lanes import repeats
from tests.llm.asking import TOOLS
from tests.llm.oracles import Bodies, sending
from tests.llm.wires import ANTHROPIC, OPENAI

CHECKED = 4
"""Conversations of each example that are put to both wires: the last ones hold the others."""
MODES = ["queue", "collect", "steer", "interrupt"]
SAY = st.tuples(st.just("say"), st.integers(0, 1), st.integers(0, 2), st.booleans())
SAY_AGAIN = st.tuples(st.just("say"), st.just(0), st.integers(0, 2), st.just(False))
GO_ON = st.tuples(st.just("go on"))
STOP = st.tuples(st.just("stop"))
MODE = st.tuples(st.just("mode"), st.sampled_from(MODES))
LIFE = st.tuples(st.lists(SAY | SAY_AGAIN | GO_ON | GO_ON | STOP | MODE, max_size=12), st.integers(1, 40))
Life = tuple[list[tuple[Any, ...]], int]


@pytest.mark.deep
@pytest.mark.timeout(900)
@pytest.mark.promise("P-answered-once")
@pytest.mark.promise("P-tool-once")
@pytest.mark.promise("P-valid-context")
@pytest.mark.promise("P-queue-modes")
def test_no_message_is_lost_or_doubled_by_any_interleaving() -> None:
    with sending(ANTHROPIC) as anthropic, sending(OPENAI) as openai:

        @settings(max_examples=repeats(15, 300), suppress_health_check=[HealthCheck.too_slow])
        @given(st.sampled_from(MODES), st.lists(LIFE, min_size=1, max_size=4))
        def check(mode: str, lives: list[Life]) -> None:
            with tempfile.TemporaryDirectory() as folder:
                conversations = asyncio.run(live_through(Path(folder), mode, lives))
            for messages in conversations[-CHECKED:]:
                check_wires(Request("Be brief.", messages, TOOLS), anthropic, openai)

        check()


def check_wires(request: Request, anthropic: Bodies, openai: Bodies) -> None:
    """Both families of providers take the conversation."""
    check_anthropic(anthropic.of(request))
    check_openai(openai.of(request))


async def live_through(folder: Path, mode: str, lives: list[Life]) -> list[list[Message]]:
    """Live, and judge the end; returns what the model was shown."""
    stage = Stage(folder)
    async with stage.world.running() as core:
        await stage.command(core, f"/queue {mode}")
    for happenings, writes in lives:
        async with stage.world.running(die_after=writes) as core:
            await stage.deliver(core)
            for happening in happenings:
                if core.database.dead.is_set():
                    break
                await happen(stage, core, *happening)
                await stage.breathe(core)
    async with stage.world.running() as core:
        await stage.deliver(core)
        stage.turnstile.let(everybody=True)
        await core.settled()
        interrupts = mode == "interrupt" or ("mode", "interrupt") in [each for life, _ in lives for each in life]
        await verdict(stage, core, in_order=not interrupts)
        rest = (await core.sessions.contexts.session(SESSION)).window.messages()
    conversations = [*(list(request.messages) for request in stage.model.requests), rest]
    return [messages for messages in conversations if messages]


async def happen(stage: Stage, core: Core, what: str, *details: Any) -> None:
    match what:
        case "say":
            await stage.say(core, *details)
        case "go on":
            stage.turnstile.let()
        case "stop":
            await stage.command(core, "/stop")
        case "mode":
            await stage.command(core, f"/queue {details[0]}")


async def verdict(stage: Stage, core: Core, *, in_order: bool) -> None:
    """What must hold at the end."""
    assert core.engine.busy() == 0 and await Journal(core.database).open_turns() == []
    rows = await core.transcripts.history(SESSION, 0, 10_000)
    heard = [(row.sender, row.message.text.split("\n")[0]) for row in rows if isinstance(row.message, UserMessage)]
    said = [(person.key, text) for person, text in stage.said]
    assert Counter(heard) == Counter(said), "each message is in the transcript once"
    for person in PEOPLE if in_order else ():
        own = [text for sender, text in heard if sender == person.key]
        assert own == [text for sender, text in said if sender == person.key], "in the order of each person"
    assert not rows or isinstance(rows[-1].message, AssistantMessage), "nothing is left without an answer"
    asked = [call.id for row in rows if isinstance(row.message, AssistantMessage) for call in row.message.calls]
    results = [row.message.call_id for row in rows if isinstance(row.message, ToolResult)]
    assert Counter(results) == Counter(asked), "each call has one result"
    fresh = [heard.delivery.id for heard in stage.world.room.all if heard.doubt is Doubt.NONE]
    assert max(Counter(fresh).values(), default=1) == 1, "no answer comes twice"
    assert max(stage.effects.values(), default=1) == 1, "no effect happens twice"
    window = (await core.sessions.contexts.session(SESSION)).window
    anew = Window.of(*await core.transcripts.context(SESSION))
    assert [(e.row, e.message) for e in window.entries] == [(e.row, e.message) for e in anew.entries]
