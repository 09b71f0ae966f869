"""What all tools for files have in common: examples that run, paths declared for the scheduler, words for people."""

import re
from pathlib import Path

import pytest

from goclaw.common.core import catalog
from goclaw.common.core.plugins import load
from goclaw.common.specs import Example
from goclaw.tools.templates import hint
from goclaw.tools.toolkit.arguments import validate
from goclaw.tools.toolkit.base import Tool
from goclaw.tools.toolkit.scheduling import ResourceUse
from tests.tools.builtin.file_support import around
from tests.tools.builtin.memory_support import Surroundings

__all__ = ["around"]

NAMES = ("read", "write", "edit", "multi_edit", "notebook_edit", "glob", "list", "search")
TOOLS = [load(catalog.TOOLS[name], Tool) for name in NAMES]
EXAMPLES = [
    pytest.param(tool, example, id=f"{tool.spec.name}-{number}")
    for tool in TOOLS
    for number, example in enumerate(tool.spec.examples)
]
WRITING = {"write", "edit", "multi_edit", "notebook_edit"}


@pytest.mark.parametrize(("tool", "example"), EXAMPLES)
async def test_an_example_does_what_it_says(tool: Tool, example: Example, around: Surroundings) -> None:
    for path, content in example.files.items():
        around.write(path, content)

    arguments = validate(tool.arguments, dict(example.input))
    value = tool.result.checked(await tool.call(around.context(), arguments))

    assert example.output and example.output in tool.result.text(value)
    assert hint(tool.spec.call_hint, dict(arguments))
    assert hint(tool.spec.result_hint, {**tool.result.fields(value), "args": dict(arguments)})


@pytest.mark.parametrize("tool", TOOLS, ids=NAMES)
def test_each_says_what_it_is(tool: Tool) -> None:
    spec = tool.spec
    assert spec.examples and spec.call_hint and spec.result_hint and spec.tags
    assert re.fullmatch(r"[A-Z][a-z a-z]+", spec.title)
    assert spec.bounded is (spec.name not in WRITING)
    assert spec.annotations.read_only is (spec.name not in WRITING)


@pytest.mark.parametrize(("tool", "example"), EXAMPLES)
async def test_each_declares_the_paths_that_it_reads_or_writes(
    tool: Tool, example: Example, around: Surroundings
) -> None:
    assert tool.access
    declared = tool.access(validate(tool.arguments, dict(example.input)), around.context())
    path = str(example.input.get("path", "."))

    assert declared == (ResourceUse(writes=(path,)) if tool.spec.name in WRITING else ResourceUse(reads=(path,)))


def test_the_library_for_notebooks_is_loaded_late(tmp_path: Path) -> None:
    """It costs a tenth of a second; see `catalog.NOTEBOOKS`."""
    sources = Path(catalog.__file__).parents[2] / "extensions" / "notebook"
    late = re.compile(r"^(import|from) nbformat", re.MULTILINE)
    importing = [path.name for path in sources.glob("*.py") if late.search(path.read_text())]
    assert importing == ["notebooks.py"]
