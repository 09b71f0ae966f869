"""A delivery's parts: as few messages as people read, and the rest where it is whole."""

import pytest

from goclaw.channels.telegram.outgoing import BEGINNING_UNITS, MAX_PARTS, WHOLE_BELOW, WHOLE_NAME
from goclaw.channels.telegram.render import MAX_UNITS, units
from tests.channels.telegram.support import delivery, open_stage

LONG = (
    "# Title\n\n" + "\n\n".join(f"**part{number}** " + "word " * 700 for number in range(6)) + "\n\n```py\nx\ud83d\n```"
)


async def test_a_very_long_text_is_its_beginning_and_a_document_with_the_whole() -> None:
    async with open_stage(running=False) as stage:
        stage.telegram.world.meet(5)
        first = await stage.deliver(LONG)
        beginning, whole = stage.telegram.sent(5)
        assert str(beginning.message_id) == first
        assert beginning.text.startswith("Title\n\npart0 word") and beginning.text.endswith(WHOLE_BELOW)
        assert units(beginning.text) <= BEGINNING_UNITS + units(WHOLE_BELOW)
        assert whole.file_name == WHOLE_NAME and whole.file is not None
        assert whole.file.decode() == LONG.replace("\ud83d", "\ufffd"), "the Markdown as it was written"


async def test_four_messages_are_still_messages() -> None:
    async with open_stage(running=False) as stage:
        stage.telegram.world.meet(5)
        await stage.deliver("\n\n".join("word " * 800 for _ in range(MAX_PARTS)))
        assert [sent.file for sent in stage.telegram.sent(5)] == [None] * MAX_PARTS


async def test_a_long_text_with_a_file_follows_it_in_the_same_way() -> None:
    async with open_stage(running=False) as stage:
        stage.telegram.world.meet(5)
        stage.blobs["a"] = b"bytes"
        await stage.deliver(LONG, media="a", media_name="a.bin")
        assert [sent.file_name for sent in stage.telegram.sent(5)] == ["a.bin", "", WHOLE_NAME]


async def test_an_edit_that_is_too_long_does_the_same() -> None:
    async with open_stage(running=False) as stage:
        stage.telegram.world.meet(5)
        own = await stage.deliver("short")
        await stage.hand_over(delivery(LONG, number="e", action="edit", message_id=own))
        beginning, whole = stage.telegram.sent(5)
        assert (str(beginning.message_id), whole.file_name) == (own, WHOLE_NAME)


@pytest.mark.promise("P-message-other-chats")
async def test_each_part_of_another_persons_words_names_the_author() -> None:
    async with open_stage(running=False) as stage:
        stage.telegram.world.meet(5)
        await stage.deliver("**From Ann:**\n\n" + "\n\n".join("word " * 815 for _ in range(3)), author="Ann")
        sent = [each.text for each in stage.telegram.sent(5)]
        assert len(sent) == 3 and all(text.startswith("From Ann:\n\nword") for text in sent)
        assert all(units(text) <= MAX_UNITS for text in sent)
