"""Tools from the configuration alone: one for each entry of `tools.cli`, which runs its command in the sandbox.

No shell is involved: the model's text is split into words as a shell would do it, and that is all. Everything else
is as for `exec`: containment, time, output, the rules of `tools.exec`, and the approval before.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from pydantic import Field

from goclaw.common.config.tools import CliToolSettings
from goclaw.common.core.redact import mask
from goclaw.common.specs import Annotations, Risk, SideEffect
from goclaw.errors import InvalidInput, ToolError
from goclaw.tools.approval.requests import Grounds
from goclaw.tools.builtin.command_approval import command_risk, configured_risk, grounds_of_line
from goclaw.tools.builtin.exec_run import MAX_COMMAND, Ran, environment, run_command, shorten_words
from goclaw.tools.builtin.text import encode
from goclaw.tools.execution.sandbox.layout import find_program
from goclaw.tools.execution.sandbox.rules import Rules
from goclaw.tools.toolkit.base import CallRisk, Tool, ToolContext, ToolSource, tool
from goclaw.tools.toolkit.scheduling import ResourceUse
from goclaw.tools.toolkit.sources import Fixed, SourcePart, SourcePorts


def cli_tool(name: str, settings: CliToolSettings) -> Tool:
    """Return the tool of one entry."""

    async def run(
        ctx: ToolContext,
        args: Annotated[
            str,
            Field(
                max_length=MAX_COMMAND,
                description="Further arguments, in one text; quotation marks keep words together as in a shell.",
            ),
        ] = "",
    ) -> Ran:
        words = _words(settings, args)
        Rules(ctx.config.tools.exec.allowed, ctx.config.tools.exec.blocked).judge(settings.line(args))
        program = await asyncio.to_thread(
            find_program,
            settings.command,
            ctx.workspace.root,
            environment(ctx.config.tools.exec)["PATH"],
            contained=ctx.sandbox.tier != "off",
            shared=ctx.workspace.shared,
        )
        seconds = settings.timeout or ctx.config.tools.exec.timeout
        shorten = shorten_words(words) if ctx.compress else None
        argv, writes = (program, *words[1:]), not settings.read_only
        return await run_command(ctx, argv, ctx.workspace.root, seconds, shorten=shorten, writes=writes)

    async def grounds(arguments: Any, ctx: ToolContext) -> Grounds:
        _words(settings, arguments.args)
        return await grounds_of_line(settings.line(arguments.args), ".", ctx)

    run.__doc__ = (
        f"{settings.description.strip()}\n\nRuns `{mask(settings.line())}` in the workspace, with `args` behind it; no "
        "shell is involved. Returns its output (stdout and stderr merged) and its exit code."
    )
    return tool(
        side_effect=SideEffect.SPAWNS,
        risk=CallRisk(
            Risk.CRITICAL,
            lambda arguments, ctx: _risk(settings, command_risk(arguments, ctx)),
            lambda config: _risk(settings, configured_risk(config)),
        ),
        idempotent=_is_idempotent(settings),
        annotations=_annotations(settings),
        name=name,
        tags=("cli", "shell", *settings.tags),
        own_timeout=True,
        grounds=grounds,
        access=lambda arguments, ctx: ResourceUse(category="shell"),
        asks=f"run `{name}`",
        does=f"run {name}",
        call_hint=f"{name} {{{{ args }}}}",
        result_hint=f"{name}{{{{ ' ' ~ args.args if args.args }}}}: exit code {{{{ code }}}}",
    )(run)


def _risk(settings: CliToolSettings, usual: Risk) -> Risk:
    """Return the risk of a command: critical if destructive; low if read-only and the sandbox ensures it."""
    if settings.destructive:
        return Risk.CRITICAL
    return Risk.LOW if settings.read_only and usual is Risk.CONTAINED else usual


def _is_idempotent(settings: CliToolSettings) -> bool:
    return settings.read_only if settings.idempotent is None else settings.idempotent


def _annotations(settings: CliToolSettings) -> Annotations:
    """Return the tool's hints. Defaults are those of every command: it may do anything."""
    destructive = True if settings.destructive is None else settings.destructive
    return Annotations(
        settings.title,
        read_only=settings.read_only,
        destructive=None if settings.read_only else destructive,
        idempotent=_is_idempotent(settings),
        open_world=True if settings.open_world is None else settings.open_world,
    )


def _words(settings: CliToolSettings, given: str) -> tuple[str, ...]:
    if "\0" in given:
        raise InvalidInput('field "args": expected text without NUL characters, got one')
    try:
        words = settings.words(given)
    except ValueError as error:
        raise InvalidInput(f'field "args": cannot be split into words: {str(error).lower()}') from None
    if sum(len(encode(word, "args")) + 1 for word in words) > MAX_COMMAND:
        raise InvalidInput(f'field "args": expected at most {MAX_COMMAND} bytes with the command itself')
    return words


@asynccontextmanager
async def _open(ports: SourcePorts) -> AsyncIterator[ToolSource]:
    config = ports.config
    for name, settings in config.tools.cli.items():
        if "/" in settings.command and not settings.command.startswith("/"):
            continue  # in a workspace, of which there may be several: known when it is called
        try:
            path = environment(config.tools.exec)["PATH"]
            contained = config.tools.exec.sandbox != "off"
            await asyncio.to_thread(find_program, settings.command, config.workspace_path, path, contained=contained)
        except ToolError as error:
            ports.report(f"tools.cli.{name}", str(error))
    yield Fixed([cli_tool(name, settings) for name, settings in config.tools.cli.items()])


SOURCE = SourcePart("cli", _open, "config tools.cli")
