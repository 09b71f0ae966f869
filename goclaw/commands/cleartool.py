"""`/cleartool`: leave what tools were asked and answered out of the context. The transcript keeps everything."""

from goclaw.commands.base import Command, CommandContext, Reply


async def _cleartool(context: CommandContext) -> Reply:
    if context.ports.engine.running(context.session):
        return Reply("A turn is running and needs its tools. Wait for its end, or send /stop first.")
    count = await context.ports.contexts.clear_tools(context.session)
    if not count:
        return Reply("There are no tool messages in the context.")
    return Reply(f"{count} messages of tools are left out of the context from now on; the transcript keeps them.")


COMMAND = Command("cleartool", "Remove tool messages from the context", _cleartool)
