"""A PDF that a person sends to a model that takes documents: as a file in place of its text, and never a dead end."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from goclaw.common.core.messages import Image, Message, SourceKind, UserMessage, outside_sources
from goclaw.conversation.turns import attachments
from goclaw.errors import ToolError
from goclaw.llm.base import MAX_BYTES, MAX_PAGES, PDF, Request
from goclaw.llm.scripted import Answer, text_of
from goclaw.llm.token_counts import PER_PAGE, estimate_text
from goclaw.tools.hooks.base import HookAnswer
from goclaw.tools.toolkit.base import ToolEnvironment
from goclaw.tools.toolkit.documents import Document, Selection, SourceFile
from tests.conversation.turns.test_attachments import document, write
from tests.conversation.turns.test_user_message_hooking import Ears, hooks
from tests.extensions.documents.made import pdf
from tests.harness import Core, World
from tests.kills import recorded
from tests.llm.asking import model_ports
from tests.llm.fake_provider import fake_provider, refusal
from tests.llm.wires import OPENAI

BILL = pdf(["Invoice 4711", "Total: 77 EUR"])
SCAN = (("image/png", b"iVBORw0KGgo="),)
Reads = Callable[..., list[Selection]]


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    """Put a document in the place of what its reader would find in any."""

    def read(pages: int = 2, text: str = "Total: 77 EUR", fails: str = "", **more: Any) -> list[Selection]:
        wanted: list[Selection] = []

        async def read_document(environment: ToolEnvironment, source: SourceFile, selection: Selection) -> Document:
            wanted.append(selection)
            if fails:
                raise ToolError(fails)
            return Document(kind="PDF", unit="page", total=pages, text=text, **more)

        monkeypatch.setattr(attachments, "read_document", read_document)
        return wanted

    return read


def world_of(folder: Path, *, reads: bool = True, **options: Any) -> World:
    world = World(folder, rest(), tools=[write], **options)
    world.script.reads_documents = reads
    return world


def rest() -> list[Answer]:
    return [Answer("seen") for _ in range(8)]


async def send(core: Core, data: bytes = BILL, number: int = 1) -> None:
    await core.say("what do I owe?", files=[document("bill.pdf", data, PDF)], message_id=f"m{number}")
    await core.settled()


def files_in(request: Request) -> list[Image]:
    """The documents of a request."""
    said = [message for message in request.messages if isinstance(message, UserMessage)]
    return [image for message in said for image in message.images if image.pages]


def pictures_in(messages: list[Message]) -> list[Image]:
    said = [message for message in messages if isinstance(message, UserMessage)]
    return [image for message in said for image in message.images if not image.pages]


@pytest.mark.promise("P-media")
@pytest.mark.sandbox
async def test_a_model_that_takes_documents_gets_the_pdf_and_the_guard_its_label(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    async with world.running() as core:
        await send(core)
        [shown] = files_in(world.script.requests[-1])
        assert (shown.pages, shown.size) == (2, len(BILL))
        assert (tmp_path / "blobs" / "media" / shown.blob).read_bytes() == BILL
        stored = await core.messages()
    async with world.running() as core:
        await core.say("sure?")
        await core.settled()
        assert files_in(world.script.requests[-1]) == [shown], "also after a restart"
    said = text_of(world.script.requests[-1].messages[0])
    assert "[Document bill.pdf, 5 KB: saved as inbox/bill.pdf; 2 pages]" in said and "Total: 77 EUR" in said
    assert outside_sources(stored) == {SourceKind.DOCUMENT}


@pytest.mark.promise("P-media")
@pytest.mark.parametrize(
    ("options", "found", "data"),
    [
        ({"reads": False}, {}, BILL),
        ({}, {"pages": MAX_PAGES + 1}, BILL),
        ({}, {"pages": 200_000 // 4 // PER_PAGE + 1}, BILL),
        ({}, {"pages": 0}, BILL),
        ({}, {"fails": "it opens with a password"}, BILL),
        ({}, {}, BILL + bytes(MAX_BYTES)),
        ({}, {}, b"PK\x03\x04 a file of another kind"),
    ],
    ids=["unsaid", "too many pages", "more than its share", "no pages", "locked", "too large", "no PDF"],
)
async def test_other_documents_go_as_text_as_ever(
    reads: Reads, tmp_path: Path, options: dict[str, Any], found: dict[str, Any], data: bytes
) -> None:
    world = world_of(tmp_path, **options)
    reads(**found)
    async with world.running() as core:
        await send(core, data)
    [request] = world.script.requests
    words = found.get("fails", "Total: 77 EUR")
    assert files_in(request) == [] and words in text_of(request.messages[-1])
    assert not list((tmp_path / "blobs" / "media").iterdir()), "no copy is made of what no model is given"


async def test_scanned_pages_come_in_the_file_or_as_pictures_not_twice(reads: Reads, tmp_path: Path) -> None:
    reads(text="", pictures=SCAN)
    world = world_of(tmp_path)
    async with world.running() as core:
        await send(core)
        assert len(files_in(world.script.requests[-1])) == 1 and not pictures_in(await core.messages())
        world.script.reads_documents = False
        await send(core, pdf(["Another"]), 2)
        assert len(pictures_in(await core.messages())) == 1


async def test_scans_that_do_not_fit_as_a_file_with_those_before_them_come_as_pictures(
    reads: Reads, tmp_path: Path
) -> None:
    reads(pages=15, text="", pictures=SCAN)
    world = world_of(tmp_path)
    async with world.running() as core:
        files = [document(f"{name}.pdf", pdf([name]), PDF) for name in "ab"]
        await core.say("look", files=files)
        await core.settled()
        assert len(pictures_in(await core.messages())) == 1
    assert len(files_in(world.script.requests[-1])) == 1, "15 pages are 36,000 tokens of 200,000"


async def test_the_same_file_twice_in_a_message_is_given_once(reads: Reads, tmp_path: Path) -> None:
    reads()
    world = world_of(tmp_path)
    async with world.running() as core:
        await core.say("look", files=[document(name, BILL, PDF) for name in ("a.pdf", "b.pdf")])
        await core.settled()
    assert len(files_in(world.script.requests[-1])) == 1


@pytest.mark.promise("P-media")
async def test_a_chat_goes_on_with_a_model_that_takes_none_and_back(reads: Reads, tmp_path: Path) -> None:
    reads()
    world = world_of(tmp_path)
    async with world.running() as core:
        await send(core)
        text = await core.command("/context")
        assert f"  Documents: {2 * PER_PAGE:,} (2.4%), 2 pages as PDF\n" in text
        for takes in (False, True):
            world.script.reads_documents = takes
            await core.say("and now?")
            await core.settled()
            assert bool(files_in(world.script.requests[-1])) is takes
            assert ("Documents:" in await core.command("/context")) is takes
        world.script.context_window = 4 * PER_PAGE
        assert "Documents:" not in await core.command("/context"), "it has become more than its share"


async def test_a_compacted_document_is_no_longer_sent(reads: Reads, tmp_path: Path) -> None:
    reads()
    world = world_of(tmp_path)
    world.script.rest = Answer("Ann was sent an invoice, number 4711, of 77 euros. It is to be paid by Friday.")
    async with world.running() as core:
        await send(core)
        for number in range(7):
            await core.say(f"more {number}")
            await core.settled()
        await core.command("/compact")
        await core.say("and?")
        await core.settled()
    assert [len(files_in(request)) for request in world.script.requests][-1] == 0
    summary = next(
        text_of(each.messages[-1]) for each in world.script.requests if "Summarise" in text_of(each.messages[-1])
    )
    assert "> Total: 77 EUR" in summary, "its text is summed up"


async def test_where_hooks_judge_messages_they_judge_all_that_the_model_reads(reads: Reads, tmp_path: Path) -> None:
    reads()
    world = world_of(tmp_path)
    world.hooks = hooks("message_in", hook=Ears(lambda event: HookAnswer(text=event.text.replace("77", "[sum]"))))
    async with world.running() as core:
        await send(core)
    [request] = world.script.requests
    assert files_in(request) == [] and "Total: [sum] EUR" in text_of(request.messages[-1])


async def test_a_small_window_is_shown_less_of_a_document(reads: Reads, tmp_path: Path) -> None:
    wanted, world = reads(), world_of(tmp_path)
    async with world.running() as core:
        await send(core)
        world.script.context_window = 8_192
        await send(core, BILL, 2)
        assert [each.characters for each in wanted] == [20_000, 6_144]
        reads(text="漢" * 6_000)
        await send(core, BILL, 3)
        shown = text_of(world.script.requests[-1].messages[-1])
    assert 1_800 < shown.count("漢") * estimate_text("漢" * 100) / 100 <= 2_048, "a quarter, whatever the script"
    assert f"[cut: {6_000 - shown.count('漢'):,} more characters]" in shown


@pytest.mark.promise("P-media")
async def test_a_turn_whose_document_the_provider_refuses_goes_on_with_the_text(reads: Reads, tmp_path: Path) -> None:
    reads()
    async with fake_provider() as fake, model_ports() as ports:
        fake.will(refusal(400, OPENAI.error_body("Invalid file data")), OPENAI.answer(), OPENAI.answer())
        world = World(tmp_path, model=OPENAI.open(fake.url, ports, documents=True), tools=[write])
        async with world.running() as core:
            await send(core)
            await core.say("sure?")
            await core.settled()
            assert "Documents:" not in await core.command("/context")
    assert world.texts()[:2] == ["Hello", "Hello"]
    assert [b'"file_data"' in asked.raw for asked in fake.asked] == [True, False, False]
    assert [b"Total: 77 EUR" in asked.raw for asked in fake.asked] == [False, True, True]


async def test_a_kill_at_any_write_loses_no_document_and_sends_none_twice(reads: Reads, tmp_path: Path) -> None:
    reads()
    world = World(tmp_path, tools=[write])
    world.script.reads_documents, world.script.rest = True, Answer("seen")
    moments = await recorded(world, send)
    for moment in moments:
        with moment.restored():
            async with world.running() as core:
                await send(core)
                said = [each for each in await core.messages() if isinstance(each, UserMessage)]
            assert [[image.pages for image in each.images] for each in said] == [[2]]
            assert all(len(files_in(request)) == 1 for request in world.script.requests)
            assert set(world.texts()) == {"seen"}
    assert moments[-1].write >= 3, "every write was tried"
