"""Hooks that are programs: the event in JSON on standard input, the answer in JSON on standard output.

Exit code 0: its output is its answer, and no output means no answer. Exit code 2: no, for the reason on standard error;
where it is too late to forbid anything, the model gets the reason (as in Claude Code, so its hooks work here). Any
other exit code, and any other output, is a failure.
"""

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, ExitStack
from pathlib import Path
from typing import Any, Protocol

from pydantic import BaseModel, Field, ValidationError

from goclaw.common.auth.audit import AuditEntry
from goclaw.common.config.hooks import HookSettings
from goclaw.common.config.schema import Config
from goclaw.common.core.events import Actor
from goclaw.common.core.files import lies_inside
from goclaw.common.core.records import record
from goclaw.common.core.supervise import background
from goclaw.common.workspace import ApprovedFiles, Workspace
from goclaw.errors import GoclawError, HookFailed
from goclaw.tools.execution.sandbox import layout
from goclaw.tools.execution.sandbox.base import Limits, Policy, Process, Sandbox, SandboxCommand
from goclaw.tools.execution.sandbox.descriptors import chunks, closing, reading
from goclaw.tools.execution.sandbox.policy import policy_for
from goclaw.tools.hooks.base import MAY, HookAnswer, HookEvent

MAX_BYTES = 64 << 10
"""Bytes of an answer."""
MAX_SAID = 2_000
"""Bytes of standard error that are kept."""
FORBIDDEN = 2
"""The exit code that says no."""


class HookEnvironment(Protocol):
    """The services that command hooks need; `app.Environment` provides them."""

    @property
    def config(self) -> Config: ...

    @property
    def sandbox(self) -> Sandbox: ...

    @property
    def approved_files(self) -> ApprovedFiles: ...

    def audit(self, entry: AuditEntry) -> None: ...

    async def workspace(self, actor: Actor, session: str = "") -> Workspace: ...


class _Answer(BaseModel, extra="forbid", strict=True):
    """The JSON object that a program may print."""

    deny: str | None = Field(None, min_length=1)
    input: dict[str, Any] | None = None
    inject: dict[str, Any] = Field(default_factory=dict)
    context: str | None = None
    suppress: bool = False
    text: str | None = None


@record
class CommandHook:
    """A hook of the configuration."""

    settings: HookSettings
    environment: HookEnvironment
    uncontained: Sandbox | None = None
    """Runs it in place of the sandbox, with `sandbox: false`."""

    async def __call__(self, event: HookEvent) -> HookAnswer:
        """Run the program and return its answer.

        Raises:
            HookFailed: it cannot be run, took too long, or its answer is invalid.
        """
        seconds = self.settings.timeout
        try:
            async with asyncio.timeout(seconds):
                code, output, said = await self._run(event)
        except TimeoutError:
            raise HookFailed(f"it took longer than {seconds:g} s") from None
        except GoclawError as error:
            raise HookFailed(str(error)) from error
        if code == FORBIDDEN:
            reason = said or "it gave no reason"
            if "deny" not in MAY[event.point] and event.point != "before_compaction":
                return HookAnswer(context=reason)
            return HookAnswer(deny=reason)
        if code:
            raise HookFailed(f"exit code {code}: {said or 'it said nothing on standard error'}")
        return _answer(output)

    async def _run(self, event: HookEvent) -> tuple[int, bytes, str]:
        """Exit code, standard output, standard error."""
        workspace = await self.environment.workspace(event.actor, event.session)
        await asyncio.to_thread(self._refuse_others_program, workspace)
        argv = (program_of(self.settings, workspace.root), *self.settings.command[1:])
        async with AsyncExitStack() as stack:
            read_end, write_end = os.pipe()
            given = stack.enter_context(ExitStack())  # what the program gets: ours is closed once it has its own
            given.enter_context(closing(write_end))
            errors = await stack.enter_async_context(reading(read_end))
            command = SandboxCommand(argv, workspace.root, self._variables(), stdin=_encode(event), stderr=write_end)
            process = await stack.enter_async_context(await self._start(command, event, workspace.shared))
            given.close()
            said = bytearray()
            async with background(_read_beginning(chunks(errors), said), "what a hook says") as saying:
                output = await _read_output(process)
                code = await process.wait()
                await process.kill()  # what it left behind holds its standard error
                await asyncio.wait({saying})
            if output is None:
                raise HookFailed(f"its answer is longer than {MAX_BYTES >> 10} KB")
            return code, output, said.decode(errors="replace").strip()

    def _refuse_others_program(self, workspace: Workspace) -> None:
        """Refuse a program that users who are no admins can write: they would decide in its place."""
        for folder in filter(None, (workspace.root, workspace.shared)):
            if not self.environment.approved_files.is_shared(folder):
                continue
            if found := next(_files_in(folder, self.settings.command, workspace.root), None):
                words = f"{found} is inside the workspace {folder}, where not only admins can write"
                raise HookFailed(f"{words}: move it elsewhere, and give its absolute path")

    async def _start(
        self, command: SandboxCommand, event: HookEvent, shared: Path | None
    ) -> AbstractAsyncContextManager[Process]:
        config, workspace = self.environment.config, command.cwd
        if self.uncontained is not None:
            return self.uncontained.run(command, Policy(workspace, limits=Limits()))

        def explain(place: str, reached: bool, why: str) -> None:
            rule = "tools.network"
            self.environment.audit(AuditEntry("exec.connect", place, event.actor, event.session, reached, rule, why))

        # The files among the words that a contained program could not read.
        files = [path for path in map(Path, command.argv) if path.is_absolute() and path.is_file()]
        places = (*layout.SYSTEM, workspace)
        readable = tuple(path for path in files if not any(path.is_relative_to(place) for place in places))
        policy = await policy_for(config, workspace, explain, readable, shared=shared)
        return self.environment.sandbox.run(command, policy)

    def _variables(self) -> Mapping[str, str]:
        home = {"HOME": str(Path.home())} if self.uncontained is not None else {}
        return {**layout.environment(), **home}


def program_of(settings: HookSettings, workspace: Path) -> str:
    """Return the path of a hook's program, as `exec` would find it.

    Raises:
        HookFailed: no such program.
    """
    name = settings.command[0]
    place = str(workspace / name) if "/" in name else name
    found = shutil.which(place, path=layout.environment()["PATH"])
    if found is None:
        raise HookFailed(f"there is no executable program {name}: give its absolute path, and make it executable")
    return found


def _files_in(folder: Path, words: Sequence[str], workspace: Path) -> Iterator[str]:
    """Yield the words of a command in a workspace that name a file in `folder`; a program not there yet, too."""
    program, *rest = words
    if "/" in program and lies_inside(workspace / program, folder):
        yield program
    for word in rest:
        place = workspace / word.rpartition("=")[2]
        if place.is_file() and lies_inside(place, folder):
            yield word


def _encode(event: HookEvent) -> bytes:
    actor = event.actor
    return json.dumps(
        {
            "point": event.point,
            "session": event.session,
            "actor": {"key": actor.key, "name": actor.name, "entry": actor.entry, "owner": actor.owner},
            "tool": event.tool,
            "tags": sorted(event.tags),
            "call_id": event.call_id,
            "input": dict(event.input),
            "text": event.text,
            "tool_id": event.tool_id,
        },
        default=str,
    ).encode()


async def _read_output(process: Process) -> bytes | None:
    """Return all of standard output; None when it is too much, and the program is ended."""
    output = b""
    async for chunk in process.output:
        output += chunk
        if len(output) > MAX_BYTES:
            await process.kill()
            return None
    return output


async def _read_beginning(said: AsyncIterator[bytes], kept: bytearray) -> None:
    async for chunk in said:
        kept += chunk[: MAX_SAID - len(kept)]


def _answer(output: bytes) -> HookAnswer:
    if not output.strip():
        return HookAnswer()
    try:
        answer = _Answer.model_validate_json(output)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        key = ".".join(map(str, first["loc"]))
        where = f"`{key}` of its answer" if key else "its answer"
        raise HookFailed(f"{where} cannot be used: {first['msg']}") from None
    return HookAnswer(
        deny=answer.deny or "",
        input=answer.input,
        inject=answer.inject,
        context=answer.context or "",
        suppress=answer.suppress,
        text=answer.text,
    )
