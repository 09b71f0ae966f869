"""`/clear`: start an empty context. The transcript keeps everything."""

from goclaw.commands.base import Command, CommandContext, Reply
from goclaw.events import Notice

CLEARED = "The conversation was cleared: what stands above is not known to the agent any more."


async def clear(context: CommandContext) -> Reply:
    """Shared with `/new`."""
    running = context.ports.engine.running(context.session) or ""
    await context.ports.contexts.clear(context.session, running)
    context.ports.bus.publish(Notice(context.session, CLEARED, context.inbound.id))
    text = "Conversation cleared. I start afresh; the transcript keeps what was said."
    if running:
        text += " The turn that is running goes on without it."
    return Reply(text)


COMMAND = Command("clear", "Clear conversation history and reset session", clear)
