"""Commands that have to be approved: a sandbox that notes what would have run, and a script that asks for them."""

import hashlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from goclaw.common.auth.users import User
from goclaw.common.config.schema import Config
from goclaw.common.core.events import Question, QuestionAsked
from goclaw.common.core.messages import ToolCall, ToolResult
from goclaw.tools.builtin.exec import exec_
from goclaw.tools.execution.sandbox.base import Policy, SandboxCommand
from tests.harness import Answer, Core, World

ANNA, BOB, CHEF, GUEST = "memory:anna", "memory:bob", "memory:chef", "memory:guest"
ADMINS = frozenset({"admin"})
PEOPLE = [
    User(ANNA, "Anna"),
    User(BOB, "Bob"),
    User(CHEF, "Chef", roles=ADMINS),
    User(GUEST, roles=frozenset({"guest"})),
]
NETWORK = {"exec": {"network": "host"}}


@dataclass(frozen=True)
class Ran:
    """A command that ran, and every file of its folder as it was then."""

    line: str
    files: dict[str, str]


class Done:
    """A process that printed a word."""

    @property
    async def output(self) -> AsyncIterator[bytes]:
        yield b"ran\n"

    async def wait(self) -> int:
        return 0

    async def kill(self) -> None:
        pass


@dataclass
class NotingSandbox:
    """Runs nothing, and notes what it was told to run."""

    tier: str = "bubblewrap"
    ran: list[Ran] = field(default_factory=list)

    @asynccontextmanager
    async def run(self, command: SandboxCommand, policy: Policy) -> AsyncIterator[Any]:
        self.ran.append(Ran(command.argv[-1], hashes_in(command.cwd)))
        yield Done()


def hashes_in(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir() if path.is_file()}


def commands(*lines: str) -> list[Answer]:
    """A model that runs each line in turn, whatever comes of it, and then is done."""
    calls = [ToolCall(f"c{number}", "exec", {"command": line}) for number, line in enumerate(lines)]
    return [*(Answer(calls=(call,)) for call in calls), Answer("Done.")]


def world_of(folder: Path, answers: Sequence[Answer], **config: Any) -> tuple[World, NotingSandbox]:
    """A world in which commands reach the network, and so have to be approved."""
    roles = {"guest": {"approves": "none"}}
    world = World(folder, answers, tools=[exec_], users=PEOPLE, roles=roles, **config)
    reconfigure(world, tools=NETWORK)
    world.sandbox = sandbox = NotingSandbox()
    return world, sandbox


def reconfigure(world: World, **settings: Any) -> None:
    """Another configuration from the next start on."""
    world.config = Config.model_validate({**world.config.model_dump(exclude_unset=True), **settings})


def open_questions(core: Core) -> list[Question]:
    return [item.question for item in core.sessions.ports.questions._open.values()]


def asked_so_far(core: Core) -> list[Question]:
    return [event.question for event in core.seen if isinstance(event, QuestionAsked)]


async def results(core: Core, session: str = "memory:here") -> list[str]:
    return [message.content for message in await core.messages(session) if isinstance(message, ToolResult)]
