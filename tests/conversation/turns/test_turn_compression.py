"""A call knows whether the model that asked for it gets outputs compressed."""

from pathlib import Path
from typing import Any

import pytest

from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.messages import ToolCall, ToolResult
from goclaw.common.specs import SideEffect
from goclaw.errors import ModelErrorKind
from goclaw.llm.base import ChatModel
from goclaw.llm.chain import ModelChain
from goclaw.llm.scripted import Answer, ScriptedModel
from goclaw.tools.toolkit.base import ToolContext, tool
from tests.harness import World


@tool(side_effect=SideEffect.NONE)
async def asks(ctx: ToolContext) -> str:
    """Tell what the call knows."""
    return "short" if ctx.compress else "whole"


async def told(folder: Path, model: ChatModel, **config: Any) -> list[str]:
    world = World(folder, tools=[asks], model=model, **config)
    async with world.running() as core:
        await core.say("hi")
        await core.settled()
        return [message.content for message in await core.messages() if isinstance(message, ToolResult)]


def asking(spec: str) -> ScriptedModel:
    return ScriptedModel([Answer(calls=(ToolCall("c", "asks", {}),)), Answer("done")], clock=SteppedClock(), spec=spec)


@pytest.mark.parametrize(("spec", "expected"), [("ollama:x", "short"), ("anthropic:x", "whole")])
async def test_the_models_place_decides(spec: str, expected: str, tmp_path: Path) -> None:
    assert await told(tmp_path, asking(spec)) == [expected]


async def test_the_configuration_decides_before_that(tmp_path: Path) -> None:
    options = {"options": {"ollama:x": {"compress_output": False}}}

    assert await told(tmp_path, asking("ollama:x"), models=options) == ["whole"]


async def test_the_model_that_took_over_decides(tmp_path: Path) -> None:
    broken = ScriptedModel(rest=Answer(error=ModelErrorKind.AUTH), clock=SteppedClock(), spec="anthropic:x")

    assert await told(tmp_path, ModelChain([broken, asking("ollama:x")], SteppedClock())) == ["short"]
