"""Worlds in which agents offer tools to each other."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from goclaw.common.core.messages import ToolCall
from goclaw.tools.builtin.exported import exported_tool, offers
from goclaw.tools.toolkit.base import Tool
from tests.harness import Answer, Tools, World

PLAN = {"description": "Make a plan.", "arguments": {"goal": "string"}, "prompt": "Plan for {{ goal }}, please."}


def exporting(tools: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The keys of `agents` with an agent `planner` that exports these; `more`: further keys of its export."""
    return {"kinds": {"planner": {"exports": {"planning.tools": {"tools": tools, **more}}}}}


def world_with(folder: Path, answers: Sequence[Answer], own: Sequence[Tool] = (), /, **config: Any) -> World:
    """A world with these tools and all that its agents export."""
    world = World(folder, answers, **config)
    world.tools = Tools([*own, *(exported_tool(offer) for offer in offers(world.config.agents.exports))])
    return world


def planning(goal: str = "a party", call_id: str = "c1", **more: Any) -> ToolCall:
    """A call of `create_plan`."""
    return ToolCall(call_id, "create_plan", {"goal": goal, **more})
