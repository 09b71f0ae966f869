"""`/agent [NAME]`: which agent answers in this session, and another one in its place."""

from goclaw.commands.base import Command, CommandContext, Reply
from goclaw.config.keys import closest
from goclaw.errors import AccessDenied, ConfigError

DEFAULT = "default"
NOT_YOURS = "Only the person whose conversation this is, or an admin, can choose who answers in it."


async def _agent(context: CommandContext) -> Reply:
    agents_for, wanted = context.ports.agents_for, context.arguments
    if not wanted:
        return Reply(await _told(context))
    if not context.ports.access.authorize(context.actor, "session.own", context.session).allowed:
        return Reply(NOT_YOURS)
    name = "" if wanted.lower() == DEFAULT else wanted
    try:
        await agents_for.choose(context.session, name, context.actor)
    except AccessDenied as error:
        known = [kind.name for kind in agents_for.listed(context.actor)]
        meant = closest(wanted[:40], known)
        hint = f" Did you mean {meant}?" if meant else f" There are: {', '.join(known) or 'none'}."
        return Reply(f"{error}{hint}")
    if name:
        return Reply(f"{name} answers in this conversation from the next message on. /agent {DEFAULT} takes that back.")
    return Reply(f"This conversation follows the configuration again. {await _told(context)}")


async def _told(context: CommandContext) -> str:
    agents_for = context.ports.agents_for
    chosen = await agents_for.chosen(context.session)
    try:
        found = await agents_for.of(context.actor, context.session)
    except (AccessDenied, ConfigError) as error:
        return str(error)
    why = f" ({found.why})" if found.why else ""
    lines = [f"{found.kind.name} answers here{why}."]
    if chosen and chosen != found.kind.name:
        lines.append(f"{chosen}, which /agent chose, is not there or not for you.")
    return " ".join([*lines, "/agents lists all, /agent NAME chooses."])


COMMAND = Command("agent", "Show or choose the agent that answers: /agent [NAME]", _agent)
