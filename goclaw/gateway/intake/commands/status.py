"""Commands that show how the gateway is doing.

- `/status`: the session's size and how compaction is doing.
- `/usage [day|week|month|all]`: the requests to models here and their cost; for admins those of all conversations.
- `/memory [reindex]`: the state of the memory; for admins the sizes of all users, and rebuilding of the index.
"""

from collections.abc import Mapping, Sequence

from goclaw.common.core.redact import printable
from goclaw.conversation.schedules.orders import overview
from goclaw.conversation.turns.costs import dollars
from goclaw.durable.store.spending import Spent
from goclaw.errors import StateError
from goclaw.gateway.intake.commands.base import Command, CommandContext, Reply
from goclaw.gateway.intake.own_status import own_lines
from goclaw.memory import memory_queries
from goclaw.memory.base import DISABLED

DAY = 24 * 3600.0
PERIODS: Mapping[str, tuple[float, str]] = {
    "day": (DAY, "in the last 24 hours"),
    "week": (7 * DAY, "in the last 7 days"),
    "month": (30 * DAY, "in the last 30 days"),
    "all": (float("inf"), "since the beginning"),
}
MAX_SESSIONS = 20
REINDEX_BEGUN = "Rebuilding the index; until that is done, searches use the old one. /memory shows the progress."


async def _status(context: CommandContext) -> Reply:
    ports, actor, session = context.ports, context.actor, context.session
    in_group = context.inbound.address.reply_to is not None or ports.access.is_group(session)
    due = await overview(ports.schedules, actor)
    details = (await ports.reports.details(session)).without_calm().with_schedules(due)
    status = await ports.sessions.inspection.status(session, details, actor)
    own = None
    if not ports.access.authorize(actor, "command.admin", "status").allowed:
        own = await own_lines(ports, status, await ports.sessions.inspection.now(session), actor, in_group=in_group)
    health = ports.sessions.compactor.health
    return Reply(status.text(health, ports.clock, own, in_group=in_group), aligned=True)


async def _usage(context: CommandContext) -> Reply:
    period = context.arguments.lower() or "all"
    if period not in PERIODS:
        return Reply(f"Send /usage with one of: {', '.join(PERIODS)}. The default is all.")
    seconds, words = PERIODS[period]
    spending, now = context.ports.reports.spending, context.ports.clock.now()
    since = max(0.0, now - seconds)
    blocks = [_usage_block(f"This conversation {words}", await spending.by_model(since, context.session))]
    # In a group others read along.
    alone = context.inbound.address.reply_to is None
    if alone and context.ports.access.authorize(context.actor, "command.admin", "usage").allowed:
        blocks.append(_usage_block(f"All conversations {words}", await spending.by_model(since)))
        by_session = await spending.by_session(since)
        lines = [f"- {printable(session) or 'forgotten ones'}: {_sums(spent)}" for session, spent in by_session]
        if len(lines) > MAX_SESSIONS:
            lines[MAX_SESSIONS:] = [f"and {len(lines) - MAX_SESSIONS} more"]
        if lines:
            blocks.append("\n".join([f"By conversation {words}:", *lines]))
    return Reply("\n\n".join(blocks))


def _usage_block(title: str, per_model: Sequence[Spent]) -> str:
    if not per_model:
        return f"{title}: no requests."
    lines = [f"{title}:", *(f"- {spent.model}: {_sums(spent)}" for spent in per_model)]
    if len(per_model) > 1:
        lines.append(f"Total: {_sums(_total(per_model))}")
    return "\n".join(lines)


def _total(per_model: Sequence[Spent]) -> Spent:
    return Spent(
        sum(spent.requests for spent in per_model),
        sum(spent.input for spent in per_model),
        sum(spent.output for spent in per_model),
        sum(spent.cache_read for spent in per_model),
        sum(spent.cost for spent in per_model),
        sum(spent.unpriced for spent in per_model),
    )


def _sums(spent: Spent) -> str:
    requests = f"{spent.requests:,} {'request' if spent.requests == 1 else 'requests'}"
    cached = f" ({spent.cache_read / spent.input:.0%} cached)" if spent.cache_read and spent.input else ""
    unknown = f" and {spent.unpriced:,} of unknown price" if spent.unpriced else ""
    price = "price unknown" if spent.unpriced == spent.requests else f"{dollars(spent.cost)}{unknown}"
    return f"{requests}, {spent.input:,} tokens in{cached}, {spent.output:,} out, {price}"


async def _memory(context: CommandContext) -> Reply:
    memory = context.ports.environment.memory
    is_admin = context.ports.access.authorize(context.actor, "command.admin", "memory").allowed
    try:
        match context.arguments.strip().lower():
            case "" | "status":
                lines = memory_queries.status_lines(await memory.status(), counts=is_admin)
                return Reply("\n".join(["Memory", *(f"  {name}: {text}" for name, text in lines)]))
            case "reindex":
                if not is_admin:
                    return Reply("Only admins can rebuild the memory index.")
                if not (await memory.status()).enabled:
                    return Reply(f"Nothing to rebuild: {DISABLED}.")
                await memory.reindex()
                return Reply(REINDEX_BEGUN)
    except StateError as error:
        return Reply(f"Memory does not work: {error}")
    return Reply("Send /memory for the state of memory, or /memory reindex to rebuild its index (admins).")


STATUS = Command("status", "Show session status and compaction health", _status)
USAGE = Command("usage", "Show model usage and cost: /usage [day|week|month|all]", _usage, anywhere=True)
MEMORY = Command(
    "memory",
    "Show the state of memory; /memory reindex rebuilds its index (admins)",
    _memory,
    anywhere=True,
    serves=lambda ports, actor: ports.environment.config.memory.enabled,
)
