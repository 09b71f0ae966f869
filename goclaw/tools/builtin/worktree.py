"""A git worktree for an agent to work in, apart from the workspace's own files.

Git runs in the sandbox only, without network, and without the repository's hooks and filters: no approval is requested,
so code from the repository must not run. The worktree and its branch have the agent's id, so that the call finds them
again after a crash; `refs/goclaw-begun/<id>` is the commit that it began with, and marks a worktree that was made
completely.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from goclaw.common.core.records import record
from goclaw.common.workspace import USERS, Workspace
from goclaw.errors import SandboxUnavailable, ToolError
from goclaw.tools.builtin.exec_run import Ran, collect_output, environment, policy_of
from goclaw.tools.execution.sandbox.base import SandboxCommand
from goclaw.tools.execution.sandbox.layout import shell
from goclaw.tools.execution.sandbox.select import OFF, wait_for_tier
from goclaw.tools.toolkit.agent_tasks import KeptWorktree
from goclaw.tools.toolkit.base import ToolContext

FOLDER = ".goclaw/worktrees"
"""Of the workspace; the repository's own `info/exclude` keeps it out of `git status`."""
_SECONDS = 120
_NO_PROGRAM = 127  # what a shell exits with (POSIX, Shell Command Language 2.8.2)
_MAX_FILES = 40
_MAX_CHANGES = 4_000
_SAFELY = (
    *("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "color.ui=false"),
    # It would forget worktrees of people's that lie where the sandbox does not see them.
    *("-c", "gc.auto=0", "-c", "maintenance.auto=false"),
)
_FILTERED = ("worktree", "status", "diff")
"""The git commands that read or write files of the working tree."""
_EXCLUDE = 'mkdir -p "$(dirname "$1")" && { grep -qxF "$2" "$1" 2>/dev/null || printf "\\n%s\\n" "$2" >> "$1"; }'


def worktree_for(ctx: ToolContext) -> "Worktree":
    """Return a worktree for the agent that a call starts; it is not made yet.

    Raises:
        ToolError: the person may not run commands, or changes nothing now.
    """
    if ctx.mode() == "plan":
        raise ToolError("refused: the session is in plan mode, and a worktree writes into the repository")
    if not ctx.authorize("tool.use", "exec").allowed:
        raise ToolError("a worktree is for those who may run commands (exec); leave out worktree")
    return Worktree(ctx)


@record
class Worktree:
    """Implements `toolkit.agent_tasks.WorkPlace`. It may be used when the call is over: the agent may outlive it."""

    ctx: ToolContext

    @asynccontextmanager
    async def open(self, agent: str) -> AsyncIterator[Workspace]:
        """Open the worktree of the agent with this id: as a crash has left it, else made from the last commit.

        Raises:
            ToolError: it cannot be made; nothing of it is left.
        """
        await wait_for_tier(self.ctx.sandbox)
        if self.ctx.sandbox.tier == OFF:
            raise ToolError("a worktree is made in the sandbox only, and tools.exec.sandbox is off; leave out worktree")
        await self._find_or_make(agent)
        async with self.ctx.home.within(_path(agent)) as workspace:
            yield workspace

    def about(self, agent: str) -> str:
        """Return the text about the worktree for the agent."""
        return (
            f"You work in a git worktree of your own, {self._folder(agent)}, on the branch {_branch(agent)}: your "
            "tools read, write and run there, and what you change is not seen elsewhere until somebody merges it. It "
            "has what was committed. What you change stays there; commit it if the task says so."
        )

    async def leave(self, agent: str) -> KeptWorktree | None:
        """Remove a worktree without changes. Returns the kept worktree; None: nothing is kept."""
        try:
            changes = await self._changes(agent)
            if not changes:
                home = self.ctx.home.root
                # Not forced: git refuses where something came meanwhile.
                await self._git(home, "worktree", "remove", str(self._folder(agent)))
                await self._git(home, "branch", "-D", _branch(agent))
                await self._git(home, "update-ref", "-d", _base(agent))
                return None
        except (ToolError, SandboxUnavailable) as error:
            changes = f"(what changed there cannot be told: {error})"
        return KeptWorktree(_path(agent), _branch(agent), changes[:_MAX_CHANGES])

    async def _find_or_make(self, agent: str) -> None:
        head = await self._check()
        home, path, folder = self.ctx.home, _path(agent), self._folder(agent)
        is_whole = bool(await self._commit(home.root, _base(agent)))
        if await home.exists(path):
            if is_whole and await self._top(folder) == await _real(folder):
                return
            if is_whole:
                raise ToolError(f"{path} is no worktree any more: look at it, and remove it")
            # A crash has cut the making of it: no agent was there yet.
            await self._run("rm", "-rf", "--", str(folder))
        elif not is_whole:
            await self._refuse_too_many()
        await self._exclude()
        branch = _branch(agent)
        known = await self._commit(home.root, f"refs/heads/{branch}")
        end = (branch,) if known else ("-b", branch)
        # Twice: one that is missing, or was cut, is still in the repository's list.
        await self._git(home.root, "worktree", "add", "--force", "--force", *_at(end, str(folder), head))
        if not is_whole:
            await self._git(home.root, "update-ref", _base(agent), known or head)

    async def _check(self) -> str:
        """Return the commit to begin with: the last one of the caller's folder."""
        here = self.ctx.workspace.root
        if await self._top(here) != await _real(here):
            raise ToolError(
                f"{here} is not the top of a git repository that commands in the sandbox reach (its .git must lie in "
                "it): make one there with `git init` and a first commit, or leave out worktree"
            )
        head = await self._commit(here, "HEAD")
        if not head:
            raise ToolError("the repository has no commit yet, and a worktree begins with one: make a first commit")
        if await self._git(here, "ls-tree", "-r", "--name-only", head, "--", USERS):
            raise ToolError(
                f"the repository holds {USERS}, so a worktree would show people's notes to everybody: "
                f"`git rm -r --cached {USERS}`, put it into .gitignore, and commit that"
            )
        return head

    async def _refuse_too_many(self) -> None:
        home, most = self.ctx.home, self.ctx.config.limits.worktrees
        if not await home.exists(FOLDER):
            return
        _, found = await home.entries(FOLDER, most + 1)
        if len(found) >= most:
            names = ", ".join(sorted(name for name, _ in found))
            raise ToolError(
                f"{FOLDER} has {len(found)} worktrees, which is the limit: {names}. Merge what "
                f"is wanted, then `git worktree remove {FOLDER}/<id>` and `git branch -D goclaw/<id>`"
            )

    async def _exclude(self) -> None:
        home = self.ctx.home.root
        file = home / await self._git(home, "rev-parse", "--git-path", "info/exclude")
        ran = await self._run("/bin/sh", "-c", _EXCLUDE, "sh", str(file), f"/{FOLDER}/")
        if ran.code:
            raise ToolError(f"{FOLDER} cannot be kept out of git status: {ran.output.strip()}")

    async def _changes(self, agent: str) -> str:
        """Return the changes since it began, in words; empty: none."""
        folder, base = self._folder(agent), await self._commit(self.ctx.home.root, _base(agent))
        if not base or await self._top(folder) != await _real(folder):
            raise ToolError(f"{_path(agent)} is no worktree any more")
        state = await self._git(folder, "status", "--porcelain", "--untracked-files=all")
        heads = {await self._commit(folder, name) for name in ("HEAD", f"refs/heads/{_branch(agent)}")}
        if not state and heads == {base}:
            return ""
        stat = await self._git(
            folder, "diff", "--no-ext-diff", "--no-textconv", f"--stat=100,60,{_MAX_FILES}", base, "--"
        )
        new = [line[3:] for line in state.splitlines() if line.startswith("??")]
        more = [f"and {len(new) - _MAX_FILES} more"] if len(new) > _MAX_FILES else []
        untracked = ", ".join([*new[:_MAX_FILES], *more])
        count = await self._git(folder, "rev-list", "--count", f"{base}..HEAD")
        parts = (stat, f"not added to git: {untracked}" if new else "", f"new commits: {count}")
        return "\n".join(filter(None, parts))

    async def _top(self, folder: Path) -> str:
        """Return the top of the working tree at a folder; empty if it has none."""
        ran = await self._run("git", *_SAFELY, "-C", str(folder), "rev-parse", "--show-toplevel")
        return "" if ran.code else await _real(Path(ran.output.strip()))

    async def _commit(self, folder: Path, name: str) -> str:
        """Return the commit that a name means; empty: none."""
        ran = await self._run("git", *_SAFELY, "-C", str(folder), "rev-parse", "-q", "--verify", f"{name}^{{commit}}")
        return "" if ran.code else ran.output.strip()

    async def _git(self, folder: Path, *arguments: str) -> str:
        env = await self._no_filters(folder) if arguments[0] in _FILTERED else {}
        ran = await self._run("git", *_SAFELY, "-C", str(folder), *arguments, env=env)
        if ran.code:
            raise ToolError(f"git {arguments[0]} failed: {ran.output.strip()[-1_000:] or f'exit code {ran.code}'}")
        return ran.output.rstrip()

    async def _no_filters(self, folder: Path) -> Mapping[str, str]:
        """Return variables that keep git from running commands on file content (gitattributes(5), `filter`)."""
        ran = await self._run(
            *("git", *_SAFELY, "-C", str(folder), "config", "-z", "--name-only", "--get-regexp"), r"^filter\..*\."
        )
        names = sorted({name for name in ran.output.split("\0") if name.startswith("filter.")})
        keys = {f"GIT_CONFIG_KEY_{number}": name for number, name in enumerate(names)}
        values = {
            f"GIT_CONFIG_VALUE_{number}": "false" if name.lower().endswith(".required") else ""
            for number, name in enumerate(names)
        }
        return {"GIT_CONFIG_COUNT": str(len(names)), **keys, **values}

    async def _run(self, *argv: str, env: Mapping[str, str] | None = None) -> Ran:
        ctx, home = self.ctx, self.ctx.home.root
        # By the shell, which finds the program as it does for exec.
        command = SandboxCommand(
            (shell(), "-c", 'exec "$@"', "sh", *argv), home, {**environment(ctx.config.tools.exec), **(env or {})}
        )
        policy = replace(await policy_of(ctx), network="none", proxy=None)
        ran = await collect_output(ctx, ctx.sandbox.run(command, policy), _SECONDS)
        if ran.code == _NO_PROGRAM:
            raise ToolError(
                f"a worktree needs {argv[0]}, which is not there for commands: install it, or leave out worktree"
            )
        return ran

    def _folder(self, agent: str) -> Path:
        return self.ctx.home.root / _path(agent)


def _path(agent: str) -> str:
    return f"{FOLDER}/{agent}"


def _branch(agent: str) -> str:
    return f"goclaw/{agent}"


def _base(agent: str) -> str:
    return f"refs/goclaw-begun/{agent}"  # in refs/goclaw it would hide the branch


def _at(end: tuple[str, ...], folder: str, head: str) -> tuple[str, ...]:
    """Return the arguments of `git worktree add`: for an existing branch, or a new one from `head`."""
    return (*end, folder, head) if len(end) > 1 else (folder, *end)


async def _real(path: Path) -> str:
    return await asyncio.to_thread(os.path.realpath, path)
