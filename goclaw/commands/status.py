"""`/status`: the session's size and how compaction is doing."""

from goclaw.commands.base import Command, CommandContext, Reply


async def _status(context: CommandContext) -> Reply:
    ports = context.ports
    status = await ports.sessions.status(context.session, await ports.details(context.session))
    return Reply(status.text(ports.sessions.compactor.health, ports.clock))


COMMAND = Command("status", "Show session status and compaction health", _status)
