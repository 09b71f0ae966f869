"""The `exec` tool: a shell command in the sandbox."""

from typing import Annotated

from pydantic import Field

from goclaw.errors import InvalidInput
from goclaw.sandbox.layout import shell
from goclaw.sandbox.rules import Rules
from goclaw.specs import SideEffect
from goclaw.toolkit.base import ToolContext, tool
from goclaw.tools.exec_grounds import exec_grounds
from goclaw.tools.exec_run import LONGEST_COMMAND, command_risk, run_command
from goclaw.tools.text import encoded

_DENIED = (
    '{"summary": "Cancelled, nothing was run", "command": {{ command | json }}, "advice": "Do not try the same in '
    'another way. Go on without it, or say what you wanted and why."}'
)


@tool(
    side_effect=SideEffect.SPAWNS,
    risk=command_risk,
    idempotent=False,
    name="exec",
    own_timeout=True,
    grounds=exec_grounds,
    denied=_DENIED,
)
async def exec_(
    ctx: ToolContext,
    command: Annotated[str, Field(min_length=1, max_length=LONGEST_COMMAND, description="Command to execute.")],
    timeout: Annotated[int | None, Field(ge=1, le=300, description="Timeout in seconds (default: 30).")] = None,
    working_dir: Annotated[str | None, Field(description="Working directory, inside the workspace.")] = None,
) -> str:
    """Execute a shell command in the workspace. Returns its output (stdout and stderr merged) and its exit code.

    Processes that the command leaves behind end with it. Standard input is closed.
    """
    settings = ctx.config.tools.exec
    Rules(settings.allowed, settings.blocked).judge(command)
    folder = await ctx.workspace.folder(working_dir or ".")
    return (await run_command(ctx, _argv(command), folder, timeout or settings.timeout)).text()


def _argv(command: str) -> tuple[str, ...]:
    if "\0" in command:
        raise InvalidInput('field "command": expected text without NUL characters, got one')
    if len(encoded(command, "command")) > LONGEST_COMMAND:
        raise InvalidInput(f'field "command": expected at most {LONGEST_COMMAND} bytes; write a script and run that')
    return (shell(), "-c", command)
