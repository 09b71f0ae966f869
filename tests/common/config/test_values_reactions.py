"""The reactions that settings and messages may name: those of Telegram, however a keyboard writes them."""

import pytest
from telegram.constants import ReactionEmoji

from goclaw.common.config.values import ALLOWED_REACTIONS, reaction_of
from tests.tables import table


def test_the_list_is_that_of_the_bot_api() -> None:
    assert set(ALLOWED_REACTIONS.values()) == {each.value for each in ReactionEmoji}


@table("emoji", [*(each.value for each in ReactionEmoji), "❤️", "👍🏽", " 👍 ", "🕊️"])
def test_every_reaction_of_telegrams_is_taken_however_a_keyboard_writes_it(emoji: str) -> None:
    assert reaction_of(emoji) in {each.value for each in ReactionEmoji}


@pytest.mark.parametrize("emoji", ["🦀", "thumbs up", "👍👍", "", "x" * 5_000])
def test_another_one_is_refused_with_some_that_there_are(emoji: str) -> None:
    with pytest.raises(
        ValueError, match=r"^Telegram does not accept .{1,20} as a reaction; it accepts, for example, 👍 👎"
    ):
        reaction_of(emoji)
