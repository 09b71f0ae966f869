"""The source of exported tools: what cannot be used is named by its place, and everything else is there."""

from pathlib import Path
from typing import Any

import pytest

from goclaw.common.config.schema import Config
from goclaw.common.core.clock import SteppedClock
from goclaw.common.specs import Risk
from goclaw.testing import open_bench
from goclaw.tools.builtin.exported import exported_tool, offers
from goclaw.tools.toolkit.sources import open_sources

PLAN: dict[str, Any] = {"description": "Make a plan.", "arguments": {"goal": "string"}}


def config_of(folder: Path, **tools: Any) -> Config:
    kinds = {"planner": {"exports": {"planning": {"tags": ["plans"], "tools": tools}}}}
    return Config.model_validate({"state_dir": folder, "agents": {"kinds": kinds}})


async def test_what_is_exported_is_a_tool_like_all_others(tmp_path: Path) -> None:
    more = {**PLAN, "title": "Planning", "tags": ["slow"], "call_hint": "Planning {{ goal }}", "reminder": "Be brief."}
    async with open_sources(config_of(tmp_path, create_plan=more), SteppedClock()) as sources:
        assert sources.faults == {} and sources.origin("create_plan") == "config agents"
        (made,) = [tool for tool in sources.tools() if tool.spec.name == "create_plan"]
    spec = made.spec
    assert (spec.title, spec.tags, spec.risk) == ("Planning", frozenset({"agents", "plans", "slow"}), Risk.LOW)
    assert spec.foreign and spec.idempotent and made.runs_steps and made.own_timeout
    assert spec.reminder == "Be brief." and spec.schema["required"] == ["goal"]


@pytest.mark.parametrize(
    ("tool", "fault"),
    [
        ({"prompt": "Plan {{ gaol }}."}, "prompt names gaol; there are goal"),
        ({"prompt": "Plan {{ goal"}, "prompt: "),
        ({"call_hint": "{{ nobody }}"}, "the call hint of create_plan names nobody"),
        ({"result": {"plan": {"oneOf": []}}}, "result.plan: oneOf cannot be checked here"),
        ({"confirm": {"prompt": "{{ nobody }}"}}, "the confirmation of create_plan names nobody"),
        ({"passthrough": {"tool": "read", "input": {"path": "{{ nobody }}"}}}, "passthrough.input names nobody"),
        ({"passthrough": {"tool": "other"}}, "other is handed on itself"),
    ],
)
async def test_what_cannot_be_used_is_left_out_and_named(tmp_path: Path, tool: dict[str, Any], fault: str) -> None:
    other = {"description": "Hand it on.", "passthrough": {"tool": "list"}}
    config = config_of(tmp_path, create_plan={**PLAN, **tool}, other=other)
    async with open_sources(config, SteppedClock()) as sources:
        names = [each.spec.name for each in sources.tools()]
        ((place, why),) = sources.faults.items()
    assert place == "agents.kinds.planner.exports.planning.tools.create_plan" and fault in why
    assert "create_plan" not in names and "other" in names


@pytest.mark.parametrize("through", [{}, {"passthrough": {"tool": "read"}}])
async def test_where_there_is_no_conversation_it_says_so(tmp_path: Path, through: dict[str, Any]) -> None:
    config = config_of(tmp_path, create_plan={**PLAN, **through})
    (offer,) = offers(config.agents.exports)
    async with open_bench(tmp_path / "bench", exported_tool(offer)) as bench:
        assert "there is no conversation" in (await bench.call("create_plan", {"goal": "x"})).content


async def test_of_two_tools_of_one_name_the_first_stays_and_the_other_is_named(tmp_path: Path) -> None:
    exports = {"exports": {"planning": {"tools": {"create_plan": PLAN}}}}
    config = Config.model_validate({"state_dir": tmp_path, "agents": {"main": exports, "kinds": {"a": exports}}})
    async with open_sources(config, SteppedClock()) as sources:
        ((place, why),) = sources.faults.items()
    assert place == "agents.kinds.a.exports.planning.tools.create_plan"
    assert "there is a tool of that name already: agents.main.exports.planning.tools.create_plan" in why
