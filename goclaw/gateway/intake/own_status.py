"""Our block of `/status` for people without admin rights: what runs, what waits, and what the person has spent today.

How the daemon does is for admins (`conversation.turns.status`). A group shows no costs.
"""

from collections.abc import Iterator

from goclaw.common.core.clock import span
from goclaw.common.core.events import Actor, SessionNow
from goclaw.conversation.turns.status import PAUSED, SessionStatus
from goclaw.gateway.intake.commands.base import CommandPorts


async def own_lines(
    ports: CommandPorts, status: SessionStatus, now: SessionNow, actor: Actor, *, in_group: bool
) -> list[tuple[str, str]]:
    """Return the lines of the block, as name and text.

    Args:
        ports: the services of commands.
        status: the state of the session.
        now: the turn and the questions of the same session.
        actor: the person who asks.
        in_group: others read along.
    """
    lines = [("Model", status.model_words if status.context_window else "none answers right now")]
    if status.answering:
        lines.append(("Agent", status.answering))
    if not status.details.numbers.get("health", {}).get("ready", True):
        lines.append(("Trouble", "I cannot take messages right now"))
    if status.shortage:
        lines.append(("Window", f"{status.shortage} /context says what helps."))
    waiting = (await ports.engine.queue(status.session)).waiting
    waits = [*_count(waiting, "message"), *_count(len(now.questions), "question")]
    lines.append(("Now", ", ".join(_find_work(ports, status, now)) or "nothing is running"))
    lines.append(("Waiting", ", ".join(waits) or "nothing"))
    if not in_group:
        lines.append(("Today", await ports.sessions.costs.today_in_words(actor.key)))
    return lines


def _find_work(ports: CommandPorts, status: SessionStatus, now: SessionNow) -> Iterator[str]:
    if status.paused:
        yield PAUSED
    elif now.turn:
        yield f"working on an answer for {span(ports.clock.now() - now.since)}"
    tasks = ports.environment.tasks.count(status.session)  # agents in the background are among them
    yield from (f"{words} in the background" for words in _count(tasks, "task"))


def _count(number: int, what: str) -> Iterator[str]:
    """Yield a number of things in words; nothing where there are none."""
    if number:
        yield f"{number:,} {what}{'' if number == 1 else 's'}"
