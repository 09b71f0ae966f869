"""The room of a conversation, and how full it is."""

import pytest

from goclaw.common.config.schema import CompactionSettings
from goclaw.conversation.agent.context.budget import percent_full, reserve, room
from goclaw.llm.base import SMALL_WINDOW, is_small

SETTINGS = CompactionSettings()


def test_prompt_tools_and_reserve_are_no_room() -> None:
    assert reserve(8_192, SETTINGS) == 2_048 and reserve(200_000, SETTINGS) == 30_000
    assert room(8_192, 1_800, SETTINGS) == 8_192 - 2_048 - 1_800
    assert room(2_048, 1_800, SETTINGS) == 0


def test_only_a_window_that_is_known_is_small() -> None:
    assert is_small(4_096) and is_small(SMALL_WINDOW)
    assert not is_small(SMALL_WINDOW + 1) and not is_small(0)


@pytest.mark.parametrize(("tokens", "share"), [(1_800, 0), (1_000, 0), (3_972, 50), (6_144, 100)])
def test_a_small_window_is_filled_by_the_conversation_alone(tokens: int, share: float) -> None:
    assert percent_full(tokens, 8_192, 1_800, SETTINGS) == share


def test_a_large_window_is_filled_by_all_that_is_in_it() -> None:
    assert percent_full(50_000, 200_000, 10_000, SETTINGS) == 25
    assert percent_full(50_000, 0, 10_000, SETTINGS) == 0


def test_where_there_is_no_room_every_word_is_too_much() -> None:
    assert percent_full(2_000, 2_048, 1_900, SETTINGS) > 100
