"""A photo in Telegram, before models that see and models that do not: it is answered, and it is a file."""

import re

import orjson
import pytest

from tests.acceptance.daemon import Installation
from tests.acceptance.model import EchoModel, pictures_of, texts_of
from tests.acceptance.waiting import eventually
from tests.fake_telegram.server import FakeTelegram

pytestmark = pytest.mark.slow

ANN, BEA = 5, 6
PHOTO = b"\xff\xd8\xff\xe0" + bytes(range(256)) * 8
SAVED = re.compile(r"saved as (inbox/[^\s\]]+)\]")


async def answered(telegram: FakeTelegram, *names: str) -> None:
    """Wait until Ann's messages with these names are answered, once each."""
    answers = [f"answer {name} (end)" for name in names]
    await eventually(lambda: [sent.text for sent in telegram.sent(ANN)] == answers)


def place_in(model: EchoModel) -> str:
    """The path of the picture that the latest request names."""
    found = [match[1] for text in texts_of(model.requests[-1]) for match in SAVED.finditer(text)]
    return found[-1]


@pytest.mark.promise("P-media")
async def test_a_photo_before_a_model_for_text_is_answered_and_refused_once(
    home: Installation, telegram: FakeTelegram, model: EchoModel
) -> None:
    model.blind = True
    await home.start(telegram)
    await telegram.world.say("m1 plain", user=ANN, photo=PHOTO)
    await answered(telegram, "m1")
    assert (home.workspace / place_in(model)).read_bytes() == PHOTO
    await telegram.world.say("m2 plain", user=ANN, photo=PHOTO)
    await answered(telegram, "m1", "m2")
    assert [bool(pictures_of(body)) for body in model.requests] == [True, False, False]
    assert await home.stop() == 0


@pytest.mark.promise("P-media")
async def test_a_chat_with_a_photo_in_it_goes_on_by_itself_with_a_model_that_sees_none(
    home: Installation, telegram: FakeTelegram, model: EchoModel
) -> None:
    await home.start(telegram)
    await telegram.world.say("m1 plain", user=ANN, photo=PHOTO)
    await answered(telegram, "m1")
    assert await home.stop() == 0
    model.blind = True
    await home.start(telegram)
    await telegram.world.say("m2 plain", user=ANN)
    await answered(telegram, "m1", "m2")
    assert [bool(pictures_of(body)) for body in model.requests] == [True, True, False]
    assert await home.stop() == 0


@pytest.mark.promise("P-media")
async def test_a_photo_that_the_model_sees_is_a_file_that_can_be_sent_on(
    home: Installation, telegram: FakeTelegram, model: EchoModel
) -> None:
    home.write_users({f"telegram:{ANN}": {"name": "Ann", "roles": ["admin"]}, f"telegram:{BEA}": {"name": "Bea"}})
    telegram.world.meet(BEA)
    await home.start(telegram)
    await telegram.world.say("m1 plain", user=ANN, photo=PHOTO)
    await answered(telegram, "m1")
    assert pictures_of(model.requests[-1]), "it is shown, too"
    sends = {"action": "send", "channel": "telegram", "chat_id": str(BEA), "media_path": place_in(model)}
    await telegram.world.say(f"m2 call message {orjson.dumps(sends).decode()}", user=ANN)
    asked = (await telegram.wait_sent(ANN, 2))[-1]
    await telegram.world.press(ANN, asked.message_id, asked.keyboard[0][0]["callback_data"], user=ANN)
    (question,) = await telegram.wait_sent(BEA)
    assert question.text == "Ann wants to send you messages through me. Allow?"
    await telegram.world.press(BEA, question.message_id, question.keyboard[0][0]["callback_data"], user=BEA)
    assert (await telegram.wait_sent(BEA, 2))[-1].file == PHOTO
    await telegram.wait_sent(ANN, 3)
    assert await home.stop() == 0
