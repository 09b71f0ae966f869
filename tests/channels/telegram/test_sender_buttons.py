"""Choices of a delivery are buttons below it; pressed ones carry the question and the index, nothing else."""

import logging

import pytest

from goclaw.channels.telegram.sender import MAX_BUTTON_DATA, MAX_BUTTON_LABEL, keyboard_of
from goclaw.common.core.events import Choice
from tests.channels.telegram.support import delivery, open_stage

ALLOW, DENY, LATER = (Choice(label, "0a1b2c3d4e", label.lower()) for label in ("Allow", "Deny", "Later"))


async def test_choices_are_two_buttons_a_row() -> None:
    async with open_stage(running=False) as stage:
        stage.telegram.world.meet(5)
        await stage.deliver("May it run?", choices=(ALLOW, DENY, LATER))
        rows = stage.telegram.sent(5)[0].keyboard
        assert [[(button["text"], button["callback_data"]) for button in row] for row in rows] == [
            [("Allow", "q:0a1b2c3d4e:0"), ("Deny", "q:0a1b2c3d4e:1")],
            [("Later", "q:0a1b2c3d4e:2")],
        ]


async def test_an_edit_keeps_the_buttons_it_names_and_removes_them_otherwise() -> None:
    async with open_stage(running=False) as stage:
        stage.telegram.world.meet(5)
        card = await stage.deliver("May it run?", choices=(ALLOW, DENY))
        for number in ("e1", "e2"):
            await stage.hand_over(delivery("Still?", number=number, action="edit", message_id=card, choices=(ALLOW,)))
        assert len(stage.telegram.sent(5)[0].keyboard) == 1
        await stage.hand_over(delivery("Allowed.", number="e3", action="edit", message_id=card))
        (sent,) = stage.telegram.sent(5)
        assert (sent.text, sent.keyboard) == ("Allowed.", ())


async def test_an_edit_without_a_text_changes_the_buttons_only() -> None:
    async with open_stage(running=False) as stage:
        stage.telegram.world.meet(5)
        card = await stage.deliver("**May** it run?", choices=(ALLOW, DENY))
        for number in ("e1", "e2"):
            await stage.hand_over(delivery("", number=number, action="edit", message_id=card))
        (sent,) = stage.telegram.sent(5)
        assert (sent.text, sent.entities[0]["type"], sent.keyboard) == ("May it run?", "bold", ())


async def test_the_buttons_of_a_long_card_are_below_the_part_that_its_receipt_names() -> None:
    async with open_stage(running=False) as stage:
        stage.telegram.world.meet(5)
        card = await stage.deliver("word " * 1500, choices=(ALLOW,))
        first, second = stage.telegram.sent(5)
        assert (str(first.message_id), bool(first.keyboard), second.keyboard) == (card, True, ())


def test_what_cannot_be_a_button_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert keyboard_of([Choice("x", "q" * MAX_BUTTON_DATA, "x"), Choice(" ", "q", "y")]) is None
    assert len(caplog.records) == 2


def test_labels_are_one_short_line() -> None:
    keyboard = keyboard_of([Choice("many\nwords " * 20, "q", "x")])
    assert keyboard is not None
    label = keyboard.inline_keyboard[0][0].text
    assert len(label) == MAX_BUTTON_LABEL and label.startswith("many words many") and label.endswith("…")
