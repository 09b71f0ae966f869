"""Tools found by words, without a model."""

import pytest

from goclaw.common.core import catalog
from goclaw.common.core.plugins import load
from goclaw.common.specs import Example, ToolSpec
from goclaw.tools.builtin.tool_search import find_tools, words
from goclaw.tools.toolkit.base import Tool

BUILT_IN = [load(path, Tool).spec for path in catalog.TOOLS.values()]


def found(query: str, *more: ToolSpec) -> list[str]:
    return [spec.name for spec in find_tools(query, [*BUILT_IN, *more])]


@pytest.mark.parametrize("name", [spec.name for spec in BUILT_IN])
def test_a_tools_own_name_finds_it_first(name: str) -> None:
    assert found(name)[0] == name


@pytest.mark.parametrize(("alias", "name"), catalog.ALIASES.items())
def test_its_name_in_other_systems_does_so_too(alias: str, name: str) -> None:
    assert name not in catalog.TOOLS or found(alias)[0] == name


def test_examples_and_arguments_are_looked_at() -> None:
    arguments = {"properties": {"celsius": {"type": "number", "description": "How hot the kettle is."}}}
    brew = ToolSpec("brew", "Make tea.", arguments, examples=(Example("Oolong for two", {}),))
    for query in ("celsius", "kettle", "oolong", "brewing", "TEA"):
        assert found(query, brew) == ["brew"]


def test_nothing_is_found_for_words_that_no_tool_has() -> None:
    assert found("zymurgy") == found("") == found("the a of") == []


def test_words_are_small_and_plain() -> None:
    assert words("MultiEdit multi_edit Größe l'été") == ["multi", "edit", "multi", "edit", "grosse", "l", "ete"]
