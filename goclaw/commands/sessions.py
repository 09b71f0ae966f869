"""`/sessions`: the conversations that the sender may read."""

from goclaw.clock import ago
from goclaw.commands.base import Command, CommandContext, Reply
from goclaw.events import SessionInfo
from goclaw.redact import printable

MAX_SHOWN = 20
_TITLE = 60


async def _sessions(context: CommandContext) -> Reply:
    if context.inbound.address.reply_to is not None:
        return Reply("Others read here, too. Ask me for your sessions in our private chat.")
    found = await context.gateway.sessions(context.actor)
    if not found:
        return Reply("No session has any messages yet.")
    now = context.ports.clock.now()
    lines = [_line(info, now, is_current=info.key == context.session) for info in found[:MAX_SHOWN]]
    if len(found) > MAX_SHOWN:
        lines.append(f"and {len(found) - MAX_SHOWN} more")
    return Reply("\n".join(["Sessions, the latest first:", *lines]))


def _line(info: SessionInfo, now: float, *, is_current: bool) -> str:
    messages = f"{info.messages:,} {'message' if info.messages == 1 else 'messages'}"
    here = " (this one)" if is_current else ""
    title = " ".join(printable(info.title).split())
    shown = title if len(title) <= _TITLE else f"{title[: _TITLE - 1]}…"
    return f"- {printable(info.key)}{here}: {messages}, {ago(now - info.last_at)}{f' · {shown}' if shown else ''}"


COMMAND = Command("sessions", "List the conversations that you may read", _sessions)
