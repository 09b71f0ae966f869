"""Pictures of people before models and servers that take none: every wire goes on without them."""

import base64

import pytest

from goclaw.common.core.messages import NOT_SEEN, AssistantMessage, Image, UserMessage
from goclaw.errors import ModelErrorKind
from goclaw.llm.base import ModelPorts
from tests.llm.asking import PICTURE, ask, saying
from tests.llm.fake_provider import FakeProvider, refusal
from tests.llm.wires import ANTHROPIC, OLLAMA, OPENAI, Wire

PHOTO = UserMessage("What is this?", (Image("0" * 64, "image/png"),))
LATER = UserMessage("And this?", (Image("1" * 64, "image/png"),))
REFUSALS = {
    "OpenAI": (OPENAI, 400, "Invalid content type. image_url is only supported by certain models."),
    "DeepSeek": (OPENAI, 400, "messages[1]: unknown variant `image_url`, expected `text` at line 1 column 200"),
    "Groq": (OPENAI, 400, "'messages.0' : for 'role:user' the following must be satisfied: content must be a string"),
    "OpenRouter": (OPENAI, 404, "No endpoints found that support image input"),
    "vLLM": (OPENAI, 400, "meta-llama/Llama-3.1-8B is not a multimodal model"),
    "LM Studio": (OPENAI, 400, "Model does not support images. Please use a model that does."),
    "llama.cpp": (OPENAI, 500, "image input is not supported - hint: you may need to provide the mmproj"),
    "Ollama": (OLLAMA, 500, "Failed to create new sequence: this model is missing data required for image input"),
    "Anthropic": (ANTHROPIC, 400, "messages.0.content.0: image input is not supported by this model"),
}
"""What servers say that take no pictures at all."""


def bodies(fake: FakeProvider) -> list[bytes]:
    """Return the requests that were sent."""
    return [received.raw for received in fake.asked]


def shows(body: bytes) -> bool:
    """Tell whether a request holds the bytes of a picture."""
    return base64.b64encode(PICTURE) in body


@pytest.mark.promise("P-media")
async def test_a_person_who_sends_a_picture_to_a_model_without_eyes_is_answered(
    fake: FakeProvider, ports: ModelPorts, wire: Wire
) -> None:
    fake.will(wire.answer())
    heard = await ask(wire.open(fake.url, ports, images=False), saying(PHOTO))
    assert heard.finished.message.text == "Hello"
    (sent,) = bodies(fake)
    assert not shows(sent) and NOT_SEEN.encode() in sent and b"What is this?" in sent


@pytest.mark.promise("P-media")
@pytest.mark.parametrize("server", REFUSALS)
async def test_a_server_that_takes_no_pictures_is_asked_without_and_that_is_remembered(
    fake: FakeProvider, ports: ModelPorts, server: str
) -> None:
    wire, status, words = REFUSALS[server]
    model = wire.open(fake.url, ports, images=True)
    fake.will(refusal(status, wire.error_body(words)), wire.answer())
    heard = await ask(model, saying(PHOTO))
    assert heard.finished.message.text == "Hello"
    first, second = bodies(fake)
    assert shows(first) and not shows(second) and NOT_SEEN.encode() in second
    assert not model.sees_images
    await ask(model, saying(PHOTO, AssistantMessage("Hello"), LATER))
    assert len(bodies(fake)) == 3, "no second refusal"
    assert not shows(bodies(fake)[-1]) and bodies(fake)[-1].count(NOT_SEEN.encode()) == 2


@pytest.mark.parametrize("words", ["messages.0: image exceeds 5 MB maximum", "You uploaded an unsupported image."])
async def test_one_picture_that_is_refused_is_left_out_and_later_ones_are_shown(
    fake: FakeProvider, ports: ModelPorts, wire: Wire, words: str
) -> None:
    model = wire.open(fake.url, ports, images=True)
    fake.will(refusal(400, wire.error_body(words)), wire.answer())
    assert (await ask(model, saying(PHOTO))).finished.message.text == "Hello"
    await ask(model, saying(PHOTO, AssistantMessage("Hello"), LATER))
    last = bodies(fake)[-1]
    assert len(bodies(fake)) == 3 and shows(last) and last.count(NOT_SEEN.encode()) == 1
    assert model.sees_images


async def test_a_refusal_of_something_else_is_no_reason_to_ask_again(
    fake: FakeProvider, ports: ModelPorts, wire: Wire
) -> None:
    fake.will(refusal(400, wire.error_body("temperature is out of range")), wire.answer())
    heard = await ask(wire.open(fake.url, ports, images=True), saying(PHOTO))
    assert heard.failed.kind is ModelErrorKind.REJECTED and len(bodies(fake)) == 1
    fake.will(refusal(400, wire.error_body("no image of this kind")), wire.answer())
    heard = await ask(wire.open(fake.url, ports, images=True), saying("without a picture"))
    assert heard.failed.kind is ModelErrorKind.REJECTED and len(bodies(fake)) == 2


async def test_an_answer_that_breaks_off_is_not_asked_for_anew_whatever_the_error_names(
    fake: FakeProvider, ports: ModelPorts
) -> None:
    error = {"error": {"message": "image worker failed", "type": "server_error"}}
    fake.will(OPENAI.shape(*OPENAI.opening, error), OPENAI.answer())
    heard = await ask(OPENAI.open(fake.url, ports, images=True), saying(PHOTO))
    assert heard.failed.partial and heard.text == "Hel" and len(bodies(fake)) == 1
