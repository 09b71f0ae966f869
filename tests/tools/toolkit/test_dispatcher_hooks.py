"""Hooks around a call: what they forbid, change, fill in, add and keep back, and that nobody gets past them."""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import pytest

from goclaw.common.auth.access import Access
from goclaw.common.auth.users import User, Users
from goclaw.common.config.schema import Config
from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.events import Address, Decision, ToolFinished, ToolStarted, TurnEvent
from goclaw.common.core.messages import ToolCall, ToolResult
from goclaw.common.specs import Risk, SideEffect
from goclaw.common.workspace import Workspace
from goclaw.durable.store.blobs import open_blobs
from goclaw.errors import ToolError
from goclaw.tools.approval.requests import Approval, ApprovalRequest
from goclaw.tools.hooks.base import Hook, HookAnswer, HookEvent, Hooks, Point, Registered
from goclaw.tools.toolkit.base import ToolContext, tool
from goclaw.tools.toolkit.dispatcher import Dispatcher
from goclaw.tools.toolkit.json_schema import Injected
from goclaw.tools.toolkit.registry import Registry
from goclaw.tools.toolkit.scope import CallScope
from goclaw.tools.toolkit.services import Reminder, Reminders, TurnServices
from tests.parts import Environment, Tools
from tests.tools.hooks.support import ANNA, Heard


@tool(side_effect=SideEffect.MUTATING, tags=("shell",))
async def run(ctx: ToolContext, line: str) -> str:
    """Say what would be run."""
    if line == "fail":
        raise ToolError("no such command")
    return f"ran {line}"


@tool(side_effect=SideEffect.READ_ONLY)
async def look(ctx: ToolContext, tenant: Annotated[str, Injected()], what: str) -> str:
    """Look at something of a tenant's."""
    return f"{what} of {tenant}"


@tool(side_effect=SideEffect.NETWORK, risk=Risk.HIGH)
async def reach(ctx: ToolContext, host: str) -> str:
    """Reach a host."""
    return f"reached {host}"


@dataclass
class Bench(TurnServices, Reminders):
    """A dispatcher with hooks, and what came of its calls."""

    dispatcher: Dispatcher
    alerts: Heard
    judged: list[Any]
    """The arguments that were authorized."""
    asked: list[Mapping[str, Any]] = field(default_factory=list)
    seen: list[TurnEvent] = field(default_factory=list)
    reminded: list[str] = field(default_factory=list)
    agrees: bool = True

    async def call(self, name: str, **given: Any) -> ToolResult:
        self.reminders = self
        scope = CallScope(
            actor=ANNA,
            session="s",
            address=Address("memory", "c"),
            services=self,
            turn="t1",
        )
        return await self.dispatcher.call(ToolCall("c1", name, given), scope)

    async def error(self, name: str, **given: Any) -> str:
        result = await self.call(name, **given)
        assert result.is_error
        return str(json.loads(result.content)["error"])

    def emit(self, event: TurnEvent) -> None:
        self.seen.append(event)

    def add(self, reminder: Reminder) -> None:
        self.reminded.append(reminder.text)

    def remove(self, id: str) -> None:
        raise AssertionError("nobody removes one here")

    async def approve(self, wanted: ApprovalRequest) -> Approval:
        self.asked.append(wanted.call.input)
        return Approval(wanted.digest) if self.agrees else Approval(refusal="nobody approved it")


def at(
    point: Point, answer: Callable[[HookEvent], HookAnswer], *match: str, heard: list[HookEvent] | None = None
) -> Registered:
    """A hook at one point."""

    async def hook(event: HookEvent) -> HookAnswer:
        if heard is not None:
            heard.append(event)
        return answer(event)

    made: Hook = hook
    return Registered(f"at {point}", frozenset({point}), made, frozenset(match))


class Judging(Access):
    """Rights that remember what they were asked about."""

    def __init__(self, users: Users, config: Config) -> None:
        super().__init__(users, config)
        self.judged: list[Any] = []

    def authorize(self, *asked: Any, **more: Any) -> Decision:
        self.judged.append(asked[3] if len(asked) > 3 else None)
        return super().authorize(*asked, **more)


@asynccontextmanager
async def bench(folder: Path, *hooks: Registered) -> AsyncIterator[Bench]:
    settings, alerts = Config(), Heard()
    access = Judging(Users([User(ANNA.key)]), settings)
    async with open_blobs(folder / "blobs") as blobs, Workspace(folder) as workspace:
        environment = Environment(settings, SteppedClock(), blobs, workspace)
        registry = Registry([Tools([run, look, reach])], access)
        yield Bench(Dispatcher(registry, access, environment, Hooks(hooks, alerts)), alerts, access.judged)


async def test_a_hook_forbids_a_call(tmp_path: Path) -> None:
    heard: list[HookEvent] = []
    hook = at("pre_tool", lambda event: HookAnswer(deny="not on Sundays"), "tag:shell", heard=heard)
    async with bench(tmp_path, hook) as on:
        assert await on.error("run", line="ls") == "denied by hook: not on Sundays"
        assert heard == [HookEvent("pre_tool", "s", ANNA, "run", run.spec.tags, "c1", {"line": "ls"}, tool_id="run")]
        assert (await on.call("reach", host="x")).content == "reached x", "it is not about that one"


async def test_nobody_is_asked_about_tools_that_are_none_and_arguments_that_do_not_fit(tmp_path: Path) -> None:
    heard: list[HookEvent] = []
    async with bench(tmp_path, at("pre_tool", lambda event: HookAnswer(), heard=heard)) as on:
        assert await on.error("nothing") == "unknown tool: nothing"
        assert 'field "line"' in await on.error("run", line=1)
    assert heard == []


async def test_what_a_hook_makes_of_the_arguments_is_what_is_approved_run_and_told(tmp_path: Path) -> None:
    heard: list[HookEvent] = []
    hooks = (
        at("pre_tool", lambda event: HookAnswer(input={"host": f"{event.input['host']}.test"})),
        at("post_tool", lambda event: HookAnswer(), heard=heard),
    )
    async with bench(tmp_path, *hooks) as on:
        assert (await on.call("reach", host="a")).content == "reached a.test"
        assert on.asked == [{"host": "a.test"}]
        assert on.judged[0] == {"host": "a"} and {"host": "a.test"} in on.judged, "it is authorized anew"
        started, finished = on.seen
        assert isinstance(started, ToolStarted) and started.input == {"host": "a.test"}
        assert isinstance(finished, ToolFinished)
        assert (heard[0].input, heard[0].text) == ({"host": "a.test"}, "reached a.test")


async def test_what_a_hook_makes_of_the_arguments_is_validated(tmp_path: Path) -> None:
    async with bench(tmp_path, at("pre_tool", lambda event: HookAnswer(input={"line": 5, "more": 1}))) as on:
        error = await on.error("run", line="ls")
    assert 'field "line": expected string, got number' in error and '"more": unknown field' in error


async def test_only_hooks_fill_in_what_is_injected(tmp_path: Path) -> None:
    async with bench(tmp_path, at("pre_tool", lambda event: HookAnswer(inject={"tenant": event.actor.key}))) as on:
        assert (await on.call("look", what="files")).content == "files of telegram:1"
        assert "tenant" in await on.error("look", what="files", tenant="telegram:2")
    async with bench(tmp_path, at("pre_tool", lambda event: HookAnswer(input={"what": "a", "tenant": "b"}))) as on:
        assert "tenant" in await on.error("look", what="files"), "not even by way of the arguments"


async def test_what_a_hook_adds_is_told_to_the_model(tmp_path: Path) -> None:
    hooks = (
        at("pre_tool", lambda event: HookAnswer(context="mind the gap")),
        at("post_tool", lambda event: HookAnswer(context="well done")),
    )
    async with bench(tmp_path, *hooks) as on:
        assert (await on.call("run", line="ls")).content == "ran ls"
        assert on.reminded == ["mind the gap", "well done"]


async def test_a_result_is_kept_back(tmp_path: Path) -> None:
    hooks = (
        at("post_tool", lambda event: HookAnswer(suppress="secret" in event.text)),
        at("post_tool_failure", lambda event: HookAnswer(suppress=True)),
    )
    async with bench(tmp_path, *hooks) as on:
        result = await on.call("run", line="secret")
        assert result.content == "[a hook of the operator keeps this result back]"
        assert "ran secret" not in str(on.seen), "nor do those who watch get it"
        assert (await on.call("run", line="ls")).content == "ran ls"
        assert await on.error("run", line="fail") == "a hook of the operator keeps this result back"


async def test_success_and_failure_have_points_of_their_own(tmp_path: Path) -> None:
    good: list[HookEvent] = []
    bad: list[HookEvent] = []
    hooks = (
        at("post_tool", lambda event: HookAnswer(), heard=good),
        at("post_tool_failure", lambda event: HookAnswer(), heard=bad),
    )
    async with bench(tmp_path, *hooks) as on:
        await on.call("run", line="ls")
        await on.call("run", line="fail")
        on.agrees = False
        await on.call("reach", host="x")
        await on.call("nothing")
    assert [event.text for event in good] == ["ran ls"]
    assert [event.tool for event in bad] == ["run", "reach"], "a call that nobody allowed did not succeed"
    assert json.loads(bad[0].text) == {"error": "no such command"}


async def test_they_are_asked_in_order_and_the_first_denial_ends_it(tmp_path: Path) -> None:
    last: list[HookEvent] = []
    hooks = (
        at("pre_tool", lambda event: HookAnswer(input={"line": event.input["line"] + " -l"})),
        at("pre_tool", lambda event: HookAnswer(deny="no -l") if "-l" in event.input["line"] else HookAnswer()),
        at("pre_tool", lambda event: HookAnswer(), heard=last),
    )
    async with bench(tmp_path, *hooks) as on:
        assert await on.error("run", line="ls") == "denied by hook: no -l"
    assert last == []


@pytest.mark.promise("P-hook-closed")
@pytest.mark.parametrize("point", ["pre_tool", "post_tool", "post_tool_failure"])
async def test_a_hook_that_fails_forbids_before_and_is_reported_after(tmp_path: Path, point: Point) -> None:
    def fail(event: HookEvent) -> HookAnswer:
        raise RuntimeError("oh dear")

    async with bench(tmp_path, at(point, fail)) as on:
        if point == "pre_tool":
            assert (await on.error("run", line="ls")).startswith(f"denied by hook: the hook at {point} failed")
        else:
            assert (await on.call("run", line="ls")).content == "ran ls"
            assert await on.error("run", line="fail") == "no such command"
        assert f"failed at {point}: oh dear" in str(on.alerts.open)
