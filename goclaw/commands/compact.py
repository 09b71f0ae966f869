"""`/compact [instructions]`: make room in the context now. While a turn runs: before its next request."""

from dataclasses import replace

from goclaw.commands.base import Command, CommandContext, Reply
from goclaw.sessions.state import CompactRequest


async def _compact(context: CommandContext) -> Reply:
    ports = context.ports
    if ports.engine.running(context.session):
        session = await ports.contexts.session(context.session)
        earlier = session.compact_request

        async def report(text: str) -> None:
            if earlier is not None:  # its place is taken, but it was promised an answer
                await earlier.report(text)
            await context.gateway.report(context.inbound, text)

        session.compact_request = CompactRequest(context.arguments, report)
        return Reply("Compaction will run before the next request of the turn that is running.")
    await ports.engine.submit(replace(context.inbound, text=context.arguments), "compact")
    return Reply(turn=context.inbound.id)


COMMAND = Command("compact", "Force context compaction immediately", _compact)
