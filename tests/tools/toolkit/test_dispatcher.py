"""One call, exactly one result; nothing of what goes wrong is a traceback."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pytest

from goclaw.common.auth.access import Access
from goclaw.common.auth.users import User, Users
from goclaw.common.config.schema import Config
from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.events import (
    Actor,
    Address,
    Delivery,
    Question,
    Receipt,
    Todo,
    ToolFinished,
    ToolStarted,
    TurnEvent,
)
from goclaw.common.core.messages import ToolCall, ToolResult
from goclaw.common.specs import Risk, SideEffect
from goclaw.common.workspace import Workspace
from goclaw.durable.store.blobs import Blobs, open_blobs
from goclaw.errors import DeliveryError, ToolError
from goclaw.tools.approval.requests import Approval, ApprovalRequest
from goclaw.tools.hooks.base import Hooks
from goclaw.tools.toolkit.base import Tool, ToolContext, tool
from goclaw.tools.toolkit.dispatcher import RESULT_LIMIT, Dispatcher
from goclaw.tools.toolkit.registry import Registry
from goclaw.tools.toolkit.scope import CallScope
from goclaw.tools.toolkit.services import TurnServices
from tests.parts import Environment, Tools

ANNA = Actor("telegram:1", "telegram")
STRANGER = Actor("telegram:9", "telegram")


@tool(side_effect=SideEffect.READ_ONLY)
async def echo(ctx: ToolContext, text: str) -> str:
    """Say it again."""
    return text


@tool(side_effect=SideEffect.READ_ONLY)
async def break_down(ctx: ToolContext) -> str:
    """Have a bug."""
    raise ZeroDivisionError("secret details")


@tool(side_effect=SideEffect.READ_ONLY)
async def hang(ctx: ToolContext) -> str:
    """Never return."""
    await asyncio.Event().wait()
    return ""


@tool(side_effect=SideEffect.READ_ONLY, own_timeout=True)
async def give_up(ctx: ToolContext) -> str:
    """Bound its own time."""
    raise TimeoutError


@tool(side_effect=SideEffect.READ_ONLY)
async def post(ctx: ToolContext) -> str:
    """Send to a chat that is gone."""
    await ctx.deliver(Delivery("d", ctx.address, "hi"))
    return "sent"


@tool(side_effect=SideEffect.MUTATING, idempotent=False)
async def change(ctx: ToolContext) -> str:
    """Change something."""
    return "changed"


@tool(side_effect=SideEffect.NETWORK, risk=Risk.HIGH)
async def reach(ctx: ToolContext) -> str:
    """Reach out."""
    return "reached"


@tool(side_effect=SideEffect.READ_ONLY)
async def refuse(ctx: ToolContext) -> str:
    """Say no."""
    raise ToolError("file not found: a.txt")


@tool(side_effect=SideEffect.READ_ONLY)
async def list_files(ctx: ToolContext) -> str:
    """List a file whose name is no UTF-8, as `find -print0` does."""
    return "name \udce9.txt\0"


ALL = [list_files, echo, break_down, hang, give_up, post, change, reach, refuse]


@dataclass
class Bench(TurnServices):
    """A dispatcher and what it published."""

    dispatcher: Dispatcher
    blobs: Blobs
    approves: bool = True
    asking: Callable[[ApprovalRequest], Awaitable[Approval]] | None = None
    """What happens while a person thinks."""
    asked: list[str] = field(default_factory=list)
    todos: list[Todo] = field(default_factory=list)
    begun: int = 0
    """How often a call was about to run."""
    seen: list[TurnEvent] = field(default_factory=list)

    async def call(self, of: Tool | str, given: Any = None, actor: Actor = ANNA) -> ToolResult:
        name = of if isinstance(of, str) else of.spec.name
        return await self.dispatcher.call(ToolCall("c1", name, {} if given is None else given), self.scope(actor))

    def scope(self, actor: Actor = ANNA) -> CallScope:
        return CallScope(
            actor=actor,
            session="s",
            address=Address("memory", "c"),
            services=self,
            turn="t1",
        )

    async def error(self, of: Tool | str, given: Any = None, actor: Actor = ANNA) -> str:
        """The text of the one error that there must be."""
        result = await self.call(of, given, actor)
        assert result.is_error
        answer = json.loads(result.content)
        assert list(answer) == ["error"] and "Traceback" not in answer["error"]
        return str(answer["error"])

    def emit(self, event: TurnEvent) -> None:
        self.seen.append(event)

    async def deliver(self, delivery: Delivery) -> Receipt:
        raise DeliveryError("bot was blocked by the user", permanent=True)

    async def approve(self, wanted: ApprovalRequest) -> Approval:
        self.asked.append(wanted.reason)
        if self.asking:
            return await self.asking(wanted)
        return Approval(wanted.digest) if self.approves else Approval(refusal=f"nobody approved {wanted.call.name}")

    async def ask(self, question: Question, step: str) -> str | None:
        self.asked.append(f"{step} {question.text}")
        return "blue"

    async def keep_todos(self, todos: Sequence[Todo]) -> None:
        self.todos = list(todos)

    async def intend(self, step: str) -> None:
        self.begun += 1


@asynccontextmanager
async def bench(folder: Path, **config: Any) -> AsyncIterator[Bench]:
    settings = Config.model_validate(config)
    users = Users([User("telegram:1"), User("telegram:2", allowed_tools=frozenset({"echo"}))])
    access, clock = Access(users, settings), SteppedClock()
    async with open_blobs(folder / "blobs") as blobs, Workspace(folder) as workspace:
        environment = Environment(settings, clock, blobs, workspace)
        yield Bench(Dispatcher(Registry([Tools(ALL)], access), access, environment), blobs)


def only(at: Bench, *tools: Tool, hooks: Hooks | None = None) -> Bench:
    """The same with these tools and no others."""
    access, environment = at.dispatcher._access, at.dispatcher._environment
    at.dispatcher = Dispatcher(Registry([Tools(tools)], access), access, environment, hooks)
    return at


async def test_a_call_that_works(tmp_path: Path) -> None:
    async with bench(tmp_path) as at:
        assert await at.call(echo, {"text": "hi"}) == ToolResult("c1", "echo", "hi")
    assert at.seen == [
        ToolStarted("t1", "s", "c1", "echo", {"text": "hi"}),
        ToolFinished("t1", "s", "c1", "echo", "hi", False, 0.0),
    ]


@pytest.mark.promise("P-tools-per-user")
async def test_unknown_and_forbidden_tools_answer_alike(tmp_path: Path) -> None:
    ben = Actor("telegram:2", "telegram")
    async with bench(tmp_path, tools={"disabled": ["hang"]}) as at:
        assert await at.error("nothing") == "unknown tool: nothing"
        assert await at.error(change, actor=ben) == "unknown tool: change"
        assert await at.error(change, {"wrong": 1}, actor=ben) == "unknown tool: change", (
            "before its arguments are read"
        )
        assert await at.error(echo, {"text": "hi"}, actor=STRANGER) == "unknown tool: echo"
        assert await at.error(hang) == "unknown tool: hang"
        assert not (await at.call(echo, {"text": "hi"}, actor=ben)).is_error


@pytest.mark.promise("P-tool-errors")
async def test_wrong_arguments_are_one_line(tmp_path: Path) -> None:
    async with bench(tmp_path) as at:
        assert await at.error(echo, {"txt": 1}) == (
            'field "text": expected string, got nothing; field "txt": unknown field, did you mean "text"?'
        )


@pytest.mark.promise("P-tool-errors")
async def test_a_bug_in_a_tool_is_a_sentence_and_a_log_entry(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with bench(tmp_path) as at:
        assert await at.error(break_down) == "break_down failed unexpectedly; the log has the details"
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.promise("P-tool-errors")
async def test_what_goes_wrong_is_said_in_words(tmp_path: Path) -> None:
    async with bench(tmp_path, tools={"timeout": 0.01}) as at:
        assert await at.error(hang) == "hang timed out after 0.01 s"
    async with bench(tmp_path) as at:
        assert await at.error(refuse) == "file not found: a.txt"
        assert await at.error(give_up) == "give_up timed out"
        assert await at.error(post) == "not delivered: bot was blocked by the user"


async def test_secrets_are_masked_in_results_and_errors(tmp_path: Path) -> None:
    secret = "sk-ant-api03-0123456789abcdef"
    async with bench(tmp_path) as at:
        assert (await at.call(echo, {"text": f"key {secret}"})).content == "key [secret]"
        assert secret not in await at.error(f"use {secret}")
        assert all(secret not in event.content for event in at.seen if isinstance(event, ToolFinished))


async def test_a_long_result_is_cut_and_says_so(tmp_path: Path) -> None:
    async with bench(tmp_path) as at:
        content = (await at.call(echo, {"text": "x" * (RESULT_LIMIT + 1_234)})).content
        notice = re.fullmatch(
            r"x{100000}\n\[cut: 1,234 more characters; the whole is kept as (output:\w+), open it with read .*\]",
            content,
        )
        assert notice and RESULT_LIMIT == 100_000
        whole = await at.blobs.use_spill(notice[1], ANNA.key, lambda file: file.read())
        assert whole == b"x" * (RESULT_LIMIT + 1_234)
        with pytest.raises(ToolError):
            await at.blobs.use_spill(notice[1], STRANGER.key, lambda file: file.read())


async def test_a_long_result_with_a_zero_byte_is_kept_as_text_that_read_opens(tmp_path: Path) -> None:
    async with bench(tmp_path) as at:
        content = (await at.call(echo, {"text": "\0" + "x" * (RESULT_LIMIT + 1)})).content
    assert "\0" not in content and re.search(r"the whole is kept as output:\w+, open it with read", content)


async def test_what_no_database_can_hold_does_not_get_there(tmp_path: Path) -> None:
    async with bench(tmp_path) as at:
        assert (await at.call(list_files)).content.encode() == b"name ?.txt"


async def test_what_is_risky_asks(tmp_path: Path) -> None:
    async with bench(tmp_path) as at:
        assert (await at.call(reach)).content == "reached"
        at.approves = False
        told = await at.call(reach)
        assert json.loads(told.content) == {
            "result": "denied: nobody approved reach",
            "summary": "Cancelled",
            "tool": "reach",
            "advice": "Do not try the same in another way. Go on without it, or say what you wanted and why.",
        }
        assert not told.is_error, "a person's no is no failure of the tool"
        assert told.hint == "denied: nobody approved reach", "people read no JSON"
        assert at.asked == ["reach has high risk"] * 2
        assert (await at.call(change)).content == "changed"


async def test_a_plan_changes_nothing_and_config_can_only_tighten(tmp_path: Path) -> None:
    async with bench(tmp_path, policy={"mode": "plan"}) as at:
        assert await at.error(change) == "refused: change has medium risk, and the session is in plan mode"
        assert not (await at.call(echo, {"text": "hi"})).is_error
    async with bench(tmp_path, policy={"stricter": {"medium": "ask", "high": "refuse"}}) as at:
        await at.call(change)
        assert at.asked == ["change has medium risk"]
        assert await at.error(reach) == "refused: reach has high risk, and the rules of this gateway forbid that"


async def test_only_what_will_run_and_must_not_run_twice_needs_an_intent(tmp_path: Path) -> None:
    async with bench(tmp_path) as at:
        kinds = [at.dispatcher.is_idempotent(ToolCall("1", name, {}), ANNA) for name in ("echo", "change", "nothing")]
        assert kinds == [True, False, True]
        assert at.dispatcher.is_idempotent(ToolCall("1", "change", {}), STRANGER)


async def test_cancellation_goes_through(tmp_path: Path) -> None:
    async with bench(tmp_path) as at:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await at.call(hang)


@pytest.mark.parametrize("left", [[], ["echo"]])
async def test_a_right_taken_away_while_somebody_is_asked_counts(tmp_path: Path, left: list[str]) -> None:
    file = tmp_path / "users.json"
    file.write_bytes(orjson.dumps({"users": {"telegram:1": {}}}))
    users, settings = Users.read(file), Config()

    async def takes_it_away(wanted: ApprovalRequest) -> Approval:
        file.write_bytes(orjson.dumps({"users": {"telegram:1": {"allowedTools": left}} if left else {}}))
        await users.refresh()
        return Approval(wanted.digest)

    async with bench(tmp_path) as at:
        access = Access(users, settings)
        at.dispatcher = Dispatcher(Registry([Tools(ALL)], access), access, at.dispatcher._environment)
        at.asking = takes_it_away
        assert await at.error(reach) == "unknown tool: reach"
        assert at.begun == 0
