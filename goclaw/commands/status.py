"""`/status`: the session's size and how compaction is doing."""

from goclaw.commands.base import Command, CommandContext, Reply


async def _status(context: CommandContext) -> Reply:
    ports = context.ports
    details = (await ports.details(context.session)).without_calm()
    if not ports.access.authorize(context.actor, "command.admin", "status").allowed:
        details = details.without_others()
    status = await ports.inspection.status(context.session, details, context.actor)
    return Reply(status.text(ports.compactor.health, ports.clock), aligned=True)


COMMAND = Command("status", "Show session status and compaction health", _status)
