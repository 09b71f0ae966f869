"""A model answers for a tool on the account of its turn: booked, bounded, ended with it, and told nothing else."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from goclaw.common.config.schema import Config
from goclaw.common.core.messages import Image, ToolCall, ToolResult, UserMessage
from goclaw.common.specs import SideEffect
from goclaw.durable.store.database import Statement
from goclaw.durable.store.schema import usage
from goclaw.errors import ConfigError, ModelErrorKind, ToolError
from goclaw.llm.base import ChatModel, Stop, Usage
from goclaw.llm.scripted import ScriptedModel
from goclaw.tools.toolkit.base import Tool, ToolContext, tool
from goclaw.tools.toolkit.services import Sample, Sampled, TurnServices
from tests.harness import Answer, World
from tests.parts import GivenModels

ASKS = Answer(calls=(ToolCall("c", "asks", {}),))
USED = Usage(input=60_000, output=5_000)
BOOKED = Statement(select(usage.c.turn, usage.c.purpose, usage.c.person, usage.c.input).order_by(usage.c.id))
WANTED = Sample("the MCP server x", "Answer.", (UserMessage("How many? <system-reminder>"),), max_tokens=7)


def asking(wanted: Sample = WANTED) -> Tool:
    """A tool that has a model answer, and says what came of it."""

    async def run(ctx: ToolContext) -> str:
        """Ask."""
        done = await ctx.sample(wanted)
        return json.dumps([done.text, done.model, done.tokens, done.stop])

    return tool(side_effect=SideEffect.READ_ONLY, name="asks")(run)


def world_of(folder: Path, *answers: Answer, wanted: Sample = WANTED, **config: Any) -> World:
    return World(folder, answers, tools=[asking(wanted)], **config)


async def result_of(world: World) -> str:
    async with world.running() as core:
        await core.say("go")
        await core.settled()
        results = [each for each in await core.messages() if isinstance(each, ToolResult)]
    return results[-1].content


async def test_the_model_is_told_what_the_tool_gives_it_and_the_turn_pays(tmp_path: Path) -> None:
    world = world_of(tmp_path, ASKS, Answer("Four.", usage=USED), Answer("done"))
    async with world.running() as core:
        await core.say("go")
        await core.settled()
        booked = [tuple(row) for row in await core.database.read(BOOKED())]
        (result,) = [each for each in await core.messages() if isinstance(each, ToolResult)]
    assert json.loads(result.content) == ["Four.", "scripted:test", 65_000, "end"]
    first, asked, last = world.script.requests
    assert (asked.system, asked.max_output, list(asked.tools)) == ("Answer.", 7, [])
    assert list(asked.messages) == [UserMessage("How many? <\u200bsystem-reminder>")] and not asked.cache
    assert len(first.messages) == 1 and len(last.messages) == 3
    assert [(purpose, person, tokens) for _, purpose, person, tokens in booked] == [
        ("answer", "tui:here", 10),
        ("sampling", "tui:here", 60_000),
        ("answer", "tui:here", 10),
    ]
    assert len({turn for turn, *_ in booked}) == 1


async def test_what_it_takes_counts_against_the_limits_of_the_turn(tmp_path: Path) -> None:
    world = world_of(tmp_path, ASKS, Answer("Four.", usage=USED), ASKS, limits={"turn_tokens": 65_000})
    async with world.running() as core:
        await core.say("go")
        await core.settled()
    assert world.texts() == ["I stopped: this turn used 65,015 tokens; the limit is 65,000."]


async def test_nothing_is_asked_that_cannot_be_afforded_and_the_asker_learns_no_figures(tmp_path: Path) -> None:
    spent = Answer(calls=ASKS.calls, usage=USED)
    world = world_of(tmp_path, spent, Answer("never"), limits={"turn_tokens": 65_000})
    assert await result_of(world) == (
        '{"error": "the model is not asked: what may be spent on this turn, or today, is spent"}'
    )
    assert len(world.script.requests) == 1


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Answer(error=ModelErrorKind.REJECTED, message="our account is empty"), "the model did not answer (rejected)"),
        (Answer("no", stop=Stop.REFUSAL), "the model declined to answer"),
    ],
)
async def test_why_there_is_no_answer_is_said_without_what_only_we_should_know(
    tmp_path: Path, answer: Answer, words: str
) -> None:
    assert await result_of(world_of(tmp_path, ASKS, answer, Answer("done"))) == f'{{"error": "{words}"}}'


async def test_an_answer_that_was_cut_says_so(tmp_path: Path) -> None:
    result = await result_of(world_of(tmp_path, ASKS, Answer("Fo", stop=Stop.LENGTH), Answer("done")))
    assert json.loads(result)[3] == "length"


async def test_a_model_that_is_blind_is_shown_no_picture(tmp_path: Path) -> None:
    model = ScriptedModel([ASKS, Answer("done")], sees_images=False)
    wanted = Sample("x", "", (UserMessage("Look", (Image("0" * 64, "image/png"),)),), max_tokens=7)
    world = World(tmp_path, model=model, tools=[asking(wanted)])
    assert "sees no pictures" in await result_of(world)


async def test_it_ends_when_the_turn_is_stopped(tmp_path: Path) -> None:
    world = world_of(tmp_path, ASKS, Answer("never said"))
    async with world.running() as core:
        await core.say("go")
        async with asyncio.timeout(10):
            while not world.script.requests:  # noqa: ASYNC110  # the turn brings it about
                await asyncio.sleep(0)
        world.script.gate = asyncio.Event()
        async with asyncio.timeout(10):
            while len(world.script.requests) < 2:  # noqa: ASYNC110  # the turn brings it about
                await asyncio.sleep(0)
        await core.command("/stop")
        await core.settled()
    assert world.script.closed == 2


class Named(GivenModels):
    """With models of names beside the main one."""

    def __init__(self, main: ChatModel, found: Callable[[Sequence[str]], Awaitable[ChatModel]]) -> None:
        super().__init__(main)
        self._found = found

    async def only(self, specs: Sequence[str]) -> ChatModel:
        return await self._found(specs)


async def test_models_of_the_operator_answer_in_place_of_the_conversations(tmp_path: Path) -> None:
    other, asked = ScriptedModel([Answer("From the other.")], spec="scripted:other"), list[Sequence[str]]()

    async def found(specs: Sequence[str]) -> ChatModel:
        asked.append(specs)
        if len(asked) > 1:
            raise ConfigError("no key for scripted:other")
        return other

    wanted = Sample("x", "", WANTED.messages, max_tokens=7, models=("scripted:other",))
    world = world_of(tmp_path, ASKS, ASKS, Answer("done"), wanted=wanted)
    world.models = Named(world.script, found)
    async with world.running() as core:
        await core.say("go")
        await core.settled()
        one, two = [each.content for each in await core.messages() if isinstance(each, ToolResult)]
    assert json.loads(one)[:2] == ["From the other.", "scripted:other"]
    assert "none is set up that could answer" in two and "key" not in two
    assert asked == [("scripted:other",)] * 2


async def test_without_a_turn_nobody_pays_and_nothing_is_asked() -> None:
    with pytest.raises(ToolError, match="no conversation on whose account"):
        await TurnServices().sample(WANTED)
    assert Sampled("", "", 0).stop == "end" and Config().mcp.servers == {}
