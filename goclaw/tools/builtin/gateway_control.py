"""The tools for the gateway itself: its settings (`config`) and its slash commands (`command`)."""

import asyncio
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from goclaw.common.config.changing import CHANGEABLE, change, check, check_key
from goclaw.common.config.document import format_value, plain_value
from goclaw.common.core.container import daemon_command
from goclaw.common.specs import Annotations, Example, Risk, SideEffect
from goclaw.errors import ToolError
from goclaw.tools.approval.guard import Route, Sink
from goclaw.tools.approval.requests import Grounds
from goclaw.tools.builtin.text import encode
from goclaw.tools.toolkit.base import CallRisk, ToolContext, guarded, tool
from goclaw.tools.toolkit.results import Result
from goclaw.tools.toolkit.scheduling import ResourceUse

SESSION = "session."
"""Begins the names of the conversation's own settings."""
RESTART = f"it takes effect after a restart ({daemon_command('restart').strip('`')})"


class Setting(Result):
    """A setting, or what there is to set."""

    setting: str
    shown: Annotated[str, Field(description="What is in force, a line for each key.")]
    changed: bool = False
    needs_restart: Annotated[bool, Field(description="It counts only after a restart.")] = False

    def text(self) -> str:
        if not self.changed:
            return self.shown
        return f"changed to {self.shown}" + (f"; {RESTART}" if self.needs_restart else "")


def _setting_risk(arguments: Any, ctx: ToolContext) -> Risk:
    if arguments.value is None:
        return Risk.LOW
    return Risk.MEDIUM if arguments.setting.startswith(SESSION) else Risk.HIGH


async def _setting_grounds(arguments: Any, ctx: ToolContext) -> Grounds:
    """Return the change from one value to another; a change that cannot be made raises first."""
    name = arguments.setting
    if arguments.value is None or not name:
        return Grounds()
    if name.startswith(SESSION):
        await _of_session(ctx, name, None)
        return Grounds()
    file = _file_to_change(ctx, name)
    await asyncio.to_thread(check, file, name, arguments.value)
    now = str(plain_value(ctx.config, name))
    line = f"`{name}` is `{now}` and would be `{arguments.value}` after the next start, in `{file}`."
    return Grounds(facts={name: now, "file": str(file)}, lines=(line,))


@tool(
    side_effect=SideEffect.MUTATING,
    risk=CallRisk(Risk.HIGH, _setting_risk),
    grounds=_setting_grounds,
    title="Settings",
    tags=("conversation",),
    annotations=Annotations(read_only=False, destructive=False, idempotent=True, open_world=False),
    foreign=False,
    access=lambda arguments, ctx: ResourceUse(orders=("settings",)),
    asks="change the setting {{ setting or 'below' }}{% if value is string %} to {{ value or 'this' }}{% endif %}",
    does="change settings",
    call_hint="Settings{% if setting %}: {{ setting }}{% endif %}{% if value is not none %} = {{ value }}{% endif %}",
    result_hint="{{ 'Changed' if changed else 'Read' }} {{ setting or 'all settings' }}",
    examples=(
        Example("What a key is set to", {"setting": "memory.max_results"}, "memory.max_results: 6"),
        Example("What may be changed", {}, "memory.max_results: 6"),
    ),
)
async def config(
    ctx: ToolContext,
    setting: Annotated[
        str, Field(max_length=200, description="`session.queue_mode`, or a key or section of the configuration.")
    ] = "",
    value: Annotated[
        str | int | float | bool | None,
        Field(description="The new value; left out, the setting is only read."),
    ] = None,
) -> Setting:
    """Read GoClaw's settings, and change some of them. Without arguments it lists what can be changed.

    Secrets are never shown. `session.…` holds for this conversation at once. The few keys of the configuration that can
    be changed are written to its file when a person has agreed, and count after a restart; only for admins.
    """
    if not setting:
        session = [f"{name}: {value}" for name, value in (await ctx.settings.of_session()).items()]
        keys = [format_value(ctx.config, key) for key in CHANGEABLE]
        others = "other keys can only be read: name a key or a section (agents, tools.exec …)"
        return Setting(setting="", shown="\n".join([*session, *keys, others]))
    if setting.startswith(SESSION):
        return await _of_session(ctx, setting, value)
    if value is None:
        if setting not in CHANGEABLE:
            _check_admin(ctx, "read")
        return Setting(setting=setting, shown=await asyncio.to_thread(format_value, ctx.config, setting))
    await asyncio.to_thread(change, _file_to_change(ctx, setting), setting, value)
    return Setting(setting=setting, shown=f"{setting}: {value}", changed=True, needs_restart=True)


def _file_to_change(ctx: ToolContext, setting: str) -> Path:
    _check_admin(ctx, "changed")
    check_key(setting, "the configuration file")
    if ctx.settings.file is None:
        raise ToolError("nothing was changed: the daemon runs without a configuration file that could be changed")
    return ctx.settings.file


async def _of_session(ctx: ToolContext, setting: str, value: Any) -> Setting:
    if value is not None:
        await ctx.settings.choose(setting, str(value))
    known = await ctx.settings.of_session()
    if setting not in known:
        raise ToolError(f"no such setting of a conversation: {setting}; there are: {', '.join(known) or 'none here'}")
    return Setting(setting=setting, shown=f"{setting}: {known[setting]}", changed=value is not None)


def _check_admin(ctx: ToolContext, what: str) -> None:
    """Check that the person is an admin: the configuration names people, folders and hosts."""
    if not ctx.authorize("command.admin", "config").allowed:
        raise ToolError(f"permission denied: that is {what} by admins only")


READING_COMMANDS = frozenset({"help", "sessions", "status", "tools", "usage", "whoami"})
"""Commands that change nothing, whatever stands behind them."""


class CommandResult(Result):
    """What a command answered."""

    answer: str

    def text(self) -> str:
        return self.answer


def _command_risk(arguments: Any, ctx: ToolContext) -> Risk:
    name, *rest = arguments.command.strip().removeprefix("/").split(maxsplit=1) or [""]
    return Risk.LOW if name.lower() in READING_COMMANDS or not rest else Risk.MEDIUM


def _command_sink(arguments: Any, ctx: ToolContext) -> Sink | None:
    is_reading = _command_risk(arguments, ctx) is Risk.LOW
    return None if is_reading else Sink(Route.LASTING, f"the command {arguments.command} is given")


@guarded(_command_sink)
@tool(
    side_effect=SideEffect.READ_ONLY,
    risk=CallRisk(Risk.MEDIUM, _command_risk),
    title="Slash command",
    tags=("conversation",),
    annotations=Annotations(read_only=False, destructive=False, idempotent=True, open_world=False),
    access=lambda arguments, ctx: ResourceUse(orders=("commands",)),
    asks="give the command {{ command or 'below' }}",
    does="use slash commands",
    call_hint="Giving the command {{ command | truncate(100) }}",
    result_hint="{{ args.command | truncate(40) }}: {{ answer | truncate(90) }}",
    examples=(Example("Whom the gateway takes the person for", {"command": "/whoami"}, "You are "),),
)
async def command(
    ctx: ToolContext,
    command: Annotated[
        str, Field(min_length=1, max_length=1_000, description="The command with what belongs to it: `/usage day`.")
    ],
) -> CommandResult:
    """Give one of GoClaw's slash commands for the person you talk with, and read its answer.

    For questions about this gateway: `/status` (context, cost, queue), `/usage [day|week|month|all]`,
    `/tools [NAME]`, `/queue [MODE]`, `/whoami`, `/help`. Which ones are allowed is the operator's choice; none does
    more than the person may.
    """
    encode(command, "command")
    return CommandResult(answer=await ctx.command(command))
