"""Whether this is a container, and the words that follow from it."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from goclaw.common.core import container
from tests import house

OUTSIDE_RESTART = "`docker compose restart gateway`"
OUTSIDE_RESTORE = "`docker compose run --rm gateway restore FILE`"


@pytest.mark.parametrize("mark", ["", *container.MARKS])
def test_a_container_is_known_by_the_engine_s_files(mark: str, tmp_path: Path) -> None:
    if mark:
        (tmp_path / mark).parent.mkdir(exist_ok=True)
        (tmp_path / mark).touch()
    assert container.is_container(tmp_path, {}) is bool(mark)


def test_a_container_is_known_by_the_image_s_variable(tmp_path: Path) -> None:
    assert container.is_container(tmp_path, {"container": "oci"})
    assert "container=oci" in (Path(__file__).parents[3] / "Dockerfile").read_text()


@pytest.mark.parametrize(
    ("inside", "first", "restart", "restore"),
    [
        (True, "/sbin/docker-init\0--\0goclaw\0gateway\0", OUTSIDE_RESTART, OUTSIDE_RESTORE),
        (True, "sleep\0infinity\0", "`goclaw restart`", "`goclaw restore FILE`"),
        (False, "/sbin/init\0", "`goclaw restart`", "`goclaw restore FILE`"),
    ],
)
def test_a_command_is_named_as_it_is_done_here(
    inside: bool, first: str, restart: str, restore: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cmdline").write_text(first)
    monkeypatch.setattr(container, "FIRST", tmp_path / "cmdline")
    monkeypatch.setattr(container, "is_container", lambda: inside)
    container.daemon_command.cache_clear()
    assert container.daemon_command("restart") == restart
    assert container.daemon_command("restore FILE") == restore
    monkeypatch.undo()
    container.daemon_command.cache_clear()


@pytest.mark.house
def test_no_other_text_names_a_command_that_a_container_has_not() -> None:
    """Docstrings are left out: help of the commands themselves, and words for who reads the source."""
    found = [
        f"{house.name_of(path)}: {text}"
        for path in house.python_files("goclaw")
        for text in texts(ast.parse(path.read_text()))
        if re.search(r"goclaw (re)?(start|stop)\b|docker compose", text)
    ]
    assert [line for line in found if not line.startswith("goclaw/common/core/container.py:")] == []


def texts(tree: ast.Module) -> Iterator[str]:
    """Yield the texts of a module that are no statement by themselves, as docstrings are."""
    statements = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in statements:
            yield node.value
