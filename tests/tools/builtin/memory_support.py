"""A real surrounding for one tool call: workspace, blobs and memory on disk, deliveries kept in a list."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from goclaw.common.auth.audit import AuditEntry
from goclaw.common.config.schema import Config
from goclaw.common.config.values import Mode
from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.events import Actor, Address, Decision, Delivery, Question, Receipt, Todo
from goclaw.common.core.messages import Artifact, SourceKind
from goclaw.common.net.pages.base import NoWeb, Web
from goclaw.common.specs import Risk, ToolSpec
from goclaw.common.workspace import ApprovedFiles, Workspace
from goclaw.durable.store.blobs import Blobs, open_blobs
from goclaw.errors import DeliveryError
from goclaw.memory.base import MemoryPort
from goclaw.memory.service import open_memory
from goclaw.tools.execution.sandbox.base import Sandbox
from goclaw.tools.execution.tasks.base import Tasks
from goclaw.tools.toolkit.arguments import validate
from goclaw.tools.toolkit.base import Tool, ToolContext
from goclaw.tools.toolkit.services import TurnServices
from tests.parts import NoSandbox, no_tasks

ANNA = Actor(key="telegram:5", entry="telegram")
ANNAS_CHAT = Address("telegram", "5")


@dataclass
class Surroundings(TurnServices):
    """A `ToolEnvironment` of real parts, the call with its services, and what the tools did to the outside."""

    config: Config
    blobs: Blobs
    memory: MemoryPort
    the_workspace: Workspace
    clock: SteppedClock = field(default_factory=SteppedClock)
    sandbox: Sandbox = field(default_factory=NoSandbox)
    tasks: Tasks = field(default_factory=no_tasks)
    web: Web = field(default_factory=NoWeb)
    delivered: list[Delivery] = field(default_factory=list)
    files: list[Artifact | None] = field(default_factory=list)
    receipt: Receipt = field(default_factory=lambda: Receipt("789"))
    refusal: str = ""
    """Why nothing is delivered; empty: it is."""
    questions: list[Question] = field(default_factory=list)
    """What `ask` was asked."""
    answers: list[str | None] = field(default_factory=list)
    """What `ask` answers, in order."""
    todos: list[Todo] = field(default_factory=list)
    audited: list[AuditEntry] = field(default_factory=list)
    approved_files: ApprovedFiles = field(default_factory=ApprovedFiles)
    asked: list[tuple[str, str]] = field(default_factory=list)
    """What `authorize` was asked."""
    allow: Callable[[str, str], bool] = lambda action, target: True

    async def workspace(self, actor: Actor, session: str = "") -> Workspace:
        return self.the_workspace

    def audit(self, entry: AuditEntry) -> None:
        self.audited.append(entry)

    def check_delivery(self, delivery: Delivery) -> None:
        if self.refusal:
            raise DeliveryError(self.refusal, permanent=True)

    async def deliver(self, delivery: Delivery) -> Receipt:
        self.check_delivery(delivery)
        self.delivered.append(delivery)
        return self.receipt

    async def send(self, delivery: Delivery, file: Artifact | None) -> Receipt:
        self.files.append(file)
        return await self.deliver(delivery)

    async def ask(self, question: Question, step: str) -> str | None:
        self.questions.append(question)
        return self.answers.pop(0)

    async def keep_todos(self, todos: Sequence[Todo]) -> None:
        self.todos = list(todos)

    def authorize(self, action: str, target: str) -> Decision:
        self.asked.append((action, target))
        return Decision(self.allow(action, target), "the test's rule")

    @property
    def services(self) -> TurnServices:
        return self

    @property
    def step(self) -> str:
        return "tool:call-1"

    def question(self) -> str:
        return "tool:call-1:1"

    def agreed_by(self, action: str, target: str) -> Actor | None:
        return None

    def attach(self, kind: str, data: BaseModel) -> None:
        """Not here."""

    def mode(self) -> Mode:
        return "default"

    def usable(self) -> Sequence[ToolSpec]:
        return ()

    def progress(self, text: str) -> None:
        """Not here."""

    def set_source(self, kind: SourceKind) -> None:
        """Not here."""

    def context(self, actor: Actor = ANNA, address: Address = ANNAS_CHAT) -> ToolContext:
        """The context of a call in turn `telegram:77`."""
        return ToolContext(
            actor=actor,
            session=actor.key,
            call_id="call-1",
            address=address,
            environment=self,
            workspace=self.the_workspace,
            port=self,
            turn="telegram:77",
        )

    async def call(
        self, tool: Tool, given: dict[str, Any], *, actor: Actor = ANNA, address: Address = ANNAS_CHAT
    ) -> str:
        """Validate and run, as the dispatcher does."""
        arguments = validate(tool.arguments, given)
        return tool.result.text(tool.result.checked(await tool.call(self.context(actor, address), arguments)))

    def risk(self, tool: Tool, given: dict[str, Any], *, address: Address = ANNAS_CHAT) -> Risk:
        """The risk of one call."""
        assert tool.risk
        return tool.risk(validate(tool.arguments, given), self.context(address=address))

    def write(self, path: str, content: str | bytes) -> Path:
        """Put a file into the workspace, or where it shows private notes, as a person with an editor does."""
        target = self.the_workspace.on_disk(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)
        return target


@asynccontextmanager
async def surroundings(folder: Path, **memory_settings: Any) -> AsyncIterator[Surroundings]:
    """Everything below `folder`; keyword arguments are settings of the section `memory`."""
    (folder / "workspace").mkdir()
    config = Config.model_validate({"state_dir": folder / "state", "memory": memory_settings})
    async with (
        open_blobs(folder / "state") as blobs,
        open_memory(folder / "state" / "memory.db", config, SteppedClock(), alone=True) as memory,
        Workspace(folder / "workspace", [folder / "state"], notes=folder / "state" / "notes") as workspace,
    ):
        yield Surroundings(config, blobs, memory, workspace)
