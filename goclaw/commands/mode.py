"""`/mode [NAME]`: what the agent may do in this session without asking. See `sessions.modes`."""

from typing import get_args

from goclaw.commands.base import Command, CommandContext, Reply
from goclaw.config.values import Mode
from goclaw.sessions.modes import MEANINGS, Modes

CONFIGURED = "configured"


async def _mode(context: CommandContext) -> Reply:
    modes, wanted = context.ports.modes, context.arguments.lower()
    if not wanted:
        return Reply(await _overview(context, modes))
    names: dict[str, Mode | None] = {**{name: name for name in get_args(Mode)}, CONFIGURED: None}
    if wanted not in names:
        return Reply(f"There is no permission mode {wanted!r}. Send one of: {', '.join(names)}.")
    decision = await modes.choose(context.session, names[wanted], context.actor)
    if not decision.allowed:
        return Reply(f"The permission mode stays as it is: {decision.rule}.")
    chosen = names[wanted] or modes.configured
    origin = "" if names[wanted] else ", as configured (policy.mode)"
    return Reply(f"Permission mode: {chosen}{origin}: {MEANINGS[chosen]}.")


async def _overview(context: CommandContext, modes: Modes) -> str:
    chosen, in_force = await modes.chosen(context.session), await modes.of(context.session, context.actor)
    head = f"Permission mode: {chosen}."
    if in_force != chosen:
        head = f"Permission mode: {chosen}, which for you is {in_force}."
    lines = [f"  /mode {mode}: {meaning}" for mode, meaning in MEANINGS.items()]
    return "\n".join([head, *lines, f"  /mode {CONFIGURED}: as configured ({modes.configured})"])


COMMAND = Command("mode", "Choose what runs without asking in this session", _mode)
