"""Loading of one-file plugins: who may write them, their execution, the parts that they declare, and each fault.

A fault has the place `file:line:column`. `check_file` finds all of them: it executes statement by statement, and of one
that fails its inner calls, so that one fault hides no other.
"""

import ast
import os
import stat
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from itertools import count
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Protocol, runtime_checkable

from goclaw.common.auth.users import Users
from goclaw.common.auth.workplaces import places_of
from goclaw.common.config.exports import is_built_in
from goclaw.common.config.packaged import FileParts, FilesPart
from goclaw.common.config.schema import Config
from goclaw.common.core.files import decode, lies_inside
from goclaw.common.core.plugins import API_VERSION, WRITTEN_FOR, api_misfit, fault_of, third_party
from goclaw.common.core.records import record
from goclaw.common.core.tool_ids import short_name
from goclaw.common.specs import ToolSpec
from goclaw.errors import ConfigError, GoclawError
from goclaw.tools.hooks.base import HookPart
from goclaw.tools.toolkit.base import Tool, check_name
from goclaw.tools.toolkit.parts import AgentPart, ServerPart, ToolsetPart, is_same_tool

MAX_BYTES = 1_000_000
"""Of a file; a larger one is not source code."""
NO_PACKAGES = (
    "a plugin that needs more packages than GoClaw must be a package itself (`goclaw plugin add`, docs/plugins.md)"
)
NO_PARTS = "declares no tool, toolset or agent; make one with `@tool` or `agent(…)` (goclaw.declare), bound to a name"
_NUMBERS = count(1)
_IN_FORCE: dict[Path, "_Loaded"] = {}
"""The last good version of each file."""
Names = dict[str, Any]
_Configured = AgentPart | ToolsetPart | ServerPart


@record
class Problem:
    """A fault in a file."""

    line: int
    column: int
    message: str

    def format(self, path: Path | str) -> str:
        """Return it with its place: `garden.py:3:5: message`."""
        return f"{path}:{self.line}:{self.column}: {self.message}"


@record
class _Loaded:
    """A version of a file that was executed."""

    content: str
    parts: FileParts
    module: str
    """Its name in `sys.modules`."""


class FileFault(GoclawError):
    """A file cannot be used; the message has the first fault and its place."""


@runtime_checkable
class _Declaration(Protocol):
    """A tool of `goclaw.tools.declare`."""

    name: str
    tool: Tool | None

    def built(self, tags: tuple[str, ...] = ()) -> Tool: ...


@record
class _Source:
    """A file that was read and parsed."""

    path: Path
    text: str
    tree: ast.Module
    code: CodeType
    places: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Line and column of each name bound at its top level, except imports."""


def load_file(path: Path, config: Config) -> FileParts:
    """Execute a file and return its parts; one that reads as its last good version did is not executed again.

    Raises:
        FileFault: it cannot be used; its former declarations stay as they were.
    """
    if refusal := refusal_of(path, config):
        raise FileFault(refusal)
    try:
        source = _load_source(path)
        before = _IN_FORCE.get(path)
        if before and before.content == source.text:
            return before.parts
        module = _module(path)
        sys.modules[module.__name__] = module
        try:
            exec(source.code, vars(module))  # noqa: S102 -- a plugin is code of the operator's; `refusal_of` says whose
            tools, configured, problems = _collect(vars(module), source)
            hooks = _hooks_of(vars(module), source)
        except BaseException:
            del sys.modules[module.__name__]
            raise
    except (Exception, SystemExit) as error:
        raise FileFault(_problem(error, path).format(path.name)) from error
    if problems:
        del sys.modules[module.__name__]
        raise FileFault(problems[0].format(path.name))
    parts = FileParts(tuple(tools.values()), tuple(configured), hooks)
    _IN_FORCE[path] = _Loaded(source.text, parts, module.__name__)
    if before:
        sys.modules.pop(before.module, None)
    return parts


def check_file(path: Path, config: Config) -> list[Problem]:
    """Execute a file statement by statement; return every fault, in the order of the file. None: it can be used."""
    problems = [Problem(1, 1, refusal)] if (refusal := refusal_of(path, config)) else []
    try:
        source = _load_source(path)
    except (Exception, SystemExit) as error:
        return [*problems, _problem(error, path)]
    module = _module(path)
    sys.modules[module.__name__] = module
    try:
        found = _Check(source, vars(module)).problems()
    finally:
        del sys.modules[module.__name__]
    return sorted([*problems, *found], key=lambda each: (each.line, each.column))


def refusal_of(path: Path, config: Config) -> str:
    """Return why a file is not executed, whatever is in it: others, or the agent, may change it. Empty: it may be."""
    real = Path(os.path.realpath(path))
    folders = {real.parent, path.absolute().parent}
    try:
        for place in (real, *sorted(folders)):
            found = place.stat()
            if found.st_uid not in (0, os.geteuid()):
                owner = f"belongs to another user (uid {found.st_uid}), who may change it"
                return f"{place} {owner}: `chown {os.geteuid()} {place}`"
            if found.st_mode & 0o022:
                mode = stat.S_IMODE(found.st_mode)
                return f"others may change {place} (mode {mode:o}): `chmod go-w {place}`"
        for place in {above for folder in folders for above in folder.parents}:
            mode = stat.S_IMODE(place.stat().st_mode)
            if mode & 0o002 and not mode & stat.S_ISVTX:
                return f"others may exchange what is in {place} (mode {mode:o}): `chmod o-w {place}`"
    except OSError as error:
        return f"{error.filename or path}: {error.strerror}"
    workspaces = [config.workspace_path, config.people_path]
    with suppress(ConfigError):  # a broken users.json is reported elsewhere
        workspaces += [place.root for place in places_of(config, Users.read(config.users_path).all()).values()]
    for workspace in workspaces:
        if lies_inside(path, workspace):
            return f"is inside the workspace {workspace}, where the agent may change it: move it elsewhere"
    return ""


def _load_source(path: Path) -> _Source:
    with path.open("rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise ConfigError(f"larger than {MAX_BYTES:,} bytes; is it the right file?")
    text = decode(content, path.name)
    tree = ast.parse(text, str(path))
    return _Source(path, text, tree, compile(tree, str(path), "exec", dont_inherit=True), dict(_places(tree)))


def _places(tree: ast.Module) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield the names that top-level statements bind, but for imports."""
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield statement.name, (statement.lineno, statement.col_offset + 1)
        elif not isinstance(statement, ast.Import | ast.ImportFrom):
            for node in ast.walk(statement):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    yield node.id, (node.lineno, node.col_offset + 1)


def _module(path: Path) -> ModuleType:
    # A name of its own for each version: pydantic and dataclasses look up the module of a class.
    module = ModuleType(f"goclaw_plugin_{next(_NUMBERS)}_{path.stem}")
    module.__file__ = str(path)
    return module


def _problem(error: BaseException, path: Path) -> Problem:
    """Return where in the file an error came from, and its message."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return Problem(error.lineno or 1, error.offset or 1, error.msg)
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    message = " ".join(fault_of(error).split())
    if isinstance(error, ImportError):
        message = f"{message}; {NO_PACKAGES}"
    if not frames:
        return Problem(1, 1, message.removeprefix(f"{path.name}: "))
    return Problem(frames[-1].lineno or 1, (frames[-1].colno or 0) + 1, message)


def _bound(names: Names, source: _Source) -> Iterator[tuple[str, object]]:
    """Yield what a file binds to public names."""
    yield from ((name, names[name]) for name in source.places if not name.startswith("_") and name in names)


def _hooks_of(names: Names, source: _Source) -> dict[str, HookPart]:
    return {name: value for name, value in _bound(names, source) if isinstance(value, HookPart)}


def _collect(
    names: Names, source: _Source, *, checking: bool = False, may_be_empty: bool = False
) -> tuple[dict[str, Tool], list[_Configured], list[Problem]]:
    """Return the tools by name, what belongs to the configuration, and what does not fit."""
    tools: dict[str, Tool] = {}
    configured: list[_Configured] = []
    problems: list[Problem] = []
    if misfit := api_misfit(names.get(WRITTEN_FOR, API_VERSION)):
        problems.append(Problem(*source.places.get(WRITTEN_FOR, (1, 1)), misfit))
    seen: set[int] = set()
    # A tool that a toolset takes is the toolset's.
    for name, value in sorted(_bound(names, source), key=lambda each: isinstance(each[1], Tool | _Declaration)):
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, AgentPart | ToolsetPart | ServerPart):
            configured.append(value)
        for tool in _tools_of(value, tools):
            fault = (
                "is declared twice in this file; give one of the two another name"
                if tools.get(tool.spec.id, tool) is not tool
                else ""
            )
            fault = fault or _name_fault(tool.spec)
            if not fault and checking and not tool.spec.description:
                fault = "has no description, which models choose it by: write a docstring"
            if fault:
                bound = ((each, getattr(made, "tool", None)) for each, made in _bound(names, source))
                declared = (each for each, made in bound if made and is_same_tool(made, tool))
                problems.append(Problem(*source.places[next(declared, name)], f"tool {tool.spec.id} {fault}"))
            tools.setdefault(tool.spec.id, tool)
    if not (tools or configured or problems or may_be_empty or _hooks_of(names, source)):
        problems.append(Problem(1, 1, NO_PARTS))
    return tools, configured, problems


def _tools_of(value: object, known: Mapping[str, Tool]) -> Sequence[Tool]:
    match value:
        case ToolsetPart():
            return value.tools
        case ServerPart():
            return value.tools.tools
        case AgentPart():
            return [tool for toolset in value.toolsets for tool in toolset.tools]
        case (Tool() as made) | _Declaration(tool=Tool() as made):
            is_toolsets = any(is_same_tool(made, each) for each in known.values())
            return () if is_toolsets or (value is not made and made.spec.name in known) else (made,)
    return ()


def _name_fault(spec: ToolSpec) -> str:
    name = short_name(spec.id)
    try:
        check_name(name)
    except ValueError as error:
        return str(error)
    if is_built_in(name):
        return "has the name of one that is built in; choose another one"
    if name in third_party("tools") and not spec.agent:
        return "has the name of one of an installed package; choose another one"
    return ""


@record
class _Check:
    """Executes a file as far as it goes, and keeps every fault."""

    _source: _Source
    _names: Names
    _lost: set[str] = field(default_factory=set)
    """Names that statements which failed would have bound: what lacks them is no fault of its own."""
    _problems: list[Problem] = field(default_factory=list)

    def problems(self) -> list[Problem]:
        for statement in self._source.tree.body:
            wrapped = ast.Module([statement], [])
            try:
                exec(compile(wrapped, str(self._source.path), "exec", dont_inherit=True), self._names)  # noqa: S102 -- see above
            except (Exception, SystemExit) as error:
                self._lost.update(_names_of(statement))
                before = len(self._problems)
                if not self._inner(statement) and not self._follows(error):
                    self._problems[before:] = [_problem(error, self._source.path)]
        has_failed = bool(self._problems and self._lost)
        return [*self._problems, *_collect(self._names, self._source, checking=True, may_be_empty=has_failed)[2]]

    def _inner(self, node: ast.AST) -> bool:
        """Evaluate the calls inside a statement that failed; whether one of them is at fault, and named."""
        found = False
        for call in _inner_calls(node):
            try:
                code = compile(ast.Expression(call), str(self._source.path), "eval", dont_inherit=True)
                eval(code, self._names)  # noqa: S307 -- see above
            except (Exception, SystemExit) as error:
                if not self._inner(call) and not self._follows(error):
                    self._problems.append(_problem(error, self._source.path))
                found = True
        return found

    def _follows(self, error: BaseException) -> bool:
        """Whether an error only says that a name is missing because its own statement failed."""
        return isinstance(error, NameError) and error.name in self._lost


def _names_of(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield statement.name
    elif isinstance(statement, ast.Import | ast.ImportFrom):
        yield from ((alias.asname or alias.name).partition(".")[0] for alias in statement.names)
    else:
        yield from (
            node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        )


def _inner_calls(node: ast.AST) -> Iterator[ast.Call]:
    """Yield the outermost calls below a node that stand at the top level of the file: not in a function's body."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda | ast.comprehension):
            continue
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and isinstance(child, ast.stmt):
            continue
        if isinstance(child, ast.Call):
            yield child
        elif not isinstance(child, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            yield from _inner_calls(child)


PART = FilesPart(load_file)
