"""The `bg_exec` tool: a program in the background, without a shell, with a standard input that can stay open."""

import asyncio
import shlex
from pathlib import PurePosixPath
from typing import Annotated, Any

from pydantic import Field

from goclaw.errors import InvalidInput
from goclaw.sandbox.programs import find_program
from goclaw.sandbox.rules import Rules
from goclaw.specs import Example, SideEffect
from goclaw.toolkit.base import ToolContext, tool
from goclaw.toolkit.consent import Grounds
from goclaw.toolkit.scheduling import ResourceUse
from goclaw.tools.background import TaskResult, TaskSeconds, owner_of, shown, start_task, started_text
from goclaw.tools.exec_env import checked
from goclaw.tools.exec_grounds import grounds_of_line
from goclaw.tools.exec_run import MAX_COMMAND, command_risk, environment
from goclaw.tools.shell_arguments import Variables, WorkingFolder
from goclaw.tools.text import encoded

MAX_ARGUMENTS = 1_000
MAX_INPUT = 1 << 20
"""Characters of input in one call."""

_DENIED = (
    '{"summary": "Cancelled, nothing was started", "command": {{ command | json }}, "advice": "Do not try the same in '
    'another way. Go on without it, or say what you wanted and why."}'
)


class StartedTask(TaskResult):
    """A task that was just started."""

    def text(self) -> str:
        """Return how to use the task."""
        return started_text(self.task, self.output)


async def _grounds(arguments: Any, ctx: ToolContext) -> Grounds:
    """Return the grounds as for `exec`; the input is not checked, so approval is for one call only."""
    words = _words(arguments.command, arguments.args)
    grounds = await grounds_of_line(shlex.join(words), arguments.working_dir or ".", ctx)
    plain = not (arguments.env or arguments.stdin or arguments.keep_stdin)
    return grounds if plain else Grounds(grounds.facts, grounds.lines)


@tool(
    side_effect=SideEffect.SPAWNS,
    risk=command_risk,
    idempotent=False,
    title="Start a program in the background",
    tags=("shell",),
    grounds=_grounds,
    denied=_DENIED,
    foreign=False,
    access=lambda arguments, ctx: ResourceUse(category="shell"),
    call_hint="Starting {{ command | truncate(40) }} {{ args | join(' ') | truncate(60) }}",
    result_hint="Goes on as {{ task }}",
    examples=(Example("A program that reads its input", {"command": "sort", "stdin": "b\na\n"}, "in the background"),),
)
async def bg_exec(
    ctx: ToolContext,
    command: Annotated[
        str, Field(min_length=1, max_length=4_000, description="The program: a name, or a path in the workspace.")
    ],
    args: Annotated[
        list[str], Field(max_length=MAX_ARGUMENTS, description="Its arguments, a word each: no shell reads them.")
    ] = [],  # noqa: B006 -- a default of the schema, never changed
    stdin: Annotated[
        str | None, Field(max_length=MAX_INPUT, description="Text for its standard input, which ends behind it.")
    ] = None,
    keep_stdin: Annotated[
        bool, Field(description="Its standard input stays open, for task_input (an interpreter, a dialogue).")
    ] = False,
    timeout: TaskSeconds = None,
    working_dir: WorkingFolder = None,
    env: Variables = None,
) -> StartedTask:
    """Start a program in the background and return at once with the id of its task.

    No shell is involved. task_output waits for its end or shows what it said so far, task_input writes to it,
    task_stop ends it. It goes on after this turn, but not for longer than its time, nor when GoClaw is restarted.
    """
    settings, variables = ctx.config.tools.exec, checked(env or {})
    words = _words(command, args)
    Rules(settings.allowed, settings.blocked).judge(shlex.join(words))
    given = None if stdin is None else encoded(stdin, "stdin")
    folder = await ctx.workspace.folder(working_dir or ".")
    contained = ctx.sandbox.tier != "off"
    path = environment(settings)["PATH"]
    wanted = _in_folder(command, working_dir)
    program = await asyncio.to_thread(find_program, wanted, ctx.workspace.root, path, contained=contained)
    info = await start_task(
        ctx,
        (program, *words[1:]),
        folder,
        shlex.join(words),
        seconds=timeout,
        env=variables,
        stdin=None if keep_stdin else given,
        keeps_input=keep_stdin,
    )
    if keep_stdin and given:
        await ctx.tasks.write(info.id, owner_of(ctx), given, end=False)
    return StartedTask(**shown(info, ctx))


def _in_folder(command: str, folder: str | None) -> str:
    """Return the program's path; a relative one is below the folder in which it runs."""
    is_relative = "/" in command and not command.startswith("/")
    return str(PurePosixPath(folder or ".") / command) if is_relative else command


def _words(command: str, args: list[str]) -> list[str]:
    words = [command, *args]
    for place, word in zip(("command", *(f"args.{number}" for number in range(len(args)))), words, strict=True):
        if "\0" in word:
            raise InvalidInput(f'field "{place}": expected text without NUL characters, got one')
        encoded(word, place)
    if command.startswith("-") or command.strip() != command:
        raise InvalidInput('field "command": expected the name or the path of a program, without options or spaces')
    if sum(len(word.encode()) + 1 for word in words) > MAX_COMMAND:
        raise InvalidInput(f'field "args": expected at most {MAX_COMMAND} bytes; use stdin or a file')
    return words
