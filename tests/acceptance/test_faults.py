"""Every fault of a model and of Telegram, wherever it strikes: one answer or one clear message, and life goes on.

In the long lane each fault meets each place; in the short one each meets some. `python -m tests.acceptance.faults` is
the whole table, with every protocol.
"""

from pathlib import Path

import pytest

from tests.acceptance.faults.model_matrix import SITES, Site, cells_of, run_site
from tests.acceptance.faults.telegram_faults import FAULTS, TelegramFault
from tests.acceptance.faults.telegram_matrix import run_chats, run_everywhere
from tests.lanes import LONG, repeats

pytestmark = [pytest.mark.slow, pytest.mark.deep]

KINDS = ("reset after", "silence before", "401 ", "409 ", "429 ", "500 ", "malformed JSON")
"""How the faults begin that the short lane tries on polls and on a start: each is handled in another way."""


@pytest.mark.parametrize("site", SITES)
async def test_every_fault_of_a_model_ends_in_one_answer_or_one_clear_message(tmp_path: Path, site: Site) -> None:
    assert await run_site(tmp_path, site, list(cells_of(site, repeats("some", "every fault")))) == []


@pytest.mark.timeout(120)
async def test_every_fault_of_telegram_in_a_chat_ends_in_one_answer_or_one_clear_message(folder: Path) -> None:
    tried = await run_chats(folder, share=repeats(3, 1))
    assert {cell.fault for cell in tried} == set(FAULTS)
    assert [f"{cell.method}, {cell.fault.name}: {wrong}" for cell in tried for wrong in cell.wrong] == []


@pytest.mark.parametrize(
    "fault", [fault for fault in FAULTS if LONG or fault.name.startswith(KINDS)], ids=lambda fault: str(fault.name)
)
async def test_every_fault_of_polls_and_of_a_start_is_waited_out_without_haste(
    folder: Path, fault: TelegramFault
) -> None:
    tried = await run_everywhere(folder, fault, few=not LONG)
    assert [f"{cell.method}: {wrong}" for cell in tried for wrong in cell.wrong] == []
