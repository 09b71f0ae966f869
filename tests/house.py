"""What the house rules look at: the source files, their functions, their imports, their comments."""

import ast
import gc
import io
import re
import tokenize
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "goclaw"
LASTING = {"cli", "declare", "hooks", "toolkit"}
"""Packages and modules of lasting paths, whose contents are in a room."""
NO_GENERATORS = (".iter_any",)
"""Calls that return an iterator with nothing to close."""


@dataclass(frozen=True)
class Import:
    """One name that a module imports; `inside` is the function that does it, empty at the top of the module."""

    module: str
    line: int
    inside: str = ""


@dataclass(frozen=True)
class Function:
    """A function, also one inside another."""

    name: str
    line: int
    length: int


@dataclass(frozen=True)
class Call:
    """A call; an argument by position that is no constant counts as `…`."""

    name: str
    """As it is written, with dots."""
    line: int
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class Facts:
    """What the rules ask of a file. Its syntax tree is not kept: all of them together take hundreds of megabytes."""

    functions: tuple[Function, ...]
    calls: tuple[Call, ...]
    broad: tuple[int, ...]
    """Lines of handlers that catch everything and do not end by raising it again."""
    imports: tuple[Import, ...]
    docstrings: tuple[tuple[int, str], ...]
    """Line and text of every docstring, those of attributes included."""
    unclosed: tuple[int, ...]
    """Lines of `async for` over a call: what the call makes is closed by the garbage collector alone."""
    assigned: tuple[str, ...]
    """Names that the module gives a value, as often as it does so without a condition."""


def python_files(*folders: str) -> list[Path]:
    """Return our Python files below these folders of the repository, sorted; a missing folder counts as empty."""
    found = (path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return sorted(path for path in found if "node_modules" not in path.parts)


def name_of(path: Path) -> str:
    """Return the path as people write it: relative to the repository, with slashes."""
    return path.relative_to(ROOT).as_posix()


def tree_of(path: Path) -> ast.Module:
    """Return the syntax tree of a file."""
    collects = gc.isenabled()
    # Nothing of a tree is garbage; looking for some would take twice as long as making it.
    gc.disable()
    try:
        return ast.parse(path.read_text("utf-8"), str(path))
    finally:
        if collects:
            gc.enable()


@cache
def facts(path: Path) -> Facts:
    """Return what there is in a file."""
    tree = tree_of(path)
    made, calls, broad, unclosed = list[Function](), list[Call](), list[int](), list[int]()
    docstrings = list[tuple[int, str]]()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            made.append(Function(node.name, node.lineno, (node.end_lineno or node.lineno) - node.lineno))
        elif isinstance(node, ast.Call):
            calls.append(Call(_dotted(node.func), node.lineno, tuple(map(_constant, node.args))))
        elif isinstance(node, ast.AsyncFor) or (isinstance(node, ast.comprehension) and node.is_async):
            if isinstance(node.iter, ast.Call) and not _dotted(node.iter.func).endswith(NO_GENERATORS):
                unclosed.append(node.iter.lineno)
        elif isinstance(node, ast.ExceptHandler) and _catches_everything(node.type) and not _raises_again(node):
            broad.append(node.lineno)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            docstrings.append((node.lineno, node.value.value))
    found = tuple(_imports(tree, _package(path), ""))
    return Facts(
        tuple(made), tuple(calls), tuple(broad), found, tuple(docstrings), tuple(unclosed), tuple(_assigned(tree))
    )


def _assigned(tree: ast.Module) -> Iterator[str]:
    for statement in tree.body:
        targets = statement.targets if isinstance(statement, ast.Assign) else ()
        targets = [statement.target] if isinstance(statement, ast.AnnAssign) else targets
        for target in targets:
            parts = target.elts if isinstance(target, ast.Tuple) else [target]
            yield from (part.id for part in parts if isinstance(part, ast.Name))


def _dotted(called: ast.expr) -> str:
    if isinstance(called, ast.Attribute):
        return f"{_dotted(called.value)}.{called.attr}"
    return called.id if isinstance(called, ast.Name) else "…"


def _constant(argument: ast.expr) -> str:
    return repr(argument.value) if isinstance(argument, ast.Constant) else "…"


def _catches_everything(caught: ast.expr | None) -> bool:
    if isinstance(caught, ast.Tuple):
        return any(_catches_everything(part) for part in caught.elts)
    return caught is None or (isinstance(caught, ast.Name) and caught.id in {"Exception", "BaseException"})


def _raises_again(handler: ast.ExceptHandler) -> bool:
    last = handler.body[-1]
    return isinstance(last, ast.Raise) and last.exc is None


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield every function, nested and asynchronous ones too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def comments(path: Path, wanted: re.Pattern[str]) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of every comment with `wanted` in it, and not what looks like one inside a string."""
    text = path.read_text("utf-8")
    if not wanted.search(text):
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and wanted.search(token.string):
            yield token.start[0], token.string


def module_name(path: Path) -> str:
    """Return the dotted name of a file of the package."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path) -> Sequence[Import]:
    """Return everything a file imports, lazily or not; `from a import b` counts as `a.b`."""
    return facts(path).imports


def _package(path: Path) -> list[str]:
    """Return what a relative import of this file begins at."""
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    return parts[:-1]


def _imports(node: ast.AST, package: list[str], inside: str) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (Import(alias.name, child.lineno, inside) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            base = package[: len(package) - child.level + 1] if child.level else []
            prefix = ".".join([*base, *([child.module] if child.module else [])])
            yield from (Import(f"{prefix}.{alias.name}", child.lineno, inside) for alias in child.names)
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _imports(child, package, child.name)
        else:
            yield from _imports(child, package, inside)


def import_graph(paths: Iterable[Path]) -> dict[str, set[str]]:
    """Return which module of `paths` imports which other, counting imports inside functions."""
    files = {module_name(path): path for path in paths}
    graph: dict[str, set[str]] = {name: set() for name in files}
    for name, path in files.items():
        for found in imports(path):
            target = found.module if found.module in files else found.module.rpartition(".")[0]
            if target in files and target != name:
                graph[name].add(target)
    return graph


def cycles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the sets of nodes that reach each other (strongly connected, more than one node), sorted."""
    reach = {node: _reachable(graph, node) for node in graph}
    found = {frozenset({node, *(other for other in reach[node] if node in reach[other])}) for node in graph}
    return sorted(sorted(group) for group in found if len(group) > 1)


def _reachable(graph: Mapping[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        for target in graph[waiting.pop()] - seen:
            seen.add(target)
            waiting.append(target)
    return seen
