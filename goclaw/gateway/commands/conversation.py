"""Commands about a conversation and its context.

- `/start`: sent by Telegram when a person opens the chat for the first time.
- `/clear`, `/new`: start an empty context. The transcript keeps everything. Other bots use the name `/new`.
- `/cleartool`: leave what tools were asked and answered out of the context.
- `/compact [instructions]`: make room in the context now; while a turn runs, before its next request.
- `/context`: what the next request to the model holds, part by part, and what would help where it is too much.
- `/forget`: delete this conversation forever. A person says it twice, the second time with a code.
- `/sessions`: the conversations that the sender may read.
"""

from dataclasses import replace
from datetime import datetime

from goclaw.core.clock import ago
from goclaw.core.events import Notice, SessionInfo
from goclaw.core.redact import printable
from goclaw.errors import ConfigError, StateError
from goclaw.gateway.commands.base import Command, CommandContext, Reply
from goclaw.sessions.forgetting import CODE_SECONDS
from goclaw.sessions.state import CompactRequest


async def _start(context: CommandContext) -> Reply:
    name = context.actor.name or "there"
    return Reply(f"Hello {name}! Write to me as you would to a person. /help lists the commands.")


START = Command("start", "Say hello", _start)


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


CLEAR = Command("clear", "Clear conversation history and reset session", clear)


NEW = Command("new", "Start a new conversation", clear)


async def _cleartool(context: CommandContext) -> Reply:
    if context.ports.engine.running(context.session):
        return Reply("A turn is running and needs its tools. Wait for its end, or send /stop first.")
    count = await context.ports.contexts.clear_tools(context.session)
    if not count:
        return Reply("There are no tool messages in the context.")
    return Reply(f"{count} messages of tools are left out of the context from now on; the transcript keeps them.")


CLEARTOOL = Command("cleartool", "Remove tool messages from the context", _cleartool)


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


COMPACT = Command("compact", "Force context compaction immediately", _compact)


async def _context(context: CommandContext) -> Reply:
    try:
        found = await context.ports.inspection.budget(context.session, context.actor)
    except (ConfigError, StateError) as error:
        return Reply(f"No request can be made now: {error}")
    except TimeoutError:
        return Reply("The model is still being looked for; ask again in a moment.")
    return Reply(found.text(), aligned=True)


CONTEXT = Command("context", "Show what the next request to the model holds", _context)


FORGET_NOT_YOURS = "Only the person whose conversation this is, or an admin, can have it forgotten."
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
        return Reply(FORGET_NOT_YOURS)
    if not context.arguments:
        return Reply(await _forgetting_explained(context))
    forgetter = ports.forgetter
    if not forgetter.codes.take(context.actor.key, session, context.arguments.upper()):
        return Reply("That is not the code, or its time is over. Nothing was deleted. Send /forget for a new one.")
    with ports.engine.alone(session) as alone:
        if not alone or await forgetter.unfinished(session):
            return Reply(BUSY)
        rows, complete = await forgetter.forget(session)
    later = "" if complete else " Some files could not be cleaned up yet; that is tried again at least once a day."
    return Reply(f"Forgotten: {_count(rows)} are deleted. We begin anew.{later}")


async def _forgetting_explained(context: CommandContext) -> str:
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


FORGET = Command("forget", "Delete this conversation for ever (asks first)", _forget)


MAX_SESSIONS = 20
_MAX_TITLE = 60


async def _sessions(context: CommandContext) -> Reply:
    if context.inbound.address.reply_to is not None:
        return Reply("Others read here, too. Ask me for your sessions in our private chat.")
    found = await context.gateway.sessions(context.actor)
    if not found:
        return Reply("No session has any messages yet.")
    now = context.ports.clock.now()
    lines = [_session_line(info, now, is_current=info.key == context.session) for info in found[:MAX_SESSIONS]]
    if len(found) > MAX_SESSIONS:
        lines.append(f"and {len(found) - MAX_SESSIONS} more")
    return Reply("\n".join(["Sessions, the latest first:", *lines]))


def _session_line(info: SessionInfo, now: float, *, is_current: bool) -> str:
    messages = f"{info.messages:,} {'message' if info.messages == 1 else 'messages'}"
    here = " (this one)" if is_current else ""
    title = " ".join(printable(info.title).split())
    shown = title if len(title) <= _MAX_TITLE else f"{title[: _MAX_TITLE - 1]}…"
    return f"- {printable(info.key)}{here}: {messages}, {ago(now - info.last_at)}{f' · {shown}' if shown else ''}"


SESSIONS = Command("sessions", "List the conversations that you may read", _sessions)
