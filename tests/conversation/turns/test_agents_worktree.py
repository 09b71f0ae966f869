"""Agents with a git worktree of their own: real git in the real sandbox."""

import shlex
import shutil
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import pytest

from goclaw.channels.memory import HERE as SOMEBODY
from goclaw.common.config.tools import ExecSettings
from goclaw.common.core.events import Actor, ToolFinished, ToolStarted
from goclaw.common.core.messages import ToolCall
from goclaw.common.workspace import Workspace
from goclaw.errors import SandboxUnavailable
from goclaw.tools.builtin.agent import agent
from goclaw.tools.builtin.exec import exec_
from goclaw.tools.builtin.memory_values import memory_write
from goclaw.tools.builtin.read import read
from goclaw.tools.builtin.worktree import Worktree
from goclaw.tools.builtin.write import write
from goclaw.tools.execution.sandbox.select import open_sandbox
from goclaw.tools.execution.tasks.base import Owner
from tests.conversation.sessions.agents import HERE, asks_for, handing, results, says, until
from tests.conversation.sessions.approving import GUEST, PEOPLE
from tests.harness import Answer, Core, World
from tests.kills import Content, files_of, lay, recorded
from tests.lanes import repeats
from tests.tools.builtin.memory_support import surroundings

Tier = Literal["auto", "bubblewrap", "broker"]
TOOLS = [agent, exec_, memory_write, read, write]
TREES = ".goclaw/worktrees"
APART = handing("look at x", worktree=True)
WRITES = ToolCall("w1", "write", {"path": "b.txt", "content": "new\n"})
CHANGING = [
    asks_for("do it", APART),
    says("Its worktree is kept", "All is well."),
    asks_for("look at x", WRITES),
    says("b.txt", "x is changed"),
]
IDLE = [
    asks_for("do it", APART),
    asks_for("look at x", ToolCall("r1", "read", {"path": "a.txt"})),
    says("old", "x is fine"),
    says("x is fine", "All is well."),
]


def git(folder: Path, *arguments: str) -> str:
    """What git says there."""
    who = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main")
    command = ["git", *who, "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=20).stdout.strip()


@cache
def repository() -> Mapping[str, Content]:
    """The files of one with a first commit."""
    with TemporaryDirectory() as made:
        folder = Path(made)
        git(folder, "init", "-q")
        (folder / "a.txt").write_text("old\n")
        git(folder, "add", "a.txt")
        git(folder, "commit", "-q", "-m", "first")
        return files_of(folder)


def touch(world: World) -> str:
    """A command that leaves a trace."""
    return f"touch {shlex.quote(str(world.root / 'ran'))}"


def traces(folder: Path) -> list[str]:
    """What worktrees have left in a repository."""
    trees = [str(each) for each in (folder / TREES).glob("*")]
    return trees + git(folder, "for-each-ref", "--format=%(refname)", "refs/heads/goclaw", "refs/goclaw-begun").split()


@asynccontextmanager
async def world_of(folder: Path, script: list[Answer], tier: Tier = "auto", **config: Any) -> AsyncIterator[World]:
    """A world with a repository for its workspace, and what contains commands here."""
    if not shutil.which("git"):
        pytest.skip("no git here (Debian: git)")
    world = World(folder, script, tools=TOOLS, **config)
    lay(world.root, repository())
    async with open_sandbox(ExecSettings(sandbox=tier)) as world.sandbox:
        try:
            await world.sandbox.ready()
        except SandboxUnavailable as error:
            pytest.skip(f"no sandbox works here: {error}")
        yield world


async def done(world: World, **more: Any) -> list[str]:
    """What the calls of the turn gave."""
    async with world.running() as core:
        await core.say("do it", **more)
        await core.settled()
        return results(await core.messages(f"memory:{more.get('chat', 'here')}"))


async def refusal(world: World, **more: Any) -> str:
    """Why there is no worktree; and that none is."""
    (told,) = await done(world, **more)
    assert not (world.root / TREES).exists()
    return told


REFUSED = [asks_for("do it", APART), says("error", "It cannot be.")]


async def test_one_in_which_nothing_changed_is_gone_with_its_branch(tmp_path: Path) -> None:
    async with world_of(tmp_path, IDLE) as world:
        assert await done(world) == ["x is fine"]
        assert world.texts() == ["All is well."]
        assert traces(world.root) == [] and git(world.root, "status", "--porcelain") == ""
        assert len(git(world.root, "worktree", "list").splitlines()) == 1


async def test_what_it_changed_is_kept_apart_and_told(tmp_path: Path) -> None:
    async with world_of(tmp_path, CHANGING) as world:
        async with world.running() as core:
            await core.say("do it")
            await core.settled()
            (told,) = results(await core.messages())
            hints = [event.hint for event in core.seen if isinstance(event, ToolFinished) and event.name == "agent"]
        (tree,) = (world.root / TREES).iterdir()
        branch = f"goclaw/{tree.name}"
        assert told.startswith("x is changed\n\n[Its worktree is kept: .goclaw/worktrees/")
        assert f"branch {branch}\n" in told and "not added to git: b.txt" in told and "new commits: 0" in told
        assert hints[0].endswith(f", {branch}"), "the person is told, too"
        assert (tree / "b.txt").read_text() == "new\n" and not (world.root / "b.txt").exists()
        assert git(tree, "branch", "--show-current") == branch
        assert git(world.root, "status", "--porcelain") == "", "it is excluded there"
        assert "You work in a git worktree of your own" in world.script.requests[1].system
        assert "worktree of your own" not in world.script.requests[-1].system


@pytest.mark.parametrize("tier", ["bubblewrap", "broker"])
async def test_its_commands_run_there_and_what_it_commits_can_be_merged(tmp_path: Path, tier: Tier) -> None:
    line = "pwd; echo more >> a.txt; git -c user.name=B -c user.email=b@example.org commit -qam second"
    script = [*CHANGING[:2], asks_for("look at x", ToolCall("e1", "exec", {"command": line}))]
    script.append(says("exit code: 0", "x is changed"))
    async with world_of(tmp_path, script, tier) as world:
        (told,) = await done(world)
        (tree,) = (world.root / TREES).iterdir()
        assert "a.txt | 1 +" in told and "new commits: 1" in told
        assert (world.root / "a.txt").read_text() == "old\n"
        git(world.root, "merge", "-q", f"goclaw/{tree.name}")
        assert (world.root / "a.txt").read_text() == "old\nmore\n"


async def test_an_agent_of_its_works_in_the_same_place(tmp_path: Path) -> None:
    script = [*CHANGING[:2], asks_for("look at x", handing("deeper", "d1")), asks_for("deeper", WRITES)]
    script += [says("b.txt", "written"), says("written", "x is changed")]
    async with world_of(tmp_path, script) as world:
        await done(world)
        (tree,) = (world.root / TREES).iterdir()
        assert (tree / "b.txt").exists() and not (world.root / "b.txt").exists()


async def test_what_is_remembered_lies_in_the_persons_workspace(tmp_path: Path) -> None:
    keeps = ToolCall("m1", "memory_write", {"key": "colour", "value": "red"})
    script = [IDLE[0], asks_for("look at x", keeps), says("colour", "x is fine"), IDLE[-1]]
    async with world_of(tmp_path, script) as world:
        assert await done(world) == ["x is fine"]
        assert list(world.notes.rglob("*.json")) and traces(world.root) == []


async def test_hooks_of_the_repository_do_not_run(tmp_path: Path) -> None:
    async with world_of(tmp_path, CHANGING) as world:
        for name in ("post-checkout", "reference-transaction", "post-index-change"):
            hook = world.root / ".git" / "hooks" / name
            hook.write_text(f"#!/bin/sh\n{touch(world)}\n")
            hook.chmod(0o755)
        await done(world)
        assert not (world.root / "ran").exists()


async def test_filters_of_the_repository_do_not_run(tmp_path: Path) -> None:
    async with world_of(tmp_path, CHANGING) as world:
        (world.root / ".git" / "info" / "attributes").write_text("*.txt filter=own=one\n*.md filter=two\n")
        for key in ("smudge", "clean", "process"):
            git(world.root, "config", f"filter.two.{key}", f"{touch(world)}; cat")
            config = world.root / ".git" / "config"
            config.write_text(f'{config.read_text()}[filter "own=one"]\n{key} = "{touch(world)}; cat"\n')
        git(world.root, "config", "filter.two.required", "true")
        (told,) = await done(world)
        assert "b.txt" in told and not (world.root / "ran").exists()


async def test_one_in_the_background_tells_with_its_answer_what_it_left(tmp_path: Path) -> None:
    behind = handing("look at x", worktree=True, run_in_background=True)
    script = [asks_for("do it", behind), says("in the background", "Under way."), *CHANGING[2:]]
    async with world_of(tmp_path, script) as world, world.running() as core:
        await core.say("do it")
        await core.settled()
        (info,) = await core.sessions.ports.environment.tasks.of(Owner(HERE, SOMEBODY.key))
        info = await core.sessions.ports.environment.tasks.wait(info.id, info.owner, 20)
        assert "not added to git: b.txt" in await core.sessions.ports.environment.tasks.tail(info.id, info.owner, 1_000)


async def test_one_that_fails_says_what_it_left(tmp_path: Path) -> None:
    kinds = {"reader": {"policy": {"max_tool_calls": 1}}}
    script = [CHANGING[0], says("did not finish", "Well.")]
    script += [CHANGING[2], asks_for("b.txt", ToolCall("r1", "read", {"path": "a.txt"}))]
    async with world_of(tmp_path, script, agents={"kinds": kinds}) as world:
        (told,) = await done(world)
        assert "tool calls in one turn" in told and "Its worktree is kept" in told and "b.txt" in told


async def test_a_workspace_without_a_repository_is_told_what_is_missing(tmp_path: Path) -> None:
    async with world_of(tmp_path, REFUSED) as world:
        shutil.rmtree(world.root / ".git")
        assert "`git init` and a first commit" in await refusal(world)


async def test_a_repository_without_a_commit_is_told_what_is_missing(tmp_path: Path) -> None:
    async with world_of(tmp_path, REFUSED) as world:
        shutil.rmtree(world.root / ".git")
        git(world.root, "init", "-q")
        assert "no commit yet" in await refusal(world)


async def test_notes_of_people_that_git_keeps_are_not_copied(tmp_path: Path) -> None:
    async with world_of(tmp_path, REFUSED) as world:
        notes = world.root / "memory" / "users" / "telegram:9"
        notes.mkdir(parents=True)
        (notes / "MEMORY.md").write_text("secret\n")
        git(world.root, "add", "-f", "memory")
        git(world.root, "commit", "-q", "-m", "notes")
        assert "git rm -r --cached memory/users" in await refusal(world)


async def test_in_plan_mode_none_is_made(tmp_path: Path) -> None:
    async with world_of(tmp_path, REFUSED, policy={"mode": "plan"}) as world:
        assert "plan mode" in await refusal(world)


async def test_whoever_may_run_no_commands_gets_none(tmp_path: Path) -> None:
    roles = {"guest": {"tools": ["agent", "write"]}}
    async with world_of(tmp_path, REFUSED, users=PEOPLE, roles=roles) as world:
        assert "may run commands" in await refusal(world, actor=Actor(GUEST, "memory"), chat="guest")


async def test_where_nothing_contains_commands_none_is_made(tmp_path: Path) -> None:
    async with world_of(tmp_path, REFUSED) as world, open_sandbox(ExecSettings(sandbox="off")) as world.sandbox:
        assert "in the sandbox only" in await refusal(world)


async def test_more_than_the_limit_are_not_kept(tmp_path: Path) -> None:
    async with world_of(
        tmp_path, [*CHANGING, says("which is the limit", "It cannot be.")], limits={"worktrees": 1}
    ) as world:
        async with world.running() as core:
            await core.say("do it")
            await core.settled()
            await core.say("do it")
            await core.settled()
            told = results(await core.messages())
        (tree,) = (world.root / TREES).iterdir()
        assert "which is the limit" in told[1] and tree.name in told[1] and "git worktree remove" in told[1]


@pytest.mark.deep
async def test_after_a_crash_it_is_found_with_what_was_done_there(tmp_path: Path) -> None:
    async def do_it(core: Core) -> None:
        await core.say("do it", message_id="1")
        await core.settled()

    async with world_of(tmp_path, CHANGING) as world:
        for moment in await recorded(world, do_it):
            if moment.write < 3 or repeats("after", "") not in moment.name:
                continue  # before the third there is no worktree yet
            with moment.restored():
                async with world.running() as core:
                    await do_it(core)
                    (told,) = results(await core.messages())
                (tree,) = (world.root / TREES).iterdir()
                assert tree.name in told and "not added to git: b.txt" in told
                assert (tree / "b.txt").read_text() == "new\n" and world.texts()[-1:] == ["All is well."]


async def test_one_whose_making_was_cut_is_made_anew(tmp_path: Path) -> None:
    async with world_of(tmp_path, CHANGING) as world:
        await done(world)
        (tree,) = (world.root / TREES).iterdir()
        name, branch = tree.name, f"goclaw/{tree.name}"
        # As a kill in the middle of `git worktree add` leaves it: a locked entry, half of the files, no mark.
        (tree / ".git").unlink()
        (tree / "half").write_text("")
        git(world.root, "update-ref", "-d", f"refs/goclaw-begun/{name}")
        (world.root / ".git" / "worktrees" / name / "locked").write_text("initializing")
        (tmp_path / "else").mkdir()
        async with surroundings(tmp_path / "else") as around:
            around.sandbox = world.sandbox
            async with Workspace(world.root) as around.the_workspace:
                made = Worktree(around.context())
                async with made.open(name) as workspace:
                    assert await workspace.exists("a.txt") and not await workspace.exists("half")
                assert await made.leave(name) is None
        assert traces(world.root) == [] and branch not in git(world.root, "branch")


async def test_a_stop_leaves_nothing_where_nothing_was_changed(tmp_path: Path) -> None:
    script = [IDLE[0], asks_for("look at x", ToolCall("e1", "exec", {"command": "echo $$; exec sleep 60"}))]
    async with world_of(tmp_path, script) as world, world.running() as core:
        await core.say("do it")
        await until(lambda: any(isinstance(each, ToolStarted) and each.name == "exec" for each in core.seen))
        await core.command("/stop")
        await core.settled()
        assert traces(world.root) == []
