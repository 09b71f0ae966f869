"""Calls that ask first: nobody decides about them who may not, and a yes is good for one call."""

from pathlib import Path
from typing import Any

import pytest
from mcp_types import ElicitRequestFormParams, ElicitResult, TextContent

from goclaw.common.auth.users import User
from tests.gateway.servers.mcp.house import ANN, house
from tests.gateway.servers.mcp.test_tools import launch, said
from tests.parts import Trail

ERAS = ["legacy", "2026-07-28"]


class Person:
    """At the client."""

    def __init__(self, action: Any) -> None:
        self.action = action
        self.asked: list[str] = []

    async def answer(self, context: Any, params: Any) -> ElicitResult:
        assert isinstance(params, ElicitRequestFormParams)
        self.asked.append(params.message)
        return ElicitResult(action=self.action)


@pytest.mark.parametrize("era", ERAS)
async def test_the_person_at_the_client_is_asked_where_that_is_wanted(tmp_path: Path, era: str) -> None:
    person = Person("accept")
    async with house(tmp_path, tools=[launch], elicitation=True) as home:
        async with home.client(mode=era, elicitation_callback=person.answer) as client:
            assert said(await client.call_tool("launch", {})) == "launched"
            assert said(await client.call_tool("launch", {})) == "launched"
        assert len(person.asked) == 2 and "launch" in person.asked[0]
        asked = [(each.object, each.allowed, each.result) for each in home.audited if each.action == "tool.approval"]
        assert asked == [("launch", True, "accept")] * 2


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_a_no_is_a_no(tmp_path: Path, era: str, action: str) -> None:
    person = Person(action)
    async with house(tmp_path, tools=[launch], elicitation=True) as home:
        async with home.client(mode=era, elicitation_callback=person.answer) as client:
            refused = await client.call_tool("launch", {})
            assert refused.is_error and "the user did not approve launch" in said(refused)
        assert not [each for each in home.audited if each.result == "ok"]


@pytest.mark.promise("P-roles")
@pytest.mark.parametrize("era", ERAS)
async def test_who_may_not_answer_is_not_asked(tmp_path: Path, era: str) -> None:
    person = Person("accept")
    guest = {"guest": {"approves": "none"}}
    users = [User(ANN, roles=frozenset({"guest"}))]
    async with house(tmp_path, users=users, roles=guest, tools=[launch], elicitation=True) as home:
        async with home.client(mode=era, elicitation_callback=person.answer) as client:
            refused = await client.call_tool("launch", {})
            assert refused.is_error and said(refused).startswith("approval required")
    assert person.asked == []


@pytest.mark.parametrize("era", ERAS)
async def test_nobody_is_asked_unless_the_configuration_wants_it(tmp_path: Path, era: str) -> None:
    person = Person("accept")
    async with house(tmp_path, tools=[launch]) as home:
        async with home.client(mode=era, elicitation_callback=person.answer) as client:
            assert (await client.call_tool("launch", {})).is_error
    assert person.asked == []


async def test_a_client_without_forms_gets_the_remedy(tmp_path: Path) -> None:
    async with house(tmp_path, tools=[launch], elicitation=True) as home, home.client() as client:
        assert said(await client.call_tool("launch", {})).startswith("approval required")


async def test_a_yes_is_good_for_one_call(tmp_path: Path) -> None:
    trail = Trail()
    async with house(tmp_path, tools=[launch], elicitation=True) as home:
        person = Person("accept")
        async with home.client(mode="2026-07-28", elicitation_callback=person.answer) as client:
            asked = await client.session.call_tool("launch", {}, allow_input_required=True)
            state = getattr(asked, "request_state", None)
            assert state
            given: Any = {"approval": ElicitResult(action="accept")}
            again = [
                await client.session.call_tool(
                    "launch", {}, input_responses=given, request_state=state, allow_input_required=True
                )
                for _ in range(2)
            ]
            texts = [each.content for each in again if hasattr(each, "content")]
            assert texts == [[TextContent(text="launched")]]
            assert getattr(again[1], "result_type", "") == "input_required"
    assert trail.times == 0
