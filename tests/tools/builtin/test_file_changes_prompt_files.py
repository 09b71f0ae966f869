"""What tools that write tell of prompt files: who changed what, and whether that person may approve."""

from pathlib import Path
from typing import Any

import pytest

from goclaw.common.workspace import ApprovedFiles
from goclaw.tools.builtin.edit import edit, multi_edit
from goclaw.tools.builtin.write import write
from goclaw.tools.toolkit.base import Tool
from tests.tools.builtin.file_support import around
from tests.tools.builtin.memory_support import Surroundings

__all__ = ["around"]

EDIT = {"old_string": "kind", "new_string": "brief"}


@pytest.mark.promise("P-prompt-approved")
@pytest.mark.parametrize("may", [True, False])
@pytest.mark.parametrize(
    ("tool", "given"),
    [
        (write, {"path": "AGENTS.md", "content": "Be brief."}),
        (edit, {"path": "./AGENTS.md", **EDIT}),
        (multi_edit, {"edits": [{"path": "AGENTS.md", **EDIT}]}),
    ],
    ids=["write", "edit", "multi_edit"],
)
async def test_a_change_counts_if_its_person_may_approve(
    around: Surroundings, tmp_path: Path, tool: Tool, given: dict[str, Any], may: bool
) -> None:
    root = around.write("AGENTS.md", "Be kind.").parent
    around.approved_files = ApprovedFiles(tmp_path / "approved", lambda root: True)
    around.allow = lambda action, target: (action, target) != ("command.admin", "prompt-files") or may
    await around.approved_files.texts_to_use(root, {"AGENTS.md": b"Be kind."})
    await around.call(tool, given)
    assert (root / "AGENTS.md").read_bytes() == b"Be brief."
    used = await around.approved_files.texts_to_use(root, {"AGENTS.md": b"Be brief."})
    assert used.texts == {"AGENTS.md": "Be brief." if may else "Be kind."}
    assert bool(used.waiting) is not may and all(change.author for change in used.waiting)


async def test_a_file_elsewhere_is_no_prompt_file(around: Surroundings) -> None:
    await around.call(write, {"path": "docs/AGENTS.md", "content": "Be brief."})
    assert ("command.admin", "prompt-files") not in around.asked
