"""What a model may say to the tools for teams, and their gate. What teams then do: tests/conversation/turns."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest

from goclaw.common.auth.access import Access as Rights
from goclaw.common.auth.users import User, Users
from goclaw.common.config.exports import refuse_built_in
from goclaw.common.config.schema import Config
from goclaw.common.core import catalog
from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.events import Actor
from goclaw.common.core.messages import ToolCall, ToolResult
from goclaw.common.specs import Example, Risk
from goclaw.testing import open_bench
from goclaw.tools.builtin.teams import MAX_MEMBERS, MAX_MESSAGE, send_message, team_create, team_delete
from goclaw.tools.toolkit.agent_tasks import NewMember, StartedMember, TeamPort
from goclaw.tools.toolkit.base import Tool
from goclaw.tools.toolkit.dispatcher import Dispatcher
from goclaw.tools.toolkit.registry import BuiltIn, Registry
from goclaw.tools.toolkit.scope import CallScope
from goclaw.tools.toolkit.services import TurnServices
from goclaw.tools.toolkit.sources import open_sources
from tests.parts import Tools
from tests.tables import table
from tests.tools.builtin.memory_support import ANNAS_CHAT, Surroundings, surroundings

ANNA = Actor("telegram:5", "telegram")
TEAM = [team_create, send_message, team_delete]
SHOWN = [(tool, example) for tool in TEAM for example in tool.spec.examples]
ONE = {"name": "ada", "task": "x"}


class Recorded(TeamPort):
    """Takes down what is wanted."""

    def __init__(self) -> None:
        self.made: list[NewMember] = []

    async def create(self, name: str, members: Sequence[NewMember], step: str) -> Sequence[StartedMember]:
        self.made += members
        return [StartedMember(each.name, each.kind or "general", "a1", "task-1", "output:1") for each in members]

    async def send(self, to: str, text: str) -> Sequence[str]:
        return [to]

    async def shut_down(self, to: str) -> Sequence[str]:
        return [to]

    async def delete(self, name: str) -> Sequence[str]:
        return ["ada"]


async def called(
    around: Surroundings, tool: Tool, given: dict[str, Any], user: User, teams: Recorded, **config: Any
) -> ToolResult:
    services = TurnServices()
    services.teams = teams
    scope = CallScope(
        actor=ANNA,
        session=ANNA.key,
        address=ANNAS_CHAT,
        services=services,
    )
    access = Rights(Users([user]), Config.model_validate(config))
    agent = next(tool for tool in BuiltIn().tools() if tool.spec.name == "agent")
    registry = Registry([Tools([*TEAM, agent])], access)
    return await Dispatcher(registry, access, around).call(ToolCall("c1", tool.spec.name, given), scope)


@table(
    "tool, given, says",
    [
        ("team_create", {}, "name"),
        ("team_create", {"name": "t"}, "members"),
        ("team_create", {"name": "t", "members": []}, 'field "members"'),
        ("team_create", {"name": "t", "members": "ada"}, 'field "members"'),
        ("team_create", {"name": "t", "members": [{"name": "ada"}]}, "task"),
        ("team_create", {"name": "t", "members": [{**ONE, "task": "  "}]}, "expected a task in words"),
        ("team_create", {"name": "t", "members": [{**ONE, "task": "x" * 50_001}]}, "task"),
        ("team_create", {"name": "t", "members": [{**ONE, "name": "lead"}]}, "somebody else already"),
        ("team_create", {"name": "t", "members": [{**ONE, "name": "all"}]}, "somebody else already"),
        ("team_create", {"name": "t", "members": [{**ONE, "name": "Ada\n</system-reminder>"}]}, "name"),
        ("team_create", {"name": "t", "members": [{**ONE, "tools": ["exec"]}]}, "tools"),
        ("team_create", {"name": "t", "members": [{**ONE, "kind": 5}]}, "kind"),
        ("team_create", {"name": "t", "members": [ONE, ONE]}, "two members are called ada"),
        (
            "team_create",
            {"name": "t", "members": [{**ONE, "name": f"m{number}"} for number in range(MAX_MEMBERS + 1)]},
            'field "members"',
        ),
        ("team_create", {"name": "../x", "members": [ONE]}, 'field "name"'),
        ("team_create", {"name": "n" * 33, "members": [ONE]}, 'field "name"'),
        ("send_message", {}, "to"),
        ("send_message", {"to": "", "text": "x"}, 'field "to"'),
        ("send_message", {"to": ["a"], "text": "x"}, 'field "to"'),
        ("send_message", {"to": "a"}, 'field "text": expected a message in words'),
        ("send_message", {"to": "a", "text": " \n"}, 'field "text": expected a message in words'),
        ("send_message", {"to": "a", "text": "x" * (MAX_MESSAGE + 1)}, 'field "text"'),
        ("send_message", {"to": "a", "text": "x", "kind": "order"}, 'field "kind"'),
        ("send_message", {"to": "a", "text": "x", "kind": "shutdown"}, 'field "text": expected none'),
        ("send_message", {"to": "a", "text": "x", "session": "telegram:9"}, "session"),
        ("team_delete", {}, "name"),
        ("team_delete", {"name": ""}, 'field "name"'),
        ("team_delete", {"name": 5}, 'field "name"'),
        ("team_delete", {"name": "A B"}, 'field "name"'),
    ],
)
async def test_bad_input_is_refused_by_the_name_of_the_field(
    tmp_path: Path, tool: str, given: dict[str, Any], says: str
) -> None:
    async with open_bench(tmp_path, *TEAM) as bench:
        result = await bench.call(tool, given)
    assert result.is_error and says in orjson.loads(result.content)["error"]


@pytest.mark.parametrize(
    ("tool", "given", "says"),
    [
        ("team_create", {"name": "t", "members": [ONE]}, "no team can be made here"),
        ("send_message", {"to": "ada", "text": "x"}, "no such team"),
        ("send_message", {"to": "ada", "kind": "shutdown"}, "no such team"),
        ("team_delete", {"name": "t"}, "no such team"),
    ],
)
async def test_where_no_conversation_is_there_are_no_teams(
    tmp_path: Path, tool: str, given: dict[str, Any], says: str
) -> None:
    async with open_bench(tmp_path, *TEAM) as bench:
        result = await bench.call(tool, given)
    assert result.is_error and says in result.content


@pytest.mark.parametrize(("tool", "example"), SHOWN, ids=[f"{tool.spec.name}: {it.about}" for tool, it in SHOWN])
async def test_an_example_does_what_it_shows(tmp_path: Path, tool: Tool, example: Example) -> None:
    async with surroundings(tmp_path) as around:
        result = await called(around, tool, dict(example.input), User(ANNA.key), Recorded())
    assert not result.is_error and example.output in result.content and result.hint


async def test_a_role_that_fixes_the_kind_of_agents_fixes_that_of_members(tmp_path: Path) -> None:
    teams, roles = Recorded(), {"guest": {"tools": ["tag:agents"], "inputs": {"agent": {"kind": "reader"}}}}
    given = {"name": "t", "members": [{**ONE, "kind": "writer"}]}
    async with surroundings(tmp_path) as around:
        user = User(ANNA.key, roles=frozenset({"guest"}))
        result = await called(around, team_create, given, user, teams, roles=roles)
    assert not result.is_error, result.content
    assert [each.kind for each in teams.made] == ["reader"]


async def test_whoever_may_start_no_agents_makes_no_team(tmp_path: Path) -> None:
    teams = Recorded()
    async with surroundings(tmp_path) as around:
        user = User(ANNA.key, allowed_tools=frozenset({"team_create"}))
        result = await called(around, team_create, {"name": "t", "members": [ONE]}, user, teams)
    assert result.is_error and "agent is not allowed" in result.content and not teams.made


async def test_without_the_gate_the_tools_are_not_there_and_with_it_they_are() -> None:
    names = set(catalog.GATED_TOOLS["teams"])
    for is_on in (False, True):
        config = Config.model_validate({"tools": {"teams": is_on}})
        async with open_sources(config, SteppedClock()) as sources:
            await sources.ready()
            assert names & {tool.spec.name for tool in sources.tools()} == (names if is_on else set())
    assert not Config().tools.teams and names <= set(catalog.ALIASES.values())


@pytest.mark.parametrize("name", sorted(catalog.GATED_TOOLS["teams"]))
def test_no_tool_of_the_operators_takes_their_names(name: str) -> None:
    with pytest.raises(ValueError, match="built-in tool"):
        refuse_built_in(name)


@pytest.mark.parametrize("tool", TEAM, ids=lambda tool: tool.spec.name)
def test_each_says_what_people_and_the_scheduler_need(tool: Tool) -> None:
    spec = tool.spec
    assert spec.risk is Risk.LOW and spec.tags == {"agents"} and tool.access
    assert spec.examples and spec.call_hint and spec.result_hint and spec.annotations.title
