"""What a model may say to the tool `agent`. What agents then do is tried in tests/conversation/turns."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from goclaw.common.specs import Risk
from goclaw.testing import open_bench
from goclaw.tools.builtin.agent import MAX_TASK, agent
from goclaw.tools.toolkit.scheduling import ResourceUse


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "task"),
        ({"task": ""}, 'field "task"'),
        ({"task": "  \n "}, 'field "task": expected a task in words'),
        ({"task": 5}, 'field "task"'),
        ({"task": "x" * (MAX_TASK + 1)}, 'field "task"'),
        ({"task": "x", "kind": ["reader"]}, 'field "kind"'),
        ({"task": "x", "kind": "k" * 41}, 'field "kind"'),
        ({"task": "x", "description": "d" * 81}, 'field "description"'),
        ({"task": "x", "run_in_background": "perhaps"}, 'field "run_in_background"'),
        ({"task": "x", "session": "telegram:5"}, "session"),
        ({"task": "x", "tools": ["exec"]}, "tools"),
    ],
)
async def test_what_is_no_task_is_refused_by_the_name_of_the_field(
    tmp_path: Path, given: dict[str, Any], says: str
) -> None:
    async with open_bench(tmp_path, agent) as bench:
        result = await bench.call("agent", given)
    assert result.is_error and says in orjson.loads(result.content)["error"]


async def test_where_no_conversation_is_no_agent_can_be_started(tmp_path: Path) -> None:
    async with open_bench(tmp_path, agent) as bench:
        result = await bench.call("agent", {"task": "x"})
    assert result.is_error and "no agents can be started here" in result.content


def test_to_start_one_harms_nothing_and_holds_nothing() -> None:
    assert agent.spec.risk is Risk.LOW and agent.spec.foreign and agent.spec.idempotent and agent.runs_steps
    assert agent.access is not None
    assert agent.access(None, None) == ResourceUse()  # type: ignore[arg-type]  # it looks at neither
