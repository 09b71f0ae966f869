"""`/queue [MODE]`: what becomes of a message that comes while a turn runs. See `sessions.queueing`."""

from typing import get_args

from goclaw.commands.base import Command, CommandContext, Reply
from goclaw.config.values import QueueMode
from goclaw.sessions.queueing import MEANINGS

DEFAULT = "default"


async def _queue(context: CommandContext) -> Reply:
    modes, wanted = context.ports.queue_modes, context.arguments.lower()
    if not wanted:
        return Reply(_overview(await modes.of(context.session), modes.default))
    for mode in get_args(QueueMode):
        if wanted == mode:
            await modes.set(context.session, mode)
            return Reply(f"Queue mode: {mode}. When a message comes while I work, {MEANINGS[mode]}.")
    if wanted != DEFAULT:
        return Reply(f"There is no queue mode {wanted!r}. Send one of: {', '.join((*MEANINGS, DEFAULT))}.")
    await modes.set(context.session, None)
    return Reply(f"Queue mode: {modes.default}, as configured (queue.mode).")


def _overview(current: QueueMode, default: QueueMode) -> str:
    lines = [f"  /queue {mode}: {meaning}" for mode, meaning in MEANINGS.items()]
    head = f"Queue mode: {current}. When a message comes while I work:"
    return "\n".join([head, *lines, f"  /queue {DEFAULT}: as configured ({default})"])


COMMAND = Command("queue", "Choose what becomes of a message that comes while a turn runs", _queue)
