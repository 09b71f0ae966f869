"""Commands about a conversation and its context.

- `/start`: sent by Telegram when a person opens the chat for the first time.
- `/clear`, `/new`: start an empty context. The transcript keeps everything. Other bots use the name `/new`.
- `/cleartool`: remove tool calls and their results from the context.
- `/compact [instructions]`: make room in the context now; while a turn runs, before its next request.
- `/context`: what fills the context window, part by part, and how to make room.
- `/forget`: delete this conversation forever. A person sends it twice, the second time with a code.
- `/sessions`: the conversations that the sender may read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from goclaw.common.auth.access import own_session, without_topic
from goclaw.common.auth.users import Users
from goclaw.common.core.clock import ago
from goclaw.common.core.events import Notice, SessionInfo
from goclaw.common.core.redact import printable
from goclaw.conversation.sessions.forgetting import CODE_SECONDS
from goclaw.conversation.sessions.state import CompactRequest
from goclaw.errors import ConfigError, StateError
from goclaw.gateway.intake.commands.base import Command, CommandContext, Reply

CLEARED = "The conversation was cleared: the agent no longer sees the messages above."
BUSY = (
    "This conversation is busy: a message has no answer yet, or an answer is still being delivered. Wait or send "
    "/stop, then send /forget again."
)
KEPT = (
    "This does not delete: memory notes (including private ones), remembered values and mementos (the tools "
    "memory_delete and memento delete those), other files in the workspace (what you sent is in its "
    "folder inbox/, pictures too), backups, the input history of a terminal, "
    "and the messages in the chat itself (delete those there)."
)
MAX_SESSIONS = 20
_MAX_TITLE = 60


async def _start(context: CommandContext) -> Reply:
    name = context.actor.name or "there"
    return Reply(f"Hello {name}! Write to me as you would to a person. /help lists the commands.")


async def clear(context: CommandContext) -> Reply:
    """Shared with `/new`."""
    running = context.ports.engine.running(context.session)
    await context.ports.sessions.contexts.clear(context.session)
    context.ports.bus.publish(Notice(context.session, CLEARED, context.inbound.id))
    text = "Conversation cleared. The transcript keeps the old messages."
    if running:
        text += " The running turn continues without the old messages."
    return Reply(text)


async def _cleartool(context: CommandContext) -> Reply:
    if context.ports.engine.running(context.session):
        return Reply("A turn is running and needs its tool results. Wait for it to end, or send /stop first.")
    count = await context.ports.sessions.contexts.clear_tools(context.session)
    if not count:
        return Reply("The context contains no tool messages.")
    return Reply(f"Removed {count} tool messages from the context; the transcript keeps them.")


async def _compact(context: CommandContext) -> Reply:
    ports = context.ports
    if ports.engine.running(context.session):
        session = await ports.sessions.contexts.session(context.session)
        earlier = session.compaction.request

        async def report(text: str) -> None:
            if earlier is not None:  # its place is taken, but it was promised an answer
                await earlier.report(text)
            await context.gateway.report(context.inbound, text)

        session.compaction.request = CompactRequest(context.arguments, report)
        return Reply("The context will be compacted before the next request of the running turn.")
    await ports.engine.submit(replace(context.inbound, text=context.arguments), "compact")
    return Reply(turn=context.inbound.id)


async def _context(context: CommandContext) -> Reply:
    try:
        found = await context.ports.sessions.inspection.budget(context.session, context.actor)
    except (ConfigError, StateError) as error:
        return Reply(f"No request is possible right now: {error}")
    except TimeoutError:
        return Reply("GoClaw is still looking for a model; try again in a moment.")
    return Reply(found.text(), aligned=True)


async def _forget(context: CommandContext) -> Reply:
    ports, session = context.ports, context.session
    # An actor on behalf of others is no person who could mean it.
    if context.actor.behalf or not ports.access.authorize(context.actor, "session.own", session).allowed:
        return Reply("Only the owner of this conversation or an admin can delete it.")
    if not context.arguments:
        return Reply(await _explain_forgetting(context))
    forgetter = ports.sessions.forgetter
    if not await forgetter.codes.redeem(context.actor.key, session, context.arguments.upper()):
        return Reply("That code is wrong or has expired. Nothing was deleted. Send /forget for a new code.")
    with ports.engine.alone(session) as alone:
        if not alone or await forgetter.has_open_work(session):
            return Reply(BUSY)
        rows, complete = await forgetter.forget(session)
    later = "" if complete else " Some files could not be removed yet; GoClaw retries at least once a day."
    return Reply(f"Deleted {_count(rows)}.{later}")


async def _explain_forgetting(context: CommandContext) -> str:
    forgetter = context.ports.sessions.forgetter
    extent = await forgetter.extent(context.session)
    if not extent.rows and not extent.schedules:
        return "There is nothing to delete: this conversation has no messages yet."
    since = f" since {datetime.fromtimestamp(extent.first_at).astimezone():%Y-%m-%d}" if extent.first_at else ""
    schedules = f"{extent.schedules} schedule{'s' if extent.schedules != 1 else ''}"
    made = f", {schedules} created here" if extent.schedules else ""
    kept = " ".join(filter(None, (KEPT, forgetter.describe_copies)))
    code = await forgetter.codes.issue(context.actor.key, context.session)
    return (
        f"This deletes this conversation forever: {_count(extent.rows)}{since}{made}, summaries, to-do lists, settings "
        "made here, and pictures and long outputs that no other conversation uses. Its cost stays in the totals, "
        f"without its name.\n\n{kept}\n\nTo start over without deleting anything, send /clear.\n\nTo confirm, send "
        f"within {CODE_SECONDS / 60:.0f} minutes:\n/forget {code}"
    )


def _count(rows: int) -> str:
    return f"{rows:,} messages (tool calls included)"


async def _sessions(context: CommandContext) -> Reply:
    if context.inbound.address.reply_to is not None:
        return Reply("Other people can read this chat. Send /sessions in our private chat.")
    found = await context.gateway.sessions(context.actor)
    if not found:
        return Reply("There are no conversations yet.")
    now, names = context.ports.clock.now(), _names_by_session(context.ports.schedules.users)
    lines = [
        _session_line(info, names.get(without_topic(info.key), ()), now, is_current=info.key == context.session)
        for info in found[:MAX_SESSIONS]
    ]
    if len(found) > MAX_SESSIONS:
        lines.append(f"and {len(found) - MAX_SESSIONS} more")
    return Reply("\n".join(["Sessions, latest first:", *lines]))


def _names_by_session(users: Users) -> Mapping[str, Sequence[str]]:
    """Return the names of the people that each session belongs to."""
    names: dict[str, list[str]] = {}
    for user in users.all():
        if user.name:
            names.setdefault(user.session or own_session(user.key), []).append(user.name)
    return names


def _session_line(info: SessionInfo, names: Sequence[str], now: float, *, is_current: bool) -> str:
    whose = printable(", ".join(names) or info.key)
    title = " ".join(printable(info.title).split())
    shown = title if len(title) <= _MAX_TITLE else f"{title[: _MAX_TITLE - 1]}…"
    here = " (this one)" if is_current else ""
    messages = f"{info.messages:,} {'message' if info.messages == 1 else 'messages'}"
    return f"- {f'{shown}{here}: {whose}' if shown else f'{whose}{here}'}, {ago(now - info.last_at)}, {messages}"


START = Command("start", "Say hello", _start, anywhere=True)
CLEAR = Command("clear", "Clear conversation history and reset session", clear)
NEW = Command("new", "Start a new conversation", clear)
CLEARTOOL = Command("cleartool", "Remove tool calls and results from the context", _cleartool)
COMPACT = Command("compact", "Force context compaction immediately", _compact)
CONTEXT = Command("context", "Show what fills the context window", _context)
FORGET = Command("forget", "Delete this conversation forever (asks for confirmation)", _forget)
SESSIONS = Command("sessions", "List the conversations you can read", _sessions, anywhere=True)
