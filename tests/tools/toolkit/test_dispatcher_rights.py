"""Roles that fix arguments, denials that end a turn, modes, what need not ask and what always does: as a call runs."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from goclaw.common.auth.access import Access, ChosenMode
from goclaw.common.auth.audit import AuditEntry
from goclaw.common.auth.users import User, Users
from goclaw.common.config.schema import Config
from goclaw.common.config.values import Mode
from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.events import Actor, Address, ToolStarted, TurnEvent
from goclaw.common.core.messages import ToolCall, ToolResult
from goclaw.common.specs import Annotations, Confirmation, Risk, SideEffect
from goclaw.common.workspace import Workspace
from goclaw.durable.store.blobs import open_blobs
from goclaw.errors import ToolError
from goclaw.tools.approval.requests import Approval, ApprovalRequest
from goclaw.tools.hooks.base import HookAnswer, HookEvent, Hooks, Registered
from goclaw.tools.toolkit.base import ToolContext, tool
from goclaw.tools.toolkit.dispatcher import Dispatcher
from goclaw.tools.toolkit.registry import Registry
from goclaw.tools.toolkit.scope import CallScope
from goclaw.tools.toolkit.services import TurnServices
from tests.parts import Environment, Tools
from tests.tables import table

ANNA = Actor("telegram:1", "telegram")
GUEST = Actor("telegram:2", "telegram")
BOSS = Actor("telegram:4", "telegram")
USERS = (
    User("telegram:1"),
    User("telegram:2", roles=frozenset({"guest"})),
    User("telegram:3", roles=frozenset({"guest", "slow"})),
    User("telegram:4", roles=frozenset({"admin"})),
)


@tool(side_effect=SideEffect.READ_ONLY, tags=("shell",))
async def run(ctx: ToolContext, command: str, timeout: int = 30) -> str:
    """Say what would run."""
    return f"{command} for {timeout} s"


@tool(side_effect=SideEffect.MUTATING, tags=("filesystem", "write"), idempotent=False)
async def change(ctx: ToolContext) -> str:
    """Change something."""
    return "changed"


@tool(side_effect=SideEffect.NETWORK, tags=("network",))
async def reach(ctx: ToolContext, where: str = "here") -> str:
    """Reach out."""
    return f"reached {where}"


@tool(side_effect=SideEffect.SPAWNS, tags=("network", "shell"))
async def destroy(ctx: ToolContext) -> str:
    """Do something uncontained."""
    return "destroyed"


@tool(side_effect=SideEffect.READ_ONLY, tags=("network",), confirm=Confirmation("Sure?", "Really?"))
async def confirmed(ctx: ToolContext) -> str:
    """Do what wants to be confirmed."""
    return "done"


@tool(side_effect=SideEffect.NONE)
async def leave(ctx: ToolContext, mode: str) -> str:
    """Leave plan mode, as if a person had agreed."""
    await ctx.leave_plan(mode)  # type: ignore[arg-type]  # any word, as a model would give it
    return "left"


@tool(side_effect=SideEffect.NONE, name="mcp__x__look", annotations=Annotations(read_only=True))
async def look(ctx: ToolContext) -> str:
    """Only read, as its server says."""
    return "looked"


@tool(side_effect=SideEffect.NONE, name="mcp__x__quiet", annotations=Annotations(), tags=("mcp",))
async def quiet(ctx: ToolContext) -> str:
    """Say nothing of what it does."""
    return "quiet"


@tool(side_effect=SideEffect.NONE, name="mcp__x__wipe", annotations=Annotations(destructive=True))
async def wipe(ctx: ToolContext) -> str:
    """Destroy, as its server says."""
    return "wiped"


ALL = [run, change, reach, destroy, confirmed, leave, look, quiet, wipe]


@dataclass
class Bench(TurnServices):
    """A dispatcher, what it asked and told, and the session's mode."""

    dispatcher: Dispatcher
    audited: list[AuditEntry]
    answer: str = ""
    """Why the person refuses; empty: they agree."""
    chosen: ChosenMode | None = None
    asked: list[ApprovalRequest] = field(default_factory=list)
    seen: list[TurnEvent] = field(default_factory=list)
    while_asked: Any = None
    while_begun: Any = None
    tools: Sequence[str] | None = None

    async def call(self, name: str, given: Any = None, actor: Actor = ANNA) -> ToolResult:
        scope = CallScope(
            actor=actor,
            session="s",
            address=Address("memory", "c"),
            services=self,
            turn="t1",
            selections=(self.tools,),
        )
        return await self.dispatcher.call(ToolCall("c1", name, given or {}), scope)

    async def error(self, name: str, given: Any = None, actor: Actor = ANNA) -> str:
        result = await self.call(name, given, actor)
        assert result.is_error
        return str(json.loads(result.content)["error"])

    def emit(self, event: TurnEvent) -> None:
        self.seen.append(event)

    def chosen_mode(self) -> ChosenMode | None:
        return self.chosen

    async def approve(self, wanted: ApprovalRequest) -> Approval:
        self.asked.append(wanted)
        if self.while_asked:
            self.while_asked()
        return Approval(refusal=self.answer) if self.answer else Approval(wanted.digest)

    async def intend(self, step: str) -> None:
        if self.while_begun:
            self.while_begun()

    async def leave_plan(self, mode: Mode) -> None:
        if mode == "bypass":
            raise ToolError("permission denied: mode bypass")
        self.chosen = ChosenMode(mode, "default")


@asynccontextmanager
async def bench(folder: Path, hooks: Hooks | None = None, **config: Any) -> AsyncIterator[Bench]:
    settings = Config.model_validate(config)
    access, clock = Access(Users(USERS), settings), SteppedClock()
    async with open_blobs(folder / "blobs") as blobs, Workspace(folder) as workspace:
        environment = Environment(settings, clock, blobs, workspace)
        yield Bench(Dispatcher(Registry([Tools(ALL)], access), access, environment, hooks), environment.audited)


FIXED = {"guest": {"inputs": {"run": {"timeout": 10}}}, "slow": {"inputs": {"run": {"timeout": 90}}}}


@pytest.mark.promise("P-roles")
async def test_what_a_role_fixes_takes_the_place_of_what_the_model_says_and_is_shown_and_recorded(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path, roles=FIXED) as at:
        assert (await at.call("run", {"command": "ls", "timeout": 900}, GUEST)).content == "ls for 10 s"
        assert (await at.call("run", {"command": "ls"}, GUEST)).content == "ls for 10 s"
        assert (await at.call("run", {"command": "ls", "timeout": 900})).content == "ls for 900 s", "another role"
        # Whoever acts for somebody else is held to what is fixed for them.
        assert (await at.call("run", {"command": "ls"}, replace(BOSS, behalf=(GUEST,)))).content == "ls for 10 s"
    started = [event.input for event in at.seen if isinstance(event, ToolStarted)]
    assert started[0] == {"command": "ls", "timeout": 10}
    assert at.audited[0].detail == "command=ls timeout=10"


async def test_what_is_fixed_is_validated_as_if_the_model_had_said_it(tmp_path: Path) -> None:
    wrong = {"guest": {"inputs": {"run": {"timeout": "soon", "nice": 1}}}}
    async with bench(tmp_path, roles=wrong) as at:
        said = await at.error("run", {"command": "ls"}, GUEST)
    assert 'field "timeout"' in said and 'field "nice"' in said


async def test_two_roles_that_fix_an_argument_differently_allow_nothing(tmp_path: Path) -> None:
    async with bench(tmp_path, roles=FIXED) as at:
        assert await at.error("run", {"command": "ls"}, Actor("telegram:3", "telegram")) == "unknown tool: run"
    assert at.audited[0].rule.startswith("roles.slow.inputs.run.timeout")


async def test_what_a_hook_makes_of_a_call_is_authorized_and_fixed_again(tmp_path: Path) -> None:
    async def later(event: HookEvent) -> HookAnswer:
        assert event.input["timeout"] == 10, "the hook sees what would run"
        return HookAnswer(input={"command": "rm", "timeout": 999})

    hooks = Hooks([Registered("later", frozenset({"pre_tool"}), later)])
    async with bench(tmp_path, hooks, roles=FIXED) as at:
        assert (await at.call("run", {"command": "ls"}, GUEST)).content == "rm for 10 s"


async def test_what_is_fixed_anew_while_somebody_is_asked_is_not_run(tmp_path: Path) -> None:
    fixed = {"where": "there"}
    asks = {"always_ask": ["reach"]}
    async with bench(tmp_path, roles={"guest": {"inputs": {"reach": fixed}}}, policy=asks) as at:
        assert (await at.call("reach", {}, GUEST)).content == "reached there"
        at.while_asked = lambda: at.dispatcher._access.config.roles["guest"].inputs["reach"].update(where="away")
        assert "changed after it was shown" in await at.error("reach", {}, GUEST)
        assert at.asked[-1].call.input == {"where": "there"}


ENDS = {"deny_ends_turn": ["tag:network", "change"]}


@pytest.mark.parametrize(
    ("config", "name", "actor", "refuses", "ends"),
    [
        ({"policy": ENDS}, "reach", ANNA, "no", True),
        ({"policy": ENDS}, "reach", ANNA, "", False),
        ({}, "reach", ANNA, "no", False),
        ({"policy": {**ENDS, "mode": "plan"}}, "change", ANNA, "", True),
        ({"policy": {**ENDS, "stricter": {"medium": "refuse"}}}, "change", ANNA, "", True),
        ({"policy": {**ENDS, "stricter": {"low": "refuse"}}}, "run", ANNA, "", False),
        ({"policy": ENDS, "tools": {"disabled": ["reach"]}}, "reach", ANNA, "", True),
        ({"policy": ENDS, "roles": {"guest": {"tools": ["run"]}}}, "change", GUEST, "", True),
        ({"policy": {"deny_ends_turn": ["nothing", "-x"]}}, "nothing", ANNA, "", False),
    ],
)
async def test_a_denial_ends_the_turn_where_the_operator_wants_it(
    tmp_path: Path, config: Any, name: str, actor: Actor, refuses: str, ends: bool
) -> None:
    async with bench(tmp_path, **config) as at:
        at.answer = refuses
        assert (await at.call(name, actor=actor)).ends_turn is ends


async def test_a_hook_that_denies_ends_the_turn_and_a_wrong_argument_does_not(tmp_path: Path) -> None:
    async def never(event: HookEvent) -> HookAnswer:
        return HookAnswer(deny="never")

    hooks = Hooks([Registered("never", frozenset({"pre_tool"}), never, frozenset({"change"}))])
    async with bench(tmp_path, hooks, policy=ENDS) as at:
        assert (await at.call("change")).ends_turn
        assert not (await at.call("reach", {"wher": 1})).ends_turn


@pytest.mark.promise("P-tools-per-user")
async def test_unknown_and_forbidden_tools_say_the_same_whatever_ends_the_turn(tmp_path: Path) -> None:
    async with bench(tmp_path, policy=ENDS, tools={"disabled": ["reach"]}) as at:
        forbidden, unknown = await at.call("reach"), await at.call("raech")
    assert forbidden.content.replace("reach", "raech") == unknown.content
    assert not unknown.ends_turn


@pytest.mark.promise("P-what-runs-what-asks")
@table(
    "policy, name, asks",
    [
        ({}, "reach", True),
        ({"auto_allow": ["reach"]}, "reach", False),
        ({"auto_allow": ["tag:network"]}, "reach", False),
        ({"auto_allow": ["set:network", "-reach"]}, "reach", True),
        ({"auto_allow": ["tag:nothing", "set:nothing"]}, "reach", True),
        ({"auto_allow": ["tag:network"]}, "destroy", True),
        ({"auto_allow": ["set:shell"]}, "destroy", True),
        ({"auto_allow": ["destroy"]}, "destroy", False),
        ({"auto_allow": ["tag:network"]}, "confirmed", True),
        ({"auto_allow": ["confirmed"]}, "confirmed", False),
        ({"auto_allow": ["reach"], "always_ask": ["tag:network"]}, "reach", True),
        ({"auto_allow": ["reach"], "stricter": {"high": "ask"}}, "reach", True),
        ({"always_ask": ["run"]}, "run", True),
        ({"always_ask": ["tag:shell", "-run"]}, "run", False),
        ({"always_ask": ["set:nothing"]}, "run", True),
        ({"always_ask": ["change"], "mode": "accept-edits"}, "change", True),
        ({"always_ask": ["reach"], "mode": "bypass", "allow_bypass": True}, "reach", True),
        ({}, "mcp__x__look", False),
        ({}, "mcp__x__quiet", True),
        ({"auto_allow": ["tag:mcp"]}, "mcp__x__quiet", False),
        ({}, "mcp__x__wipe", True),
        ({"auto_allow": ["-run", "tag:network", "mcp__x__wipe"]}, "mcp__x__wipe", False),
    ],
)
async def test_what_asks_follows_the_row_the_mode_and_the_selections(
    tmp_path: Path, policy: Any, name: str, asks: bool
) -> None:
    async with bench(tmp_path, policy=policy) as at:
        result = await at.call(name, {"command": "ls"} if name == "run" else {}, BOSS)
    assert not result.is_error
    assert bool(at.asked) is asks


async def test_auto_allow_turns_no_refusal(tmp_path: Path) -> None:
    async with bench(tmp_path, policy={"mode": "plan", "auto_allow": ["change", "reach"]}) as at:
        assert "plan mode" in await at.error("change")
        assert "plan mode" in await at.error("reach")
    async with bench(tmp_path, policy={"stricter": {"high": "refuse"}, "auto_allow": ["reach"]}) as at:
        assert "the rules of this gateway forbid that" in await at.error("reach")


async def test_the_risk_of_a_tool_of_a_server_is_at_least_that_of_its_annotations() -> None:
    assert [each.spec.risk for each in (look, quiet, wipe)] == [Risk.LOW, Risk.HIGH, Risk.CRITICAL]
    assert replace(quiet.spec, risk=Risk.LOW).risk is Risk.HIGH
    assert quiet.spec.at_least(Risk.CRITICAL) is Risk.CRITICAL
    assert replace(run.spec, annotations=Annotations()).risk is Risk.LOW, "our own word about our own tools counts"


async def test_the_mode_that_was_chosen_holds_from_one_call_to_the_next(tmp_path: Path) -> None:
    async with bench(tmp_path) as at:
        at.chosen = ChosenMode("plan", "default")
        assert await at.error("change") == "refused: change has medium risk, and the session is in plan mode"
        assert not (await at.call("run", {"command": "ls"})).is_error
        assert (await at.call("leave", {"mode": "default"})).content == "left"
        assert (await at.call("change")).content == "changed"
        assert await at.error("leave", {"mode": "bypass"}) == "permission denied: mode bypass"


async def test_a_mode_that_is_chosen_while_a_call_waits_for_its_turn_counts(tmp_path: Path) -> None:
    def plan() -> None:
        at.chosen = ChosenMode("plan", "default")

    async with bench(tmp_path) as at:
        at.while_begun = plan
        assert "plan mode" in await at.error("change")
        at.chosen, at.while_begun, at.while_asked = None, None, plan
        assert "plan mode" in await at.error("reach"), "though a person agreed before"


async def test_a_bypass_that_an_admin_chose_is_nobody_elses(tmp_path: Path) -> None:
    async with bench(tmp_path, policy={"allow_bypass": True}) as at:
        at.chosen = ChosenMode("bypass", "default")
        assert not (await at.call("reach", actor=BOSS)).is_error and not at.asked
        assert not (await at.call("reach", actor=ANNA)).is_error and at.asked


async def test_an_agent_uses_no_more_than_its_selection(tmp_path: Path) -> None:
    async with bench(tmp_path) as at:
        at.tools = ["tag:shell", "-destroy"]
        assert (await at.call("run", {"command": "ls"})).content == "ls for 30 s"
        assert await at.error("change") == "unknown tool: change"
        assert await at.error("destroy") == "unknown tool: destroy"
        shown = at.dispatcher.registry.visible_to(ANNA, at.tools)
        assert [spec.name for spec in shown] == ["run"]
    told = [(entry.object, entry.allowed, entry.rule) for entry in at.audited]
    assert told[1] == ("change", False, "tools of the agent")


@pytest.mark.promise("P-audit")
async def test_the_audit_log_has_the_tags_of_the_tool(tmp_path: Path) -> None:
    async with bench(tmp_path) as at:
        await at.call("change")
        await at.call("nothing")
    assert [entry.tags for entry in at.audited] == [{"filesystem", "write"}, frozenset()]
