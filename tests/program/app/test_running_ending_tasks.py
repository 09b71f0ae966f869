"""A background task in a conversation: it outlives its turn, and people and the model hear of its end."""

import asyncio
from pathlib import Path

import pytest

from goclaw.common.core.events import Notice
from goclaw.common.core.messages import ToolCall
from goclaw.llm.scripted import Answer
from goclaw.tools.builtin.background_tasks import task_output
from goclaw.tools.builtin.exec import exec_
from goclaw.tools.execution.sandbox.base import Sandbox
from goclaw.tools.execution.tasks.base import Owner
from tests.harness import Core, World
from tests.tools.execution.sandbox.conftest import sandbox

__all__ = ["sandbox"]

pytestmark = pytest.mark.sandbox

COMMAND = "until [ -e go ]; do sleep 0.02; done; echo said; exit 3"
START = Answer(calls=(ToolCall("c1", "exec", {"command": COMMAND, "run_in_background": True}),))


def world(folder: Path, sandbox: Sandbox, *answers: Answer) -> World:
    made = World(folder, [START, Answer("It runs."), *answers], tools=[exec_, task_output])
    made.sandbox = sandbox
    return made


async def told(core: Core) -> str:
    """The line about the end, for whoever watches."""
    async with asyncio.timeout(20):
        while True:
            for event in core.seen:
                if isinstance(event, Notice) and event.text.startswith("Background task"):
                    return event.text
            await asyncio.sleep(0)


def reminders(world: World) -> list[str]:
    """What each request to the model ended with."""
    return [request.reminder for request in world.script.requests]


@pytest.mark.promise("P-tasks")
async def test_it_outlives_its_turn_and_its_end_is_told_to_people_and_to_the_model(
    tmp_path: Path, sandbox: Sandbox
) -> None:
    here = world(tmp_path, sandbox, Answer("I know."), Answer("Still."))
    async with here.running() as core:
        await core.say("start it")
        await core.settled()
        assert here.texts() == ["It runs."]

        assert (
            await core.command("/stop")
            == "Nothing is running.\n1 background task is still running; `/stop tasks` stops it."
        )
        (here.root / "go").touch()
        line = await told(core)
        task = line.split()[2]
        await core.settled()
        assert here.texts()[-1] == line == f"Background task {task} (`{COMMAND}`) failed (exit code 3)."

        for words in ("and?", "and now?"):
            await core.say(words)
            await core.settled()
    *_, after, later = reminders(here)
    assert f"The background task {task} is failed (exit code 3) since you looked last." in after
    assert task not in later


async def test_stop_tasks_ends_them_and_says_so(tmp_path: Path, sandbox: Sandbox) -> None:
    here = world(tmp_path, sandbox)
    async with here.running() as core:
        await core.say("start it")
        await core.settled()
        assert await core.command("/stop tasks") == "Background tasks stopped: 1."
        assert await core.command("/stop tasks") == "You have no background tasks running here."
        assert await core.command("/stop") == "Nothing is running."


@pytest.mark.promise("P-tasks")
async def test_a_restart_tells_the_model_of_the_task_that_is_lost(tmp_path: Path, sandbox: Sandbox) -> None:
    here = world(tmp_path, sandbox, Answer("I know."))
    async with here.running() as core:
        await core.say("start it")
        await core.settled()
    async with here.running() as core:
        await core.say("and?")
        await core.settled()
        assert here.texts() == ["It runs.", "I know."]
    assert "is lost since you looked last. task_output shows what it said." in reminders(here)[-1]


def database_of(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.glob("goclaw.db*"))


@pytest.mark.promise("P-forgotten")
async def test_a_conversation_that_is_forgotten_takes_its_tasks_and_their_output_along(
    tmp_path: Path, sandbox: Sandbox
) -> None:
    here = world(tmp_path, sandbox)
    async with here.running() as core:
        await core.say("start it")
        await core.settled()
        await core.sessions.forgetter.forget("memory:here")

        owner = Owner("memory:here", "memory:here")
        assert await core.sessions.ports.environment.tasks.of(owner) == []
        assert core.sessions.ports.environment.tasks.running(owner) == 0
        assert list((tmp_path / "blobs" / "spills").iterdir()) == []
    assert b"until [ -e go ]" not in await asyncio.to_thread(database_of, tmp_path)
