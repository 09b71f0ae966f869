"""Detection of stuck turns: no token, no step, no tool that begins or ends. They are reported, never ended.

A turn that waits for a person or for the disk is not stuck. A reported turn continues; `/stop` ends it, and
`limits.turn_seconds` does in any case.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from goclaw.common.core.bus import Bus
from goclaw.common.core.clock import Clock
from goclaw.common.core.events import Alerts, Notice
from goclaw.common.core.records import record
from goclaw.common.health.stuck_tasks import task_stacks
from goclaw.durable.engine.base import RunningTurn

log = logging.getLogger(__name__)

LOOK_SECONDS = 15.0


@dataclass(slots=True)
class _Seen:
    """A turn that runs, as it was looked at last."""

    work: RunningTurn
    since: float
    """Since when nothing has happened in it, monotonic."""
    moved: float | None = None
    """Time of the latest event on the bus at that moment."""
    reported: bool = False


@record
class StuckTurns:
    """Watches all turns. `run` is its life."""

    limit: float
    """Seconds without anything until a turn counts as stuck; 0: none ever does."""
    at_work: Callable[[], Sequence[RunningTurn]]
    bus: Bus
    alerts: Alerts
    clock: Clock
    _seen: dict[str, _Seen] = field(default_factory=dict)

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        while self.limit:
            self.check()
            await self.clock.sleep(min(LOOK_SECONDS, self.limit / 2))

    def check(self) -> None:
        """Check everything that runs, once."""
        now = self.clock.monotonic()
        running = {work.turn: work for work in self.at_work()}
        for turn in self._seen.keys() - running.keys():
            self._over(self._seen.pop(turn))
        for turn, work in running.items():
            seen, moved = self._seen.get(turn), self.bus.last_event_time(work.session)
            if seen is None or work.parked or (moved, work.doing) != (seen.moved, seen.work.doing):
                if seen:
                    self._over(seen)
                # Nothing says since when it is as it is, unless the bus knows.
                self._seen[turn] = _Seen(work, now if moved is None or seen else moved, moved)
            elif not seen.reported and now - seen.since >= self.limit:
                self._report(seen)

    def now(self) -> dict[str, str]:
        """Return the stuck turns: session, and since when and in what."""
        return {seen.work.session: self._in_words(seen) for seen in self._seen.values() if seen.reported}

    def line(self, session: str) -> str:
        """Return the line for a session's status, other sessions only counted; empty when no turn is stuck."""
        stuck = self.now()
        own = stuck.pop(session, "")
        others = f"{len(stuck)} turn{'s' if len(stuck) > 1 else ''} of other sessions" if stuck else ""
        return "; ".join(part for part in (f"{own} (/stop ends it)" if own else "", others) if part)

    def _report(self, seen: _Seen) -> None:
        work, words = seen.work, self._in_words(seen)
        stack = task_stacks(_tasks_of(work.turn))
        log.warning("the turn is stuck: %s", words, extra={"turn": work.turn, "session": work.session, "stack": stack})
        self.bus.publish(Notice(work.session, f"Nothing has happened {words}. /stop ends it.", work.turn))
        self.alerts.tell(
            _key(work), f"a turn of {work.session} is stuck: nothing has happened {words}; /stop there ends it"
        )
        # The notice was no progress.
        seen.reported, seen.moved = True, self.bus.last_event_time(work.session)

    def _over(self, seen: _Seen) -> None:
        if seen.reported:
            ids = {"turn": seen.work.turn, "session": seen.work.session}
            log.info("the turn continues or has ended, %s", self._in_words(seen), extra=ids)
            self.alerts.clear(_key(seen.work))

    def _in_words(self, seen: _Seen) -> str:
        minutes = (self.clock.monotonic() - seen.since) / 60
        return f"for {minutes:.0f} min, in {', '.join(_places(seen.work)) or 'the turn itself'}"


def _key(work: RunningTurn) -> str:
    return f"stuck:{work.session}"


def _tasks_of(turn: str) -> "list[asyncio.Task[Any]]":
    """Return the task of a turn and those of its tools: see `engine.lanes` and `toolkit.dispatcher` for their names."""
    return [task for task in asyncio.all_tasks() if task.get_name().endswith((f"turn {turn}", f" of {turn}"))]


def _places(work: RunningTurn) -> Iterator[str]:
    ending = f" of {work.turn}"
    names = (task.get_name() for task in _tasks_of(work.turn))
    tools = sorted(name.removesuffix(ending) for name in names if name.endswith(ending))
    if any(name.startswith("model:") for name in work.doing):
        yield "the model"
    yield from tools or ["a tool" for name in work.doing if name.startswith("tool:")]
    if "user" in work.doing:
        yield "what came with the message"
