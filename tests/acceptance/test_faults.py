"""Every fault of a model and of Telegram, wherever it strikes: one answer or one clear message, and life goes on.

Here each fault meets each place once; `python -m tests.acceptance.faults` is the whole table, with every protocol.
"""

from pathlib import Path

import pytest

from tests.acceptance.faults.model_matrix import SITES, Site, cells_of, run_site

pytestmark = [pytest.mark.slow]


@pytest.mark.parametrize("site", SITES)
async def test_every_fault_of_a_model_ends_in_one_answer_or_one_clear_message(tmp_path: Path, site: Site) -> None:
    assert await run_site(tmp_path, site, list(cells_of(site, every=False))) == []
