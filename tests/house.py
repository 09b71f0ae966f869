"""What the house rules look at: the source files, their functions, their imports, their comments."""

import ast
import io
import tokenize
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "goclaw"


@dataclass(frozen=True)
class Import:
    """One name that a module imports; `inside` is the function that does it, empty at the top of the module."""

    module: str
    line: int
    inside: str = ""


def python_files(*folders: str) -> list[Path]:
    """Return our Python files below these folders of the repository, sorted; a missing folder counts as empty."""
    found = (path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return sorted(path for path in found if "node_modules" not in path.parts)


def name_of(path: Path) -> str:
    """Return the path as people write it: relative to the repository, with slashes."""
    return path.relative_to(ROOT).as_posix()


@cache
def tree_of(path: Path) -> ast.Module:
    """Return the syntax tree of a file."""
    return ast.parse(path.read_text("utf-8"), str(path))


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield every function, nested and asynchronous ones too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def comments(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of every comment, without those that only look like one inside a string."""
    for token in tokenize.generate_tokens(io.StringIO(path.read_text("utf-8")).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def module_name(path: Path) -> str:
    """Return the dotted name of a file of the package."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path) -> Iterator[Import]:
    """Yield everything a file imports, lazily or not; `from a import b` counts as `a.b`."""
    package = module_name(path).split(".")
    if path.name != "__init__.py":
        package = package[:-1]
    yield from _imports(tree_of(path), package, "")


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
