"""`/tool NAME {json}`: try a tool without an AI. Only the demo model understands it."""

from goclaw.commands.base import Command, CommandContext, Reply
from goclaw.errors import ConfigError
from goclaw.llm.open import DEMO


async def _tool(context: CommandContext) -> Reply:
    ports = context.ports
    try:
        model = await ports.models.agent(context.session)
    except ConfigError as error:
        return Reply(str(error))
    if model.spec != DEMO:
        return Reply("/tool works with the demo model only. Ask the assistant in your own words instead.")
    await ports.engine.submit(context.inbound)
    return Reply(turn=context.inbound.id)


COMMAND = Command("tool", 'Run a tool: /tool read {"path": "AGENTS.md"} (demo model only)', _tool)
