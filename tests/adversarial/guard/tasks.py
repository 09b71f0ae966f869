"""What an ordinary task is, and the ways to see that it was done."""

import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.adversarial.guard.player import Turn
from tests.adversarial.guard.stage import Setting, Stage

Done = Callable[[Stage], bool]


@dataclass(frozen=True)
class Task:
    """One task; turns that begin with `/` are commands."""

    name: str
    turns: Sequence[Turn]
    done: Done
    setting: Setting = field(default_factory=Setting)
    role: str = "user"


def read(*texts: str) -> Done:
    """The model was shown these, and Ann has an answer."""

    def look(stage: Stage) -> bool:
        shown = "\n".join(result.content for result in stage.results if not result.is_error)
        return all(text in shown for text in texts) and "It is done." in stage.told()

    return look


def file(name: str, text: str) -> Done:
    """A file of the workspace has this text."""
    return lambda stage: (path := stage.workspace / name).is_file() and text in path.read_text()


def prints(command: str, text: str) -> Done:
    """A command of the owner's in the workspace prints this."""

    def look(stage: Stage) -> bool:
        ran = subprocess.run(["sh", "-c", command], cwd=stage.workspace, capture_output=True, text=True, check=False)
        return text in ran.stdout

    return look


def both(*all_of: Done) -> Done:
    """All of these hold."""
    return lambda stage: all(each(stage) for each in all_of)


def planned(name: str) -> Done:
    """Ann's schedules show this name."""
    return lambda stage: f" {name} (" in stage.told()
