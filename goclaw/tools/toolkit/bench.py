"""A bench to try tools on: the real dispatcher, a real workspace in a folder, and one person, who approves every call.

For tests of tools; `goclaw.testing` has it for those of others. No daemon and no model take part.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from goclaw.common.auth.access import Access
from goclaw.common.auth.audit import AuditEntry
from goclaw.common.auth.users import Users
from goclaw.common.config.schema import Config
from goclaw.common.config.state import NOTES
from goclaw.common.core.clock import RealClock
from goclaw.common.core.events import LOCAL, Actor, Address, Delivery, Question, Receipt, Todo, TurnEvent
from goclaw.common.core.messages import ToolCall, ToolResult
from goclaw.common.core.records import record
from goclaw.common.net.pages.base import Web
from goclaw.common.net.pages.service import WebService
from goclaw.common.workspace import ApprovedFiles, Workspace
from goclaw.durable.store.blobs import Blobs, open_blobs
from goclaw.errors import ToolError
from goclaw.memory.base import MemoryPort
from goclaw.memory.service import open_memory
from goclaw.tools.approval.requests import Approval, ApprovalRequest
from goclaw.tools.execution.sandbox.base import Sandbox
from goclaw.tools.execution.sandbox.select import open_sandbox
from goclaw.tools.execution.tasks.base import Tasks
from goclaw.tools.execution.tasks.room import open_tasks
from goclaw.tools.toolkit.base import Tool, ToolSource
from goclaw.tools.toolkit.dispatcher import Dispatcher
from goclaw.tools.toolkit.registry import Registry
from goclaw.tools.toolkit.scope import CallScope
from goclaw.tools.toolkit.services import Sample, Sampled, TurnServices
from goclaw.tools.toolkit.sources import Fixed, SourcePart, SourcePorts

SOMEBODY = Actor("tui:somebody", "cli", owner=True)


@record
class _Environment:
    """Implements `toolkit.base.ToolEnvironment`."""

    config: Config
    clock: RealClock
    sandbox: Sandbox
    blobs: Blobs
    memory: MemoryPort
    tasks: Tasks
    web: Web
    audit: Callable[[AuditEntry], None]
    opened: Workspace
    approved_files: ApprovedFiles = field(default_factory=ApprovedFiles)

    async def workspace(self, actor: Actor, session: str = "") -> Workspace:
        return self.opened


@dataclass
class Bench(TurnServices):
    """A bench made by `open_bench`: runs a tool, and records its use of the services of a turn."""

    folder: Path
    """The workspace."""
    dispatcher: Dispatcher
    audited: list[AuditEntry]
    answers: list[str] = field(default_factory=list)
    """The person's answers to a tool's questions, in order; then none."""
    samples: list[str] = field(default_factory=list)
    """The model's answers to requests of tools (`ToolContext.sample`), in order; then none."""
    sampled: list[Sample] = field(default_factory=list)
    """The requests made of that model."""
    wanted: list[ApprovalRequest] = field(default_factory=list)
    """The approval requests; all were approved."""
    asked: list[Question] = field(default_factory=list)
    delivered: list[Delivery] = field(default_factory=list)
    todos: list[Todo] = field(default_factory=list)
    events: list[TurnEvent] = field(default_factory=list)
    """The events of the calls while they ran."""
    sources: Sequence[ToolSource] = ()
    """Those that were opened with it."""
    faults: Mapping[str, str] = field(default_factory=dict)
    """Faults by title, with the reason; an empty text: resolved."""
    actor: Actor = SOMEBODY
    """On whose behalf calls are made."""
    agrees: bool = True
    """Whether the person approves requests."""

    async def call(self, name: str, arguments: Mapping[str, Any] | None = None) -> ToolResult:
        """Make one call as a model does, through every step of the dispatcher; an error is a result, too."""
        scope = CallScope(
            actor=self.actor,
            session=self.actor.key,
            address=Address(LOCAL, self.actor.key),
            services=self,
            turn="bench",
        )
        return await self.dispatcher.call(ToolCall(f"call-{len(self.audited) + 1}", name, dict(arguments or {})), scope)

    def check_delivery(self, delivery: Delivery) -> None:
        """Take every message."""

    async def deliver(self, delivery: Delivery) -> Receipt:
        self.delivered.append(delivery)
        return Receipt(str(len(self.delivered)))

    async def show(self, delivery: Delivery) -> str:
        self.delivered.append(delivery)
        return delivery.text

    async def approve(self, wanted: ApprovalRequest) -> Approval:
        self.wanted.append(wanted)
        return Approval(wanted.digest, by=self.actor) if self.agrees else Approval(refusal="the user did not agree")

    async def ask(self, question: Question, step: str) -> str | None:
        self.asked.append(question)
        return self.answers.pop(0) if self.answers else None

    async def sample(self, wanted: Sample) -> Sampled:
        self.sampled.append(wanted)
        if not self.samples:
            raise ToolError("the model has nothing to say")
        return Sampled(self.samples.pop(0), "bench:model", tokens=15)

    async def keep_todos(self, todos: Sequence[Todo]) -> None:
        self.todos = list(todos)

    def emit(self, event: TurnEvent) -> None:
        self.events.append(event)


@asynccontextmanager
async def open_bench(
    folder: Path, *tools: Tool, sources: Sequence[SourcePart] = (), **settings: Any
) -> AsyncIterator[Bench]:
    """Open a bench with these tools; everything is kept below `folder`, an empty one.

    `sources` are opened with it, and their tools exist while they list them. Other keyword arguments are keys
    of the configuration: `tools={"exec": {"network": "none"}}`.
    """
    config = Config.model_validate({"state_dir": folder / "state", "workspace": folder / "workspace", **settings})
    config.workspace_path.mkdir(parents=True)
    clock, audited = RealClock(), list[AuditEntry]()
    faults: dict[str, str] = {}
    async with (
        AsyncExitStack() as stack,
        open_blobs(config.state_dir / "blobs", clock) as blobs,
        open_memory(config.state_dir / "memory.db", config, clock, alone=True) as memory,
        open_tasks(blobs, clock, config.tools.tasks) as tasks,
        open_sandbox(config.tools.exec, clock) as sandbox,
        Workspace(config.workspace_path, [config.state_dir], notes=config.state_dir / NOTES) as workspace,
    ):
        web = WebService(config, clock)
        environment = _Environment(config, clock, sandbox, blobs, memory, tasks, web, audited.append, workspace)
        access = Access(Users(), config)
        ports = SourcePorts(config, clock, faults.__setitem__)
        opened = [await stack.enter_async_context(source.open(ports)) for source in sources]
        dispatcher = Dispatcher(Registry([Fixed(tools), *opened], access), access, environment)
        yield Bench(workspace.root, dispatcher, audited, sources=opened, faults=faults)
