"""Run commands in the sandbox: `exec` by a shell, `bg_exec` a program in the background without one.

The standard input of `bg_exec` can stay open for `task_input`. A call may add environment variables, but none that
change which programs run.
"""

import asyncio
import re
import shlex
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Annotated, Any

from pydantic import AliasChoices, Field

from goclaw.common.specs import Example, SideEffect
from goclaw.errors import InvalidInput
from goclaw.tools.approval.requests import Grounds
from goclaw.tools.builtin.background_tasks import (
    BACKGROUND,
    TaskResult,
    TaskSeconds,
    owner_of,
    start_task,
    started_text,
    task_fields,
)
from goclaw.tools.builtin.command_approval import command_risk, exec_grounds, grounds_of_line
from goclaw.tools.builtin.exec_run import MAX_COMMAND, environment, run_command, shorten_line
from goclaw.tools.builtin.text import encode
from goclaw.tools.execution.sandbox.layout import find_program, shell
from goclaw.tools.execution.sandbox.rules import Rules
from goclaw.tools.execution.sandbox.shell import STEERING
from goclaw.tools.toolkit.base import ToolContext, guarded, tool
from goclaw.tools.toolkit.results import Result
from goclaw.tools.toolkit.scheduling import ResourceUse

WorkingFolder = Annotated[
    str | None,
    Field(
        # Many models were taught the other name; it is shown nowhere, and giving both is an error.
        validation_alias=AliasChoices("working_dir", "workdir"),
        description="Working directory, inside the workspace.",
    ),
]
"""Where a command runs."""

Variables = Annotated[
    dict[str, str] | None,
    Field(description="Variables for it, such as NO_COLOR; none that change which programs run (PATH, LD_…)."),
]
"""The environment that a call adds."""


_NOT_RUN = (
    '{"summary": "Cancelled, nothing was run", "command": {{ command | json }}, "advice": "Do not try the same in '
    'another way. Go on without it, or say what you wanted and why."}'
)


class ExecResult(Result):
    """A command that ended, or goes on in the background."""

    output: Annotated[
        str,
        Field(description="Standard output and error, merged; of a long one head and tail."),
    ]
    exit_code: Annotated[int | None, Field(description="Of a command that ended.")] = None
    task: Annotated[str, Field(description="Id of the task that goes on in the background.")] = ""

    def text(self) -> str:
        """Return the output, and the exit code in a line of its own."""
        return self.output if self.task else f"{self.output}exit code: {self.exit_code}"


@guarded(lambda arguments, ctx: BACKGROUND if arguments.run_in_background else None)
@tool(
    side_effect=SideEffect.SPAWNS,
    risk=command_risk,
    idempotent=False,
    name="exec",
    title="Run a command",
    tags=("shell",),
    own_timeout=True,
    grounds=exec_grounds,
    denied=_NOT_RUN,
    access=lambda arguments, ctx: ResourceUse(category="shell"),
    asks="run {{ command or 'this command' }}{% if working_dir %} in {{ working_dir }}{% endif %}",
    does="run commands",
    call_hint="{% if run_in_background %}Starting{% else %}Running{% endif %} {{ command | truncate(100) }}",
    result_hint=(
        "{{ 'Started' if task else 'Ran' }} {{ args.command | truncate(80) }}: {{ task or 'exit code ' ~ exit_code }}"
    ),
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
    settings, variables = ctx.config.tools.exec, checked_variables(env or {})
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
    if len(encode(command, "command")) > MAX_COMMAND:
        raise InvalidInput(f'field "command": expected at most {MAX_COMMAND} bytes; write a script and run that')
    return (shell(), "-c", command)


MAX_ARGUMENTS = 1_000
MAX_INPUT = 1 << 20
"""Characters of input in one call."""

_NOT_STARTED = (
    '{"summary": "Cancelled, nothing was started", "command": {{ command | json }}, "advice": "Do not try the same in '
    'another way. Go on without it, or say what you wanted and why."}'
)


class StartedTask(TaskResult):
    """A task that was just started."""

    def text(self) -> str:
        """Return how to use the task."""
        return started_text(self.task, self.output)


async def _bg_exec_grounds(arguments: Any, ctx: ToolContext) -> Grounds:
    """Return the grounds as for `exec`; the input is not checked, so approval is for one call only."""
    words = _words(arguments.command, arguments.args)
    grounds = await grounds_of_line(shlex.join(words), arguments.working_dir or ".", ctx)
    plain = not (arguments.env or arguments.stdin or arguments.keep_stdin)
    return grounds if plain else grounds.for_one_call()


@guarded(lambda arguments, ctx: BACKGROUND)
@tool(
    side_effect=SideEffect.SPAWNS,
    risk=command_risk,
    idempotent=False,
    title="Start a program in the background",
    tags=("shell",),
    grounds=_bg_exec_grounds,
    denied=_NOT_STARTED,
    foreign=False,
    access=lambda arguments, ctx: ResourceUse(category="shell"),
    asks="run {{ command or 'this command' }}{% if working_dir %} in {{ working_dir }}{% endif %}",
    does="run commands",
    call_hint="Starting {{ command | truncate(40) }} {{ args | join(' ') | truncate(60) }}",
    result_hint="Started {{ args.command | truncate(40) }} {{ args.args | join(' ') | truncate(50) }} as {{ task }}",
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
    settings, variables = ctx.config.tools.exec, checked_variables(env or {})
    words = _words(command, args)
    Rules(settings.allowed, settings.blocked).judge(shlex.join(words))
    given = None if stdin is None else encode(stdin, "stdin")
    folder = await ctx.workspace.folder(working_dir or ".")
    contained = ctx.sandbox.tier != "off"
    path, places = environment(settings)["PATH"], ctx.workspace
    wanted = _in_folder(command, working_dir)
    program = await asyncio.to_thread(
        find_program, wanted, places.root, path, contained=contained, shared=places.shared
    )
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
    return StartedTask(**task_fields(info, ctx))


def _in_folder(command: str, folder: str | None) -> str:
    """Return the program's path; a relative one is below the folder it runs in."""
    is_relative = "/" in command and not command.startswith("/")
    return str(PurePosixPath(folder or ".") / command) if is_relative else command


def _words(command: str, args: list[str]) -> list[str]:
    words = [command, *args]
    for place, word in zip(("command", *(f"args.{number}" for number in range(len(args)))), words, strict=True):
        if "\0" in word:
            raise InvalidInput(f'field "{place}": expected text without NUL characters, got one')
        encode(word, place)
    if command.startswith("-") or command.strip() != command:
        raise InvalidInput('field "command": expected the name or the path of a program, without options or spaces')
    if sum(len(word.encode()) + 1 for word in words) > MAX_COMMAND:
        raise InvalidInput(f'field "args": expected at most {MAX_COMMAND} bytes; use stdin or a file')
    return words


MAX_VARIABLES = 50
MAX_ENV_BYTES = 32_000
"""Bytes of all of them together: they count among what the kernel takes as arguments."""
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_LOADING_VARIABLES = re.compile(
    r"PYTHON\w+|PERL\w+|RUBY(OPT|LIB)\w*|GEM_\w+|BUNDLE_\w+|NODE_(OPTIONS|PATH)|(?i:npm_config_\w+)|DENO_\w+|BUN_\w+"
    r"|JAVA_TOOL_OPTIONS|_JAVA_OPTIONS|JDK_JAVA_OPTIONS|CLASSPATH|LUA_\w+|PHPRC|PHP_INI_SCAN_DIR|R_\w+|JULIA_\w+"
    r"|(CARGO|RUSTUP|RUSTC)_\w+|RUSTC|RUSTFLAGS|GO(FLAGS|ENV|PATH|ROOT|TOOLCHAIN)|(GNU)?MAKE(FLAGS|FILES)|MAKE"
    r"|HOME|SHELL|ZDOTDIR|FPATH|XDG_\w+|INPUTRC|LESS\w*|BROWSER|TERMINFO\w*|TERMCAP|SYSTEMD_\w+"
    r"|GCONV_PATH|LOCPATH|NLSPATH|MALLOC_\w+|GLIBC_TUNABLES|HOSTALIASES|OPENSSL_\w+|SSH_\w+|SUDO_\w+"
)
"""Variables that make an interpreter or a program load or start another file, besides those of the shell."""
_HARMLESS_VARIABLES = re.compile(
    r"PYTHON(UNBUFFERED|DONTWRITEBYTECODE|HASHSEED|UTF8|IOENCODING|FAULTHANDLER|TRACEMALLOC|NOUSERSITE|SAFEPATH)"
    r"|GIT_(AUTHOR|COMMITTER)_(NAME|EMAIL|DATE)"
)
"""Harmless variables that look like dangerous ones."""


def checked_variables(env: Mapping[str, str]) -> Mapping[str, str]:
    """Return the variables, if they are allowed.

    Raises:
        InvalidInput: one of them changes which programs run, is no variable, or they are too many.
    """
    if len(env) > MAX_VARIABLES:
        raise InvalidInput(f'field "env": expected at most {MAX_VARIABLES} variables, got {len(env)}')
    for name, value in env.items():
        _check_variable(name, value)
    if sum(len(name) + len(value.encode()) + 2 for name, value in env.items()) > MAX_ENV_BYTES:
        raise InvalidInput(f'field "env": expected at most {MAX_ENV_BYTES} bytes in all; put the content into a file')
    return env


def _check_variable(name: str, value: str) -> None:
    if not _VARIABLE_NAME.fullmatch(name):
        raise InvalidInput(f'field "env": expected names of letters, digits and _, got {name[:80]!r}')
    if not _HARMLESS_VARIABLES.fullmatch(name) and (STEERING.fullmatch(name) or _LOADING_VARIABLES.fullmatch(name)):
        raise InvalidInput(
            f'field "env": {name} may not be set, because it changes which programs run; '
            "name the program in the command instead"
        )
    if "\0" in value:
        raise InvalidInput(f'field "env.{name}": expected text without NUL characters, got one')
    encode(value, f"env.{name}")
