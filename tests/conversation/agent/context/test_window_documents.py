"""Documents in the window: as files or as text, by the model that answers, with the tokens of what is sent."""

import pytest

from goclaw.common.core.messages import AssistantMessage, Foreign, Image, Provenance, SourceKind, UserMessage
from goclaw.conversation.agent.context.window import ContextEntry, Window
from goclaw.durable.store.transcripts import StoredMessage
from goclaw.llm.base import MAX_BYTES, MAX_PAGES, PDF, Usage
from goclaw.llm.scripted import ScriptedModel
from goclaw.llm.token_counts import PER_IMAGE, PER_PAGE, estimate_message, estimate_text

WORDS = "Total: 77 EUR"
PIECE = Foreign(0, len(WORDS), "the file bill.pdf", Provenance(SourceKind.FILE), "a" * 64)
BILL, PHOTO = Image("a" * 64, PDF, 3), Image("b" * 64, "image/png")
SENT = UserMessage(f"{WORDS}\nWhat do I owe?", (BILL, PHOTO), (PIECE,))
STORED = [StoredMessage(1, "t", SENT, 0.0), StoredMessage(2, "t", AssistantMessage("77 euros"), 0.0)]
READER, OTHER = ScriptedModel(reads_documents=True), ScriptedModel()


def test_a_document_counts_as_what_is_sent_of_it() -> None:
    plain = UserMessage(SENT.text, (PHOTO,), (PIECE,))
    assert estimate_message(SENT) == estimate_message(plain) + 3 * PER_PAGE - estimate_text(WORDS)
    assert estimate_message(plain) == estimate_message(UserMessage(SENT.text)) + PER_IMAGE
    window = Window.of(None, STORED)
    as_file = window.tokens(100)
    window.show_documents(OTHER)
    assert window.tokens(100) == as_file - 3 * PER_PAGE + estimate_text(WORDS) and window.documents == []
    window.show_documents(READER)
    assert window.tokens(100) == as_file and window.documents == [BILL]


def test_a_count_of_the_provider_is_that_of_another_request_once_documents_are_shown_otherwise() -> None:
    window = Window.of(None, STORED)
    window.show_documents(READER)
    window.count(Usage(input=9_000, output=10))
    window.show_documents(READER)
    assert window.tokens(100) == 9_010
    window.show_documents(OTHER)
    assert window.tokens(100) < 3 * PER_PAGE


def test_messages_without_documents_stay_the_same_objects() -> None:
    window = Window.of(None, [*STORED, StoredMessage(3, "u", UserMessage("sure?"), 0.0)])
    window.show_documents(READER)
    before = window.messages()
    window.show_documents(READER)
    assert all(one is other for one, other in zip(before, window.messages(), strict=True))
    window.show_documents(OTHER)
    assert [one is other for one, other in zip(before, window.messages(), strict=True)] == [False, True, True]
    window.show_documents(READER)
    assert window.messages() == before


def test_a_document_that_takes_more_than_its_share_of_the_window_is_text() -> None:
    window = Window.of(None, STORED)
    for size, shown in ((4 * 3 * PER_PAGE, [BILL]), (4 * 3 * PER_PAGE - 4, [])):
        window.show_documents(ScriptedModel(reads_documents=True, context_window=size))
        assert window.documents == shown


@pytest.mark.parametrize(
    ("pages", "size", "window"),
    [(3, 0, 4 * 8 * PER_PAGE), (MAX_PAGES * 2 // 5, 0, 2_000_000), (1, MAX_BYTES * 2 // 5, 200_000)],
    ids=["tokens", "pages", "bytes"],
)
def test_documents_are_files_as_long_as_all_of_a_request_fit_together_newest_first(
    pages: int, size: int, window: int
) -> None:
    sent = [Image(key * 64, PDF, pages, size) for key in "abcd"]
    said = (UserMessage("look", (sent[0],)), UserMessage("again", (sent[1],)), UserMessage("both", tuple(sent[2:])))
    held = Window.of(None, [StoredMessage(row, "t", each, 0.0) for row, each in enumerate(said, 1)])
    held.show_documents(ScriptedModel(reads_documents=True, context_window=window))
    assert held.documents == sent[2:]
    held.drop_before(3)
    held.append(ContextEntry(4, UserMessage("a last one", (sent[0],)), documents=(sent[0],)))
    held.show_documents(ScriptedModel(reads_documents=True, context_window=window))
    assert held.documents == [sent[2], sent[0]]
