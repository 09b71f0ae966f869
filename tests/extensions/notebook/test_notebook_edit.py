"""`notebook_edit`: one cell changes, the notebook stays valid, and everything else is unchanged."""

import json

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from goclaw.errors import InvalidInput, ToolError
from goclaw.extensions.notebook.notebook_edit import notebook_edit
from tests.tools.builtin.file_support import around
from tests.tools.builtin.memory_support import Surroundings

__all__ = ["around"]


def made(around: Surroundings, path: str = "a.ipynb") -> None:
    """Two cells, the second with an output."""
    code = new_code_cell("x = 1\nx", id="code", execution_count=1, outputs=[new_output("stream", text="1")])
    book = new_notebook(
        cells=[new_markdown_cell("# Title", id="title"), code],
        metadata={"kernelspec": {"name": "p", "display_name": "P"}},
    )
    around.write(path, nbformat.writes(book))


def cells(around: Surroundings) -> list[tuple[str, str, str]]:
    """Id, kind and source of each, of a notebook that is valid."""
    book = nbformat.read(around.the_workspace.root / "a.ipynb", as_version=nbformat.NO_CONVERT)
    nbformat.validate(book)
    return [(cell.id, cell.cell_type, cell.source) for cell in book.cells]


async def test_a_cell_is_replaced_and_loses_its_outputs(around: Surroundings) -> None:
    made(around)
    before = json.loads((around.the_workspace.root / "a.ipynb").read_text())

    answer = await around.call(notebook_edit, {"path": "a.ipynb", "cell_id": "code", "new_source": "x = 2\nx"})

    assert answer == "replaced cell 1 (id code) of a.ipynb, which has 2 cells now"
    assert cells(around) == [("title", "markdown", "# Title"), ("code", "code", "x = 2\nx")]
    after = json.loads((around.the_workspace.root / "a.ipynb").read_text())
    assert after["cells"][1]["outputs"] == [] and after["cells"][1]["execution_count"] is None
    assert after["cells"][0] == before["cells"][0] and after["metadata"] == before["metadata"]


async def test_a_cell_is_inserted_behind_another_or_at_the_top(around: Surroundings) -> None:
    made(around)

    await around.call(notebook_edit, {"path": "a.ipynb", "action": "insert", "cell_number": -1, "new_source": "last"})
    given = {"notebook_path": "a.ipynb", "edit_mode": "insert", "new_source": "top", "cell_type": "markdown"}
    await around.call(notebook_edit, given)

    assert [cell[1:] for cell in cells(around)] == [
        ("markdown", "top"),
        ("markdown", "# Title"),
        ("code", "x = 1\nx"),
        ("code", "last"),
    ]
    assert len({cell[0] for cell in cells(around)}) == 4


async def test_a_cell_is_deleted_and_another_kind_keeps_its_id(around: Surroundings) -> None:
    made(around)

    await around.call(notebook_edit, {"path": "a.ipynb", "action": "delete", "cell_number": 0})
    given = {"path": "a.ipynb", "cell_id": "code", "new_source": "text", "cell_type": "markdown"}
    await around.call(notebook_edit, given)

    assert cells(around) == [("code", "markdown", "text")]


async def test_a_notebook_without_ids_gets_none(around: Surroundings) -> None:
    book = new_notebook(nbformat_minor=4, cells=[])
    around.write("a.ipynb", json.dumps(book, indent=2))

    await around.call(notebook_edit, {"path": "a.ipynb", "action": "insert", "new_source": "x"})

    text = (around.the_workspace.root / "a.ipynb").read_text()
    assert "id" not in json.loads(text)["cells"][0] and text.startswith('{\n  "')
    nbformat.validate(nbformat.reads(text, as_version=nbformat.NO_CONVERT))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"path": "a.ipynb"}, 'field "new_source": expected string, got nothing'),
        ({"path": "a.ipynb", "new_source": "x"}, "a.ipynb: say which cell to replace (cell_id or cell_number)"),
        ({"path": "a.ipynb", "new_source": "x", "cell_number": 2}, "there is no cell 2: the notebook has 2 (0 to 1)"),
        ({"path": "a.ipynb", "new_source": "x", "cell_id": "nine"}, "there are title, code"),
        ({"path": "a.ipynb", "new_source": "x", "cell_id": "code", "cell_number": 1}, "not both"),
        ({"path": "a.ipynb", "new_source": "\ud83d", "cell_number": 1}, "expected Unicode text"),
        ({"path": "a.ipynb", "action": "burn", "new_source": "x"}, "expected 'replace', 'insert' or 'delete'"),
        ({"path": "b.ipynb", "action": "delete", "cell_number": 0}, "b.ipynb: not a notebook (NotJSONError)"),
        ({"path": "c.ipynb", "action": "delete", "cell_number": 0}, "c.ipynb: not a notebook"),
        ({"path": "d.ipynb", "action": "delete", "cell_number": 0}, "only format 4 can be changed"),
        ({"path": "aa.ipynb", "action": "delete", "cell_number": 0}, "(did you mean a.ipynb?)"),
        ({"path": "../a.ipynb", "action": "delete", "cell_number": 0}, "path traversal detected"),
    ],
)
async def test_what_cannot_be_done_is_named_and_nothing_is_changed(
    given: dict[str, object], words: str, around: Surroundings
) -> None:
    made(around)
    around.write("b.ipynb", "no notebook")
    around.write("c.ipynb", "[" * 100_000)
    around.write("d.ipynb", '{"nbformat": 3, "nbformat_minor": 0, "metadata": {}, "worksheets": []}')
    before = {path: path.read_bytes() for path in around.the_workspace.root.iterdir()}

    with pytest.raises((ToolError, InvalidInput)) as caught:
        await around.call(notebook_edit, given)

    assert words in str(caught.value)
    assert {path: path.read_bytes() for path in around.the_workspace.root.iterdir()} == before
