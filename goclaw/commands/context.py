"""`/context`: what the next request to the model holds, part by part, and what would help where it is too much."""

from goclaw.commands.base import Command, CommandContext, Reply
from goclaw.errors import ConfigError, StateError


async def _context(context: CommandContext) -> Reply:
    try:
        found = await context.ports.inspection.budget(context.session, context.actor)
    except (ConfigError, StateError) as error:
        return Reply(f"No request can be made now: {error}")
    except TimeoutError:
        return Reply("The model is still being looked for; ask again in a moment.")
    return Reply(found.text(), aligned=True)


COMMAND = Command("context", "Show what the next request to the model holds", _context)
