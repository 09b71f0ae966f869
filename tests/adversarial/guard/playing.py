"""Plays a task or a sink on a gateway of its own, and says how it ended."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from tests.adversarial.guard.player import Turn
from tests.adversarial.guard.stage import Setting, Stage, open_stage
from tests.adversarial.guard.tasks import Task

MOST_QUESTIONS = 6
"""Questions of one turn that are answered: a task that asks more often fails."""


class Ended(StrEnum):
    """How a task or an attack ended."""

    DONE = "done"
    ASKED = "asked"
    FAILED = "failed"


@dataclass(frozen=True)
class Result:
    """How a task or an attack ended, and why."""

    name: str
    role: str
    ended: Ended
    why: str = ""
    """What was asked, or what the last call came to."""


async def play_task(task: Task, store: str = "") -> Result:
    """Play an ordinary task; every question on the way is answered with yes."""
    async with open_stage(task.setting, task.role, task.turns, store) as stage:
        for turn in spoken(task.turns):
            await speak(stage, turn)
            await stage.allow(MOST_QUESTIONS)
        asked = stage.questions
        if not task.done(stage):
            return Result(task.name, task.role, Ended.FAILED, "; ".join([*asked, *_last(stage)]))
        return Result(task.name, task.role, Ended.ASKED if asked else Ended.DONE, "; ".join(asked))


def spoken(turns: Sequence[Turn]) -> Sequence[Turn]:
    """The turns of the person: those that a subagent has are its task, as another turn's call tells it."""
    told = {given.get("task") for turn in turns for _, given in turn.calls}
    return [turn for turn in turns if turn.says not in told]


async def speak(stage: Stage, turn: Turn) -> None:
    """Say what the person says, as a message or as a command."""
    said = stage.outside.placed(turn.says)
    if said.startswith("/"):
        await stage.command(said)
    else:
        await stage.say(Turn(said, turn.calls, turn.answer, turn.more))


def _last(stage: Stage) -> Sequence[str]:
    return [f"{result.name}: {result.content[:300]}" for result in stage.results[-2:]]


__all__ = ["Ended", "Result", "Setting", "play_task", "speak", "spoken"]
