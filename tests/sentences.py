"""Comparisons of a text with words: what they find out belongs into a field or an enum (`test_house_rules`).

Words are a constant with a letter and a space in it. Constants are followed through imports.
"""

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests import house

METHODS = frozenset({"startswith", "endswith", "removeprefix", "removesuffix", "partition", "rpartition", "split"})
COMPARISONS = (ast.Eq, ast.NotEq, ast.In, ast.NotIn)
GAP = "…"
"""Stands in a text for what is put into it."""


@dataclass(frozen=True)
class Name:
    """A constant by its name, with the module that it is read from where it has one: `module.NAME`."""

    name: str


Operand = str | Name


@dataclass
class Source:
    """What the rule needs of one module."""

    constants: dict[str, tuple[Operand, ...]] = field(default_factory=dict)
    imported: dict[str, str] = field(default_factory=dict)
    """Where a name comes from: `goclaw.common.core.events.NAME`."""
    compared: list[tuple[int, Operand]] = field(default_factory=list)


def compared_words(paths: Sequence[Path]) -> Iterator[tuple[Path, int, str]]:
    """Yield the file, the line and the words of each comparison."""
    sources = {house.module_name(path): read(house.tree_of(path)) for path in paths}
    for path in paths:
        for line, text in words_in(sources[house.module_name(path)], sources):
            yield path, line, text


def words_in(source: Source, sources: Mapping[str, Source]) -> Iterator[tuple[int, str]]:
    """Yield the line and the words of each comparison of one module; `sources`: all modules by name."""
    for line, operand in source.compared:
        for text in resolved(operand, source, sources):
            if " " in text and any(map(str.isalpha, text)):
                yield line, text


def read(tree: ast.Module) -> Source:
    """Return what the rule needs of a module."""
    source = Source(dict(_constants(tree)))
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(module), names=names):
                source.imported |= {each.asname or each.name: f"{module}.{each.name}" for each in names}
            case ast.Compare(left=left, ops=ops, comparators=others) if any(isinstance(op, COMPARISONS) for op in ops):
                source.compared += [(node.lineno, each) for side in (left, *others) for each in operands(side)]
            case ast.Call(func=ast.Attribute(attr=method), args=[argument, *_]) if method in METHODS:
                source.compared += [(node.lineno, each) for each in operands(argument)]
            case ast.GeneratorExp(elt=tested, generators=loops) | ast.ListComp(elt=tested, generators=loops):
                source.compared += [(node.lineno, each) for loop in loops for each in _looped(tested, loop)]
            case ast.MatchValue(value=value):
                source.compared += [(value.lineno, each) for each in operands(value)]
            case _:
                pass
    return source


def _looped(tested: ast.expr, loop: ast.comprehension) -> Iterator[Operand]:
    """Yield the texts of a loop whose variable is compared with something: `any(text in said for text in TEXTS)`."""
    name = loop.target.id if isinstance(loop.target, ast.Name) else ""
    for node in ast.walk(tested):
        match node:
            case ast.Compare(left=left, ops=ops, comparators=others) if any(isinstance(op, COMPARISONS) for op in ops):
                sides = [left, *others]
            case ast.Call(func=ast.Attribute(attr=method), args=[argument, *_]) if method in METHODS:
                sides = [argument]
            case _:
                continue
        if any(isinstance(side, ast.Name) and side.id == name for side in sides):
            yield from operands(loop.iter)


def _constants(tree: ast.Module) -> Iterator[tuple[str, tuple[Operand, ...]]]:
    for node in tree.body:
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                yield name, tuple(operands(value))
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
                for target, each in zip(names, values, strict=False):
                    if isinstance(target, ast.Name):
                        yield target.id, tuple(operands(each))
            case _:
                pass


def operands(node: ast.expr) -> Iterator[Operand]:
    """Yield the texts of an expression, and the names of constants that may hold some."""
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr(values=parts):
            yield "".join(str(each.value) if isinstance(each, ast.Constant) else GAP for each in parts)
        case ast.Tuple(elts=each) | ast.Set(elts=each) | ast.List(elts=each):
            for one in each:
                yield from operands(one)
        case ast.Call(func=ast.Name(id="frozenset"), args=[argument]):
            yield from operands(argument)
        case ast.Name(id=name) if name.isupper():
            yield Name(name)
        case ast.Attribute(value=ast.Name(id=module), attr=name) if name.isupper():
            yield Name(f"{module}.{name}")
        case _:
            pass


def resolved(operand: Operand, source: Source, sources: Mapping[str, Source]) -> Iterator[str]:
    """Yield the texts that an operand stands for."""
    if isinstance(operand, str):
        yield operand
        return
    first, _, rest = operand.name.partition(".")
    if not rest and first in source.constants:
        for each in source.constants[first]:
            yield from resolved(each, source, sources)
    elif first in source.imported:
        module, _, name = f"{source.imported[first]}.{rest}".strip(".").rpartition(".")
        if found := sources.get(module):
            yield from resolved(Name(name), found, sources)
