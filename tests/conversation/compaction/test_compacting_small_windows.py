"""A model with a small window holds a conversation, and its person waits for nothing but the answers."""

import re
from pathlib import Path

import pytest

from goclaw.conversation.compaction.maintenance import SYSTEM as NOTES
from tests.conversation.sessions.small_windows import MOST_BREAKS, TURNS, Lived, live, pieces


@pytest.mark.promise("P-small-windows")
@pytest.mark.promise("P-context-fits")
@pytest.mark.promise("P-cache-stable")
@pytest.mark.parametrize("window", MOST_BREAKS)
async def test_thirty_turns_with_tools_fit_a_small_window(tmp_path: Path, window: int) -> None:
    lived = await live(tmp_path, window, pieces)
    assert lived.failed == 0 and len(lived.own) == TURNS + 3
    assert {each.body["options"]["num_ctx"] for each in lived.asked} == {window}
    assert lived.largest <= window and not [each for each in lived.asked if each.cut]
    assert lived.waited_for == [], "while a person waits, the model does nothing but answer"
    assert lived.beside and lived.crowded == 0
    assert len(lived.breaks) <= min(MOST_BREAKS[window], lived.compactions + len(lived.beside))


async def test_what_is_not_shown_any_more_is_summed_up_and_noted_all_the_same(tmp_path: Path) -> None:
    lived = await live(tmp_path, 4_096, pieces)
    assert lived.compactions > 3, "or this shows nothing"
    summed_up, first_shown, last_said, notes = 0, 0, 0, 0
    for each in lived.asked:
        system, *conversation = (message["content"] for message in each.body["messages"])
        told = numbers("\n".join(conversation))
        if each.own:
            first_shown, last_said = min(told), max(told)
        elif system == NOTES:
            notes += 1
            assert told >= set(range(summed_up, last_said + 1)), "of the summary, and all that came since"
        else:
            assert told >= set(range(summed_up, first_shown)), "all that is left out by then and in no summary"
            summed_up = first_shown
    assert notes and summed_up > TURNS // 2, "all of it was seen"
    assert last_summary(lived), "it is in the requests"


def numbers(text: str) -> set[int]:
    """Of the turns that a text tells of."""
    return {int(number) for number in re.findall(r"Number (\d+)\.", text)}


def last_summary(lived: Lived) -> bool:
    """Whether the model was shown what a summary says."""
    return "The berth of this year is not paid yet" in lived.own[-1].body["messages"][1]["content"]
