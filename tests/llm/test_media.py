"""Documents before models: as a file where the configuration says so, else as text; a refused one as text for good."""

import base64
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any

import pytest
from anthropic.types.message_create_params import MessageCreateParamsStreaming
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from pydantic import SecretStr

from goclaw.common.config.schema import ModelOptions, ProviderSettings
from goclaw.common.core.messages import AssistantMessage, Foreign, Image, Provenance, SourceKind, UserMessage
from goclaw.conversation.agent.context.model_messages import ContentMarkers, MarkKind
from goclaw.errors import ModelError, ModelErrorKind, ToolError
from goclaw.llm.base import PDF, ChatModel, DocumentModel, ModelEvent, ModelPorts, Request, TextDelta
from goclaw.llm.encoded import EncodedMessages, add_reminder, alternating
from goclaw.llm.media import AS_A_FILE, AcceptedMedia, again_without_media
from goclaw.llm.ollama import encode
from goclaw.llm.pydantic_ai import PROVIDER
from tests.llm.asking import PICTURE, ask, saying
from tests.llm.fake_provider import FakeProvider, refusal
from tests.llm.oracles import validated
from tests.llm.wires import ANTHROPIC, OPENAI, Wire

BYTES = base64.b64encode(PICTURE)
WORDS, ASKED = "Total: 77 EUR", "What do I owe?"
IN_A_FILE = Provenance(SourceKind.FILE)
REFUSALS = {
    "Anthropic, too many pages": (ANTHROPIC, 400, "A maximum of 100 PDF pages may be provided."),
    "Anthropic, damaged": (ANTHROPIC, 400, "messages.0.content.0.pdf.source.base64.data: The PDF was not valid."),
    "Anthropic, large pages": (ANTHROPIC, 400, "messages.0: image dimensions exceed max allowed size: 8000 pixels"),
    "OpenAI": (OPENAI, 400, "Invalid value: 'file'. Supported values are: 'text' and 'image_url'."),
    "llama.cpp": (OPENAI, 500, "unsupported content[].type"),
    "OpenRouter": (OPENAI, 404, "No endpoints found that support file input"),
}
OTHER_FAULTS = {
    "too long": (400, "prompt is too long: 210000 tokens > 200000 maximum"),
    "ids": (400, "messages.7.content: tool_use ids must be unique"),
    "server": (500, "The model failed while generating content"),
    "filter": (400, "Output blocked by content filtering policy"),
}


def sent(number: int = 0, *, words: str = WORDS, before: str = ASKED) -> UserMessage:
    """A message with a document of three pages, as a window sends it."""
    blob, text = str(number) * 64, f"{before}\n{words}"
    piece = Foreign(len(before) + 1, len(text), "the file bill.pdf", IN_A_FILE, blob)
    message = ContentMarkers().around(UserMessage(text, (Image(blob, PDF, 3),), (piece,)), 1, {MarkKind.OUTSIDE})
    assert isinstance(message, UserMessage)
    return message


def through_pydantic_ai(fake: FakeProvider, ports: ModelPorts, **options: Any) -> ChatModel:
    settings = ProviderSettings(api_key=SecretStr("k"), base_url=fake.url)
    return PROVIDER.open("openai-chat:gpt-6.1-sol", settings, ModelOptions(**{"max_output": 99, **options}), ports)


def bodies(fake: FakeProvider) -> list[bytes]:
    return [received.raw for received in fake.asked]


@pytest.mark.promise("P-media")
async def test_a_document_goes_as_text_unless_the_configuration_says_otherwise(
    fake: FakeProvider, ports: ModelPorts, wire: Wire
) -> None:
    fake.will(wire.answer())
    await ask(wire.open(fake.url, ports, images=True), saying(sent()))
    (body,) = bodies(fake)
    assert BYTES not in body and WORDS.encode() in body and AS_A_FILE.encode() not in body


@pytest.mark.promise("P-media")
async def test_each_protocol_has_a_form_for_documents_and_none_pays_for_the_text_too(
    fake: FakeProvider, ports: ModelPorts
) -> None:
    fake.will(ANTHROPIC.answer(), OPENAI.answer(), OPENAI.answer())
    models = [wire.open(fake.url, ports, documents=True) for wire in (ANTHROPIC, OPENAI)]
    for model in (*models, through_pydantic_ai(fake, ports, documents=True)):
        assert (await ask(model, saying(sent()))).text == "Hello"
    types = (MessageCreateParamsStreaming, CompletionCreateParamsStreaming, CompletionCreateParamsStreaming)
    for kind, received in zip(types, fake.asked, strict=True):
        assert validated(kind, received.body) == received.body, "as the official SDK has it"
    parts = [received.body["messages"][-1]["content"] for received in fake.asked]
    data = f"data:{PDF};base64,{BYTES.decode()}"
    source = {"type": "base64", "media_type": PDF, "data": BYTES.decode()}
    assert parts[0][0] == {"type": "document", "source": source}
    assert parts[1][1] == {"type": "file", "file": {"filename": "document.pdf", "file_data": data}}
    assert parts[2][1]["type"] == "file" and parts[2][1]["file"]["file_data"] == data
    for body in bodies(fake):
        assert WORDS.encode() not in body and body.count(BYTES) == 1
        marked = f'<material from="the file bill.pdf">\n{AS_A_FILE}\n</material>'.replace('"', '\\"').replace(
            "\n", "\\n"
        )
        assert ASKED.encode() in body and marked.encode() in body, "it is material of others, by its file"


@pytest.mark.promise("P-media")
@pytest.mark.parametrize("server", REFUSALS)
async def test_a_document_that_a_server_refuses_goes_as_text_from_then_on(
    fake: FakeProvider, ports: ModelPorts, server: str
) -> None:
    wire, status, words = REFUSALS[server]
    model = wire.open(fake.url, ports, documents=True, images=True)
    fake.will(refusal(status, wire.error_body(words)), wire.answer())
    assert (await ask(model, saying(sent()))).finished.message.text == "Hello"
    first, second = bodies(fake)
    assert BYTES in first and BYTES not in second and WORDS.encode() in second
    again = saying(sent(), AssistantMessage("Hello"), sent(1, words="Paid"))
    await ask(model, again)
    last = bodies(fake)[-1]
    assert len(bodies(fake)) == 3, "no second refusal"
    assert last.count(BYTES) == 1 and WORDS.encode() in last and b"Paid" not in last, "another one is given"
    assert isinstance(model, DocumentModel)
    assert [model.takes(message.images[0]) for message in (sent(), sent(1))] == [False, True]


@pytest.mark.promise("P-media")
@pytest.mark.parametrize("fault", OTHER_FAULTS)
async def test_a_document_goes_as_a_file_again_where_its_request_fails_without_it_too(
    fake: FakeProvider, ports: ModelPorts, fault: str
) -> None:
    status, words = OTHER_FAULTS[fault]
    model = ANTHROPIC.open(fake.url, ports, documents=True)
    refused = refusal(status, ANTHROPIC.error_body(words))
    fake.will(refused, refused, ANTHROPIC.answer())
    assert words in str((await ask(model, saying(sent()))).failed)
    await ask(model, saying(sent()))
    assert [BYTES in body for body in bodies(fake)] == [True, False, True]


@pytest.mark.parametrize(("status", "words"), [OTHER_FAULTS["too long"], (413, "Request exceeds the maximum size")])
async def test_a_request_that_is_too_long_lacks_its_documents_alone(
    fake: FakeProvider, ports: ModelPorts, status: int, words: str
) -> None:
    model = ANTHROPIC.open(fake.url, ports, documents=True)
    fake.will(refusal(status, ANTHROPIC.error_body(words)), *[ANTHROPIC.answer()] * 2)
    for _ in range(2):
        assert (await ask(model, saying(sent()))).text == "Hello"
    assert [BYTES in body for body in bodies(fake)] == [True, False, True]
    assert WORDS.encode() in bodies(fake)[1], "its text is in the place of the file"


async def test_a_large_request_is_sent_in_pieces(fake: FakeProvider, ports: ModelPorts) -> None:
    """The client library warns of one that is not, and a warning is an error here."""

    async def load(key: str) -> bytes:
        return bytes(2 << 20)

    fake.will(ANTHROPIC.answer())
    model = ANTHROPIC.open(fake.url, replace(ports, load_image=load), documents=True)
    assert (await ask(model, saying(sent()))).text == "Hello"
    assert len(bodies(fake)[0]) > 2 << 20


async def test_a_refusal_through_pydantic_ai_is_one_too(fake: FakeProvider, ports: ModelPorts) -> None:
    fake.will(refusal(400, OPENAI.error_body("Invalid file data")), OPENAI.answer())
    assert (await ask(through_pydantic_ai(fake, ports, documents=True), saying(sent()))).text == "Hello"
    assert [BYTES in body for body in bodies(fake)] == [True, False]


async def test_a_server_that_takes_neither_documents_nor_pictures_is_answered_without_both(
    fake: FakeProvider, ports: ModelPorts
) -> None:
    photo = UserMessage("And this?", (Image("9" * 64, "image/png"),))
    refused = refusal(400, OPENAI.error_body("content must be a string"))
    fake.will(refused, refused, OPENAI.answer())
    model = OPENAI.open(fake.url, ports, documents=True, images=True)
    assert (await ask(model, saying(sent(), AssistantMessage("77"), photo))).text == "Hello"
    assert [body.count(BYTES) for body in bodies(fake)] == [2, 1, 0] and not model.sees_images


async def test_a_document_whose_file_is_gone_stays_as_text() -> None:
    async def gone(key: str) -> bytes:
        raise ToolError("no such media")

    ((block,),) = await EncodedMessages(encode, gone, reads=True).blocks([sent()])
    assert WORDS.encode() in block and b"no longer kept" not in block


async def test_texts_that_are_put_together_lose_each_document_s_words_and_no_others() -> None:
    async def load(key: str) -> bytes:
        return PICTURE

    said = [UserMessage("Hi."), sent(), sent(1, words="Paid", before="And now?")]
    (message,) = add_reminder(alternating(said), "Be brief.")
    ((block,),) = await EncodedMessages(encode, load, reads=True).blocks([message])
    marked = f'<material from="the file bill.pdf">\n{AS_A_FILE}\n</material>'
    heads = (f"{ASKED}\n{MarkKind.OUTSIDE}\n{marked}", f"And now?\n{MarkKind.OUTSIDE}\n{marked}")
    text = "\n\n".join(("Hi.", *heads, "Be brief."))
    assert f'"content":"{text}"'.replace("\n", "\\n").replace(
        'from="the file bill.pdf"', 'from=\\"the file bill.pdf\\"'
    ) in (block.decode())


async def test_two_requests_that_are_refused_for_one_document_are_both_made_again() -> None:
    media, request, tries = AcceptedMedia(reads=True), saying(sent()), list[Request]()

    async def ask_once(given: Request) -> AsyncGenerator[ModelEvent, None]:
        tries.append(given)
        if len(tries) == 1:
            media.leave_out(media.blobs_in(request, documents=True))  # the other request was refused meanwhile
            raise ModelError(ModelErrorKind.REJECTED, "The PDF was not valid")
        yield TextDelta("Hello")

    assert [event async for event in again_without_media(ask_once, request, media)] == [TextDelta("Hello")]
