"""The figures of the house, for the table in CONTRIBUTING.md: `python -m tests.figures`."""

import ast
import statistics
import sys
import tomllib
from collections.abc import Iterator

from tests import house, words

MANY_FIELDS = 10
LONG = 50
"""Lines of a function."""


def main() -> None:
    """Print a row for each figure."""
    for name, value in rows():
        sys.stdout.write(f"| {name} | {value} |\n")


def rows() -> Iterator[tuple[str, str]]:
    """Yield each figure with its name."""
    files = house.python_files("goclaw")
    sizes = sorted(len(path.read_text("utf-8").splitlines()) for path in files)
    ninth = sizes[len(sizes) * 9 // 10]
    yield "Python files of `goclaw/`, lines", f"{len(files)}, {sum(sizes):,}"
    yield (
        "lines of tests",
        f"{sum(len(path.read_text('utf-8').splitlines()) for path in house.python_files('tests')):,}",
    )
    yield "lines of a file: median, 90th percentile, longest", f"{statistics.median(sizes):.0f}, {ninth}, {sizes[-1]}"
    lengths = [function.length for path in files for function in house.facts(path).functions]
    yield f"functions, longer than {LONG} lines", f"{len(lengths):,}, {sum(length > LONG for length in lengths)}"
    yield "rooms, layers", _rooms()
    trees = [house.tree_of(path) for path in files]
    yield f"classes and constructors with more than {MANY_FIELDS} fields", str(sum(_wide(tree) for tree in trees))
    mentions = sum(isinstance(node, ast.Name) and node.id == "Any" for tree in trees for node in ast.walk(tree))
    yield "`Any` of 1,000 lines", f"{1_000 * mentions / sum(sizes):.1f}"
    found = words.count("goclaw")
    yield "functions named by a participle", f"{found.share_of_participles:.1f} %"
    yield "functions with a verb of our own", f"{found.share_of_own_verbs:.1f} %"
    yield "odd words of 1,000 in docstrings", f"{found.odd_per_thousand:.1f}"


def _rooms() -> str:
    project = tomllib.loads((house.ROOT / "pyproject.toml").read_text("utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    (layers,) = [each["layers"] for each in contracts if each.get("containers") == ["goclaw"]]
    rooms = {path.parent.name for path in house.PACKAGE.glob("*/__init__.py")} - house.LASTING
    return f"{len(rooms)}, {len(layers)}"


def _wide(tree: ast.Module) -> int:
    """Count the classes whose fields, or the parameters of whose constructor, are too many."""
    wide = 0
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            fields = sum(isinstance(each, ast.AnnAssign) for each in node.body)
            made = [each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"]
            arguments = max((len(each.args.args) + len(each.args.kwonlyargs) - 1 for each in made), default=0)
            wide += max(fields, arguments) > MANY_FIELDS
    return wide


if __name__ == "__main__":
    main()
