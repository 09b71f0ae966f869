"""Tools for the contract of channels: one that can be held up, and one that keeps something for people."""

import asyncio
from collections import defaultdict

from pydantic import BaseModel

from goclaw.common.specs import SideEffect
from goclaw.tools.toolkit.base import ToolContext, tool
from tests.acceptance.waiting import PATIENCE

TOOLS = {"row": "tests.channels.contract_tools:row", "chart": "tests.channels.contract_tools:chart"}
"""As `goclaw.common.core.catalog.TOOLS` has them."""
BOATS = "the whole table of boats, for people alone"

harbours: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
"""A boat arrives when its harbour is open. Emptied before each test."""


class Table(BaseModel):
    """What people get of a chart."""

    rows: list[str]


@tool(side_effect=SideEffect.READ_ONLY, call_hint="Rowing to {{ harbour }}", result_hint="Reached {{ value }}")
async def row(ctx: ToolContext, harbour: str) -> str:
    """Row to a harbour, and arrive when it opens."""
    async with asyncio.timeout(PATIENCE):
        await harbours[harbour].wait()
    return harbour


@tool(side_effect=SideEffect.READ_ONLY, artifacts={"table": Table})
async def chart(ctx: ToolContext) -> str:
    """Draw a chart."""
    ctx.attach("table", Table(rows=[BOATS]))
    return "drawn"
