"""The `exec` tool: a shell command in the sandbox."""

from typing import Annotated

from pydantic import Field

from goclaw.errors import InvalidInput
from goclaw.sandbox.layout import shell
from goclaw.sandbox.rules import Rules
from goclaw.specs import Example, SideEffect
from goclaw.toolkit.base import ToolContext, tool
from goclaw.toolkit.results import Result
from goclaw.toolkit.scheduling import ResourceUse
from goclaw.tools.background import start_task, started_text
from goclaw.tools.compressing import shorten_line
from goclaw.tools.exec_env import checked
from goclaw.tools.exec_grounds import exec_grounds
from goclaw.tools.exec_run import MAX_COMMAND, command_risk, run_command
from goclaw.tools.shell_arguments import Variables, WorkingFolder
from goclaw.tools.text import encoded

_DENIED = (
    '{"summary": "Cancelled, nothing was run", "command": {{ command | json }}, "advice": "Do not try the same in '
    'another way. Go on without it, or say what you wanted and why."}'
)


class ExecResult(Result):
    """A command that ended, or goes on in the background."""

    output: Annotated[str, Field(description="Standard output and error, merged; of a long one the tail.")]
    exit_code: Annotated[int | None, Field(description="Of a command that ended.")] = None
    task: Annotated[str, Field(description="Id of the task that goes on in the background.")] = ""

    def text(self) -> str:
        """Return the output, and the exit code in a line of its own."""
        return self.output if self.task else f"{self.output}exit code: {self.exit_code}"


@tool(
    side_effect=SideEffect.SPAWNS,
    risk=command_risk,
    idempotent=False,
    name="exec",
    title="Run a command",
    tags=("shell",),
    own_timeout=True,
    grounds=exec_grounds,
    denied=_DENIED,
    access=lambda arguments, ctx: ResourceUse(category="shell"),
    call_hint="{% if run_in_background %}Starting{% else %}Running{% endif %} {{ command | truncate(100) }}",
    result_hint="{% if task %}Goes on as {{ task }}{% else %}Exit code {{ exit_code }}{% endif %}",
    examples=(
        Example("How many lines a file has", {"command": "wc -l < a.txt"}, "2\nexit code: 0", {"a.txt": "one\ntwo\n"}),
        Example("A variable for the command", {"command": 'echo "$WHO"', "env": {"WHO": "world"}}, "world\n"),
    ),
)
async def exec_(
    ctx: ToolContext,
    command: Annotated[str, Field(min_length=1, max_length=MAX_COMMAND, description="Command to execute.")],
    timeout: Annotated[int | None, Field(ge=1, le=300, description="Timeout in seconds (default: 30).")] = None,
    working_dir: WorkingFolder = None,
    env: Variables = None,
    run_in_background: Annotated[
        bool, Field(description="Start it as a task that goes on after this call (task_output shows what it says).")
    ] = False,
) -> ExecResult:
    """Execute a shell command in the workspace. Returns its output (stdout and stderr merged) and its exit code.

    A read or search in the same answer runs beside it and may not see its effect. Processes that the command leaves
    behind end with it. Standard input is closed. What shall go on beside the conversation (a server, a long build) runs
    in the background, by default for as long as tools.tasks.minutes allows.
    """
    settings, variables = ctx.config.tools.exec, checked(env or {})
    Rules(settings.allowed, settings.blocked).judge(command)
    folder = await ctx.workspace.folder(working_dir or ".")
    argv = _argv(command)
    if run_in_background:
        info = await start_task(ctx, argv, folder, command, seconds=timeout, env=variables)
        return ExecResult(output=started_text(info.id, info.output), task=info.id)
    shorten = shorten_line(command) if ctx.compress else None
    ran = await run_command(ctx, argv, folder, timeout or settings.timeout, variables, shorten)
    return ExecResult(output=ran.output, exit_code=ran.code)


def _argv(command: str) -> tuple[str, ...]:
    if "\0" in command:
        raise InvalidInput('field "command": expected text without NUL characters, got one')
    if len(encoded(command, "command")) > MAX_COMMAND:
        raise InvalidInput(f'field "command": expected at most {MAX_COMMAND} bytes; write a script and run that')
    return (shell(), "-c", command)
