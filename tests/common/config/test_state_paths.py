"""Everything in the state folder says which processes need it."""

import ast
import importlib
from pathlib import Path

import goclaw
from goclaw.common.config.state import Locality, locality_of

ROOT = Path(goclaw.__file__).parent


def named_paths() -> set[str]:
    """Every `….state_dir / NAME` in the source, followed by what is joined to it, with constants filled in."""
    found = set()
    for file in ROOT.rglob("*.py"):
        text = file.read_text("utf-8")
        if "state_dir" not in text:
            continue
        module = ".".join(("goclaw", *file.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and (parts := joined(node, module)):
                found.add("/".join(parts))
    return found


def joined(node: ast.expr, module: str) -> list[str] | None:
    """The names behind `state_dir` in a chain of `/`; None: the chain does not begin there."""
    if isinstance(node, ast.Attribute | ast.Name):
        name = node.attr if isinstance(node, ast.Attribute) else node.id
        return [] if name == "state_dir" else None
    if not isinstance(node, ast.BinOp) or (before := joined(node.left, module)) is None:
        return None
    match node.right:
        case ast.Constant(str() as value):
            return [*before, value]
        case ast.Name(id=name) if isinstance(constant := getattr(importlib.import_module(module), name, None), str):
            return [*before, constant]
        case _:
            return before or None


def test_every_path_that_the_source_names_says_which_processes_need_it() -> None:
    names = named_paths()
    assert {"goclaw.db", "memory.db", "logs/audit.jsonl", "prompt-files", "blobs/media"} <= names
    assert [name for name in sorted(names) if locality_of(name) is None] == []


def test_a_path_that_is_not_listed_has_no_locality() -> None:
    assert locality_of("a-new-file") is None
    assert locality_of("blobs/media/0123") is Locality.SHARED
    assert locality_of("logs/audit.jsonl.1") is Locality.SHARED
    assert locality_of("logs/goclaw.log") is Locality.LOCAL
    assert locality_of("goclaw.db-wal") is Locality.SHARED
    assert locality_of("goclaw.db.damaged-20261121T160000Z") is Locality.LOCAL
