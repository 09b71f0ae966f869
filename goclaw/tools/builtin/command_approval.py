"""The risk of a command, and the grounds of its approval: its folder and the content of every file that its line names.

A line may run a script that is rewritten between the approval and the run, so the script is part of the approval. The
search for files errs on the side of too many: every word that could be a path counts, in any quotes and after any
`cd`. Files that the script or a program opens in turn are not covered.
"""

import asyncio
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from posixpath import basename, join, normpath
from typing import Any

import orjson

from goclaw.common.config.schema import Config
from goclaw.common.core import catalog
from goclaw.common.core.plugins import load
from goclaw.common.specs import Risk
from goclaw.common.workspace import FOLDER, Workspace
from goclaw.errors import ToolError
from goclaw.tools.approval.requests import OFF, Grounds
from goclaw.tools.builtin.text import as_code
from goclaw.tools.execution.sandbox.base import Grammar, Part, Unclear
from goclaw.tools.execution.sandbox.rules import Rules
from goclaw.tools.execution.sandbox.shell_grammar import INTERPRETERS
from goclaw.tools.toolkit.base import CallRisk, ToolContext

HASHED = "sha256:"
MAX_SHOWN = 20
MAX_LABEL = 300
ROUNDABOUT = (
    "**Part of this command is known only when it runs** (a variable, a pattern or another command's output): it may "
    "run a file that is not listed here and may still change."
)


def configured_risk(config: Config) -> Risk:
    """Return the risk of commands: uncontained is critical, with network high, else contained."""
    return _risk(config, is_contained=config.tools.exec.sandbox != "off")


def _risk(config: Config, *, is_contained: bool) -> Risk:
    if not is_contained:
        return Risk.CRITICAL
    return Risk.CONTAINED if config.tools.exec.network == "none" else Risk.HIGH


command_risk = CallRisk(
    Risk.CRITICAL,
    lambda arguments, ctx: _risk(ctx.config, is_contained=ctx.sandbox.tier != "off"),
    configured_risk,
)


async def exec_grounds(arguments: Any, ctx: ToolContext) -> Grounds:
    """Return the grounds of an `exec` call; raises as `grounds_of_line` does.

    A command with variables of its own is unusual, so it can be approved for one call only.
    """
    grounds = await grounds_of_line(arguments.command, arguments.working_dir or ".", ctx)
    return grounds.for_one_call() if arguments.env else grounds


async def grounds_of_line(line: str, folder: str, ctx: ToolContext) -> Grounds:
    """Return the grounds of a line of shell that runs in `folder`.

    Raises:
        ToolError: no such folder, too many files to check, or a command that is blocked without a question.
    """
    Rules(ctx.config.tools.exec.allowed, ctx.config.tools.exec.blocked).judge(line)
    place = await ctx.workspace.folder(folder)
    try:
        states = await _states(line, folder, ctx.workspace)
    except TooManyPaths:
        raise ToolError("the command is too long to approve; write it into a script and run that") from None
    files = [f"- {as_code(path)}" for path, state in states.items() if _is_file(state)]
    more = [f"- … and {len(files) - MAX_SHOWN} more"] if len(files) > MAX_SHOWN else []
    listed = "\n".join(["You approve these files as they are now:", *files[:MAX_SHOWN], *more]) if files else ""
    parts = await _patterns_of(line, folder, ctx.workspace)
    place_words = "" if folder == "." else f" in {folder}"
    return Grounds(
        facts={"folder": await asyncio.to_thread(_place, place), **states},
        lines=tuple(filter(None, (_surroundings(ctx), listed, ROUNDABOUT if is_roundabout(line) else ""))),
        pattern=tuple(parts),
        labels=tuple(f"{label[:MAX_LABEL]}{place_words}" for label in parts.values()),
    )


_NETWORKS = {"none": "no network", "proxy": "and public websites", "host": "and the whole network"}


def _surroundings(ctx: ToolContext) -> str:
    """Return what the line reaches, in a sentence."""
    if ctx.sandbox.tier == OFF:
        return "It can reach everything on this machine."
    return f"It sees the workspace only, {_NETWORKS[ctx.config.tools.exec.network]}."


async def _states(line: str, folder: str, workspace: Workspace) -> dict[str, str]:
    """Return every path that the line may name, relative to the workspace, with its state."""
    named = [_from(folder, path) for path in paths_of(line)]
    found = await workspace.fingerprints(named)
    below = folders_of([path for path, state in found.items() if state == FOLDER])
    further = [_from(folder, path) for path in paths_of(line, below)]
    found |= await workspace.fingerprints(path for path in further if path not in found)
    for pattern in (path for path in further if any(sign in path for sign in "*?[")):
        found |= await workspace.fingerprints(entry.path for entry in await workspace.walk([pattern], 1_000))
    return found


def _from(folder: str, path: str) -> str:
    return path if path.startswith("/") or folder == "." else f"{folder.rstrip('/')}/{path}"


async def _patterns_of(line: str, folder: str, workspace: Workspace) -> Mapping[str, str]:
    """Return the parts of a line that may be allowed permanently, with their words; none if one part may not."""
    try:
        parts = load(catalog.GRAMMARS["bash"], Grammar).parts_of(line)
        return {await _pattern(part, folder, workspace): _render(part) for part in parts}
    except (Unclear, TooManyPaths):
        return {}


async def _pattern(part: Part, folder: str, workspace: Workspace) -> str:
    """Return the name of a part of a line, which changes with the files that it names."""
    states = await _states(_render(part), folder, workspace)
    files = {path: state for path, state in states.items() if _is_file(state)}
    for words in part:
        is_script = len(words) > 1 and _is_file((await workspace.fingerprints([_from(folder, words[1])])).popitem()[1])
        if INTERPRETERS.fullmatch(words[0].rpartition("/")[2]) and not is_script:
            raise Unclear(f"{words[0]} does not run a script of the workspace")
    known = {"in": folder, "run": part, "files": files}
    return orjson.dumps(known, option=orjson.OPT_SORT_KEYS).decode()


def _render(part: Part) -> str:
    return " | ".join(shlex.join(words) for words in part)


def _is_file(state: str) -> bool:
    return state.startswith(HASHED)


def _place(folder: Path) -> str:
    """Return a folder's identity, not only its name."""
    found = folder.stat()
    return f"{folder.resolve()} {found.st_dev}:{found.st_ino}"


MAX_PATHS = 20_000
"""Paths of one line: more than a person can check."""
MAX_FOLDERS = 20
_UNKNOWN = re.compile(r"[`*?\[]|\$[^{(\s\"']|\$[{('\"]|\beval\b|\bxargs\b")
"""Expressions that make a line's files unknown before it runs."""
_SEPARATORS = re.compile(r"[\s;&|()<>`\"'={},:\\]+")
_QUOTED = re.compile(r'"([^"]*)"|\'([^\']*)\'', re.DOTALL)
_VARIABLE = re.compile(r"\$\{[^}]*\}|\$\w+")
_MODULE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
_READ_BY_ITSELF = {
    "make": ("Makefile", "makefile", "GNUmakefile"),
    "npm": ("package.json",),
    "npx": ("package.json",),
    "pnpm": ("package.json",),
    "yarn": ("package.json",),
    "just": ("justfile",),
    "tox": ("tox.ini",),
}
"""The files that these programs run without being named."""


class TooManyPaths(Exception):
    """A line names too many files to check."""


def is_roundabout(line: str) -> bool:
    """Whether a line may run a file that no word of it names."""
    return _UNKNOWN.search(line) is not None


def paths_of(line: str, folders: Iterable[str] = ()) -> list[str]:
    """Return the paths that the words may name, relative to the line's folder or to one of `folders` it may change to.

    Raises:
        TooManyPaths: it names more than `MAX_PATHS`.
    """
    words = list(dict.fromkeys(_words(line)))
    found = dict.fromkeys(normpath(join(folder, word)) for folder in ("", *folders) for word in words)
    if len(found) > MAX_PATHS:
        raise TooManyPaths
    return list(found)


def folders_of(paths: Sequence[str]) -> list[str]:
    """Return the folders that a line may get to by changing to these, one after the other."""
    found = [""]
    for path in paths:
        found += [normpath(join(folder, path)) for folder in found[: MAX_FOLDERS - len(found)]]
    return list(dict.fromkeys(found))[1:]


def _words(line: str) -> Iterator[str]:
    for word in _raw(line):
        if not word or len(word) > 4_000:
            continue
        yield word
        yield from _READ_BY_ITSELF.get(basename(word), ())
        yield join(word, "__main__.py")
        if _MODULE.fullmatch(word):  # python -m package.module
            yield f"{word.replace('.', '/')}.py"
            yield f"{word.replace('.', '/')}/__main__.py"


def _raw(line: str) -> Iterator[str]:
    quoted = [part for found in _QUOTED.findall(line) for part in found]
    for word in (*_split(line), *quoted, *_SEPARATORS.split(line)):
        yield word
        if "$" in word:
            yield from (part.lstrip("/") for part in _VARIABLE.split(word))


def _split(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError:
        return []  # half of a quotation; other ways find the words all the same
