"""`/forget`: delete this conversation forever. A person says it twice, the second time with a code."""

from datetime import datetime

from goclaw.commands.base import Command, CommandContext, Reply
from goclaw.sessions.forgetting import CODE_SECONDS

NOT_YOURS = "Only the person whose conversation this is, or an admin, can have it forgotten."
BUSY = (
    "Something of this conversation is still under way: a message that is not answered yet, or an answer that has not "
    "arrived. Wait for it or /stop it, then send /forget again."
)
KEPT = (
    "Not touched: memory notes and other files in the workspace, remembered values and mementos among them (the tools "
    "memory_delete and memento delete those), backups, what was typed at a terminal, and what the chat itself shows "
    "(delete that there)."
)


async def _forget(context: CommandContext) -> Reply:
    ports, session = context.ports, context.session
    # An actor on behalf of others is no person who could mean it.
    if context.actor.behalf or not ports.access.authorize(context.actor, "session.own", session).allowed:
        return Reply(NOT_YOURS)
    if not context.arguments:
        return Reply(await _explained(context))
    forgetter = ports.forgetter
    if not forgetter.codes.take(context.actor.key, session, context.arguments.upper()):
        return Reply("That is not the code, or its time is over. Nothing was deleted. Send /forget for a new one.")
    with ports.engine.alone(session) as alone:
        if not alone or await forgetter.unfinished(session):
            return Reply(BUSY)
        rows, complete = await forgetter.forget(session)
    later = "" if complete else " Some files could not be cleaned up yet; that is tried again at least once a day."
    return Reply(f"Forgotten: {_count(rows)} are deleted. We begin anew.{later}")


async def _explained(context: CommandContext) -> str:
    forgetter = context.ports.forgetter
    extent = await forgetter.extent(context.session)
    if not extent.rows:
        return "There is nothing to forget: nothing has been said here yet."
    since = f" since {datetime.fromtimestamp(extent.first_at).astimezone():%Y-%m-%d}" if extent.first_at else ""
    code = forgetter.codes.give(context.actor.key, context.session)
    return (
        f"This deletes for ever what was said in this conversation: {_count(extent.rows)}{since}, summaries, todos, "
        "the settings made here, pictures and long outputs that no other conversation has. What it cost stays in the "
        f"sums, without its name.\n\n{KEPT}\n\nIf only I should start afresh, /clear does that and deletes nothing.\n\n"
        f"To delete it, send within {CODE_SECONDS / 60:.0f} minutes:\n/forget {code}"
    )


def _count(rows: int) -> str:
    return f"{rows:,} messages (tool calls included)"


COMMAND = Command("forget", "Delete this conversation for ever (asks first)", _forget)
