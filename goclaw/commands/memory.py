"""`/memory [reindex]`: the state of the memory; for admins the sizes of all users, and rebuilding of the index."""

from goclaw.commands.base import Command, CommandContext, Reply
from goclaw.errors import StateError
from goclaw.memory import status_text
from goclaw.memory.off import WHY

USAGE = "Say /memory for how memory stands, or /memory reindex to have its index made anew (admins)."
NOT_YOURS = "Only an admin can have the index of memory made anew."
BEGUN = "The index is made anew in the background; searches go on with the old one until then. /memory says how it is."


async def _memory(context: CommandContext) -> Reply:
    memory = context.ports.memory
    is_admin = context.ports.access.authorize(context.actor, "command.admin", "memory").allowed
    try:
        match context.arguments.strip().lower():
            case "" | "status":
                lines = status_text.lines(await memory.status(), counts=is_admin)
                return Reply("\n".join(["Memory", *(f"  {name}: {text}" for name, text in lines)]))
            case "reindex":
                if not is_admin:
                    return Reply(NOT_YOURS)
                if WHY in (await memory.status()).details:
                    return Reply(f"There is nothing to do: {WHY}.")
                await memory.reindex()
                return Reply(BEGUN)
    except StateError as error:
        return Reply(f"Memory is out of order: {error}")
    return Reply(USAGE)


COMMAND = Command("memory", "Show how memory stands; admins: /memory reindex makes its index anew", _memory)
