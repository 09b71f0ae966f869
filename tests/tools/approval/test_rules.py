"""What is allowed for good holds for the very tool that it was said of, under an older name, too."""

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from goclaw.common.auth.access import Access
from goclaw.common.auth.audit import AuditEntry
from goclaw.common.auth.users import User, Users
from goclaw.common.config.schema import Config
from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.events import Actor
from goclaw.common.core.messages import ToolCall
from goclaw.durable.engine.base import Turn
from goclaw.durable.store.approvals import ApprovalRule, ApprovalRules
from goclaw.durable.store.database import Database
from goclaw.tools.approval.requests import ApprovalRequest, Grounds
from goclaw.tools.approval.rules import StandingApprovals
from goclaw.tools.toolkit.base import Tool
from goclaw.tools.toolkit.registry import Registry
from tests.parts import Tools, Trail, acting

ANNA = Actor("telegram:1", "telegram")
OLD = ApprovalRule("q1", ANNA.key, "note", "here", "part", "label", ANNA.key, False, 0.0)


def own(agent: str) -> Tool:
    tool = acting("note", Trail().leave)
    return replace(tool, spec=replace(tool.spec, local_id=f"{agent}.tools.note"))


def wanted(tool: str) -> ApprovalRequest:
    call = ToolCall("c1", "note", {})
    grounds = Grounds(pattern=("part",), labels=("label",))
    return ApprovalRequest(call, "", "s", "d", place="here", grounds=grounds, tool=tool)


@pytest.mark.promise("P-approval")
async def test_always_holds_for_the_one_tool_of_its_name(database: Database) -> None:
    turn = cast(Turn, SimpleNamespace(id="t1", inbound=SimpleNamespace(actor=ANNA, session="s")))
    audited: list[AuditEntry] = []
    listed = [own("one")]
    access = Access(Users([User(ANNA.key)]), Config())
    Registry([Tools(listed)], access)
    standing = StandingApprovals(access, audited.append, SteppedClock(), ApprovalRules(database))
    await standing.rules.add([OLD])

    async def allowed() -> list[str]:
        tools = ("one.tools.note", "two.tools.note", "note")
        return [tool for tool in tools if await standing.approve(wanted(tool), turn)]

    assert await allowed() == ["one.tools.note", "note"], "the one that was called so before"
    listed.append(own("two"))
    assert await allowed() == ["note"], "of two none"
    await standing.add(wanted("two.tools.note"), ANNA.key, "q2", ANNA)
    assert await allowed() == ["two.tools.note", "note"]
    assert {entry.object for entry in audited} == {"one.tools.note", "two.tools.note", "note"}
    listed.append(acting("note", Trail().leave))
    assert await allowed() == ["two.tools.note", "note"], "another tool is really called so"
