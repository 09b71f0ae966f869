"""Every example that a tool shows is true: run as it stands, through the dispatcher, it says what it says it does."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from goclaw.common.auth.access import Access
from goclaw.common.auth.users import User, Users
from goclaw.common.core.catalog import GATED_TOOLS
from goclaw.common.core.events import Actor, Delivery, Question, Receipt
from goclaw.common.core.messages import ToolCall, ToolResult
from goclaw.common.specs import Example
from goclaw.errors import SandboxUnavailable
from goclaw.tools.approval.requests import Approval, ApprovalRequest
from goclaw.tools.execution.sandbox.select import open_sandbox
from goclaw.tools.templates import HINT_LENGTH, hint
from goclaw.tools.toolkit.agent_tasks import AgentReport, AgentTask
from goclaw.tools.toolkit.base import Tool, check_templates
from goclaw.tools.toolkit.dispatcher import Dispatcher
from goclaw.tools.toolkit.registry import BuiltIn, Registry
from goclaw.tools.toolkit.schedule_orders import ScheduleOrder
from goclaw.tools.toolkit.scope import CallScope
from goclaw.tools.toolkit.services import TurnServices
from tests.tables import table
from tests.tools.builtin.memory_support import ANNAS_CHAT, Surroundings, surroundings
from tests.tools.builtin.shell_support import ssh_server, waiting_task, with_tasks
from tests.tools.builtin.transcript_support import Spoken
from tests.tools.builtin.web_support import SmallWeb

ANNA = Actor("telegram:5", "telegram")
SHOWN = [(tool, example) for tool in BuiltIn().tools() for example in tool.spec.examples]


async def answered(text: str) -> str:
    """What the gateway says to a command of Anna's; test_gateway_control_command.py has the real one."""
    return f"You are {ANNA.key}."


@asynccontextmanager
async def workspace_of(folder: Path, tool: Tool, example: Example) -> AsyncIterator[Surroundings]:
    """The workspace with the example's files, and a sandbox for those tools that run commands."""
    async with surroundings(folder) as around:
        for path, content in example.files.items():
            around.write(path, content)
        if "web" in tool.spec.tags:
            around.web = SmallWeb()
        if tool.spec.name == "transcript_search":
            around.memory = Spoken()
        if "shell" not in tool.spec.tags:
            yield around
            return
        if tool.spec.name == "ssh_exec":
            async with ssh_server(folder / "ssh") as server:
                server.configure(around)
                yield around
            return
        async with open_sandbox(around.config.tools.exec) as around.sandbox, with_tasks(around) as room:
            try:
                await around.sandbox.ready()
            except SandboxUnavailable as error:
                pytest.skip(f"no sandbox works here: {error}")
            if "task_id" in example.input:
                await waiting_task(around, room, example.input["task_id"])
            yield around


class Agreeing(TurnServices):
    """A turn of somebody who says yes to everything."""

    def __init__(self, around: Surroundings) -> None:
        self.around = around

    def check_delivery(self, delivery: Delivery) -> None:
        self.around.check_delivery(delivery)

    async def deliver(self, delivery: Delivery) -> Receipt:
        return await self.around.deliver(delivery)

    async def approve(self, wanted: ApprovalRequest) -> Approval:
        return Approval(wanted.digest)

    async def ask(self, question: Question, step: str) -> str | None:
        return question.options[0] if question.options else "yes"

    async def command(self, text: str) -> str:
        return await answered(text)

    async def schedule(self, order: ScheduleOrder) -> str:
        """What is said of an order; tests/tools/builtin/test_schedule.py has the real schedules."""
        if order.action == "list":
            return "- reminder-1 (message): Tuesday 24 November 2026, 08:00 (Europe/Berlin): Drink tea"
        return f"{order.name or 'reminder-1'} is set: Tuesday 24 November 2026, 08:00 (Europe/Berlin)."

    async def spawn(self, task: AgentTask, step: str, call_id: str) -> AgentReport:
        return AgentReport("a1b2c3d4e5f6", "general", "tests/test_parser.py: that brackets nest", 3, 4_500)


async def run(around: Surroundings, tool: Tool, example: Example) -> ToolResult:
    """The call, by somebody who may do everything and says yes to everything."""

    access = Access(Users([User(ANNA.key)]), around.config)
    scope = CallScope(
        actor=ANNA,
        session=ANNA.key,
        address=ANNAS_CHAT,
        services=Agreeing(around),
        turn="telegram:77",
    )
    dispatcher = Dispatcher(Registry([BuiltIn()], access), access, around)
    return await dispatcher.call(ToolCall("c1", tool.spec.name, dict(example.input)), scope)


@table("tool, example", SHOWN, ids=[f"{tool.spec.name}: {example.about}" for tool, example in SHOWN])
async def test_an_example_does_what_it_shows(tmp_path: Path, tool: Tool, example: Example) -> None:
    async with workspace_of(tmp_path, tool, example) as around:
        result = await run(around, tool, example)
    assert not result.is_error, result.content
    assert example.output in result.content
    if tool.spec.result_hint:
        assert 0 < len(result.hint) <= HINT_LENGTH


@table("tool, example", SHOWN, ids=[f"{tool.spec.name}: {example.about}" for tool, example in SHOWN])
def test_an_example_has_a_hint_for_people(tool: Tool, example: Example) -> None:
    arguments = dict(tool.arguments.model_validate(dict(example.input)))
    assert example.about and example.output
    assert not tool.spec.call_hint or 0 < len(hint(tool.spec.call_hint, arguments)) <= HINT_LENGTH


@table("tool", BuiltIn().tools(), ids=lambda tool: tool.spec.name)
def test_every_tool_of_ours_says_what_people_and_the_scheduler_need(tool: Tool) -> None:
    spec = tool.spec
    assert spec.examples and spec.tags and spec.call_hint and spec.result_hint and spec.annotations.title
    assert tool.access, "what it accesses is declared, not guessed"


@table("tool", BuiltIn(GATED_TOOLS).tools(), ids=lambda tool: tool.spec.name)
def test_the_templates_of_every_tool_of_ours_are_valid(tool: Tool) -> None:
    """Others' are checked when the tool is declared; ours here, so that an idle daemon has no engine for them."""
    check_templates(tool.spec, tool.arguments, tool.result, tool.denied)
