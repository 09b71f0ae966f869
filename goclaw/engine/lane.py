"""One session's turns: the one that runs, and those that wait for it."""

import asyncio
from collections import deque
from itertools import takewhile
from typing import Any

from goclaw.engine.journal import JournaledTurn


class Lane:
    """The turns of one session: the one that runs, and those that wait for it."""

    def __init__(self) -> None:
        self.waiting: deque[JournaledTurn] = deque()
        self.turn: JournaledTurn | None = None
        self.work: asyncio.Task[Any] | None = None
        self.task: asyncio.Task[Any] | None = None
        """Runs it; None while it only keeps turns from beginning."""
        self.delayed = False
        """It waits for the disk."""
        self.is_lost = False
        """Another process goes on with the session."""
        self.ended = asyncio.Event()
        """Set when the turn that runs has ended, its journal included."""

    def running(self) -> list[JournaledTurn]:
        """Return the turn that can be stopped, if any; one whose end is being recorded cannot."""
        return [self.turn] if self.turn and self.work and not self.work.done() else []

    def first(self) -> list[JournaledTurn]:
        """Return the waiting turns that go before the others."""
        return list(takewhile(lambda turn: turn.comes_first, self.waiting))

    def push(self, turn: JournaledTurn) -> None:
        """Let a turn wait."""
        self.waiting.insert(len(self.first()) if turn.comes_first else len(self.waiting), turn)
        turn.behind = self.waiting
        if self.turn is not None and self.turn.followed is not None:
            self.turn.followed()

    def stop(self, turn: JournaledTurn) -> bool:
        """Have a turn end without an answer, whether it runs or waits. False: it is ending so already."""
        if turn.stopping:
            return False
        turn.stopping = True
        if turn is self.turn and self.work is not None:
            self.work.cancel()
        return True
